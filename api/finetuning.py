"""`voicekin finetune`: a voice taught a person's minutes of speech, among that of others so that it keeps them."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

SETTINGS = {
    "ema_decay": 0.99,
    "report_every": 20,
    "schedule": {
        "aligned_until": 0,
        "adversary_from": 0,
        "conversion_from": 0,
        "duration_from": 0,
        "warmup_steps": 50,
        "learning_rate": 1e-4,
        "discriminator_learning_rate": 1e-4,
    },
}


def finetune(
    corpus: Annotated[Path, typer.Option(help="The person's clips and texts: a manifest or a VCTK-style folder.")],
    others: Annotated[
        Path, typer.Option(help="A pack of other people's speech (`train prepare`): what keeps the voice theirs too.")
    ],
    start_from: Annotated[Path, typer.Option(help="The voice to teach.")],
    unspoken: Annotated[Path, typer.Option(help="Its posterior encoder and discriminators.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; the taught voice is OUT/bundle.")],
    seconds: Annotated[float, typer.Option(help="Length of this slice.")] = 120.0,
    total: Annotated[float, typer.Option(help="Length of the whole schedule; 0 is this slice.")] = 0.0,
    own_share: Annotated[float, typer.Option(min=0.01, max=0.99, help="Share of the person's clips.")] = 0.4,
    settings: Annotated[str, typer.Option(help="JSON of training settings that differ.")] = "{}",
    workers: Annotated[int, typer.Option(help="Processes that decode.")] = os.cpu_count() or 1,
) -> None:
    """Teach a voice one person's minutes of speech; run again with the same --out to go on."""
    from api.training import SENTENCES, device_here, pack_into, read_corpora, speaker_network, start
    from cloning.bundle import load_info
    from cloning.training.run import Slice, check_teachable, merged

    network, encoder_id = speaker_network(device_here())
    voice = load_info(start_from).voice
    check_teachable(voice, encoder_id)
    pack_into(out / "pack", read_corpora([corpus]), voice, network, workers)
    chosen = merged(merged(SETTINGS, {"mix": {"own_share": own_share}}), json.loads(settings))
    plan = Slice(
        (out / "pack", others), out, "same", seconds, total or seconds, start_from, unspoken, 0.0, json.dumps(chosen),
        SENTENCES,
    )  # fmt: skip
    start(plan)
    typer.echo(f"the taught voice is {out / 'bundle'}; `voicekin evaluate --bundle` compares it with the one before")
