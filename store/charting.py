"""The part of the store's front that lays speakers out on a plane."""

from collections.abc import Sequence

import numpy as np

from store import checks
from store.projection import project
from store.protecting import Protecting
from store.speakers import SpeakerRepository
from store.types import Chart, ChartPoint, FloatArray
from store.voices import VoiceRow


class Charting(Protecting):
    """Verbs about how all speakers lie to each other."""

    def chart(self, encoder_id: str, limit: int, to: str | None = None) -> Chart:
        """At most `limit` speakers on a plane: those of this encoder, or of the encoder of the speaker `to`.

        Of more speakers the first by id are taken, which is a fair sample. `to` is always among them.
        Raises: SpeakerNotFound, BadArgument (bad_limit), StoreUnavailable.
        """
        checks.check_limit(limit, "limit")

        def look(speakers: SpeakerRepository) -> Chart:
            chosen = None if to is None else speakers.voice(to)
            encoder = encoder_id if chosen is None else chosen.encoder_id
            voices = _with(chosen, speakers.sample(encoder, limit))
            names = speakers.existing(voice.speaker_id for voice in voices)
            points, explained = _placed(voices, names, None if chosen is None else chosen.vector)
            # The index has counted them already; SQL would read the whole table.
            return Chart(encoder, self._index.count(encoder, self._owner.tenant), explained, points)

        self._follower.follow()
        return self._database.read(look)


def _with(chosen: VoiceRow | None, voices: Sequence[VoiceRow]) -> Sequence[VoiceRow]:
    """The voices, the chosen one in the place of the last where it is not among them."""
    if chosen is None or any(voice.speaker_id == chosen.speaker_id for voice in voices):
        return voices
    return [*voices[:-1], chosen]


def _placed(
    voices: Sequence[VoiceRow], names: dict[str, tuple[str, int]], reference: FloatArray | None
) -> tuple[tuple[ChartPoint, ...], tuple[float, float]]:
    if not voices:
        return (), (0.0, 0.0)
    vectors = np.stack([voice.vector for voice in voices])
    plane = project(vectors)
    cosines = [None] * len(voices) if reference is None else (vectors @ reference).tolist()
    rows = zip(voices, plane.points.tolist(), cosines, strict=True)
    points = tuple(ChartPoint(voice.speaker_id, names[voice.speaker_id][0], x, y, to) for voice, (x, y), to in rows)
    return points, plane.explained
