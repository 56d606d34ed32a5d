"""The main job on one device: enrolment, speech, and the time from process start to ready.

python -m benchmarks.main_job --device cpu --threads 2
"""

import argparse
import json
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.machine import conditions, percentiles
from benchmarks.serving import running_server

SHORT = "Thank you, that is all I wanted to know today."
LONG = (
    "On the morning of the third day the rain had stopped, and from the window of the small hotel we could see the "
    "whole valley, with its river, its two bridges, and the road that climbs towards the pass."
)
PARAGRAPH = " ".join([SHORT, LONG, "Who would have thought so? Nobody, I suppose."] * 3)


def main() -> None:
    """Measures, prints, and writes `benchmarks/results/main-job-DEVICE.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cpu")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    chosen = options.parse_args()
    # Before a voice is opened, which leaves other threads of the process one core each.
    result: dict[str, Any] = {"conditions": conditions(chosen.device)}
    result |= measure_library(chosen.device, chosen.threads, chosen.rounds)
    result["start_to_ready_s"] = [round(start_to_ready(chosen.device, chosen.threads), 2) for _ in range(3)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / f"main-job-{chosen.device.split(':')[0]}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measure_library(device: str, threads: int, rounds: int) -> dict[str, Any]:
    """Enrolment of the demo clip and speech of three texts, one at a time, no server between."""
    from cloning.synthesis import Synthesiser
    from cloning.types import SpeechOptions, SpeechRequest
    from encoder.audio import Decoder
    from encoder.engine import SpeakerEncoder
    from encoder.reference import embed_clips

    clip = (files("voices") / "demo" / "reference.flac").read_bytes()
    voice = Path(str(files("voices") / "default"))
    with Decoder() as decoder, Synthesiser.open(voice, device, threads) as synthesiser:
        encoder = SpeakerEncoder.load(device)
        reference = embed_clips([clip], encoder, decoder)
        enrolment = [timed(lambda: embed_clips([clip], encoder, decoder))[0] for _ in range(rounds)]
        speech = {}
        for name, text in (("short", SHORT), ("long", LONG), ("paragraph", PARAGRAPH)):
            request = SpeechRequest(
                text, reference.embedding.vector, reference.embedding.encoder_id, options=SpeechOptions(seed=1)
            )
            synthesiser.speak(request)
            runs = [timed(lambda r=request: synthesiser.speak(r)) for _ in range(rounds)]
            seconds = [s for s, _ in runs]
            audio_s = runs[0][1].duration_s
            first = [first_piece(synthesiser, request) for _ in range(rounds)]
            speech[name] = percentiles(seconds) | {
                "first_audio": percentiles([s for s, _ in first]) | {"first_piece_s": round(first[0][1], 3)},
                "characters": len(text),
                "audio_s": round(audio_s, 2),
                "x_realtime_p50": round(audio_s / sorted(seconds)[len(seconds) // 2], 1),
            }
        return {
            "model": synthesiser.voice.model_id,
            "engine": synthesiser.voice.engine,
            "batch": 1,
            "clip_s": round(reference.report.clips[0].duration_s, 2),
            "enrolment": percentiles(enrolment),
            "speech": speech,
        }


def first_piece(synthesiser: Any, request: Any) -> tuple[float, float]:
    """Seconds from a text to the first piece of its stream, and how long that piece sounds."""
    start = time.perf_counter()
    stream = synthesiser.stream(request)
    piece = next(stream)
    seconds = time.perf_counter() - start
    for _ in stream:  # what is left over must not run into the next measurement
        pass
    return seconds, piece.duration_s


def timed(work: Any) -> tuple[float, Any]:
    """Seconds that a call took, and what it gave."""
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def start_to_ready(device: str, threads: int) -> float:
    """Seconds from the start of a server process until it has spoken its first sentence."""
    with running_server(device, threads) as (_, ready_s):
        return ready_s


if __name__ == "__main__":
    main()
