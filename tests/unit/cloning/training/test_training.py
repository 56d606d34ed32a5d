"""Training from end to end on a corpus of made-up sounds: prepare, learn, stop, go on, export, speak."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from cloning import bundle
from cloning.training.config import Schedule, TrainConfig
from cloning.training.corpus import hold_out, read_manifest, with_warps
from cloning.training.data import Mix, PackedCorpus, Sampler, Shape
from cloning.training.discriminators import DiscriminatorConfig
from cloning.training.ear import Ear
from cloning.training.errors import CorpusError, PackError, TrainingStopped
from cloning.training.learner import Latents, Learner, Pieces
from cloning.training.losses import features_apart
from cloning.training.prepare import active_level_dbfs, load_samples, prepare
from cloning.training.recipes import tiny_voice
from cloning.training.run import Slice, train_config, train_slice
from cloning.training.state import load_state, load_weights, save_state, save_unspoken
from cloning.training.trainer import Progress, Trainer, rate_factor

RATE = 24000
ENCODER = "ge2e-test-v1"
TEXTS = ("a short line of text", "another one, a bit longer than that", "and the last")
SMALL = TrainConfig(
    shapes=(Shape(200, 60, 2), Shape(400, 80, 2)),
    n_segments=4,
    conversion_rows=2,
    report_every=2,
    discriminators=DiscriminatorConfig(period_width=4, spectrum_width=4, periods=(2, 3), resolutions=((512, 128),)),
    schedule=Schedule(
        total_s=60, adversary_from=2, conversion_from=4, conversion_every=2, duration_from=2, warmup_steps=2
    ),
)


class Ears(torch.nn.Module):
    """A speaker network for tests: gradients pass through it and vectors have norm 1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(40, 256)

    def mels(self, audio: torch.Tensor) -> torch.Tensor:
        return audio[:, : audio.shape[1] // 160 * 160].reshape(len(audio), -1, 160)[:, :, :40]

    def embed_mels(self, mels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.linear(mels.mean(1)), dim=1)


def embed(clips: object, sample_rate: int) -> np.ndarray:
    vectors = np.random.default_rng(len(list(clips))).standard_normal((len(list(clips)), 256))  # type: ignore[call-overload]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An LJSpeech-style folder: sweeps of 1 to 3 s."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "wavs").mkdir()
    rng, lines = np.random.default_rng(0), []
    for i in range(9):
        t = np.arange(RATE + i * 5000) / RATE
        sound = 0.2 * np.sin(2 * np.pi * (150 + 40 * i) * t * (1 + 0.3 * t)) + rng.normal(0, 0.003, len(t))
        soundfile.write(folder / "wavs" / f"c{i}.wav", sound, RATE)
        lines.append(f"c{i}|{TEXTS[i % 3]}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def pack_dir(corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack")
    utterances = with_warps(read_manifest(corpus_dir / "metadata.csv").utterances, 0.9, 1.1)
    summary = prepare(utterances, folder, tiny_voice(ENCODER), embed, 1, lambda *_: None)
    assert (summary.n_utterances, summary.n_speakers, summary.refused) == (27, 3, ())
    return folder


def learner(pack_dir: Path, train: TrainConfig = SMALL) -> Learner:
    voice = tiny_voice(ENCODER)
    return Learner(voice, train, PackedCorpus([pack_dir], voice.audio.hop_length, torch.device("cpu")), Ears())


def test_a_second_preparation_decodes_nothing_again(pack_dir: Path, corpus_dir: Path) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in pack_dir.glob("part-*")}
    utterances = with_warps(read_manifest(corpus_dir / "metadata.csv").utterances, 0.9, 1.1)
    prepare(utterances, pack_dir, tiny_voice(ENCODER), embed, 1, lambda *_: None)
    assert {p.name: p.stat().st_mtime_ns for p in pack_dir.glob("part-*")} == before


def test_batches_hold_the_recordings(pack_dir: Path, corpus_dir: Path) -> None:
    corpus = PackedCorpus([pack_dir], 256, torch.device("cpu"))
    shape = Shape(400, 80, 2)
    batch = corpus.batch(torch.tensor([0, 5]), shape)
    assert batch.audio.shape == (2, 400 * 256)
    for i in range(2):
        n = int(batch.n_frames[i]) * 256
        assert not batch.audio[i, n:].any() and batch.audio[i, :n].any()
        assert int(batch.x_mask[i].sum()) == int(batch.n_symbols[i])


def test_ranks_walk_through_the_same_shapes_with_rows_of_their_own(pack_dir: Path) -> None:
    corpus = PackedCorpus([pack_dir], 256, torch.device("cpu"))
    first, second = (Sampler(corpus, SMALL.shapes, 1, rank, Mix()) for rank in (0, 1))
    pairs = [(first.draw(step), second.draw(step)) for step in range(20)]
    assert all(a.shape == b.shape for a, b in pairs)
    assert any((a.rows != b.rows).any() for a, b in pairs)
    for draw, _ in pairs:
        table = corpus.host_table
        assert (table[draw.rows, 4] == table[draw.companions, 4]).all()
        assert (table[draw.rows, 1] <= SMALL.shapes[draw.shape].n_frames).all()


def test_of_several_corpora_the_first_has_its_share(pack_dir: Path) -> None:
    corpus = PackedCorpus([pack_dir, pack_dir], 256, torch.device("cpu"))
    assert len(corpus) == 54 and len(corpus.speakers) == 6
    assert set(corpus.host_table[corpus.sources == 1, 4]) == {3, 4, 5}
    sampler = Sampler(corpus, (Shape(400, 80, 4),), 1, 0, Mix(own_share=0.25, aligned_share=0.0))
    rows = np.concatenate([sampler.draw(step).rows for step in range(250)])
    assert (corpus.sources[rows] == 0).mean() == pytest.approx(0.25, abs=0.05)


def test_a_few_steps_change_every_network_and_lower_the_mel_loss(pack_dir: Path, tmp_path: Path) -> None:
    taught = learner(pack_dir)
    before = {n: p.detach().clone() for n, p in taught.model.named_parameters()}
    reports: list[dict[str, float]] = []
    Trainer(taught, Progress(), tmp_path / "log.jsonl", reports.append).fit(600, max_steps=12)
    still = {n.split(".")[0] for n, p in taught.model.named_parameters() if torch.equal(p, before[n])}
    moved = {n.split(".")[0] for n, p in taught.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved >= {"text_encoder", "durations", "flow", "decoder", "posterior", "speaker", "recordings"}, still
    assert reports[-1]["mel"] < reports[0]["mel"]
    assert reports[-1]["conversion"] > 0 and reports[-1]["discriminator"] > 0
    assert all(reports[-1][name] > 0 for name in ("prior_mel", "movement", "strangers"))
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 6


def test_a_recording_is_no_distance_from_itself_and_noise_is_far() -> None:
    torch.manual_seed(0)
    ear, recorded = Ear().eval(), torch.sin(torch.arange(16000)[None] * 0.05)
    theirs = ear.features(ear.mels(recorded))
    assert features_apart(theirs, theirs) == 0
    near, far = (ear.features(ear.mels(recorded + level * torch.randn(1, 16000))) for level in (0.01, 1.0))
    assert 0 < features_apart(near, theirs) < features_apart(far, theirs)


def test_a_voice_is_held_to_a_second_ear_which_stays_as_it_is(pack_dir: Path, tmp_path: Path) -> None:
    corpus = PackedCorpus([pack_dir], 256, torch.device("cpu"))
    torch.manual_seed(0)
    ear = Ear().eval().requires_grad_(False)
    before = {n: v.clone() for n, v in ear.state_dict().items()}
    taught = Learner(tiny_voice(ENCODER), SMALL, corpus, Ears(), ear=ear)
    assert taught.ear_vectors is not None and taught.ear_vectors.shape == (len(corpus.speakers), 192)
    reports: list[dict[str, float]] = []
    Trainer(taught, Progress(), tmp_path / "log.jsonl", reports.append).fit(600, max_steps=12)
    assert reports[0]["ear"] == 0 and reports[-1]["ear"] > 0
    assert all(report["ear_matching"] > 0 for report in reports)
    assert all(torch.equal(v, before[n]) for n, v in ear.state_dict().items())


def test_state_goes_round_without_a_change(pack_dir: Path, tmp_path: Path) -> None:
    taught, progress = learner(pack_dir), Progress()
    Trainer(taught, progress, tmp_path / "log.jsonl", lambda _: None).fit(600, max_steps=6)
    save_state(tmp_path / "run", taught, progress)
    fresh = learner(pack_dir)
    assert load_state(tmp_path / "run", fresh) == progress
    for mine, theirs in ((taught.parameters, fresh.parameters), (taught.average, fresh.average)):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    for mine, theirs in ((taught.voice_side, fresh.voice_side), (taught.judge_side, fresh.judge_side)):
        for a, b in zip(mine.optimiser.state.values(), theirs.optimiser.state.values(), strict=True):
            assert torch.equal(a["exp_avg"], b["exp_avg"]) and float(a["step"]) == float(b["step"])


def test_the_corpus_s_own_alignment_is_used_until_it_is_due(pack_dir: Path, tmp_path: Path) -> None:
    taught = learner(pack_dir, replace(SMALL, schedule=replace(SMALL.schedule, aligned_until=2)))
    batch = taught.corpus.batch(torch.tensor([0]), Shape(400, 80, 1))
    n_symbols, n_frames = int(batch.n_symbols), int(batch.n_frames)
    own = torch.zeros(1, 80, dtype=torch.int64)
    own[0, : n_symbols - 1], own[0, n_symbols - 1] = 1, n_frames - n_symbols + 1
    aligned = replace(batch, aligned=torch.ones(1, dtype=torch.bool), durations=own)
    z_p, m_p, logs_p = torch.randn(1, 16, 400), torch.randn(1, 16, 80), torch.zeros(1, 16, 80)
    trainer = Trainer(taught, Progress(), tmp_path / "log.jsonl", lambda _: None)
    trainer.fit(600, max_steps=1)
    assert torch.equal(taught._durations(aligned, z_p, m_p, logs_p), own)
    trainer.fit(600, max_steps=2)
    found = taught._durations(aligned, z_p, m_p, logs_p)
    assert not torch.equal(found, own) and int(found.sum()) == n_frames


def test_pieces_of_the_prior_are_those_of_the_whole_sentence(pack_dir: Path) -> None:
    taught = learner(pack_dir, replace(SMALL, prior_noise=0.0))
    for coupling in taught.model.flow.couplings:
        torch.nn.init.normal_(coupling.post.weight, std=0.1)
    batch = taught.corpus.batch(torch.tensor([0, 5]), Shape(400, 80, 2))
    means, g = torch.randn(2, 16, 400), torch.randn(2, 16)
    latents = Latents(torch.zeros(2, 400, dtype=torch.int64), means, means, means, torch.zeros_like(means))
    rows, start = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 0, int(batch.n_frames[1]) - 32, 40])
    whole = taught.model.flow(means * batch.z_mask, batch.z_mask, g, reverse=True)
    pieces = taught._of_prior(batch, latents, g, rows, start)
    assert not torch.allclose(whole, means * batch.z_mask, atol=0.1)
    for piece, row, first in zip(pieces, rows.tolist(), start.tolist(), strict=True):
        assert torch.allclose(piece, whole[row, :, first : first + 32], atol=1e-5)


def test_a_listener_learns_sounds_from_recordings_and_speech_learns_from_it(pack_dir: Path, tmp_path: Path) -> None:
    taught = learner(pack_dir)
    before = {n: p.detach().clone() for n, p in taught.judges.sounds.named_parameters()}
    reports: list[dict[str, float]] = []
    Trainer(taught, Progress(), tmp_path / "log.jsonl", reports.append).fit(600, max_steps=40)
    assert all(not torch.equal(p, before[n]) for n, p in taught.judges.sounds.named_parameters())
    assert reports[-1]["sounds_recorded"] < 0.8 * reports[4]["sounds_recorded"]
    spoken = torch.randn(2, 32 * 256, requires_grad=True)
    pieces = Pieces(spoken, spoken.detach(), torch.full((2, 32), 5), torch.tensor([0, 1]), 2)
    (toward,) = torch.autograd.grad(taught._misheard(pieces, None), spoken)
    assert toward.abs().sum() > 0 and all(p.requires_grad for p in taught.judges.parameters())


def test_weights_of_an_earlier_slice_have_no_listener_and_still_load(pack_dir: Path, tmp_path: Path) -> None:
    taught, fresh = learner(pack_dir), learner(pack_dir, replace(SMALL, seed=2))
    bundle.save(tmp_path / "voice", taught.voice, taught.model.state_dict(), "# a card", half=False)
    save_unspoken(tmp_path / "unspoken.safetensors", taught)
    own = {n: v.clone() for n, v in fresh.judges.sounds.state_dict().items()}
    load_weights(tmp_path / "voice", tmp_path / "unspoken.safetensors", fresh)
    assert all(torch.equal(v, own[n]) for n, v in fresh.judges.sounds.state_dict().items())
    periods = zip(fresh.judges.periods.parameters(), taught.judges.periods.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in periods)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(pack_dir: Path, tmp_path: Path) -> None:
    steady = replace(SMALL, schedule=replace(SMALL.schedule, flat_share=0.99))
    unbroken, stopped, resumed = (learner(pack_dir, steady) for _ in range(3))
    Trainer(unbroken, Progress(), tmp_path / "log.jsonl", lambda _: None).fit(600, max_steps=8)
    progress = Progress()
    Trainer(stopped, progress, tmp_path / "log.jsonl", lambda _: None).fit(600, max_steps=5)
    save_state(tmp_path / "run", stopped, progress)
    progress = load_state(tmp_path / "run", resumed)
    Trainer(resumed, progress, tmp_path / "log.jsonl", lambda _: None).fit(600, max_steps=3)
    assert progress.step == 8
    for mine, theirs in ((unbroken.parameters, resumed.parameters), (unbroken.average, resumed.average)):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    judges = zip(unbroken.judge_side.parameters, resumed.judge_side.parameters, strict=True)
    assert all(torch.equal(a, b) for a, b in judges)


def test_a_corpus_of_utterances_that_fit_no_shape_is_refused(pack_dir: Path) -> None:
    with pytest.raises(CorpusError, match="none of 27 utterances fits 60 frames and 4 symbols"):
        Sampler(PackedCorpus([pack_dir], 256, torch.device("cpu")), (Shape(60, 4, 2),), 1, 0, Mix())


def test_a_slice_exports_a_voice_that_a_second_slice_goes_on_with(pack_dir: Path, tmp_path: Path) -> None:
    settings = json.dumps({"shapes": [[400, 80, 2]], "n_segments": 4, "report_every": 2})
    plan = Slice((pack_dir,), tmp_path, "tiny", 2.0, 10.0, None, None, 0.0, settings, ("Hello there.",))
    for _ in range(2):
        train_slice(plan, Ears(), ENCODER, torch.device("cpu"), 0, 1)
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(steps) and len(set(steps)) >= 2
    assert bundle.load_model(tmp_path / "bundle", torch.device("cpu")).config.encoder_id == ENCODER
    progress = json.loads((tmp_path / "progress.json").read_text())
    assert progress["elapsed_s"] > 2
    assert _curves(tmp_path / "board") >= {"train/mel", "train/kl", "train/steps_per_s"}


def _curves(folder: Path) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return set(events.Tags()["scalars"])


def test_a_loss_that_is_not_a_number_stops_training_and_keeps_the_saved_state(pack_dir: Path, tmp_path: Path) -> None:
    taught, progress = learner(pack_dir), Progress()
    save_state(tmp_path, taught, progress)
    saved = (tmp_path / "state.safetensors").read_bytes()
    with torch.no_grad():
        taught.parameters[0].fill_(float("nan"))
    with pytest.raises(TrainingStopped) as caught:
        Trainer(taught, progress, tmp_path / "log.jsonl", lambda _: None).fit(600, max_steps=4)
    assert caught.value.code == "not_finite"
    assert (tmp_path / "state.safetensors").read_bytes() == saved


def test_a_step_whose_gradients_are_no_numbers_is_left_out(pack_dir: Path, tmp_path: Path) -> None:
    taught = learner(pack_dir, replace(SMALL, report_every=20))
    sampler = Trainer(taught, Progress(), tmp_path / "log.jsonl", lambda _: None).sampler
    drawn = [set(sampler.draw(step).companions.tolist()) for step in range(20)]
    rare = next(row for row in range(len(taught.corpus)) if sum(row in rows for rows in drawn) == 1)
    taught.corpus.vectors[rare] = float("nan")
    reports: list[dict[str, float]] = []
    Trainer(taught, Progress(), tmp_path / "log.jsonl", reports.append).fit(600, max_steps=20)
    assert reports[0]["skipped"] == 1
    assert all(bool(x.isfinite().all()) for x in (*taught.parameters, *taught.average))
    assert {int(state["step"]) for state in taught.voice_side.optimiser.state.values()} == {19}
    assert all(np.isfinite(value) for value in reports[0].values())


def test_rates_warm_up_stay_and_fall_to_their_floor() -> None:
    schedule = Schedule(total_s=100, flat_share=0.4, floor=0.05, warmup_steps=10)
    assert rate_factor(schedule, 0, 0.0) == pytest.approx(0.1)
    assert rate_factor(schedule, 20, 40.0) == 1.0
    assert rate_factor(schedule, 20, 70.0) == pytest.approx(0.5)
    assert rate_factor(schedule, 20, 500.0) == pytest.approx(0.05)


def test_held_out_speakers_are_out_with_their_warps(corpus_dir: Path) -> None:
    utterances = with_warps(read_manifest(corpus_dir / "metadata.csv").utterances, 0.9, 1.1)
    learn, kept = hold_out(utterances, frozenset({"speaker"}))
    assert learn == [] and len(kept) == 9 and all(u.warp == 1.0 for u in kept)


def test_levels_are_made_equal_and_warps_change_the_length(corpus_dir: Path) -> None:
    encoded = (corpus_dir / "wavs" / "c8.wav").read_bytes()
    plain, faster = (load_samples(encoded, warp, RATE) for warp in (1.0, 1.25))
    assert len(faster) == pytest.approx(len(plain) / 1.25, abs=2)
    assert active_level_dbfs(plain, RATE) == pytest.approx(-24, abs=0.5)


BAD_LINES = (
    ("c1;semicolons are no separator", "expected `clip|text`"),
    ("c1|a pipe | inside | the text", "expected `clip|text`"),
    ("c1|", "the text is empty"),
    ("C2|another case", "wavs has c2.wav"),
    ("c2.wav.wav|one ending too many", "there is no"),
    ("missing|no such clip", "missing.wav"),
    ("", "expected `clip|text`"),
)


def test_every_bad_line_is_named_with_its_reason_and_the_others_are_used(corpus_dir: Path) -> None:
    path = corpus_dir / "broken.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(["c0|fine", *(line for line, _ in BAD_LINES), "c3|fine|fine"]).encode()
    )
    manifest = read_manifest(path)
    assert [Path(u.file).name for u in manifest.utterances] == ["c0.wav", "c3.wav"]
    assert [u.text for u in manifest.utterances] == ["fine", "fine"]
    for number, ((_, words), reason) in enumerate(zip(BAD_LINES, manifest.refused, strict=True), 2):
        assert f"line {number}: " in reason and words in reason


def test_a_manifest_without_one_good_line_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    path = tmp_path / "metadata.csv"
    path.write_text("c1,commas\nc2,commas\n")
    with pytest.raises(CorpusError, match="line 1: expected") as caught:
        read_manifest(path)
    assert caught.value.code == "nothing_to_learn"
    tabs = tmp_path / "manifest.tsv"
    tabs.write_text("split\tshard\tpath\ntrain\tx.tar\ta.flac\n")
    with pytest.raises(CorpusError, match="line 2: there is no column 'sample_rate'"):
        read_manifest(tabs)


def test_a_text_without_its_clip_is_named(corpus_dir: Path, tmp_path: Path) -> None:
    for folder in ("txt/ada", "wav48/ada"):
        (tmp_path / folder).mkdir(parents=True)
    for clip in ("one", "two", "one_more"):
        (tmp_path / f"txt/ada/{clip}.txt").write_text("words")
    (tmp_path / "wav48/ada/one.wav").write_bytes((corpus_dir / "wavs" / "c0.wav").read_bytes())
    manifest = read_manifest(tmp_path)
    assert [(u.speaker, Path(u.file).name) for u in manifest.utterances] == [("ada", "one.wav")]
    assert len(manifest.refused) == 2 and all("belongs to it" in reason for reason in manifest.refused)


def test_clips_that_cannot_be_used_are_refused_with_reasons(corpus_dir: Path, tmp_path: Path) -> None:
    utterances = read_manifest(corpus_dir / "metadata.csv").utterances[:2]
    silent, text = tmp_path / "silent.wav", tmp_path / "text.wav"
    soundfile.write(silent, np.zeros(RATE * 2), RATE)
    text.write_text("not audio")
    broken = [replace(utterances[0], file=str(p)) for p in (silent, text)]
    summary = prepare([*utterances, *broken], tmp_path / "pack", tiny_voice(ENCODER), embed, 1, lambda *_: None)
    assert summary.n_utterances == 2
    assert any("silent" in r for r in summary.refused) and any("text.wav" in r for r in summary.refused)
    with pytest.raises(CorpusError) as caught:
        prepare(broken, tmp_path / "empty", tiny_voice(ENCODER), embed, 1, lambda *_: None)
    assert caught.value.code == "nothing_to_learn"


def test_a_pack_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError) as caught:
        PackedCorpus([tmp_path], 256, torch.device("cpu"))
    assert caught.value.code == "pack_missing"
    (tmp_path / "pack.json").write_text('{"version": 999}')
    with pytest.raises(PackError) as caught:
        PackedCorpus([tmp_path], 256, torch.device("cpu"))
    assert caught.value.code == "pack_version"


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(TrainingStopped, match="learning_rat"):
        train_config('{"schedule": {"learning_rat": 1}}', 10)
