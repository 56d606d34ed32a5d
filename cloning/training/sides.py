"""The two sides of the game, voice and judges: weights that learn together, and the step that they take."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.distributed import ReduceOp, all_reduce


class Side:
    """Weights, their optimiser, and a guard: a gradient that is no number changes neither weights nor optimiser."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, clip_norm: float, n_ranks: int
    ) -> None:
        self.parameters, self.learning_rate, self.clip_norm = list(parameters), learning_rate, clip_norm
        self.reducer = Reducer(self.parameters, n_ranks)
        device = self.parameters[0].device
        on_gpu = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            self.parameters,
            torch.tensor(learning_rate, device=device) if on_gpu else learning_rate,
            betas=(0.8, 0.99),
            weight_decay=0.01,
            fused=True,
            capturable=on_gpu,
        )
        # What a gradient scaler would set: the fused step looks at it on the device and leaves all as it was.
        self.found_inf = torch.zeros((), device=device)
        self.optimiser.found_inf = self.found_inf  # type: ignore[attr-defined]

    def set_rate(self, factor: float) -> None:
        """The learning rate from here on, as a share of the full one."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(self.learning_rate * factor)
            else:
                group["lr"] = self.learning_rate * factor

    def update(self, loss: Tensor) -> Tensor:
        """One step downhill; whether it was taken. Shapes: loss float32 () -> bool ()."""
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.reducer.average_gradients()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip_norm, foreach=True)
        good = norm.isfinite()
        self.found_inf.copy_(~good)
        self.optimiser.step()
        return good


class Reducer:
    """Means of gradients over all ranks through one flat buffer, so that a captured graph holds one collective call.

    `torch.nn.parallel.DistributedDataParallel` reduces from hooks of its own forward; this step has several forwards
    of parts of the model, which such a wrapper does not see.
    """

    def __init__(self, parameters: list[nn.Parameter], n_ranks: int) -> None:
        self.parameters, self.n_ranks = parameters, n_ranks
        if n_ranks == 1:
            return
        sizes = [p.numel() for p in parameters]
        self.flat = torch.zeros(sum(sizes), device=parameters[0].device)
        offsets = [0, *accumulate(sizes)]
        self.views = [
            self.flat.as_strided(p.shape, p.stride(), offset) for p, offset in zip(parameters, offsets, strict=False)
        ]

    def average_gradients(self) -> None:
        """Replaces each parameter's gradient by its mean over the ranks; a parameter without one counts as zero."""
        if self.n_ranks == 1:
            return
        with torch.no_grad():
            pairs = [(v, p.grad) for v, p in zip(self.views, self.parameters, strict=True)]
            torch._foreach_copy_([v for v, g in pairs if g is not None], [g for _, g in pairs if g is not None])
            torch._foreach_zero_([v for v, g in pairs if g is None] or [torch.zeros(1, device=self.flat.device)])
            all_reduce(self.flat, ReduceOp.SUM)
            self.flat /= self.n_ranks
        for view, parameter in zip(self.views, self.parameters, strict=True):
            parameter.grad = view
