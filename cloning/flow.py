"""The flow between the latents of speech and the prior of text; the speaker's condition acts mostly here."""

from torch import Tensor, nn

from cloning.config import FlowConfig, WaveNetConfig
from cloning.layers.convolutions import Pointwise, concatenate
from cloning.layers.wavenet import WaveNet


class Coupling(nn.Module):
    """A shift of one half of the channels by a function of the other half; its Jacobian is 1.

    Shapes: x float32 (B, C, T), mask (B, 1, T), g (B, G) -> float32 (B, C, T).
    Source: VITS (Kim et al. 2021), section 2.5.1 (volume-preserving couplings).
    """

    def __init__(self, channels: int, g_width: int, config: WaveNetConfig) -> None:
        super().__init__()
        self.pre = Pointwise(channels // 2, channels)
        self.wavenet = WaveNet(channels, g_width, config)
        self.post = Pointwise(channels, channels // 2)
        nn.init.zeros_(self.post.weight)

    def forward(self, x: Tensor, mask: Tensor, g: Tensor, reverse: bool = False) -> Tensor:
        kept, moved = x.chunk(2, 1)
        # The latents stay in full precision; the network that shifts them may have less.
        wavenet_in = self.pre(kept.to(self.pre.weight.dtype))
        shift = self.post(self.wavenet(wavenet_in, mask, g)).float() * mask
        return concatenate([kept, moved - shift if reverse else moved + shift])


class Flow(nn.Module):
    """Couplings with the channels turned around between them; `reverse` undoes it.

    A frame depends on `receptive_field_frames` frames on each side of it.

    Shapes: x float32 (B, C, T), mask (B, 1, T), g (B, G) -> float32 (B, C, T).
    """

    def __init__(self, channels: int, g_width: int, config: FlowConfig) -> None:
        super().__init__()
        couplings = [Coupling(channels, g_width, config.wavenet) for _ in range(config.n_couplings)]
        self.couplings = nn.ModuleList(couplings)
        self.receptive_field_frames = sum(coupling.wavenet.reach for coupling in couplings)

    def forward(self, x: Tensor, mask: Tensor, g: Tensor, reverse: bool = False) -> Tensor:
        if reverse:
            for coupling in reversed(self.couplings):
                x = coupling(x.flip(1), mask, g, reverse=True)
        else:
            for coupling in self.couplings:
                x = coupling(x, mask, g).flip(1)
        return x
