"""What a slice leaves for the next: optimiser state and all, or only the weights that speaking does not need."""

import errno
import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from cloning.bundle import read_weights
from cloning.training.errors import TrainingStopped
from cloning.training.learner import Learner
from cloning.training.trainer import Progress

# What is not kept between slices: the listener, and what the judges know of people.
UNKEPT = ("sounds.", ".judge.person.")


def save_state(folder: Path, learner: Learner, progress: Progress) -> None:
    """Everything, in full precision, written under new names that then replace the old ones.

    Raises: TrainingStopped (`storage_full`) where the disk is full; what was there before is whole.
    """
    tensors = _networks(learner)
    tensors |= {f"average.{n}": v for n, v in zip(_names(learner), learner.average, strict=True)}
    tensors |= _optimisers(learner)
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / "state.safetensors.new"
    try:
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, new)
    except (OSError, RuntimeError) as error:
        new.unlink(missing_ok=True)
        if getattr(error, "errno", None) == errno.ENOSPC or "No space" in str(error):
            raise TrainingStopped("storage_full", f"no room for {new}: the state before it is kept") from error
        raise
    new.replace(folder / "state.safetensors")
    (folder / "progress.json").write_text(json.dumps(asdict(progress)))


def load_state(folder: Path, learner: Learner) -> Progress:
    """Continues from `save_state`."""
    tensors = load_file(folder / "state.safetensors", device=str(learner.device))
    _load_networks(learner, tensors)
    for name, average in zip(_names(learner), learner.average, strict=True):
        average.copy_(tensors[f"average.{name}"])
    for key, optimiser in _both(learner):
        saved, weights = optimiser.state_dict(), optimiser.param_groups[0]["params"]
        # An optimiser that has not stepped yet has no state, and none was saved.
        stepped = [i for i in saved["param_groups"][0]["params"] if f"{key}.{i}.step" in tensors]
        # The fused step walks memory, so the moments must lie there as their weights do.
        saved["state"] = {
            i: {"step": tensors[f"{key}.{i}.step"]}
            | {
                part: torch.empty_like(weights[i]).copy_(tensors[f"{key}.{i}.{part}"])
                for part in ("exp_avg", "exp_avg_sq")
            }
            for i in stepped
        }
        optimiser.load_state_dict(saved)
    return Progress(**json.loads((folder / "progress.json").read_text()))


def save_unspoken(path: Path, learner: Learner) -> None:
    """The posterior encoder's average and the discriminators in half precision, in one file.

    What the judges know of sounds and of people is left out: they learn it anew within a minute.
    """
    averages = dict(zip(_names(learner), learner.average, strict=True))
    tensors = {f"model.{n}": v for n, v in averages.items() if n.startswith("posterior.")}
    judges = learner.judges.state_dict()
    tensors |= {f"judges.{n}": v for n, v in judges.items() if not _is_unkept(n)}
    save_file({n: v.detach().half().cpu().contiguous() for n, v in tensors.items()}, path)


def load_weights(bundle: Path, unspoken: Path, learner: Learner) -> None:
    """A new start from a voice's weights: optimisers begin anew and need a warm-up."""
    tensors = {f"model.{n}": v for n, v in read_weights(bundle).items()}
    tensors |= load_file(unspoken)
    _load_networks(learner, {n: v.float().to(learner.device) for n, v in tensors.items()})
    for average, parameter in zip(learner.average, learner.parameters, strict=True):
        average.copy_(parameter.detach())


def _networks(learner: Learner) -> dict[str, Tensor]:
    tensors = {f"model.{n}": v for n, v in learner.model.named_parameters()}
    return tensors | {f"judges.{n}": v for n, v in learner.judges.state_dict().items()}


def _load_networks(learner: Learner, tensors: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in learner.model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    judges = learner.judges.state_dict()
    # What no earlier slice kept stays as it is.
    kept = {n: v for n, v in judges.items() if _is_unkept(n) and f"judges.{n}" not in tensors}
    learner.judges.load_state_dict({n: kept[n] if n in kept else tensors[f"judges.{n}"] for n in judges})


def _is_unkept(name: str) -> bool:
    return any(part in name for part in UNKEPT)


def _optimisers(learner: Learner) -> dict[str, Tensor]:
    return {
        f"{key}.{i}.{part}": torch.as_tensor(value)
        for key, optimiser in _both(learner)
        for i, state in optimiser.state_dict()["state"].items()
        for part, value in state.items()
    }


def _both(learner: Learner) -> tuple[tuple[str, torch.optim.Optimizer], ...]:
    return ("optimiser", learner.voice_side.optimiser), ("judge_optimiser", learner.judge_side.optimiser)


def _names(learner: Learner) -> list[str]:
    return [name for name, _ in learner.model.named_parameters()]
