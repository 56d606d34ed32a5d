"""Machines as they are: a full disk, a foreign user, no network, no voice yet, no database yet, a broken voice."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from asking import problem, speak, upload
from encoder_media import recording, wav
from preloaded import run
from servers import ADMIN_KEY, DATA, RunningServer, command, enrol, environment_of, migrate, start, with_key

from tests.unit.deploy import image_files

Starter = Callable[..., RunningServer]
CLIP = wav(recording("woman")[: 3 * 16_000])
FOREIGN_UID = 12345
# May read everything, as in an image whose files belong to another, and write nothing.
FOREIGN = [
    *("setpriv", f"--reuid={FOREIGN_UID}", f"--regid={FOREIGN_UID}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]


def _works(*words: str) -> bool:
    return shutil.which(words[0]) is not None and not subprocess.run([*words, "true"], check=False).returncode


def _own_namespace(script: str) -> list[str]:
    """Words that run a command where the script has changed the mounts, for itself alone."""
    return ["unshare", "-rm", "sh", "-c", f'{script} && exec "$@"', "sh"]


def _ended(process: RunningServer) -> None:
    process.process.kill()
    process.process.wait(timeout=30)


def test_a_full_disk_is_said_keeps_speaking_and_recovers(tmp_path: Path, voice_dir: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    small = _own_namespace(f"mount -t tmpfs -o size=3m none {disk}")
    if not _works(*small):
        pytest.skip("this machine allows no mount namespaces, so no small disk can be made")
    environment = environment_of(disk / "state", voice_dir) | {"TMPDIR": str(disk)}
    server = start(environment, tmp_path / "log", within=small)
    inside = Path(f"/proc/{server.process.pid}/root{disk}")
    migration = ["nsenter", f"--user=/proc/{server.process.pid}/ns/user", f"--mount=/proc/{server.process.pid}/ns/mnt"]
    try:
        migrated = subprocess.run(
            [*migration, "--preserve-credentials", *command("doctor", "--migrate", "--json")],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        # It also warns of so small a disk, and so ends with 1.
        found = {item["what"]: item for item in json.loads(migrated.stdout)["findings"]}
        assert found["database"]["ok"] and found["state folder"]["remedy"] == "make room on this disk"
        server.wait_ready()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            before = upload(client, CLIP, name="Before").json()["speaker_id"]
            with (inside / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
                while True:
                    filler.write(bytes(4096))
            for name in ("Full", "Fuller"):
                problem(upload(client, CLIP, name=name), 507, "storage_full")
            assert [item["name"] for item in client.get("/v1/speakers").json()["speakers"]] == ["Before"]
            assert speak(client, speaker_id=before, text="Still here.").status_code == 200
            assert sorted(path.name for path in inside.iterdir()) == ["filler", "state"]
            (inside / "filler").unlink()
            assert upload(client, CLIP, name="Full").status_code == 201
    finally:
        _ended(server)


@pytest.fixture
def foreign(tmp_path: Path, voice_dir: Path) -> Iterator[Callable[..., RunningServer]]:
    """Servers of a user who owns nothing but the state folder, with no home."""
    if os.geteuid() != 0 or not _works(*FOREIGN):
        pytest.skip("only root can run a server as another user here")
    started: list[RunningServer] = []
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)

    def begin(*arguments: str, ready: bool = True) -> RunningServer:
        environment = environment_of(tmp_path / "state", voice_dir)
        environment |= {"HOME": "/nonexistent", "TMPDIR": str(tmp_path / "temporary")}
        started.append(start(environment, tmp_path / f"log-{len(started)}", *arguments, within=FOREIGN))
        if ready:
            started[-1].wait_ready()
        return started[-1]

    (tmp_path / "temporary").mkdir()
    migrate(environment_of(tmp_path / "state", voice_dir))
    yield begin
    for server in started:
        _ended(server)


def _give(folder: Path, uid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)


def test_a_user_who_owns_only_the_data_can_enrol_and_speak(
    foreign: Callable[..., RunningServer], tmp_path: Path
) -> None:
    _give(tmp_path / "state", FOREIGN_UID)
    server = foreign()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        speaker_id = enrol(client, "Guest")
        assert speak(client, speaker_id=speaker_id, text="Xqzt, gryzzk.").status_code == 200
    assert {path.owner() if path.stat().st_uid == 0 else "" for path in (tmp_path / "state").rglob("*")} == {""}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_folder_of_another_user_is_named_with_the_user_and_taken_once_it_is_given(
    foreign: Callable[..., RunningServer], tmp_path: Path
) -> None:
    """The voice's own folder belongs to root all the time: to read it is enough."""
    server = foreign(ready=False)
    words = _not_ready(server, "settings_invalid")
    assert f"cannot be written by user {FOREIGN_UID}" in words and "VOICEKIN_STATE_DIR" in words
    assert str(tmp_path) not in words and str(tmp_path / "state") in server.log.read_text()
    _give(tmp_path / "state", FOREIGN_UID)
    server.wait_ready()


def test_the_image_finds_all_it_needs_where_only_state_and_temporary_files_can_be_written(
    tmp_path: Path, voice_dir: Path
) -> None:
    """The variables and the health check of deploy/Dockerfile, on this machine with its root mounted read-only."""
    image = image_files.environment("Dockerfile")
    places = {image["VOICEKIN_STATE_DIR"]: tmp_path / "state", "/tmp": tmp_path / "temporary"}
    for place in places.values():
        place.mkdir()
    bound = " && ".join(f"mount --bind {place} {place}" for place in places.values())
    locked = _own_namespace(f"{bound} && mount -o remount,bind,ro / && ! touch {tmp_path}/probe 2>/dev/null")
    if not _works(*locked):
        pytest.skip("this machine allows no mount namespaces, so its root cannot be made read-only")
    moved = {name: _moved(value, places) for name, value in image.items()}
    ours = environment_of(tmp_path / "state", voice_dir, ADMIN_KEY=ADMIN_KEY)
    server_environment = ours | moved | {"VOICEKIN_HOST": "127.0.0.1", "TMPDIR": moved["HOME"]}
    migrate(server_environment)
    server = start(server_environment, tmp_path / "log", within=locked)
    try:
        server.wait_ready()
        with with_key(server, ADMIN_KEY) as client:
            speaker_id = enrol(client, "Sealed")
            assert speak(client, speaker_id=speaker_id, text="Xqzt, gryzzk.").status_code == 200
        assert _is_healthy(server)
    finally:
        _ended(server)
    assert {path.name for path in (tmp_path / "temporary").iterdir()} <= {"cache"}
    assert not _is_healthy(server)


def _moved(value: str, places: dict[str, Path]) -> str:
    """A path of the image where the test keeps it."""
    for folder, place in places.items():
        if value.startswith(folder):
            return f"{place}{value.removeprefix(folder)}"
    return value


def _is_healthy(server: RunningServer) -> bool:
    program, *words = image_files.health_check("Dockerfile")
    assert program == "python"
    environment = {**os.environ, "VOICEKIN_PORT": server.url.rsplit(":", 1)[1]}
    return not subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=False).returncode


def test_nothing_needs_a_network(tmp_path: Path, voice_dir: Path) -> None:
    alone = ["unshare", "-rn"]
    if not _works(*alone):
        pytest.skip("this machine allows no network namespaces, so no network can be taken away")
    home = tmp_path / "home"
    home.mkdir()
    environment = environment_of(tmp_path / "state", voice_dir) | {"HOME": str(home)}
    migrate(environment)

    def voicekin(*arguments: str) -> str:
        done = subprocess.run(
            [*alone, *command(*arguments)], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    voicekin("enrol", "Hermit", str(DATA / "woman.flac"))
    out = tmp_path / "out.wav"
    voicekin("speak", "Hermit", "Xqzt, nobody is here.", "-o", str(out))
    assert out.read_bytes()[:4] == b"RIFF"
    assert list(home.rglob("*")) == []


def _not_ready(server: RunningServer, *codes: str) -> str:
    until = time.monotonic() + 30
    while (response := httpx.get(f"{server.url}/health/ready")).json().get("reason") not in codes:
        assert time.monotonic() < until, response.text
        time.sleep(0.05)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
    assert httpx.get(f"{server.url}/health/live").status_code == 200
    refused = httpx.post(f"{server.url}/v1/speech", json={"speaker_id": "x", "text": "Hello."})
    assert (refused.status_code, refused.headers["Content-Type"]) == (503, "application/problem+json")
    return str(response.json()["detail"])


@pytest.fixture
def patient(tmp_path: Path, voice_dir: Path) -> Iterator[RunningServer]:
    """A server whose voice is not there yet."""
    environment = environment_of(tmp_path / "state", tmp_path / "voice")
    migrate(environment)
    running = start(environment, tmp_path / "log")
    yield running
    _ended(running)


def _nan_weights(folder: Path) -> None:
    """The same voice with a weight of the decoder that is not a number, and a truthful checksum."""
    import torch

    from cloning.bundle import load_info, read_weights, save

    weights = read_weights(folder)
    name = max(name for name in weights if name.startswith("decoder"))
    weights[name] = torch.full_like(weights[name], float("nan"))
    save(folder, load_info(folder).voice, weights, "# broken\n")


def test_a_voice_may_come_late_or_broken_and_its_folder_is_never_shown(patient: RunningServer, voice_dir: Path) -> None:
    folder = Path(patient.environment["VOICEKIN_VOICE_DIR"])
    assert "VOICEKIN_VOICE_DIR" in (words := _not_ready(patient, "bundle_missing", "bundle_corrupt"))
    assert str(folder) not in words and str(folder) in patient.log.read_text()
    shutil.copytree(voice_dir, folder)
    weights = next(folder.glob("*.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1000])
    _not_ready(patient, "bundle_corrupt")
    weights.write_bytes(whole)
    patient.wait_ready()


def test_a_voice_that_gives_no_numbers_is_never_ready(patient: RunningServer, voice_dir: Path) -> None:
    folder = Path(patient.environment["VOICEKIN_VOICE_DIR"])
    draft = folder.with_name("draft")
    shutil.copytree(voice_dir, draft)
    _nan_weights(draft)
    draft.rename(folder)
    assert "not numbers" in _not_ready(patient, "synthesis_failed")


def test_a_database_may_come_late(other_server: Starter) -> None:
    server = other_server(ready=False, DATABASE_URL="postgresql+psycopg://nobody:secret-word@127.0.0.1:9/none")
    words = _not_ready(server, "store_unavailable")
    assert "secret-word" not in words + server.log.read_text()


def test_every_bad_setting_is_named_with_what_is_allowed(tmp_path: Path, voice_dir: Path) -> None:
    for name, value, allowed in (
        ("PORT", "99999", "65535"),
        ("MAX_REQUESTS", "0", "1"),
        ("REQUEST_TIMEOUT_S", "-1", "0"),
        ("DEVICE", "tpu", "cuda"),
        ("LOG_LEVEL", "loud", "'debug'"),
        ("RATE_STORAGE", "disk", "redis://"),
    ):
        environment = environment_of(tmp_path, voice_dir, **{name: value})
        done = run(environment, "settings")
        assert done.returncode == 1
        assert f"VOICEKIN_{name}" in done.stderr and allowed in done.stderr, done.stderr


def test_doctor_names_the_folder_and_the_user_that_may_not_write(
    foreign: Callable[..., RunningServer], tmp_path: Path, voice_dir: Path
) -> None:
    environment = environment_of(tmp_path / "locked" / "state", voice_dir) | {"HOME": "/nonexistent"}
    (tmp_path / "locked").mkdir(mode=0o755)
    done = subprocess.run(
        [*FOREIGN, *command("doctor", "--migrate", "--json")], env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    found = json.dumps(json.loads(done.stdout))
    assert str(tmp_path / "locked") in found and str(FOREIGN_UID) in found
