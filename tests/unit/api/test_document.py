"""What is served is what is documented, and the room keeps its laws."""

import ast
import asyncio
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.main import get_command

import api
from api.app import create_app
from api.catalogue import CODES
from api.cli import app as command_line
from api.errors import TooBusy
from api.report import settings_page
from api.settings import Settings
from api.work import Workers

ROOM = Path(api.__file__).parent
# What only the command line or the start can meet, or what no client can cause by one request.
NOT_OVER_HTTP = {"settings_invalid", "server_unreachable", "server_failed", "archive_refused"}
IN_CONVERSATIONS = {"not_begun", "after_close", "idle", "origin_refused"}


@pytest.fixture(scope="module")
def document() -> dict[str, dict[str, dict[str, dict[str, object]]]]:
    return create_app(Settings()).openapi()


def test_the_page_of_the_document_loads_everything_from_this_server() -> None:
    client = TestClient(create_app(Settings()))
    page = client.get("/docs")
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    assert page.status_code == 200 and len(loaded) >= 3
    assert "url: '/openapi.json'" in page.text
    assert [client.get(address).status_code for address in loaded if address.startswith("/")] == [200] * len(loaded)


def test_every_route_says_what_it_does(document: dict) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description", "").endswith("."), (method, path)


def test_the_document_has_an_example_of_every_error_code(document: dict) -> None:
    shown = set()
    for methods in document["paths"].values():
        for operation in methods.values():
            for reply in operation["responses"].values():
                for content in reply.get("content", {}).values():
                    shown |= set(content.get("examples", {}))
    assert set(CODES) - NOT_OVER_HTTP - IN_CONVERSATIONS - shown == set()


def test_every_route_stands_on_the_page(document: dict) -> None:
    page = (ROOM.parent / "docs" / "http.md").read_text("utf-8")
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page, (method, path)


def test_requests_have_examples(document: dict) -> None:
    schemas = document["components"]["schemas"]
    for name in ("SpeechIn", "OpenAISpeechIn"):
        assert schemas[name]["examples"]
    assert schemas["SpeechIn"]["additionalProperties"] is False


def test_every_command_and_option_is_explained() -> None:
    command = get_command(command_line)
    names = set()
    for name, sub in command.commands.items():  # type: ignore[attr-defined]
        names.add(name)
        assert sub.help, name
    assert {"serve", "enrol", "speak", "speakers", "voices", "similar", "prune", "doctor", "settings"} <= names
    for group in ("voices", "engines"):
        for name, sub in command.commands[group].commands.items():  # type: ignore[attr-defined]
            assert sub.help, name


def test_the_settings_page_is_made_from_the_settings() -> None:
    page = (ROOM.parent / "docs" / "settings.md").read_text("utf-8")
    assert page == settings_page(), "run `make docs`"


def test_only_the_settings_read_the_environment() -> None:
    readers = {
        path.name
        for path in ROOM.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}
    }
    assert readers <= {"settings.py"}


def test_enrolment_and_speech_know_nothing_of_http() -> None:
    for name in ("enrolment.py", "speech.py", "services.py", "audio_out.py"):
        tree = ast.parse((ROOM / name).read_text("utf-8"))
        imported = {
            (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not [module for module in imported if module.split(".")[0] in {"fastapi", "starlette", "uvicorn"}], name


def test_workers_refuse_more_than_their_places() -> None:
    async def crowd() -> None:
        workers = Workers(1, 2)
        with workers.place(), workers.place():
            assert workers.under_way == 2
            with pytest.raises(TooBusy) as refused, workers.place():
                pass
            assert refused.value.details["limit"] == 2
        assert workers.under_way == 0
        assert await workers.run(lambda: 7) == 7

    asyncio.run(crowd())
