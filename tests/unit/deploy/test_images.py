"""The images hold the whole program and nothing else, for a user who owns nothing but the data."""

import re
import shlex
import tomllib

import pytest

from deploy.requirements import requirements
from tests.unit.deploy.image_files import DEPLOY, DOCKERFILES, ROOT, environment, instructions, one

PYPROJECT = ROOT / "pyproject.toml"
PROJECT = tomllib.loads(PYPROJECT.read_text("utf-8"))


def _copied(name: str) -> set[str]:
    lines = [rest.split() for word, rest in instructions(name) if word == "COPY" and not rest.startswith("--from")]
    return {source for line in lines for source in line[:-1]}


def _installed(name: str) -> list[str]:
    (line,) = [rest for word, rest in instructions(name) if word == "RUN" and "requirements.py" in rest]
    words = shlex.split(line.split("requirements.py", 1)[1].split(">", 1)[0])
    left_out = words[words.index("--without") + 1 :] if "--without" in words else []
    extras = [word for word in words if word not in {"--without", *left_out}]
    return list(requirements(PYPROJECT, extras, left_out))


@pytest.mark.parametrize("name", DOCKERFILES)
def test_all_that_is_packaged_is_copied_and_let_through(name: str) -> None:
    packages = {item.rstrip("*") for item in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    needed = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml"}
    copied = _copied(name)
    assert packages | needed <= copied
    assert all((ROOT / source).exists() for source in copied)
    let_through = (DEPLOY / f"{name}.dockerignore").read_text("utf-8").splitlines()
    assert "*" in let_through
    assert {f"!{source}" for source in copied} <= set(let_through)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_user_is_nobody_and_all_folders_named_are_its_own(name: str) -> None:
    user, state = one(name, "USER"), one(name, "VOLUME")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    variables = environment(name)
    folders = {key: value for key, value in variables.items() if value.startswith("/")}
    assert variables["VOICEKIN_STATE_DIR"] == state
    assert {"HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"} <= set(folders)
    assert {value for value in folders.values() if not value.startswith("/tmp")} == {state}
    assert variables["VOICEKIN_REQUIRE_KEYS"] == "true" and variables["VOICEKIN_PORT"] == one(name, "EXPOSE")


def test_the_images_differ_in_what_cuda_needs() -> None:
    plain, cuda = (environment(name) for name in DOCKERFILES)
    added = {"VOICEKIN_DEVICE": "cuda", "CUDA_CACHE_PATH": "/tmp/cache/cuda"}
    assert cuda == plain | added
    ignored = {(DEPLOY / f"{name}.dockerignore").read_text("utf-8") for name in DOCKERFILES}
    assert len(ignored) == 1


def test_each_image_installs_the_libraries_of_the_project_and_one_faiss() -> None:
    plain, cuda = (_installed(name) for name in DOCKERFILES)
    extras = PROJECT["project"]["optional-dependencies"]
    assert plain == [*PROJECT["project"]["dependencies"], *extras["postgres"], *extras["redis"], *extras["s3"]]
    assert [line for line in plain if line.startswith("faiss")] == ["faiss-cpu>=1.10"]
    assert [line for line in cuda if line.startswith("faiss")] == ["faiss-gpu>=1.10"]
    assert {line for line in plain if "faiss" not in line} == {line for line in cuda if "faiss" not in line}
