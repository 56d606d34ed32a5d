"""What the Dockerfiles say, read as far as tests ask for it."""

import json
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCKERFILES = ("Dockerfile", "Dockerfile.cuda")


def instructions(name: str) -> list[tuple[str, str]]:
    """Every instruction with its words, lines that go on joined."""
    lines = [line for line in (DEPLOY / name).read_text("utf-8").splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(words[0], words[1]) for words in (line.split(maxsplit=1) for line in joined)]


def final_stage(name: str) -> list[tuple[str, str]]:
    """The instructions of the image itself."""
    found = instructions(name)
    last = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def environment(name: str) -> dict[str, str]:
    """The variables of the image, but the path of its programs."""
    lines = [rest for word, rest in final_stage(name) if word == "ENV"]
    pairs = [pair.split("=", 1) for line in lines for pair in shlex.split(line)]
    return {key: value for key, value in pairs if key != "PATH"}


def one(name: str, instruction: str) -> str:
    """The words of an instruction that the image has once."""
    (found,) = [rest for word, rest in final_stage(name) if word == instruction]
    return found


def health_check(name: str) -> list[str]:
    """The command that says whether a container is healthy."""
    words: list[str] = json.loads(one(name, "HEALTHCHECK").split("CMD", 1)[1])
    return words
