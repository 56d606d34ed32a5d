"""How the voice sounds while it is being trained: held-out people speak sentences that are not in the corpus."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cloning.model import PriorInput
from cloning.training.learner import Learner

NOISE_SCALE = 0.333


@dataclass(frozen=True, slots=True)
class Heard:
    """One sentence of one person. Shapes: samples float32 (n,) on the CPU."""

    speaker: int
    sentence: int
    samples: Tensor


@contextmanager
def averaged(learner: Learner) -> Iterator[None]:
    """The networks with the moving average of their weights, in evaluation mode."""
    parameters = list[Tensor](learner.parameters)
    held = [p.detach().clone() for p in parameters]
    with torch.no_grad():
        torch._foreach_copy_(parameters, learner.average)
    learner.model.eval()
    try:
        yield
    finally:
        learner.model.train()
        with torch.no_grad():
            torch._foreach_copy_(parameters, held)


@torch.no_grad()
def listen(learner: Learner, vectors: Tensor, sentences: Sequence[Sequence[int]], per_speaker: int) -> list[Heard]:
    """Speech of the averaged voice. Shapes: vectors float32 (n, d); sentences are lists of token ids."""
    device, model = learner.device, learner.model
    jobs = [(s, (s + i) % len(sentences)) for s in range(len(vectors)) for i in range(per_speaker)]
    ids = [torch.tensor(sentences[t]) for _, t in jobs]
    n_symbols = torch.tensor([len(i) for i in ids], device=device)
    token_ids = pad_sequence(ids, batch_first=True).to(device)
    d_vectors = vectors[[s for s, _ in jobs]].to(device)
    n = len(jobs)
    with averaged(learner):
        batch = PriorInput(
            token_ids, n_symbols, d_vectors, torch.zeros(n, dtype=torch.long, device=device),
            torch.ones(n, device=device), torch.zeros(n, 2, token_ids.shape[1], device=device),
        )  # fmt: skip
        m_p, logs_p, durations = model.prior(batch)
        # A voice that has learned little may drag a sentence out for minutes.
        durations = durations.clamp(max=60)
        n_frames = durations.sum(1)
        noise = torch.randn(n, m_p.shape[1], int(n_frames.max()), device=device) * NOISE_SCALE
        samples = model.decode(m_p, logs_p, durations, d_vectors, noise)
    lengths = (n_frames * learner.voice.audio.hop_length).tolist()
    return [Heard(s, t, x[:k].float().cpu()) for (s, t), x, k in zip(jobs, samples, lengths, strict=True)]


@torch.no_grad()
def length_bias(learner: Learner, n_rows: int = 256) -> float:
    """How much longer speech is than the predicted durations say: a fit of log frames gives their geometric mean.

    Measured on whole utterances; 1.0 for stochastic durations, which have no such bias.
    """
    if learner.voice.durations.kind == "stochastic":
        return 1.0
    table = learner.corpus.host_table
    shape = learner.train.shapes[-1]
    fits = (table[:, 1] <= shape.n_frames) & (table[:, 3] <= shape.n_symbols)
    rows = torch.from_numpy(fits.nonzero()[0][:: max(1, int(fits.sum()) // n_rows)]).to(learner.device)
    true = predicted = 0.0
    with averaged(learner):
        for piece in torch.split(rows, 32):
            batch = learner.corpus.batch(piece, shape)
            g = learner.model.condition(batch.d_vectors)
            hidden, _, _ = learner.model.text_encoder(
                batch.token_ids, torch.zeros_like(batch.speakers), batch.x_mask, g
            )
            log_frames = learner.model.durations(hidden, batch.x_mask, g)
            true += float(batch.n_frames.sum())
            predicted += float((log_frames.exp() * batch.x_mask.squeeze(1)).sum())
    return true / predicted if predicted else 1.0
