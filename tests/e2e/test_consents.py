"""Consents through a real server: no door creates or speaks a speaker without one, and a revoked one ends at once."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking import problem, speak
from conversing import closed_with, talking
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from fastapi.routing import APIWebSocketRoute
from openai import APIStatusError, OpenAI
from servers import ADMIN_KEY, DATA, RunningServer, environment_of, make_key, migrate, start, with_key
from test_api_keys import code_of
from typer.testing import CliRunner

from api.cli import app
from api.errors import ApiError as OurError
from api.routes import conversations
from store.errors import ConsentRefused
from store.service import Store
from store.types import StoreConfig

MAN, AGAIN, WOMAN = ((DATA / name).read_bytes() for name in ("man.flac", "man-again.flac", "woman.flac"))
TEXT = "Hello there."
LACKING = {"consent_missing", "consent_revoked"}
# What creates a speaker, or adds to its voice: the path, and the field of its clips.
CREATING = {
    "/v1/speakers": "clips",
    "/v1/speakers/{speaker_id}/clips": "clips",
    "/v1/voices/add": "files",
    "/v1/voices/{voice_id}/edit": "files",
    "/v1/audio/voices": "audio_sample",
}
# What makes sound, or has sound made.
SPEAKING = {
    "/v1/speech",
    "/v1/audio/speech",
    "/v1/jobs",
    "/v1/text-to-speech/{voice_id}",
    "/v1/text-to-speech/{voice_id}/stream",
    "/v1/text-to-speech/{voice_id}/with-timestamps",
    "/v1/text-to-speech/{voice_id}/stream/with-timestamps",
}
# What does neither: it reads, removes, changes words, or looks after consents, keys and jobs.
HARMLESS = {
    "/v1/speakers/search", "/v1/speakers/{speaker_id}/verify", "/v1/similar-voices", "/v1/jobs/{job_id}/cancel",
    "/v1/speakers/{speaker_id}/undelete", "/v1/voices/{voice_id}/settings/edit", "/v1/consents",
    "/v1/consents/{consent_id}/revoke", "/v1/audio/voice_consents", "/v1/audio/voice_consents/{consent_id}",
    "/v1/admin/prune", "/v1/admin/purge", "/v1/admin/keys", "/v1/admin/protected",
}  # fmt: skip


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("consents") / "state"


@pytest.fixture(scope="module")
def strict(state_dir: Path, voice_dir: Path) -> Iterator[RunningServer]:
    """A server that wants a recorded consent, with an unconsented speaker of before in its store."""
    plain = environment_of(state_dir, voice_dir, ADMIN_KEY=ADMIN_KEY, REQUIRE_KEYS="true", LOG_LEVEL="debug")
    migrate(plain)
    enrolled = CliRunner().invoke(app, ["enrol", "Before", str(DATA / "man.flac"), "--json"], env=plain)
    assert enrolled.exit_code == 0, enrolled.output
    running = start({**plain, "VOICEKIN_CONSENT": "recording"}, state_dir.parent / "log")
    running.wait_ready(within_s=180)
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="module")
def chief(strict: RunningServer) -> Iterator[httpx.Client]:
    with with_key(strict, ADMIN_KEY) as opened:
        yield opened


@pytest.fixture(scope="module")
def before(chief: httpx.Client) -> str:
    return str(chief.get("/v1/speakers").json()["speakers"][0]["speaker_id"])


def add_consent(client: httpx.Client, recording: bytes | None = MAN, **fields: str) -> dict[str, Any]:
    parts: list[Any] = [(name, (None, value)) for name, value in {"person": "Ada Lovelace", **fields}.items()]
    parts += [] if recording is None else [("recording", ("a.flac", recording))]
    response = client.post("/v1/consents", files=parts)
    assert response.status_code == 201, response.text
    document: dict[str, Any] = response.json()
    return document


def enrol_under(client: httpx.Client, name: str, consent_id: str | None, *clips: bytes) -> httpx.Response:
    data = {"name": name} | ({} if consent_id is None else {"consent_id": consent_id})
    return client.post("/v1/speakers", data=data, files=[("clips", ("a.flac", clip)) for clip in clips or (AGAIN,)])


def request_of(path: str, speaker_id: str) -> dict[str, Any]:
    """What a request to this path needs, so that nothing but the consent can be refused."""
    if path in CREATING:
        data = {} if path.endswith("/clips") else {"name": f"By {path}"}
        return {"data": data, "files": {CREATING[path]: ("a.flac", AGAIN)}}
    if path == "/v1/audio/speech":
        return {"json": {"model": "tts-1", "voice": speaker_id, "input": TEXT}}
    return {"json": {"text": TEXT} | ({} if "{" in path else {"speaker_id": speaker_id})}


@pytest.mark.parametrize("is_revoked", [False, True])
def test_no_door_creates_or_speaks_a_speaker_without_a_valid_consent(
    strict: RunningServer, chief: httpx.Client, before: str, is_revoked: bool
) -> None:
    paths = httpx.get(f"{strict.url}/openapi.json").json()["paths"]
    posts = {path for path, operations in paths.items() if "post" in operations or "put" in operations}
    assert posts == CREATING.keys() | SPEAKING | HARMLESS, "say in this test what a new route does"
    speaker_id = before
    if is_revoked:
        consent = add_consent(chief)
        made = enrol_under(chief, "Revoked", consent["consent_id"])
        assert made.status_code == 201, made.text
        speaker_id = made.json()["speaker_id"]
        assert chief.post(f"/v1/consents/{consent['consent_id']}/revoke").json()["state"] == "revoked"
    names = {speaker["name"] for speaker in chief.get("/v1/speakers").json()["speakers"]}
    for path in sorted(CREATING.keys() | SPEAKING):
        asked = path.format(speaker_id=speaker_id, voice_id=speaker_id)
        for streamed in ({}, {"stream": True}) if path == "/v1/speech" else ({},):
            content = request_of(path, speaker_id)
            if "json" in content:
                content["json"] |= streamed
            response = chief.post(asked, **content)
            assert (response.status_code, code_of(response) in LACKING) == (403, True), (path, response.text)
    found = chief.get("/v1/speakers").json()["speakers"]
    assert {speaker["name"] for speaker in found} == names, "and nobody came meanwhile"
    assert all(speaker["uses"] == 0 for speaker in found)
    assert chief.get("/v1/jobs").json()["total"] == 0


def test_no_conversation_speaks_without_a_valid_consent(
    strict: RunningServer, chief: httpx.Client, before: str
) -> None:
    sockets = {route.path for route in conversations.router.routes if isinstance(route, APIWebSocketRoute)}
    assert sockets == {"/v1/conversation", "/v1/text-to-speech/{voice_id}/stream-input"}, "say here what a new one does"
    with talking(strict, key=ADMIN_KEY) as talk:
        talk.begin(before)
        talk.send("text", text=TEXT)
        talk.send("flush")
        talk.error("consent_missing")
        assert talk.audio == b""
    with talking(strict, f"/v1/text-to-speech/{before}/stream-input", key=ADMIN_KEY) as talk:
        for text in (" ", TEXT, ""):
            talk.socket.send(json.dumps({"text": text}))
        told = json.loads(talk.socket.recv(timeout=60))
        assert told["error"] == "consent_missing" and "audio" not in told
        assert closed_with(talk)[0] == 1008
    consent = add_consent(chief)
    speaker_id = enrol_under(chief, "Talker", consent["consent_id"]).json()["speaker_id"]
    with talking(strict, key=ADMIN_KEY) as talk:
        talk.begin(speaker_id)
        talk.say(TEXT)
        assert len(talk.audio) > 1000
        assert chief.post(f"/v1/consents/{consent['consent_id']}/revoke").status_code == 200
        talk.audio = b""
        talk.send("text", text=TEXT)
        talk.send("flush")
        talk.error("consent_revoked")
        assert talk.audio == b"", "a conversation that is under way falls silent too"


def test_no_voice_element_speaks_without_a_valid_consent(chief: httpx.Client, before: str) -> None:
    own = enrol_under(chief, "Storyteller", add_consent(chief)["consent_id"]).json()["speaker_id"]
    text = f"{TEXT} <voice name='{before}'>{TEXT}</voice>"
    for path in ("/v1/speech", "/v1/jobs"):
        refused = chief.post(path, json={"speaker_id": own, "text": text})
        assert (refused.status_code, refused.json()["code"]) == (403, "consent_missing"), refused.text
    assert chief.get(f"/v1/speakers/{before}").json()["uses"] == 0


def test_the_command_line_and_the_store_itself_refuse_as_well(
    strict: RunningServer, state_dir: Path, before: str, tmp_path: Path
) -> None:
    def refusal(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments), env=strict.environment)
        assert isinstance(done.exception, OurError | ConsentRefused), (arguments, done.output, done.exception)
        return str(done.exception.code)

    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    assert refusal("enrol", "By the command line", str(DATA / "man.flac")) == "consent_missing"
    assert refusal("speak", before, TEXT, "-o", str(tmp_path / "out.wav")) == "consent_missing"
    assert not (tmp_path / "out.wav").exists()
    assert refusal("jobs", "submit", str(text), "--speaker", before) == "consent_missing"
    with Store.open(StoreConfig(f"sqlite:///{state_dir / 'voicekin.db'}", state_dir)) as store:
        assert store.list(name_contains="By the command line").total == 0
        store.export(tmp_path / "speakers.zip")
    elsewhere = strict.environment | {"VOICEKIN_STATE_DIR": str(tmp_path / "elsewhere")}
    migrate(elsewhere)
    done = CliRunner().invoke(app, ["import", str(tmp_path / "speakers.zip"), "--json"], env=elsewhere)
    document = json.loads(done.stdout)
    assert document["imported"] == 0 and {each["reason"] for each in document["refused"]} == {"consent_missing"}


def test_a_consent_is_used_shown_exported_and_erased_with_its_speaker(
    strict: RunningServer, chief: httpx.Client
) -> None:
    granted = "2026-01-02T03:04:00+00:00"
    consent = add_consent(chief, granted_at=granted, statement="I agree, says Ada.")
    assert consent["state"] == "unused" and consent["checks"] == {"voice": None, "words": None}
    made = enrol_under(chief, "Ada", consent["consent_id"])
    assert made.status_code == 201, made.text
    speaker_id = made.json()["speaker_id"]
    reply = speak(chief, speaker_id=speaker_id, text=TEXT)
    assert reply.status_code == 200 and len(reply.content) > 1000
    path = f"/v1/consents/{consent['consent_id']}"
    shown = chief.get(path).json()
    assert (shown["state"], shown["speaker_id"], shown["person"]) == ("in_use", speaker_id, "Ada Lovelace")
    assert shown["checks"]["voice"]["cosine"] > shown["checks"]["voice"]["threshold"]
    assert shown["checks"]["words"] is None, "nobody listened to the words, and nobody says so"
    export = chief.get(f"{path}/export").json()
    assert base64.b64decode(export["recording"]) == MAN
    assert datetime.fromisoformat(export["granted_at"]) == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert [line["action"] for line in export["audit"]] == ["consent_add", "consent_use", "consent_export"]
    problem(chief.delete(path), 409, "consent_used")
    assert chief.delete(f"/v1/speakers/{speaker_id}").status_code == 204
    for gone in (path, f"{path}/export"):
        problem(chief.get(gone), 404, "consent_not_found")
    problem(enrol_under(chief, "Ada again", consent["consent_id"]), 404, "consent_not_found")
    for text in (chief.get("/v1/admin/audit").text, strict.log.read_text(), chief.get("/metrics").text):
        assert "Lovelace" not in text and "says Ada" not in text


def test_another_persons_recording_or_none_is_no_consent(chief: httpx.Client) -> None:
    theirs, unrecorded = add_consent(chief, WOMAN), add_consent(chief, None)
    told = problem(enrol_under(chief, "Not hers", theirs["consent_id"]), 403, "consent_voice_differs")
    assert told["measured"] < told["limit"]
    problem(enrol_under(chief, "Mixed", theirs["consent_id"], WOMAN, MAN), 403, "consent_voice_differs")
    problem(enrol_under(chief, "Unheard", unrecorded["consent_id"]), 403, "consent_insufficient")
    problem(enrol_under(chief, "Nothing", "../../etc"), 404, "consent_not_found")
    for consent in (theirs, unrecorded):
        assert chief.get(f"/v1/consents/{consent['consent_id']}").json()["state"] == "unused"


@pytest.mark.parametrize(
    ("fields", "recording", "status", "code"),
    [
        ({"person": " "}, None, 422, "bad_consent"),
        ({"granted_at": "yesterday"}, None, 422, "bad_field"),
        ({"granted_at": "2126-01-01T00:00:00Z"}, None, 422, "bad_consent"),
        ({"speaker_id": "nobody"}, None, 404, "speaker_not_found"),
        ({"persona": "x"}, None, 422, "bad_field"),
        ({}, b"no audio at all", 415, "unsupported_format"),
        ({}, b"\0" * (10 * 2**20 + 1), 413, "too_large"),
    ],
)
def test_what_cannot_be_used_is_named(
    chief: httpx.Client, fields: dict[str, str], recording: bytes | None, status: int, code: str
) -> None:
    total = chief.get("/v1/consents").json()["total"]
    parts: list[Any] = [(name, (None, value)) for name, value in {"person": "Ada", **fields}.items()]
    parts += [] if recording is None else [("recording", ("a.flac", recording))]
    response = chief.post("/v1/consents", files=parts)
    problem(response, status, code)
    assert chief.get("/v1/consents").json()["total"] == total


def test_revoking_ends_speech_on_every_server_at_once(
    strict: RunningServer, chief: httpx.Client, state_dir: Path
) -> None:
    second = start(strict.environment, state_dir.parent / "log-2")
    try:
        second.wait_ready(within_s=180)
        consent = add_consent(chief)
        speaker_id = enrol_under(chief, "Two servers", consent["consent_id"]).json()["speaker_id"]
        with with_key(second, ADMIN_KEY) as other:
            assert speak(other, speaker_id=speaker_id, text=TEXT).status_code == 200
            job = other.post("/v1/jobs", json={"speaker_id": speaker_id, "text": TEXT * 200}).json()["job_id"]
            revoked = chief.post(f"/v1/consents/{consent['consent_id']}/revoke").json()
            problem(speak(other, speaker_id=speaker_id, text=TEXT), 403, "consent_revoked")
            problem(speak(other, speaker_id=speaker_id, text=TEXT, stream=True), 403, "consent_revoked")
            assert other.get(f"/v1/jobs/{job}").json()["state"] == "speaker_gone"
            again = other.post(f"/v1/consents/{consent['consent_id']}/revoke").json()
            assert again["revoked_at"] == revoked["revoked_at"]
            add_consent(other, speaker_id=speaker_id)
        assert speak(chief, speaker_id=speaker_id, text=TEXT).status_code == 200
    finally:
        second.stop()


def test_openais_client_records_a_consent_makes_a_voice_and_deletes_both(
    strict: RunningServer, chief: httpx.Client
) -> None:
    with OpenAI(base_url=f"{strict.url}/v1", api_key=ADMIN_KEY, max_retries=0) as client:
        consents, voices = client.audio.voice_consents, client.audio.voices
        made = consents.create(name="Ada", language="en-GB", recording=("a.flac", MAN, "audio/flac"))
        assert (made.object, made.name, made.language) == ("audio.voice_consent", "Ada", "en-GB")
        others = [consents.create(name=f"Other {n}", language="en", recording=("a.flac", MAN)) for n in range(2)]
        assert consents.retrieve(made.id) == made
        assert consents.update(made.id, name="Countess").name == "Countess"
        assert chief.get(f"/v1/consents/{made.id}").json()["person"] == "Ada", "who agreed cannot be changed"
        assert {each.id for each in [made, *others]} <= {each.id for each in consents.list(limit=1)}
        voice = voices.create(name="By OpenAI", audio_sample=("a.flac", AGAIN, "audio/flac"), consent=made.id)
        assert (voice.object, voice.name, voice.type) == ("audio.voice", "By OpenAI", "audio_sample")
        assert client.audio.speech.create(model="tts-1", voice=voice.id, input=TEXT).content
        with pytest.raises(APIStatusError) as used:
            voices.create(name="Twice", audio_sample=("a.flac", AGAIN), consent=made.id)
        assert used.value.body["code"] == "consent_used" and used.value.body["param"] == "consent"  # type: ignore[index]
        with pytest.raises(APIStatusError) as prompted:
            voices.create(name="Made up", prompt="a calm voice", type="prompt")
        assert prompted.value.body["code"] == "prompts_not_offered"  # type: ignore[index]
        assert consents.delete(others[0].id).deleted is True
        with pytest.raises(APIStatusError) as gone:
            consents.retrieve(others[0].id)
        assert (gone.value.status_code, gone.value.body["code"]) == (404, "consent_not_found")  # type: ignore[index]
        assert voices.delete(voice.id).object == "audio.voice.deleted"
        with pytest.raises(APIStatusError):
            consents.retrieve(made.id)


def test_elevenlabs_client_names_a_consent_in_a_label(strict: RunningServer, chief: httpx.Client) -> None:
    labs = ElevenLabs(base_url=strict.url, api_key=ADMIN_KEY)
    with pytest.raises(ApiError) as refused:
        labs.voices.ivc.create(name="Unconsented", files=[AGAIN])
    assert (refused.value.status_code, refused.value.body["detail"]["status"]) == (403, "consent_missing")
    consent = add_consent(chief)
    labels = {"accent": "plain", "consent_id": consent["consent_id"]}
    voice = labs.voices.ivc.create(name="By ElevenLabs", files=[AGAIN], labels=labels)
    assert labs.voices.get(voice.voice_id).labels == {"accent": "plain"}
    assert b"".join(labs.text_to_speech.convert(voice.voice_id, text=TEXT))
    assert chief.get(f"/v1/consents/{consent['consent_id']}").json()["speaker_id"] == voice.voice_id


def test_a_protected_voice_is_refused_by_every_door_without_a_word_of_whose_it_is(
    strict: RunningServer, chief: httpx.Client
) -> None:
    made = chief.post("/v1/admin/protected", data={"name": "A public person"}, files={"clips": ("a.flac", WOMAN)})
    assert made.status_code == 201, made.text
    protected_id = made.json()["protected_id"]
    assert made.json()["near"] == [] and len(made.json()["encoder_ids"]) == 1
    try:
        with with_key(strict, make_key(chief, "speak", "enrol")["key"]) as client:
            for path, field in CREATING.items():
                if "{" not in path:
                    consent = add_consent(client, WOMAN)["consent_id"]
                    named = {"consent": consent} if path == "/v1/audio/voices" else {"consent_id": consent}
                    if path == "/v1/voices/add":
                        named = {"labels": f'{{"consent_id": "{consent}"}}'}
                    reply = client.post(path, data={"name": "Her", **named}, files={field: ("a.flac", WOMAN)})
                    assert (reply.status_code, code_of(reply)) == (403, "voice_protected"), (path, reply.text)
                    assert "public" not in reply.text.lower() and protected_id not in reply.text
            problem(client.get("/v1/admin/protected"), 403, "scope_missing")
            assert "public" not in client.get("/v1/speakers").text
        listed = chief.get("/v1/admin/protected").json()["protected"]
        assert [(each["protected_id"], each["name"]) for each in listed] == [(protected_id, "A public person")]
        problem(speak(chief, speaker_id=protected_id, text=TEXT), 404, "speaker_not_found")
    finally:
        assert chief.delete(f"/v1/admin/protected/{protected_id}").status_code == 204
    problem(chief.delete(f"/v1/admin/protected/{protected_id}"), 404, "protected_not_found")
    assert enrol_under(chief, "Her", add_consent(chief, WOMAN)["consent_id"], WOMAN).status_code == 201


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_command_line_keeps_consents_and_protected_voices(
    strict: RunningServer, before: str, tmp_path: Path, is_remote: bool
) -> None:
    environment = strict.environment | ({"VOICEKIN_SERVER": strict.url} if is_remote else {})
    environment |= {"VOICEKIN_CLIENT_KEY": ADMIN_KEY}

    def run(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*arguments], env=environment)
        assert done.exit_code == 0, (arguments, done.output, done.exception)
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    man, again = str(DATA / "man.flac"), str(DATA / "man-again.flac")
    made = run("consents", "add", "Ada", "--recording", man, "--granted-at", "2026-01-02T03:04:00+00:00", "--json")
    name = f"By the command line {is_remote}"
    speaker = run("enrol", name, again, "--consent", made["consent_id"], "--json")["speaker_id"]
    out = str(tmp_path / "out.wav")
    assert run("speak", speaker, TEXT, "-o", out, "--json")["file"] == out
    assert made["consent_id"] in [each["consent_id"] for each in run("consents", "list", "--json")["consents"]]
    assert base64.b64decode(run("consents", "export", made["consent_id"])["recording"]) == MAN
    assert run("consents", "revoke", made["consent_id"], "--json")["state"] == "revoked"
    spare = run("consents", "add", "Ada", "--json")
    assert run("consents", "delete", spare["consent_id"], "--json") == {"consent_id": spare["consent_id"]}
    kept = run("protected", "add", "A public person", man, "--json")
    assert {speaker, before} <= {match["speaker_id"] for match in kept["near"]}, "who sounds like it is told"
    listed = run("protected", "list", "--json")["protected"]
    assert [each["protected_id"] for each in listed] == [kept["protected_id"]]
    assert run("protected", "delete", kept["protected_id"], "--json") == {"protected_id": kept["protected_id"]}
    late = CliRunner().invoke(app, ["consents", "add", "Ada", "--granted-at", "yesterday"], env=environment)
    assert late.exception is not None and late.exception.code == "bad_field"  # type: ignore[attr-defined]
    shown = CliRunner().invoke(app, ["consents", "list"], env=environment)
    assert made["consent_id"] in shown.stdout and "revoked" in shown.stdout
