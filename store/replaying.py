"""The part of the store's front that keeps finished speeches, where that is switched on, and gives them again."""

from store.errors import SpeakerNotFound, StoreError
from store.moving import Moving
from store.types import KeptSpeech
from store.voices import required_id


class Replaying(Moving):
    """Verbs about finished speeches. Who asks holds the speaker, so SQL has just said which voice it has."""

    @property
    def keeps_audio(self) -> bool:
        """Whether finished speeches are kept at all."""
        return self._audio is not None

    def kept_speech(self, speaker_id: str, key: str) -> KeptSpeech | None:
        """The speech of this key, if it is kept; a cache that is out of reach keeps nothing."""
        return None if self._audio is None else self._audio.get(required_id(speaker_id), key)

    def keep_speech(self, speaker_id: str, revision: int, key: str, speech: KeptSpeech) -> None:
        """Keeps a speech of this revision of the speaker, unless the speaker has gone or changed meanwhile."""
        if self._audio is None or not self._audio.put(required_id(speaker_id), key, speech):
            return
        # After the put: whoever removes the speaker later finds it, and whoever has removed it before is seen here.
        if not self._is_current(speaker_id, revision):
            self._audio.drop([speaker_id])

    def tend_audio(self) -> None:
        """Removes cached audio that is too old or too much."""
        if self._audio is not None:
            self._audio.tend()

    def _is_current(self, speaker_id: str, revision: int) -> bool:
        try:
            return self._database.read(lambda speakers: speakers.voice_key(speaker_id))[2] == revision
        except SpeakerNotFound:
            return False
        except StoreError:
            # Nobody can say: then it is not kept.
            return False
