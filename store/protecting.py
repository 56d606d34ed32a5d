"""The part of the store's front that keeps protected voices: who may not be enrolled, by any tenant."""

from collections.abc import Mapping, Sequence

from store import checks
from store.consent_types import ProtectedVoice
from store.consenting import Consenting
from store.types import FloatArray


class Protecting(Consenting):
    """Verbs about protected voices."""

    def protect(self, name: str, heard: Mapping[str, Sequence[FloatArray]], actor: str = "api") -> ProtectedVoice:
        """A new protected voice, from its clips as each encoder hears them. Speakers who are there stay.

        Shapes: vectors float32 (d,), L2 norm 1. Raises: BadName, BadVector, StorageFull, StoreUnavailable.
        """
        cleaned = checks.clean_name(name)
        means = {
            checks.check_encoder_id(encoder_id): checks.mean_vector([checks.check_vector(each) for each in vectors])
            for encoder_id, vectors in heard.items()
        }
        with self._database.write() as unit:
            voice = unit.protection.add(cleaned, means)
            unit.ledger.note(actor, "protect", 0, receipt={"protected_id": voice.id})
        return voice

    def protected(self) -> tuple[ProtectedVoice, ...]:
        """All protected voices, oldest first. Raises: StoreUnavailable."""
        return self._database.read_all(lambda unit: unit.protection.every())

    def unprotect(self, voice_id: str, actor: str = "api") -> None:
        """Forgets a protected voice. Raises: ProtectedNotFound, StorageFull, StoreUnavailable."""
        with self._database.write() as unit:
            gone = unit.protection.remove(voice_id)
            unit.ledger.note(actor, "unprotect", 0, receipt={"protected_id": gone})
        self._erasures.add([gone])
        self._overwrite_removed()
