"""One key's crowd on a real server: it has all places, and another's first request is spoken while it waits."""

from collections.abc import Callable
from contextlib import ExitStack

from asking import problem, speak
from servers import RunningServer, enrol, with_key

LONG = "A long reading goes on and on, sentence after sentence, for whoever listens. " * 25


def test_a_key_that_took_all_places_keeps_nobody_else_out(other_server: Callable[..., RunningServer]) -> None:
    server = other_server(MAX_REQUESTS="2", API_KEYS="crowd,guest")
    crowd, guest = with_key(server, "crowd"), with_key(server, "guest")
    speaker_id = enrol(crowd, "Ada")
    # Nobody reads these streams, so that they hold their places to the end of the block.
    stream = {"speaker_id": speaker_id, "text": LONG, "format": "pcm", "stream": True, "speed": 0.25}
    with ExitStack() as held:
        for _ in range(2):
            response = held.enter_context(crowd.stream("POST", "/v1/speech", json=stream))
            assert response.status_code == 200
        assert problem(speak(crowd, speaker_id=speaker_id, text="Me too."), 503, "too_busy")["limit"] == 2
        assert speak(guest, speaker_id=speaker_id, text="Hello.").status_code == 200
        held.enter_context(guest.stream("POST", "/v1/speech", json=stream))
        problem(speak(guest, speaker_id=speaker_id, text="And more."), 503, "too_busy")
    crowd.close()
    guest.close()
