"""An archive: a ZIP file whose last member, `manifest.json`, names its format and the SHA-256 of every other member.

Members are stored, not compressed, so that no archive is larger inside than outside. It is written under a new name and
renamed when it is whole.
"""

import hashlib
import json
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.errors import ArchiveRefused, StorageFull

MANIFEST = "manifest.json"
_BLOCK_BYTES = 2**20
_MAX_MANIFEST_BYTES = 64 * 2**20


class ArchiveWriter:
    """Adds members to an archive that is being written."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self.digests: dict[str, str] = {}

    def add(self, name: str, data: bytes) -> None:
        """A member."""
        self._file.writestr(name, data)
        self.digests[name] = hashlib.sha256(data).hexdigest()


class ArchiveReader:
    """Reads members of an archive, each checked against the manifest."""

    def __init__(self, file: zipfile.ZipFile, manifest: Mapping[str, Any]) -> None:
        self._file = file
        self.manifest = manifest

    def read(self, name: str) -> bytes:
        """A whole member. Raises: ArchiveRefused."""
        try:
            data = self._file.read(name)
        except (KeyError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise _damaged(f"{name} cannot be read") from error
        if hashlib.sha256(data).hexdigest() != self.manifest["sha256"].get(name):
            raise _damaged(f"{name} is not what the manifest says")
        return data

    def check(self, name: str) -> int:
        """The size of a member that is what the manifest says, read piece by piece. Raises: ArchiveRefused."""
        digest, size = hashlib.sha256(), 0
        try:
            with self._file.open(name) as member:
                while block := member.read(_BLOCK_BYTES):
                    digest.update(block)
                    size += len(block)
        except (KeyError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise _damaged(f"{name} cannot be read") from error
        if digest.hexdigest() != self.manifest["sha256"].get(name):
            raise _damaged(f"{name} is not what the manifest says")
        return size

    def part(self, name: str, start: int, n_bytes: int) -> bytes:
        """A part of a member that was checked. Raises: ArchiveRefused."""
        try:
            with self._file.open(name) as member:
                member.seek(start)
                return member.read(n_bytes)
        except (KeyError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise _damaged(f"{name} cannot be read") from error

    def json(self, name: str) -> Any:
        """A member that holds JSON. Raises: ArchiveRefused."""
        try:
            return json.loads(self.read(name))
        except ValueError as error:
            raise _damaged(f"{name} is not JSON") from error


@contextmanager
def writing(path: Path, facts: dict[str, Any]) -> Iterator[ArchiveWriter]:
    """A new archive; `facts`, which may be filled in until the end, stand in its manifest.

    Raises: StorageFull, ArchiveRefused where the file cannot be made. Nothing is left of one that failed.
    """
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with zipfile.ZipFile(fresh, "x", zipfile.ZIP_STORED) as file:
            writer = ArchiveWriter(file)
            yield writer
            file.writestr(MANIFEST, json.dumps({**facts, "sha256": writer.digests}, indent=1))
        with fresh.open("rb") as written:
            os.fsync(written.fileno())
        fresh.replace(path)
    except OSError as error:
        if error.errno == 28:
            raise StorageFull("storage_full", "the archive's disk is full: make room and try again") from error
        raise ArchiveRefused("archive_refused", f"the archive cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def reading(path: Path, archive_format: str) -> Iterator[ArchiveReader]:
    """An archive of this format. Raises: ArchiveRefused."""
    try:
        with zipfile.ZipFile(path) as file:
            yield ArchiveReader(file, _manifest(file, archive_format))
    except (zipfile.BadZipFile, OSError) as error:
        raise _damaged(f"the file cannot be read as one: {error}") from error


def _manifest(file: zipfile.ZipFile, archive_format: str) -> Mapping[str, Any]:
    members = {info.filename: info for info in file.infolist()}
    if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
        raise _damaged("its members are compressed, which this program never does")
    if MANIFEST not in members or members[MANIFEST].file_size > _MAX_MANIFEST_BYTES:
        raise _damaged("it has no manifest")
    try:
        manifest = json.loads(file.read(MANIFEST))
    except ValueError as error:
        raise _damaged("its manifest is not JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != archive_format:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        message = f"the archive's format is {str(found)[:80]!r}: this program reads {archive_format}"
        raise ArchiveRefused("archive_refused", message, expected=archive_format)
    if not isinstance(manifest.get("sha256"), dict) or set(manifest["sha256"]) != set(members) - {MANIFEST}:
        raise _damaged("its members are not those of its manifest")
    return manifest


def _damaged(reason: str) -> ArchiveRefused:
    return ArchiveRefused("archive_refused", f"the archive is damaged: {reason}; take another copy")
