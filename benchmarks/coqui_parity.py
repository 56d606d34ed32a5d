"""How far brought voices are from what Coqui's own code makes of the same weights.

    python tests/fixtures_recipe/coqui.py FOLDER --full-size    # in an environment with coqui-tts
    python -m benchmarks.coqui_parity FOLDER                    # here; without FOLDER, the committed fixtures

Prints the largest difference of each stage; exit code 1 where one is above the tolerance.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cloning.importers.checkpoint import read_json, read_tensors
from cloning.importers.coqui import Imported, read_voice
from cloning.importers.coqui_config import Listener
from cloning.layers.convolutions import sequence_mask
from cloning.model import PriorInput, YourTTS
from encoder.networks.hasp import read_coqui

TOLERANCE = 1e-4
COMMITTED = Path(__file__).parents[1] / "tests" / "data" / "coqui"
Found = tuple[str, float]


def compare_voice(folder: Path) -> Iterator[Found]:
    """The largest difference of each stage, for each text of a voice."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    listener = Listener("any", config["model_args"]["d_vector_dim"] or 256)
    # The recipe lets the second speaker of a table speak.
    speaker = config["speakers"][1] if config["model_args"]["use_speaker_embedding"] else None
    imported = read_voice(folder, folder.name, listener, speaker)
    model = YourTTS(imported.config)
    model.load_state_dict(imported.weights)
    model.eval()
    expected = np.load(folder / "expected.npz")
    for language in json.loads((folder / "texts.json").read_text("utf-8")):
        prefix = f"{language}/"
        arrays = {n.removeprefix(prefix): torch.from_numpy(expected[n]) for n in expected if n.startswith(prefix)}
        for stage, difference in compare_text(imported, model, arrays, language):
            yield f"{folder.name} {language} {stage}", difference


@torch.inference_mode()
def compare_text(imported: Imported, model: YourTTS, said: dict[str, Tensor], language: str) -> Iterator[Found]:
    """Each stage from what the original gave the stage before it."""
    ids, width = said["ids"][None], imported.config.speaker.d_vector
    d_vectors = said["d_vector"] if said["d_vector"].shape[1] == width else torch.ones(1, width)
    languages = torch.tensor([imported.config.text.languages.get(language, 0)])
    batch = PriorInput(
        ids, torch.tensor([ids.shape[1]]), d_vectors, languages, torch.ones(1), said["noise_dp"]
    )  # fmt: skip
    g, mask = model.condition(d_vectors), sequence_mask(batch.n_symbols, ids.shape[1])
    hidden, m_p, logs_p = model.text_encoder(ids, languages, mask, g)
    for name, ours in (("hidden", hidden), ("m_p", m_p), ("logs_p", logs_p)):
        yield f"text encoder {name}", float((ours - said[name]).abs().max())
    frames = model.prior(batch)[2][0]
    yield "durations (frames)", float((frames - said["frames"]).abs().max())
    z = model.flow(said["z_p"], torch.ones(1, 1, said["z_p"].shape[2]), g, reverse=True)
    yield "inverse flow", float((z - said["z"]).abs().max())
    samples = model.decode(said["m_p"], said["logs_p"], said["durations"][None], d_vectors, said["noise"])
    yield "waveform", float((samples - said["waveform"][0]).abs().max())


@torch.inference_mode()
def compare_encoder(folder: Path) -> Iterator[Found]:
    """The speaker encoder's d-vectors of one waveform."""
    network = read_coqui(read_json(folder / "config_se.json"), read_tensors(folder / "model_se.pth"))
    expected = {n: torch.from_numpy(a).float() for n, a in np.load(folder / "expected_se.npz").items()}
    whole = network(expected["waveform"][None])
    yield f"{folder.name} H/ASP of a whole waveform", float((whole - expected["whole"]).abs().max())
    mean = network.embed_clips([expected["waveform"]])[0].mean(0)[None]
    yield f"{folder.name} H/ASP mean of ten windows", float((mean - expected["embedding"]).abs().max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=COMMITTED)
    folder = parser.parse_args().folder
    worst = 0.0
    for voice in sorted(path.parent for path in folder.glob("*/expected.npz")):
        found = list(compare_voice(voice))
        if (voice / "expected_se.npz").is_file():
            found += compare_encoder(voice)
        for stage, difference in found:
            print(f"{difference:10.2e}  {stage}")
            worst = max(worst, difference)
    print(f"{worst:10.2e}  the largest; the tolerance is {TOLERANCE:g}")
    return int(not 0 < worst <= TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
