"""Latents to samples: both kinds of decoder against plain torch, alone and in a padded batch."""

import pytest
import torch
from network_samples import AUDIO, DECODERS, HOP, ISTFT, restless
from torch.nn import functional as F

from cloning.decoders import HifiGanDecoder, IstftDecoder, build_decoder
from cloning.decoders.istft import overlap_add
from cloning.layers.convolutions import sequence_mask
from cloning.posterior import LogSpectrogram
from cloning.types import AudioConfig

HIDDEN, G_WIDTH = 10, 6
KINDS = pytest.mark.parametrize("kind", list(DECODERS))


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def decoder(kind: str, spread: float = 1.5):
    return restless(build_decoder(HIDDEN, G_WIDTH, DECODERS[kind], AUDIO), spread=spread)


def test_the_configuration_chooses_the_kind():
    assert isinstance(decoder("istft"), IstftDecoder)
    assert isinstance(decoder("hifigan-1"), HifiGanDecoder)
    n_weights = [len(list(decoder(kind).parameters())) for kind in ("hifigan-1", "hifigan-2")]
    assert n_weights[0] > n_weights[1]


@KINDS
def test_each_latent_frame_becomes_hop_samples(kind):
    for n_frames in (1, 2, 7):
        samples = decoder(kind)(drawn(2, HIDDEN, n_frames), drawn(2, G_WIDTH))
        assert samples.dtype == torch.float32
        assert samples.shape == (2, n_frames * HOP)
        assert samples.isfinite().all()
        assert samples.std() > 1e-3


@KINDS
def test_the_speaker_changes_the_sound(kind):
    network, z = decoder(kind), drawn(1, HIDDEN, 7)
    assert (network(z, drawn(1, G_WIDTH)) - network(z, drawn(1, G_WIDTH, seed=1))).abs().max() > 1e-2


@KINDS
@pytest.mark.parametrize("n_frames", [1, 2, 6])
def test_a_padded_row_sounds_as_it_does_alone(kind, n_frames):
    network, g = decoder(kind), drawn(2, G_WIDTH)
    mask = sequence_mask(torch.tensor([9, n_frames]), 9)
    z = drawn(2, HIDDEN, 9) * mask
    alone = network(z[1:, :, :n_frames], g[1:])
    together = network(z, g, mask)
    torch.testing.assert_close(together[1:, : n_frames * HOP], alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together[:1], network(z[:1], g[:1]), atol=1e-5, rtol=1e-4)
    unmasked = network(z, g)[1, : n_frames * HOP]
    assert (unmasked - alone).abs().max() > 1e-4, "the mask had nothing to do"


@pytest.mark.parametrize("audio", [AUDIO, AudioConfig(8000, 64, 64, HOP), AudioConfig(8000, 16, 16, HOP)])
@KINDS
def test_the_receptive_field_is_how_far_a_gradient_reaches(kind, audio):
    network = restless(build_decoder(HIDDEN, G_WIDTH, DECODERS[kind], audio), spread=1.5).double()
    reach = network.receptive_field_frames
    n, middle = 2 * reach + 9, reach + 4
    z = drawn(1, HIDDEN, n).double().requires_grad_()
    # In double precision no influence is too faint to be seen.
    network(z, drawn(1, G_WIDTH).double())[:, middle * HOP : (middle + 1) * HOP].square().sum().backward()
    reached = z.grad.abs().sum((0, 1)).nonzero().flatten()
    assert max(middle - reached[0], reached[-1] - middle) == reach


@pytest.mark.parametrize("kind", ["hifigan-1", "hifigan-2"])
def test_hifigan_is_the_published_arithmetic(kind):
    """Plain convolutions of torch, in the order of the paper's appendix A, on the same weights."""
    network, config, z, g = decoder(kind), DECODERS[kind], drawn(2, HIDDEN, 5), drawn(2, G_WIDTH)
    w = dict(network.named_parameters())
    x = F.conv1d(z, w["pre.weight"], w["pre.bias"], padding=3)
    x = x + (g @ w["condition.weight"].T + w["condition.bias"])[:, :, None]
    for s, (rate, kernel) in enumerate(zip(config.upsample_rates, config.upsample_kernels, strict=True)):
        name, x = f"stages.{s}.upsample", F.leaky_relu(x, 0.1)
        x = F.conv_transpose1d(x, w[f"{name}.weight"], w[f"{name}.bias"], rate, (kernel - rate) // 2)
        total = torch.zeros_like(x)
        for b, (k, dilations) in enumerate(zip(config.resblock_kernels, config.resblock_dilations, strict=True)):
            block, y = f"stages.{s}.blocks.{b}", x
            for i, d in enumerate(dilations):
                weight, bias = w[f"{block}.dilated.{i}.weight"], w[f"{block}.dilated.{i}.bias"]
                part = F.conv1d(F.leaky_relu(y, 0.1), weight, bias, padding=d * (k - 1) // 2, dilation=d)
                if config.resblock == "1":
                    weight, bias = w[f"{block}.plain.{i}.weight"], w[f"{block}.plain.{i}.bias"]
                    part = F.conv1d(F.leaky_relu(part, 0.1), weight, bias, padding=(k - 1) // 2)
                y = y + part
            total = total + y
        x = total / len(config.resblock_kernels)
    expected = torch.tanh(F.conv1d(F.leaky_relu(x), w["post.weight"], padding=3)).squeeze(1)
    torch.testing.assert_close(network(z, g), expected, atol=1e-5, rtol=1e-4)
    assert "post.bias" not in w


@pytest.mark.parametrize(("n_fft", "win_length", "hop"), [(64, 64, 16), (64, 48, 16), (1024, 1024, 256), (32, 32, 16)])
def test_overlap_add_undoes_the_short_time_transform(n_fft, win_length, hop):
    audio = AudioConfig(8000, n_fft, win_length, hop)
    x, window = drawn(2, 20 * hop), IstftDecoder(4, 4, ISTFT, audio).window
    edge = (n_fft - hop) // 2
    padded = F.pad(x[:, None], (edge, edge), mode="reflect").squeeze(1)
    spectrum = torch.fft.rfft(padded.unfold(1, n_fft, hop) * window)
    back = overlap_add(torch.fft.irfft(spectrum, n_fft), torch.ones(1, 20, 1), window, hop)
    torch.testing.assert_close(back, x, atol=1e-4, rtol=0)
    # The spectrogram that training compares with stands on the same frames.
    log_magnitude = LogSpectrogram(audio)(x).transpose(1, 2)
    torch.testing.assert_close(log_magnitude.exp(), (spectrum.abs().square() + 1e-6).sqrt(), atol=1e-3, rtol=1e-3)


def test_overlap_add_divides_by_the_frames_that_count():
    window, frames = torch.hann_window(64), torch.ones(1, 6, 64)
    weight = torch.tensor([1.0, 1, 1, 1, 0, 0])[None, :, None]
    frames[:, 4:] = 1e6
    cut = overlap_add(frames, weight, window, 16)[:, : 4 * 16]
    alone = overlap_add(frames[:, :4], torch.ones(1, 4, 1), window, 16)
    torch.testing.assert_close(cut, alone)


def test_the_istft_decoder_says_nothing_at_zero_nor_at_half_the_rate():
    """What no loss hears must not be free to grow: both bins stay silent whatever the head asks for."""
    deaf = IstftDecoder(4, 4, ISTFT, AUDIO)
    with torch.no_grad():
        deaf.head.weight.zero_()
        deaf.head.bias.fill_(-30.0)
        deaf.head.bias[0] = deaf.head.bias[AUDIO.n_bins - 1] = 5.0
        deaf.head.bias[AUDIO.n_bins :] = 0.0
        silent = deaf(drawn(1, 4, 40), drawn(1, 4))
        deaf.head.bias[1] = 5.0
        heard = deaf(drawn(1, 4, 40), drawn(1, 4))
    assert float(silent.abs().max()) < 1e-6
    assert float(heard.abs().max()) > 1e-3
