"""A voice taught a person's clips by the command, from a voice and a pack that the other commands made."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from api.cli import app
from cloning import bundle
from cloning.model import YourTTS
from cloning.training.recipes import tiny_voice

DATA = Path(__file__).parents[2] / "data"
SMALL = {"shapes": [[200, 60, 2]], "n_segments": 2, "conversion_rows": 1, "report_every": 1}
# Strides that are seen in half precision after a step or two.
BOLD = SMALL | {"ema_decay": 0.0, "schedule": {"learning_rate": 0.02, "warmup_steps": 1}}


def corpus(folder: Path, clip: str) -> Path:
    """An LJSpeech-style corpus: two seconds of a clip after another, with any words."""
    samples, rate = soundfile.read(DATA / clip)
    (folder / "wavs").mkdir(parents=True)
    for i in range(4):
        soundfile.write(folder / "wavs" / f"c{i}.wav", samples[2 * i * rate : 2 * (i + 1) * rate], rate)
    (folder / "metadata.csv").write_text("".join(f"c{i}|These are words.\n" for i in range(4)))
    return folder / "metadata.csv"


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of others, a voice trained on it for a moment, and the corpus of one person."""
    folder = tmp_path_factory.mktemp("finetune")
    others = corpus(folder / "others", "woman.flac")
    invoke("train", "prepare", "--corpus", others, "--out", folder / "pack", "--recipe", "tiny", "--workers", 1)
    invoke(
        "train", "run", "--pack", folder / "pack", "--out", folder / "first", "--recipe", "tiny", "--seconds", 1.5,
        "--total", 3, "--settings", json.dumps(SMALL),
    )  # fmt: skip
    corpus(folder / "mine", "man.flac")
    return folder


def taught(folder: Path, voice: Path, out: Path) -> list[object]:
    return [
        "finetune", "--corpus", folder / "mine" / "metadata.csv", "--others", folder / "pack", "--start-from", voice,
        "--unspoken", folder / "first" / "unspoken.safetensors", "--out", out, "--seconds", 2,
        "--settings", json.dumps(BOLD), "--workers", 1,
    ]  # fmt: skip


def test_a_voice_is_taught_a_person_and_is_a_voice_again(begun: Path, tmp_path: Path) -> None:
    before = bundle.read_weights(begun / "first" / "bundle")
    output = invoke(*taught(begun, begun / "first" / "bundle", tmp_path / "run"))
    assert "4 utterances, 1 speakers" in output
    after = bundle.load_model(tmp_path / "run" / "bundle", torch.device("cpu"))
    moved = [n for n, v in after.state_dict().items() if not np.allclose(v, before[n].float(), atol=1e-6)]
    assert {name.split(".")[0] for name in moved} >= {"text_encoder", "flow", "decoder", "durations"}
    losses = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert losses[-1]["discriminator"] > 0, "the judges go on from where they were"


def test_a_voice_of_another_kind_is_refused_by_name(begun: Path, tmp_path: Path) -> None:
    voice = bundle.load_info(begun / "first" / "bundle").voice
    foreign = dataclasses.replace(voice, encoder_id="another-encoder-v1")
    assert tiny_voice(voice.encoder_id).encoder_id == voice.encoder_id
    bundle.save(tmp_path / "foreign", foreign, YourTTS(foreign).state_dict(), "# foreign\n")
    result = CliRunner().invoke(app, [str(a) for a in taught(begun, tmp_path / "foreign", tmp_path / "run")])
    assert result.exit_code != 0
    assert "its d-vectors are of another-encoder-v1" in str(result.exception)
    assert not (tmp_path / "run" / "bundle").exists()
