from api.interruption import Interruption


def test_what_is_under_way_is_given_up_and_so_is_what_begins_later() -> None:
    interruption, given_up = Interruption(), list[str]()
    with interruption.ends(lambda: given_up.append("before")):
        pass
    with interruption.ends(lambda: given_up.append("first")):
        interruption.set()
        assert given_up == ["first"]
    with interruption.ends(lambda: given_up.append("second")):
        assert given_up == ["first", "second"]
    interruption.set()
    assert given_up == ["first", "second"] and interruption.is_set
