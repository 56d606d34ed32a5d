"""YourTTS: the algorithm, from symbols and a d-vector to samples, in two phases.

Source: YourTTS (Casanova et al. 2022), figure 1; VITS (Kim et al. 2021), section 2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cloning.config import VoiceConfig
from cloning.decoders import build_decoder
from cloning.durations import build_durations
from cloning.flow import Flow
from cloning.layers.convolutions import channels_last, sequence_mask
from cloning.posterior import PosteriorEncoder
from cloning.text_encoder import TextEncoder, expand


@dataclass(frozen=True, slots=True)
class PriorInput:
    """A padded batch of sentences, with one row of `noise_dp` for each symbol (read by stochastic durations only).

    Shapes: token_ids int64 (B, T_text), n_symbols int64 (B,), d_vectors float32 (B, d), language_ids int64 (B,),
        length_scale float32 (B,), noise_dp float32 (B, 2, T_text), already scaled.
    """

    token_ids: Tensor
    n_symbols: Tensor
    d_vectors: Tensor
    language_ids: Tensor
    length_scale: Tensor
    noise_dp: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in order."""
        return (
            self.token_ids, self.n_symbols, self.d_vectors, self.language_ids, self.length_scale, self.noise_dp,
        )  # fmt: skip

    def to(self, device: torch.device) -> "PriorInput":
        """The same on a device."""
        return PriorInput(*(x.to(device) for x in self.tensors()))


class YourTTS(nn.Module):
    """The networks of one voice. `prior` gives frame counts; `decode` needs them, so the host reads between the two.

    The samples of a frame depend on `receptive_field_frames` frames of the prior on each side of it.
    """

    def __init__(self, config: VoiceConfig, with_posterior: bool = False) -> None:
        super().__init__()
        speaker, hidden, g_width = config.speaker, config.text_encoder.hidden, config.speaker.g_width
        self.config = config
        self.speaker = nn.Linear(speaker.d_vector, speaker.width) if speaker.width else None
        self.recordings = nn.Embedding(len(speaker.recordings), g_width) if speaker.recordings else None
        if self.recordings is not None:
            nn.init.normal_(self.recordings.weight, 0.0, 0.05)
        self.text_encoder = TextEncoder(
            config.text_encoder, config.text.n_symbols, max(1, len(config.text.languages)), g_width
        )
        language_width = config.text_encoder.language_width if config.durations.language_conditioned else 0
        self.durations = build_durations(self.text_encoder.width, g_width + language_width, config.durations)
        self.flow = Flow(hidden, g_width, config.flow)
        self.decoder = build_decoder(hidden, g_width, config.decoder, config.audio)
        self.receptive_field_frames = self.flow.receptive_field_frames + self.decoder.receptive_field_frames
        self.posterior = (
            PosteriorEncoder(config.audio.n_bins, hidden, g_width, config.posterior) if with_posterior else None
        )

    def condition(self, d_vectors: Tensor, recording_ids: Tensor | None = None) -> Tensor:
        """The global condition of each row, in the recording condition that the voice speaks as unless one is given.

        Shapes: d_vectors float32 (B, d), recording_ids int64 (B,) -> float32 (B, G).
        """
        g = d_vectors * self.config.speaker.input_scale
        if self.speaker is not None:
            g = self.speaker(g)
        if self.recordings is not None:
            if recording_ids is None:
                recording_ids = torch.full_like(d_vectors[:, 0], self.config.recording_id, dtype=torch.long)
            g = g + self.recordings(recording_ids)
        return g

    def duration_condition(self, g: Tensor, language_ids: Tensor) -> Tensor:
        """`g`, with the language's embedding if the voice's durations read it. Shapes: (B, G) -> (B, G or more)."""
        languages = self.text_encoder.languages
        if languages is None or not self.config.durations.language_conditioned:
            return g
        return torch.cat([g, languages(language_ids).to(g.dtype)], 1)

    def prior(self, batch: PriorInput) -> tuple[Tensor, Tensor, Tensor]:
        """First phase: what is said and how long each symbol lasts.

        Shapes: -> m_p, logs_p float32 (B, C, T_text); durations int64 (B, T_text) frames, 0 in the padding.
        """
        g = self.condition(batch.d_vectors)
        mask = sequence_mask(batch.n_symbols, batch.token_ids.shape[1])
        hidden, m_p, logs_p = self.text_encoder(batch.token_ids, batch.language_ids, mask, g)
        rhythm = self.duration_condition(g, batch.language_ids)
        durations = self.durations.frames(hidden, mask, rhythm, batch.length_scale, batch.noise_dp)
        return m_p, logs_p, durations

    def decode(self, m_p: Tensor, logs_p: Tensor, durations: Tensor, d_vectors: Tensor, noise: Tensor) -> Tensor:
        """Second phase: expand, sample, undo the flow, decode.

        Shapes: m_p, logs_p float32 (B, C, T_text), durations int64 (B, T_text) frames, d_vectors float32 (B, d),
            noise float32 (B, C, T), already scaled, whose T is the width of the batch in frames
            -> samples float32 (B, T * hop); those after a row's own frames are to be cut.
        """
        g = self.condition(d_vectors)
        n_frames = noise.shape[2]
        mask = sequence_mask(durations.sum(1), n_frames)
        z_p = expand(m_p, durations, n_frames) + channels_last(noise) * expand(logs_p, durations, n_frames).exp()
        z = self.flow(z_p * mask, mask, g.to(_precision(self.flow)), reverse=True)
        samples: Tensor = self.decoder(*(x.to(_precision(self.decoder)) for x in (z * mask, g, mask)))
        return samples


def _precision(network: nn.Module) -> torch.dtype:
    return next(network.parameters()).dtype
