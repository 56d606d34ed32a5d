"""A reference's weaknesses in words that tell its speaker what to do better."""

from collections.abc import Sequence

from encoder.types import AudioFacts, AudioLimits, ClipReport, Notice

CLIPPED_SHARE = 0.0005
LOW_SNR_DB = 15.0
NARROW_BAND_HZ = 4_500.0


def clip_notices(report: ClipReport, facts: AudioFacts, limits: AudioLimits) -> list[Notice]:
    """What is wrong with one clip; empty where nothing is."""
    found: list[tuple[str, str]] = []
    if report.clipped_share > CLIPPED_SHARE:
        share = f"{report.clipped_share:.2%}"
        found.append(("clipping", f"{share} of the samples are at the ceiling: record at a lower level"))
    if report.snr_db is not None and report.snr_db < LOW_SNR_DB:
        found.append(("low_snr", f"speech is only {report.snr_db:.0f} dB above the noise: record in a quieter place"))
    if report.bandwidth_hz < NARROW_BAND_HZ:
        khz = report.bandwidth_hz / 1000
        found.append(("narrow_band", f"the sound ends at {khz:.1f} kHz, like a telephone's: use a fuller recording"))
    if facts.damaged:
        found.append(("damaged", "parts of the file could not be decoded; the rest was used"))
    if facts.channels_differ:
        found.append(("channels_differ", "the channels hold different sounds: upload the one with the speaker alone"))
    if report.voiced_s > limits.used_s:
        found.append(("trimmed", f"the first {limits.used_s:g} s of {report.voiced_s:.0f} s of speech were used"))
    return [Notice(code, message, report.index) for code, message in found]


def reference_notices(
    voiced_s: float, outliers: Sequence[int], suspected_speakers: int, limits: AudioLimits
) -> list[Notice]:
    """What is wrong with the clips taken together; empty where nothing is."""
    found: list[Notice] = []
    if voiced_s < limits.recommended_voiced_s:
        wanted = f"{limits.recommended_voiced_s:g} to 30 s"
        found.append(Notice("short_reference", f"only {voiced_s:.1f} s of speech: {wanted} give a better likeness"))
    for index in outliers:
        found.append(Notice("outlier_clip", "this clip does not sound like the others' speaker", index))
    if suspected_speakers > 1:
        found.append(Notice("multiple_speakers", "more than one voice seems to speak: use clips of one person alone"))
    return found
