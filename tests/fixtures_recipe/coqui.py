"""Makes the small Coqui checkpoints under tests/data/coqui and what Coqui's own code makes of them.

Runs in an environment of its own, never in the project's: Python 3.11, torch 2.13.0, coqui-tts 0.28.0, transformers
5.24.0, torchaudio 2.11.1 (its extension `_torchaudio.so` deleted where it does not fit torch), torchcodec 0.17.0, six.

    python tests/fixtures_recipe/coqui.py tests/data/coqui            # the committed fixtures
    python tests/fixtures_recipe/coqui.py FOLDER --full-size          # checkpoints of the published widths

The weights are random; no published checkpoint is read.
"""

import argparse
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import torch
from TTS.encoder.models.resnet import ResNetSpeakerEncoder
from TTS.tts.configs.shared_configs import BaseDatasetConfig, CharactersConfig
from TTS.tts.configs.vits_config import VitsArgs, VitsConfig
from TTS.tts.layers.glow_tts.duration_predictor import DurationPredictor
from TTS.tts.layers.vits.stochastic_duration_predictor import StochasticDurationPredictor
from TTS.tts.models.vits import Vits

SMALL = {
    "hidden_channels": 8, "hidden_channels_ffn_text_encoder": 12, "num_heads_text_encoder": 2,
    "num_layers_text_encoder": 2, "num_layers_posterior_encoder": 2, "num_layers_flow": 2, "out_channels": 33,
    "upsample_rates_decoder": [4, 2, 2], "upsample_kernel_sizes_decoder": [8, 4, 4],
    "upsample_initial_channel_decoder": 16, "resblock_kernel_sizes_decoder": [3, 5],
    "resblock_dilation_sizes_decoder": [[1, 3, 5], [1, 2, 3]],
}  # fmt: skip
SMALL_AUDIO = {"sample_rate": 8000, "fft_size": 64, "win_length": 64, "hop_length": 16, "num_mels": 20}
FULL_AUDIO = {"sample_rate": 16000, "fft_size": 1024, "win_length": 1024, "hop_length": 256, "num_mels": 80}
PUNCTUATIONS = "!'(),-.:;? "
SPEAKERS = ("ada", "bob", "eve")
SPOKEN_BY = 1
TEXTS = {
    "single": {"en-us": "hɛlˈoʊ wˈɜːld, ɪt ɪz mˈɔːɹnɪŋ."},
    "table": {"en": "One of three speakers, by name."},
    "multi": {"en": "Hello World, it is -- really; morning: (yes) & no!"},
    "yourtts": {
        "en": "Good Morning; it's a well-known fact: [really]!",
        "fr-fr": "L'été dernier, ils ont chanté & dansé - déjà?",
        "pt-br": "Olá; você não está só & eu também.",
    },
}


def configs(full: bool) -> dict[str, VitsConfig]:
    """Phonemes and one speaker; a table of speakers; letters and d-vectors; letters, d-vectors and three languages."""
    d_vector = 256 if full else 12
    small = {} if full else SMALL
    shared = {"init_discriminator": False}
    letters = {"characters": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "punctuations": PUNCTUATIONS}
    phonemes = "ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢǀǁǂǃˈˌːˑ"
    return {
        "single": config(
            {**small, **shared},
            CharactersConfig("TTS.tts.models.vits.VitsCharacters", pad="_", phonemes=phonemes, **letters),
            full, "phoneme_cleaners", use_phonemes=True, phoneme_language="en-us", phonemizer="espeak",
        ),
        "table": config(
            {**small, **shared, "use_speaker_embedding": True, "speaker_embedding_channels": 256 if full else 12},
            CharactersConfig("TTS.tts.models.vits.VitsCharacters", pad="_", phonemes="", **letters),
            full, "basic_cleaners", use_speaker_embedding=True, speakers=list(SPEAKERS),
        ),
        "multi": config(
            {**small, **shared, "use_sdp": False, "resblock_type_decoder": "2", "use_d_vector_file": True,
             "d_vector_dim": d_vector},
            CharactersConfig(pad="_", bos="^", eos="$", blank="#", is_unique=True, **letters), full,
            "english_cleaners", enable_eos_bos_chars=True, use_d_vector_file=True, d_vector_dim=d_vector,
        ),
        "yourtts": config(
            {**small, **shared, "use_d_vector_file": True, "d_vector_dim": 512, "use_language_embedding": True,
             "embedded_language_dim": 4,
             "num_layers_text_encoder": 10 if full else 2},
            CharactersConfig("TTS.tts.models.vits.VitsCharacters", pad="_", eos="&", bos="*", phonemes="",
                             characters="abcdefghijklmnopqrstuvwxyzàáâãäçèéêëìíîïñòóôõöùúûüÿœ",
                             punctuations=PUNCTUATIONS),
            full, "multilingual_cleaners", use_d_vector_file=True, d_vector_dim=512,
        ),
    }  # fmt: skip


def config(args: dict, characters: CharactersConfig, full: bool, cleaner: str, **more: object) -> VitsConfig:
    made = VitsConfig(
        model_args=VitsArgs(**args), characters=characters, text_cleaner=cleaner, add_blank=True,
        datasets=[BaseDatasetConfig(language="")], **more,
    )  # fmt: skip
    for name, value in (FULL_AUDIO if full else SMALL_AUDIO).items():
        setattr(made.audio, name, value)
    return made


def restless(module: torch.nn.Module, seed: int) -> None:
    """Every parameter drawn anew: what starts at zero or one would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        fan = math.prod(parameter.shape[1:]) or 1
        spread = 0.3 if parameter.ndim == 1 or parameter.shape[1:] == (1,) or parameter.shape[0] == 1 else fan**-0.5
        drawn = torch.randn(parameter.shape, generator=generator) * spread
        is_scale = "gamma" in name or "original0" in name or ("bn" in name and name.endswith("weight"))
        parameter.data.copy_(drawn.abs() + 0.5 if is_scale else drawn)
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
        elif name.endswith("running_mean"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.3)


def vits(made: VitsConfig, full: bool, languages: dict[str, int], seed: int) -> Vits:
    """The original model. Phonemes are given as such, so that no phonemizer has to be installed."""
    made.languages = list(languages)
    letters = {"use_phonemes": False, "text_cleaner": "no_cleaners"} if made.use_phonemes else {}
    model = Vits(dataclasses.replace(made, **letters))
    args = made.model_args
    if not full:  # the widths of these two are constants in the original
        condition = {"cond_channels": model.embedded_speaker_dim, "language_emb_dim": model.embedded_language_dim}
        predictor = (StochasticDurationPredictor, 10, 4) if args.use_sdp else (DurationPredictor, 12, None)
        kind, width, flows = predictor
        flow_arguments = () if flows is None else (flows,)
        model.duration_predictor = kind(args.hidden_channels, width, 3, 0.5, *flow_arguments, **condition)
    restless(model, seed)
    model.waveform_decoder.conv_post.weight.data *= 0.1  # samples near 1 would hide differences
    return model.eval()


def write_voice(folder: Path, made: VitsConfig, full: bool, languages: dict[str, int], seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = vits(made, full, languages, seed)
    args = made.model_args
    made.num_chars = args.num_chars
    if args.use_language_embedding:
        args.language_ids_file = "language_ids.json"
    if args.use_d_vector_file:
        args.d_vector_file = ["speakers.json"]
    made.save_json(str(folder / "config.json"))
    torch.save({"model": model.state_dict(), "step": 0, "config": {"name": folder.name}}, folder / "model_file.pth")
    if args.use_language_embedding:
        (folder / "language_ids.json").write_text(json.dumps(languages))
    generator = torch.Generator().manual_seed(seed + 1)
    if args.use_d_vector_file:
        vectors = torch.nn.functional.normalize(torch.randn(2, args.d_vector_dim, generator=generator))
        speakers = {f"clip-{i}.wav": {"name": f"speaker-{i}", "embedding": [round(float(x), 6) for x in v]}
                    for i, v in enumerate(vectors)}  # fmt: skip
        (folder / "speakers.json").write_text(json.dumps(speakers))
    expected = {}
    for language, text in TEXTS[folder.name].items():
        found = speak(model, made, text, language, languages.get(language, 0), generator)
        expected |= {f"{language}/{name}": value for name, value in found.items()}
    np.savez_compressed(folder / "expected.npz", **expected)
    (folder / "texts.json").write_text(json.dumps(TEXTS[folder.name], ensure_ascii=False))


@torch.inference_mode()
def speak(
    model: Vits, made: VitsConfig, text: str, language: str, language_id: int, generator: torch.Generator
) -> dict:
    """The steps of `Vits.inference` with the noise given, and what each of them makes."""
    args = made.model_args
    ids = model.tokenizer.text_to_ids(text, language)
    x, lengths = torch.tensor([ids]), torch.tensor([len(ids)])
    d_vector = torch.nn.functional.normalize(torch.randn(1, args.d_vector_dim or 1, generator=generator))
    g = d_vector[:, :, None] if args.use_d_vector_file else None
    if args.use_speaker_embedding:
        g = model.emb_g(torch.tensor([SPOKEN_BY]))[:, :, None]
    lang = model.emb_l(torch.tensor([language_id]))[:, :, None] if args.use_language_embedding else None
    hidden, m_p, logs_p, x_mask = model.text_encoder(x, lengths, lang_emb=lang)
    noise_dp = torch.randn(1, 2, len(ids), generator=generator) * 0.8
    log_w = durations_for(model.duration_predictor, hidden, x_mask, g, lang, noise_dp)
    frames = torch.exp(log_w).ceil()
    assert float((torch.exp(log_w) - torch.exp(log_w).round()).abs().min()) > 1e-5, "a duration lies on a border"
    durations = frames.clamp(max=6)[0, 0].long()
    owner = torch.repeat_interleave(torch.arange(len(ids)), durations)
    noise = torch.randn(1, args.hidden_channels, len(owner), generator=generator) * 0.667
    z_p = m_p[:, :, owner] + noise * logs_p[:, :, owner].exp()
    y_mask = torch.ones(1, 1, len(owner))
    z = model.flow(z_p, y_mask, g=g, reverse=True)
    waveform = model.waveform_decoder(z * y_mask, g=g)
    spoken = {"d_vector": d_vector, "hidden": hidden, "m_p": m_p, "logs_p": logs_p, "noise_dp": noise_dp,
              "log_w": log_w, "noise": noise, "z_p": z_p, "z": z, "waveform": waveform}  # fmt: skip
    arrays = {name: value.numpy().astype(np.float32) for name, value in spoken.items()}
    return arrays | {"ids": np.asarray(ids), "frames": frames[0, 0].numpy(), "durations": durations.numpy()}


def durations_for(predictor, hidden, mask, g, lang, noise):
    """The predictor's output for noise that is given: what it draws is replaced while it runs."""
    if isinstance(predictor, DurationPredictor):
        return predictor(hidden, mask, g=g, lang_emb=lang)
    drawn = torch.randn
    torch.randn = lambda *_: noise
    try:
        return predictor(hidden, mask, g=g, lang_emb=lang, reverse=True, noise_scale=1.0)
    finally:
        torch.randn = drawn


@torch.inference_mode()
def write_encoder(folder: Path, full: bool, seed: int) -> None:
    """The H/ASP encoder, a waveform, and its embedding."""
    audio = {"fft_size": 512, "win_length": 400, "hop_length": 160, "sample_rate": 16000, "preemphasis": 0.97,
             "num_mels": 64}  # fmt: skip
    filters = [32, 64, 128, 256] if full else [8, 8, 8, 8]
    network = ResNetSpeakerEncoder(
        input_dim=64, proj_dim=512, num_filters=filters, layers=[3, 4, 6, 3] if full else [1, 2, 1, 1],
        log_input=True, use_torch_spec=True, audio_config=audio,
    )  # fmt: skip
    restless(network, seed)
    network.eval()
    # Random networks give nearly the same vector for all sounds, which would hide differences: take most of it out.
    noises = torch.randn(4, 48_000, generator=torch.Generator().manual_seed(seed)) * 0.1
    network.fc.bias.data -= 0.95 * network(noises).mean(0)
    parameters = {"model_name": "resnet", "input_dim": 64, "use_torch_spec": True, "log_input": True, "proj_dim": 512}
    torch.save({"model": network.state_dict(), "step": 0}, folder / "model_se.pth")
    (folder / "config_se.json").write_text(json.dumps({"model_params": parameters, "audio": audio}))
    generator = torch.Generator().manual_seed(seed + 1)
    times = torch.arange(48_000) / 16_000
    tone = sum(torch.sin(2 * math.pi * 140 * k * times + k) / k for k in range(1, 20))
    envelope = 0.5 + 0.5 * torch.sin(2 * math.pi * 3 * times)
    waveform = ((tone * envelope * 0.1) + torch.randn(48_000, generator=generator) * 0.01).half().float()
    found = {"mel": network.torch_spec(waveform[None]), "whole": network.inference(waveform[None].clone()),
             "embedding": network.compute_embedding(waveform[None].clone()),
             "short": network.compute_embedding(waveform[None, :20_000].clone())}  # fmt: skip
    arrays = {name: value.numpy() for name, value in found.items()}
    arrays["mel"] = arrays["mel"][:, :, ::25]
    np.savez_compressed(folder / "expected_se.npz", waveform=waveform.half().numpy(), **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--full-size", action="store_true")
    chosen = parser.parse_args()
    languages = {"en": 0, "fr-fr": 1, "pt-br": 2}
    for seed, name in enumerate(("single", "multi", "yourtts", "table")):
        made = configs(chosen.full_size)[name]
        write_voice(chosen.folder / name, made, chosen.full_size, languages if name == "yourtts" else {}, seed)
    write_encoder(chosen.folder / "yourtts", chosen.full_size, 9)


if __name__ == "__main__":
    main()
