"""`voicekin train`: the one place where the encoder's network and the trainer meet."""

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from cloning.config import VoiceConfig
    from cloning.training.corpus import Utterance
    from cloning.training.prepare import Embed
    from cloning.training.run import Slice
    from encoder.networks.ge2e import GE2E
    from encoder.types import FloatArray

app = typer.Typer(help="Train a voice: prepare a corpus, run in slices, export a bundle.", no_args_is_help=True)

SENTENCES = (
    "The boat drifted slowly past the old stone bridge.",
    "Could you bring me a glass of water, please?",
    "We met on a cold morning in early March, long before sunrise.",
    "Nobody expected the youngest of them to win the race.",
)


@app.command()
def prepare(
    corpus: Annotated[list[Path], typer.Option(help="A manifest (.tsv, .csv) or a VCTK-style folder; repeatable.")],
    out: Annotated[Path, typer.Option(help="Folder for the packed corpus; an interrupted run goes on there.")],
    recipe: Annotated[str, typer.Option(help="Voice to prepare for: default or tiny.")] = "default",
    hold_out: Annotated[str, typer.Option(help="Speakers to keep back, comma separated; packed in OUT/held-out.")] = "",
    warp: Annotated[bool, typer.Option(help="Add two invented speakers, slower and faster, for each real one.")] = True,
    workers: Annotated[int, typer.Option(help="Processes that decode.")] = os.cpu_count() or 1,
    limit: Annotated[int, typer.Option(help="Use only the first N utterances of each corpus; 0 uses all.")] = 0,
) -> None:
    """Decode, level, phonemise and embed a corpus into a few files that training loads at once."""
    from cloning.training.corpus import hold_out as split
    from cloning.training.corpus import with_warps
    from cloning.training.recipes import RECIPES

    network, encoder_id = speaker_network(device_here())
    utterances = read_corpora(corpus, limit)
    if warp:
        utterances = with_warps(utterances, 0.9, 1.12)
    learn, kept = split(utterances, frozenset(filter(None, hold_out.split(","))))
    for part, folder in ((learn, out), (kept, out / "held-out")):
        if part:
            pack_into(folder, part, RECIPES[recipe](encoder_id), network, workers)


def read_corpora(paths: "Sequence[Path]", limit: int = 0) -> "list[Utterance]":
    """The utterances of all corpora; lines that cannot be used are told."""
    from cloning.training.corpus import read_manifest

    manifests = [read_manifest(path) for path in paths]
    unusable = [reason for manifest in manifests for reason in manifest.refused]
    for reason in unusable:
        typer.echo(f"refused {reason}", err=True)
    if unusable:
        typer.echo(f"{len(unusable)} lines refused, {sum(len(m.utterances) for m in manifests)} read", err=True)
    return [u for manifest in manifests for u in manifest.utterances[: limit or None]]


def pack_into(
    folder: Path, utterances: "Sequence[Utterance]", voice: "VoiceConfig", network: "GE2E", workers: int
) -> None:
    """Packs utterances for a voice, and tells what was refused and what there is."""
    from cloning.training.prepare import prepare as pack

    summary = pack(utterances, folder, voice, _bulk_embedder(network), workers, _say)
    for reason in summary.refused:
        typer.echo(f"refused {reason}", err=True)
    typer.echo(
        f"{folder}: {summary.n_utterances} utterances, {summary.n_speakers} speakers, "
        f"{summary.hours:.2f} h, {len(summary.refused)} refused"
    )


@app.command()
def run(
    pack: Annotated[list[Path], typer.Option(help="Folder that `train prepare` wrote; repeatable.")],
    out: Annotated[Path, typer.Option(help="Folder of the run: state, log, audio, bundle.")],
    seconds: Annotated[float, typer.Option(help="Length of this slice.")] = 600.0,
    total: Annotated[
        float, typer.Option(help="Length of the whole schedule, all slices together, in seconds.")
    ] = 1500.0,
    recipe: Annotated[
        str, typer.Option(help="Voice to train: default, tiny, or same (as the one that it starts from).")
    ] = "default",
    start_from: Annotated[
        Path | None, typer.Option(help="A bundle to start from; its unspoken weights lie in --unspoken.")
    ] = None,
    unspoken: Annotated[
        Path | None, typer.Option(help="Posterior encoder and discriminators beside --start-from.")
    ] = None,
    export_every: Annotated[
        float, typer.Option(help="Seconds between exports of the bundle; 0 exports at the end only.")
    ] = 0.0,
    ear: Annotated[
        Path | None, typer.Option(help="A second ear that speech must sound right to, as `train ear` taught it.")
    ] = None,
    settings: Annotated[str, typer.Option(help="JSON of training settings that differ from the recipe's.")] = "{}",
    ranks: Annotated[int, typer.Option(help="Processes, one for each GPU; 0 uses all GPUs.")] = 0,
) -> None:
    """Train for a time; run again with the same --out to go on. All GPUs of the machine are used."""
    from cloning.training.run import Slice

    packs = tuple(pack)
    plan = Slice(packs, out, recipe, seconds, total, start_from, unspoken, export_every, settings, SENTENCES, ear)
    start(plan, ranks)


@app.command()
def ear(
    pack: Annotated[list[Path], typer.Option(help="Folder that `train prepare` wrote; repeatable.")],
    out: Annotated[Path, typer.Option(help="File to write (.safetensors).")],
    seconds: Annotated[float, typer.Option(help="Length of the lessons.")] = 60.0,
    steps: Annotated[int, typer.Option(help="Stop after so many steps instead; 0 goes by time.")] = 0,
    batch: Annotated[int, typer.Option(min=2, help="Pieces of speech in a step.")] = 128,
    sample_rate: Annotated[int, typer.Option(help="Rate of the packed speech in Hz.")] = 24000,
) -> None:
    """Teach a small speaker encoder to tell the corpus's speakers apart; `train run --ear` holds a voice to it."""
    import torch

    from cloning.training.data import PackedCorpus
    from cloning.training.ear import save_ear
    from cloning.training.ear_lessons import EarConfig, Lessons, halves_told_apart
    from cloning.training.run import print_report

    # The hop of the packed corpora; every recipe has it.
    hop_length, device = 256, torch.device(device_here())
    lessons = Lessons(PackedCorpus(pack, hop_length, device), sample_rate, EarConfig(batch=batch))
    lessons.learn(seconds, print_report, steps or None)
    save_ear(out, lessons.ear)
    if (pack[-1] / "held-out" / "pack.json").is_file():
        held_out = PackedCorpus([pack[-1] / "held-out"], hop_length, device)
        print_report({n: round(v, 4) for n, v in halves_told_apart(lessons.ear, held_out, sample_rate).items()})
    typer.echo(f"wrote {out}")


def start(plan: "Slice", ranks: int = 0) -> None:
    """Runs a slice on so many processes, on all GPUs where that is 0."""
    import torch
    from torch.multiprocessing.spawn import start_processes

    n_ranks = ranks or max(1, torch.cuda.device_count())
    plan.out.mkdir(parents=True, exist_ok=True)
    if n_ranks > 1:
        start_processes(_rank, (n_ranks, _free_port(), plan), nprocs=n_ranks, start_method="spawn")  # type: ignore[no-untyped-call]  # torch has no types here
    else:
        _rank(0, 1, 0, plan)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _rank(rank: int, n_ranks: int, port: int, plan: "Slice") -> None:
    """One process of a slice: its device, its share of the work."""
    from cloning.training.run import choose_device, train_slice

    device = choose_device(rank, n_ranks, port)
    network, encoder_id = speaker_network(device.type)
    train_slice(plan, network.to(device), encoder_id, device, rank, n_ranks)


def device_here() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def speaker_network(device: str) -> "tuple[GE2E, str]":
    """The d-vector network, ready for gradients to pass through, and the id of its vectors."""
    from encoder.engine import encoder_id_of
    from encoder.networks.ge2e import load_pretrained

    network, sha256 = load_pretrained()
    # cuDNN's recurrent networks pass gradients in training mode only; this one has no dropout, so nothing changes.
    return network.train().to(device), encoder_id_of(sha256)


def _bulk_embedder(network: "GE2E", sample_rate_hz: int = 24000) -> "Embed":
    """d-vectors of many clips at once, on the network's device: resampled, levelled and cut there, not on the host."""
    import numpy as np
    import torch
    from torch.nn.functional import normalize
    from torch.nn.utils.rnn import pad_sequence

    from cloning.training.losses import Resampler
    from encoder.partials import PARTIAL_FRAMES, PARTIAL_SAMPLES, windows

    device = next(network.parameters()).device
    resampler = Resampler(sample_rate_hz, 16000).to(device)

    @torch.inference_mode()
    def embed_some(clips: "Sequence[FloatArray]") -> "Tensor":
        lengths = [len(c) * 16000 // sample_rate_hz for c in clips]
        spans = [windows(n) for n in lengths]
        audio = resampler(pad_sequence([torch.from_numpy(c) for c in clips], batch_first=True).to(device))
        level = audio.square().sum(1) / torch.tensor(lengths, device=device)
        audio = audio * (10**-1.5 / level.clamp(min=1e-10).sqrt()).clamp(min=1)[:, None]
        mels = network.mels(torch.nn.functional.pad(audio, (0, PARTIAL_SAMPLES)))
        rows = torch.tensor([i for i, s in enumerate(spans) for _ in s.starts_frames], device=device)
        starts = torch.tensor([t for s in spans for t in s.starts_frames], device=device)
        partials = mels[rows[:, None], starts[:, None] + torch.arange(PARTIAL_FRAMES, device=device)]
        vectors = torch.cat([network.embed_mels(p) for p in torch.split(partials, 2048)])
        return normalize(torch.zeros(len(clips), vectors.shape[1], device=device).index_add_(0, rows, vectors), dim=1)

    def embed(clips: "Sequence[FloatArray]", sample_rate: int) -> "FloatArray":
        if sample_rate != sample_rate_hz:
            raise ValueError(f"this embedder was made for {sample_rate_hz} Hz, the clips have {sample_rate} Hz")
        order = sorted(range(len(clips)), key=lambda i: len(clips[i]))
        result = np.zeros((len(clips), 256), np.float32)
        for start in range(0, len(order), 64):
            some = order[start : start + 64]
            result[some] = embed_some([clips[i] for i in some]).cpu().numpy()
        return result

    return embed


def _say(stage: str, done: int, total: int) -> None:
    typer.echo(f"\r{stage}: {done}/{total}", nl=done == total, err=True)


if __name__ == "__main__":
    app()
