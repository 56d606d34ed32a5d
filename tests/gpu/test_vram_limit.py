"""The reference case of a small card: batches of eight, a hundred thousand voices, all of it under 1.5 GB.

In a process of its own, whose memory is nobody else's; the card must be idle otherwise.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]
ROOT = Path(__file__).parents[2]
LIMIT_BYTES = 1500 * 10**6
SERVICE = """
import json
import numpy as np
import torch
from api.services import open_services, warm_up
from api.settings import load_settings
from benchmarks.store_scale import fill
from cloning.engines.precision import drawn_sentences
from cloning.bundle import load_model
from encoder.types import Waveform
from store.schema import migrate

settings = load_settings()
migrate(settings.store_config())
fill(settings.store_config(), 100_000)
clip = Waveform((0.1 * np.random.default_rng(0).standard_normal(16000 * 200)).astype(np.float32), 16000)
with open_services(settings) as services:
    warm_up(services)
    services.enrolment.encoders.of_voice().embed([clip])
    sentences = drawn_sentences(load_model(settings.bundle_dir(), torch.device("cpu")), 8)
    with services.speaking.voices.lease() as voice:
        for _ in range(3):
            plans = voice._engine.prior(sentences)
            assert all(len(s) for s in voice._engine.decode([plan.whole() for plan in plans]))
        free, total = torch.cuda.mem_get_info()
        beside = total - free - torch.cuda.memory_reserved()
        print(json.dumps({"engine": voice.voice.engine, "max_batch": voice._engine.max_batch, "beside_bytes": beside,
            "reserved_bytes": torch.cuda.max_memory_reserved(), "speakers": services.store.stats().n_speakers}))
"""


@pytest.mark.parametrize("engine", ["eager", "cuda-graph"])
def test_the_service_stays_under_its_limit(engine: str, tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("VOICEKIN_")}
    ours = {"DEVICE": "cuda", "ENGINE": engine, "ENGINE_FALLS_BACK": "false", "STATE_DIR": str(tmp_path)}
    ours |= {"VRAM_LIMIT_BYTES": str(LIMIT_BYTES), "MAX_VOICES": "1"}
    environment = plain | {f"VOICEKIN_{name}": value for name, value in ours.items()}
    done = subprocess.run(
        [sys.executable, "-c", SERVICE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["engine"], found["speakers"]) == (engine, 100_000)
    assert found["max_batch"] >= 8
    assert found["reserved_bytes"] + found["beside_bytes"] <= LIMIT_BYTES, found
