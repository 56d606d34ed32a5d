"""The text encoder: symbols to hidden states and the prior's statistics."""

import math

import torch
from torch import Tensor, nn

from cloning.config import TextEncoderConfig
from cloning.layers.attention import TransformerLayer
from cloning.layers.convolutions import Pointwise, concatenate


class TextEncoder(nn.Module):
    """Symbols in context.

    Shapes: token_ids int64 (B, T_text), language_ids int64 (B,), mask (B, 1, T_text), g (B, G) ->
        hidden (B, H, T_text), m_p and logs_p float32 (B, C, T_text), C being `hidden` of the configuration and H
        that plus `language_width`.
    Source: VITS (Kim et al. 2021), section 2.5.1; language embeddings joined to the symbols': YourTTS (Casanova et
        al. 2022), section 2.
    """

    def __init__(self, config: TextEncoderConfig, n_symbols: int, n_languages: int, g_width: int) -> None:
        super().__init__()
        self.hidden = config.hidden
        width = config.hidden + config.language_width
        self.symbols = nn.Embedding(n_symbols, config.hidden)
        nn.init.normal_(self.symbols.weight, 0.0, config.hidden**-0.5)
        self.languages = nn.Embedding(n_languages, config.language_width) if config.language_width else None
        self.condition = nn.Linear(g_width, width) if config.speaker_conditioned else None
        self.layers = nn.ModuleList(
            TransformerLayer(width, config.filter, config.n_heads, config.kernel, config.window, config.dropout)
            for _ in range(config.n_layers)
        )
        self.statistics = Pointwise(width, 2 * config.hidden)

    @property
    def width(self) -> int:
        """Channels of the hidden states."""
        return self.statistics.weight.shape[1]

    def forward(
        self, token_ids: Tensor, language_ids: Tensor, mask: Tensor, g: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = (self.symbols(token_ids) * math.sqrt(self.hidden)).transpose(1, 2)
        if self.languages is not None:
            language = self.languages(language_ids)[:, :, None].expand(-1, -1, x.shape[2])
            x = concatenate([x, language])
        if self.condition is not None:
            x = x + self.condition(g)[:, :, None].to(x.dtype)
        x = x * mask
        for layer in self.layers:
            x = layer(x, mask)
        x = x * mask.to(x.dtype)
        m_p, logs_p = (self.statistics(x).float() * mask).chunk(2, 1)
        return x, m_p, logs_p


def expand(statistics: Tensor, durations: Tensor, n_frames: int) -> Tensor:
    """Each symbol's column repeated for its frames.

    Shapes: statistics (B, C, T_text), durations int64 (B, T_text) frames -> (B, C, n_frames); frames after the last
    symbol repeat it and are to be masked.
    """
    owner = owners(durations, n_frames)
    rows = statistics.transpose(1, 2)
    return rows.gather(1, owner[:, :, None].expand(-1, -1, rows.shape[2])).transpose(1, 2)


def owners(durations: Tensor, n_frames: int) -> Tensor:
    """Index of the symbol that each frame belongs to. Shapes: durations int64 (B, T_text) -> int64 (B, n_frames)."""
    ends, frames = durations.cumsum(1), torch.arange(n_frames, device=durations.device)
    return (ends[:, None] <= frames[None, :, None]).sum(2).clamp(max=durations.shape[1] - 1)
