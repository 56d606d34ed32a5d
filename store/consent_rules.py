"""What a consent is worth: pure rules, for enrolment, for speech, and for clips that come later."""

from collections.abc import Sequence

import numpy as np

from store.consent_types import Consent, VoiceCheck
from store.errors import ConsentRefused
from store.types import OFF, RECORDING, ConsentPolicy, FloatArray


def check_spoken(consents: Sequence[Consent], policy: ConsentPolicy) -> None:
    """Raises: ConsentRefused, where a speaker with these consents may not be spoken with.

    A consent that was revoked stops its speaker whatever the policy, unless there is another.
    """
    live = [each for each in consents if each.revoked_at is None]
    if consents and not live:
        raise _revoked()
    if policy.level == OFF:
        return
    if not live:
        raise missing()
    for each in live:
        check_worth(each, policy)


def check_worth(consent: Consent, policy: ConsentPolicy) -> None:
    """Raises: ConsentRefused, where it is revoked, or checked less than the policy asks for."""
    if consent.revoked_at is not None:
        raise _revoked()
    needs_recording = policy.level == RECORDING or (policy.level != OFF and policy.words)
    if needs_recording and consent.recording_sha256 is None:
        raise _insufficient("the consent has no recorded statement, which this service asks for: record a new one")
    if policy.level != OFF and policy.words and consent.words is None:
        raise _insufficient("nobody has checked what the consent's recording says, which this service asks for: "
                            "record a new one")  # fmt: skip


def compare(consent: Consent, vectors: Sequence[FloatArray], encoder_id: str, threshold: float) -> VoiceCheck | None:
    """How its recording sounds beside each of these clips; None where there is no recording.

    Shapes: vectors n times float32 (d,), L2 norm 1. Raises: ConsentRefused.
    """
    if consent.vector is None:
        return None
    if consent.encoder_id != encoder_id or len(consent.vector) != len(vectors[0]):
        raise _insufficient(f"the consent's recording was heard by another encoder than {encoder_id}: record a new one")
    cosine = float(np.min(np.stack(vectors) @ consent.vector))
    if cosine < threshold:
        words = (
            f"a clip does not sound like the voice that gave the consent (cosine {cosine:.2f}, at least "
            f"{threshold:g} is needed): send clips of that person, or a clearer recording"
        )
        raise ConsentRefused("consent_voice_differs", words, field="clips", measured=cosine, limit=threshold)
    return VoiceCheck(cosine, threshold)


def missing() -> ConsentRefused:
    words = "this speaker needs a consent: record one (POST /v1/consents, `voicekin consents add`) and name it"
    return ConsentRefused("consent_missing", words, field="consent_id")


def _revoked() -> ConsentRefused:
    return ConsentRefused("consent_revoked", "the consent to this voice was revoked; ask the person for another")


def _insufficient(words: str) -> ConsentRefused:
    return ConsentRefused("consent_insufficient", words, field="consent_id")
