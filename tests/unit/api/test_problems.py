import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import api.errors
import cloning.errors
import encoder.errors
import store.errors
from api import problems
from api.catalogue import CODES
from api.errors import ApiError, TooBusy

MODULES = (api.errors, cloning.errors, encoder.errors, store.errors)


def _subclasses(root: type[Exception]) -> Iterator[type[Exception]]:
    for sub in root.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _drawn(module: ModuleType) -> dict[str, list[str]]:
    """The tree atop an errors module: class name to its codes."""
    rows = re.findall(r"^[├└]── (\w+) +(.+)$", module.__doc__ or "", flags=re.MULTILINE)
    return {
        name: [code for code in re.split(r", (?:and )?", codes) if re.fullmatch(r"\w+", code)] for name, codes in rows
    }


@pytest.mark.parametrize("root", problems.ROOTS)
def test_every_error_class_of_every_room_is_mapped_itself(root: type[Exception]) -> None:
    # Training has errors of its own, which only the command line meets.
    rooms = {module.__name__ for module in MODULES}
    classes = [item for item in _subclasses(root) if item.__module__ in rooms]
    assert classes
    assert [item.__name__ for item in classes if item not in problems.KINDS] == []


def test_an_unmapped_class_is_noticed() -> None:
    class Unmapped(ApiError):
        pass

    assert problems.kind_of(Unmapped) is None
    assert problems.describe(Unmapped("new", "words")).status == 500


def test_a_subclass_is_shown_as_its_parent() -> None:
    class VeryBusy(TooBusy):
        pass

    assert problems.kind_of(VeryBusy) == problems.KINDS[TooBusy]
    del VeryBusy


@pytest.mark.parametrize("module", MODULES)
def test_the_catalogue_holds_the_codes_that_each_room_draws(module: ModuleType) -> None:
    drawn = {code for codes in _drawn(module).values() for code in codes}
    assert drawn
    assert drawn - set(CODES) == set()


def test_the_catalogue_holds_no_code_that_no_room_draws() -> None:
    drawn = {code for module in MODULES for codes in _drawn(module).values() for code in codes}
    assert set(CODES) - drawn == set()


def test_a_document_has_the_limit_the_code_and_the_request() -> None:
    error = encoder.errors.UnusableSpeech("too_little_speech", "0.4 s", voiced_s=0.4, min_voiced_s=1.6)
    document = problems.document(problems.describe(error), "r1")
    assert document["type"] == "urn:voicekin:problem:too_little_speech"
    assert (document["status"], document["voiced_s"], document["min_voiced_s"]) == (422, 0.4, 1.6)
    assert document["request_id"] == "r1"


def test_details_cannot_replace_what_the_standard_names() -> None:
    document = problems.document(problems.describe(ApiError("c", "m", status=200, title="x")), "r")
    assert (document["status"], document["title"]) == (500, "Internal error")


@pytest.mark.parametrize(
    ("error", "status", "kind", "param"),
    [
        (cloning.errors.TextRefused("nothing_to_say", "m"), 400, "invalid_request_error", "input"),
        (cloning.errors.TextRefused("text_too_long", "m", field="text"), 400, "invalid_request_error", "input"),
        (store.errors.SpeakerNotFound("speaker_not_found", "m"), 404, "not_found_error", "voice"),
        (cloning.errors.SynthesisFailed("synthesis_failed", "m"), 500, "server_error", None),
        (api.errors.AccessRefused("key_wrong", "m"), 401, "authentication_error", None),
    ],
)
def test_the_openai_envelope(error: problems.RoomError, status: int, kind: str, param: str | None) -> None:
    problem = problems.describe(error)
    body = problems.openai_document(problem)["error"]
    assert isinstance(body, dict)
    assert problems.openai_status(problem) == status
    assert (body["type"], body["param"], body["code"]) == (kind, param, error.code)


def test_statuses_of_single_codes() -> None:
    assert problems.describe(encoder.errors.UnreadableAudio("unsupported_format", "m")).status == 415
    assert problems.describe(cloning.errors.TextRefused("text_too_long", "m")).status == 413
    assert problems.describe(api.errors.AccessRefused("admin_disabled", "m")).status == 403
    assert problems.describe(cloning.errors.Overloaded("queue_full", "m")).headers == {"Retry-After": "2"}


def test_figures_that_json_cannot_hold_become_null() -> None:
    problem = problems.describe(ApiError("c", "m", level=float("-inf"), limits=(1, float("nan"))))
    assert problem.details == {"level": None, "limits": [1, None]}


@pytest.mark.parametrize(
    ("place", "body", "field"),
    [
        (
            ("body", "limits", "requests_per_minute"),
            {"limits": {"requests_per_minute": -1}},
            "limits.requests_per_minute",
        ),
        (("body", "limits"), {"limits": 3}, "limits"),
        (("body", "voice", "str"), {"voice": 3}, "voice"),
        (("body", "voice", "VoiceObject", "id"), {"voice": {"name": "x"}}, "voice"),
        (("body", 0), [], "body"),
        (("query", "limit"), None, "limit"),
    ],
)
def test_a_refused_field_is_named_as_it_was_sent(place: tuple[str | int, ...], body: object, field: str) -> None:
    problem = problems.invalid([{"loc": place, "type": "any", "msg": "is wrong"}], body)
    assert problem.details["field"] == field
