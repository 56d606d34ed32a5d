"""Writes what pip is to install of pyproject.toml: its libraries, and those of the extras that are named.

`requirements.py redis s3` names two extras; `--without faiss-cpu` leaves a library out.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

_NAME = re.compile(r"[\w.-]+")


def requirements(pyproject: Path, extras: Iterable[str], without: Iterable[str] = ()) -> Iterator[str]:
    """The requirements as pyproject.toml has them. Raises: KeyError for an extra that it has not."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    left_out = set(without)
    for line in [*project["dependencies"], *(line for extra in extras for line in optional[extra])]:
        name = _NAME.match(line)
        if name is None or name.group() not in left_out:
            yield line


def main() -> None:
    """Writes them to standard output, a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--without", action="append", default=[])
    asked = parser.parse_args()
    sys.stdout.writelines(f"{line}\n" for line in requirements(Path("pyproject.toml"), asked.extras, asked.without))


if __name__ == "__main__":
    main()
