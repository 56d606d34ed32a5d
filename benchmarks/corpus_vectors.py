"""Embeds clips of the corpus' training speakers, whole and cut to several lengths: what other measurements start from.

    python -m benchmarks.corpus_vectors --corpus PATH --out vectors.npz

The test split is never read.
"""

import argparse
import csv
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from encoder.audio import SAMPLE_RATE, Decoder, condition_speech
from encoder.engine import SpeakerEncoder
from encoder.errors import EncoderError
from encoder.quality import split_voiced
from encoder.types import FloatArray, Waveform

LENGTHS_S = (1.6, 3.0, 5.0, 10.0)
WHOLE = 0.0


def main() -> None:
    """Writes the vectors, and for each its speaker, clip and length in seconds (0 for the whole clip)."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--clips-per-speaker", type=int, default=5)
    chosen = options.parse_args()
    found = clips(chosen.corpus, chosen.clips_per_speaker)
    encoder = SpeakerEncoder.load()
    with Decoder() as decoder:
        rows = [row for path, data in found for row in embed(path, data, decoder, encoder)]
    speakers, names, lengths, voiced, vectors = zip(*rows, strict=True)
    np.savez(
        chosen.out, speakers=np.array(speakers), clips=np.array(names), lengths_s=np.array(lengths),
        voiced_s=np.array(voiced), vectors=np.stack(vectors),
    )  # fmt: skip
    print(f"{len(rows)} vectors of {len(set(speakers))} speakers")


def clips(corpus: Path, per_speaker: int) -> Iterator[tuple[str, bytes]]:
    """The longest training clips of each speaker, as (path, bytes)."""
    with (corpus / "manifest.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row["split"] == "train"]
    by_speaker = defaultdict(list)
    for row in rows:
        by_speaker[row["speaker"]].append((float(row["seconds"]), row["path"], row["shard"]))
    chosen: dict[str, set[str]] = defaultdict(set)
    for found in by_speaker.values():
        for _, path, shard in sorted(found, reverse=True)[:per_speaker]:
            chosen[shard].add(path)
    for shard, wanted in sorted(chosen.items()):
        with tarfile.open(corpus / shard) as archive:
            for member in archive:
                if member.name in wanted and (content := archive.extractfile(member)) is not None:
                    yield member.name, content.read()


def embed(
    path: str, data: bytes, decoder: Decoder, encoder: SpeakerEncoder
) -> Iterator[tuple[str, str, float, float, FloatArray]]:
    """The clip's vector, whole and cut; nothing where it holds no speech."""
    try:
        heard = decoder.decode(data).waveform
    except EncoderError:
        return
    voiced, _ = split_voiced(heard.samples, encoder.detector.find_speech(heard))
    voiced_s = len(voiced) / SAMPLE_RATE
    lengths = [WHOLE, *(length for length in LENGTHS_S if length <= voiced_s)] if voiced_s >= LENGTHS_S[0] else []
    cuts = [voiced[: round(length * SAMPLE_RATE)] if length else voiced for length in lengths]
    found = encoder.embed([Waveform(condition_speech(cut), SAMPLE_RATE) for cut in cuts])
    for length, embedding in zip(lengths, found, strict=True):
        yield path.split("/")[1], path, length, voiced_s, embedding.vector


if __name__ == "__main__":
    main()
