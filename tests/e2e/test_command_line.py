"""The command line, without a server and against one: the same verbs, the same results."""

import json
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path

import pytest
from preloaded import run
from servers import ADMIN_KEY, DATA, RunningServer, command, environment_of, migrate

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["here", "by a server"])
def voicekin(request: pytest.FixtureRequest, tmp_path: Path, voice_dir: Path, server: RunningServer) -> Command:
    if request.param == "here":
        environment = environment_of(tmp_path / "state", voice_dir)
        migrate(environment)
        extra: tuple[str, ...] = ()
    else:
        environment = environment_of(tmp_path / "unused", voice_dir, CLIENT_KEY=ADMIN_KEY)
        extra = ("--server", server.url)
    return lambda *arguments: run(environment, *arguments, *extra)


def test_the_main_job(voicekin: Command, tmp_path: Path) -> None:
    clips = [str(DATA / "man.flac"), str(DATA / "man-again.flac")]
    enrolled = voicekin("enrol", "Commander", *clips, "--label", "rank=first", "--json")
    assert enrolled.returncode == 0, enrolled.stderr
    speaker = json.loads(enrolled.stdout)
    assert (speaker["n_clips"], speaker["labels"]) == (2, {"rank": "first"})

    out = tmp_path / "out.wav"
    spoken = voicekin("speak", "commander", "Hello there.", "-o", str(out), "--seed", "3", "--verify", "--json")
    assert spoken.returncode == 0, spoken.stderr
    facts = json.loads(spoken.stdout)
    with wave.open(str(out)) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(float(facts["audio-seconds"]), abs=0.001)
    assert facts["seed"] == "3"
    assert float(facts["cosine"]) <= 1

    again = ("-o", str(tmp_path / "b.wav"), "--seed", "3", "--subtitles", str(tmp_path / "b.srt"))
    by_id = voicekin("speak", speaker["speaker_id"], "Hello there.", *again)
    assert by_id.returncode == 0, by_id.stderr
    assert (tmp_path / "b.srt").read_text().splitlines()[2] == "Hello there."
    assert (tmp_path / "b.wav").read_bytes() == out.read_bytes()

    listed = json.loads(voicekin("speakers", "--json").stdout)["speakers"]
    assert speaker["speaker_id"] in [item["speaker_id"] for item in listed]
    assert voicekin("similar", "Commander", "--json").returncode == 0
    assert speaker["speaker_id"] in voicekin("speakers").stdout
    pruned = json.loads(voicekin("prune", "--older-than-days", "0", "--dry-run", "--json").stdout)
    assert speaker["speaker_id"] in [item["speaker_id"] for item in pruned["victims"]]


def test_errors_are_one_line_with_a_code(voicekin: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "x.wav")
    for arguments, code in [
        (("speak", "nobody", "Hello.", "-o", out), "[speaker_not_found]"),
        (("enrol", "Nobody", str(Path(__file__))), "[unsupported_format]"),
        (("enrol", "Nobody", str(tmp_path / "missing.wav")), "missing.wav cannot be read"),
        (("speak", "nobody", "Hello.", "-o", str(tmp_path / "x.wma")), "[format_unknown]"),
        (("speak", "nobody", "Hello.", "-o", out, "--subtitles", str(tmp_path / "x.sub")), "[bad_field]"),
        (("prune",), "[missing_field]"),
    ]:
        done = voicekin(*arguments)
        assert done.returncode == 1, done
        assert code in done.stderr
        assert "Traceback" not in done.stderr
    assert not Path(out).exists()


def test_a_database_that_is_not_there_says_what_to_do(tmp_path: Path, voice_dir: Path) -> None:
    done = run(environment_of(tmp_path / "state", voice_dir), "speakers")
    assert done.returncode == 1
    assert "voicekin doctor --migrate" in done.stderr


def test_doctor_finds_a_server_ready(server: RunningServer, tmp_path: Path, voice_dir: Path) -> None:
    done = run(environment_of(tmp_path, voice_dir), "doctor", "--server", server.url, "--json")
    assert done.returncode == 0
    assert "ready" in json.loads(done.stdout)["findings"][0]["found"]


def test_a_server_that_is_not_there_is_said(tmp_path: Path, voice_dir: Path) -> None:
    environment = environment_of(tmp_path / "state", voice_dir)
    for arguments in (("speakers",), ("doctor", "--json")):
        done = run(environment, *arguments, "--server", "http://127.0.0.1:9")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr


def test_help_loads_nothing_heavy_and_tells_a_newcomer_where_to_start(tmp_path: Path, voice_dir: Path) -> None:
    environment = environment_of(tmp_path / "state", voice_dir) | {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command("--help"), env=environment, capture_output=True, text=True, check=False, timeout=120)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "typer" in loaded
    assert not loaded & {"torch", "faiss", "sqlalchemy", "fastapi", "numpy", "onnxruntime"}
    for word in ("doctor --migrate", "enrol", "speak", "speakers", "voices", "similar", "prune", "serve", "settings"):
        assert word in done.stdout


def test_settings_are_shown_with_their_secrets_hidden(tmp_path: Path, voice_dir: Path) -> None:
    environment = environment_of(tmp_path / "state", voice_dir, ADMIN_KEY="hush-hush")
    for arguments in (("settings",), ("settings", "--json")):
        done = run(environment, *arguments)
        assert "VOICEKIN_ADMIN_KEY" in done.stdout
        assert "hush" not in done.stdout + done.stderr
