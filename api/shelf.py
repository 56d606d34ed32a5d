"""The voices installed on this machine: a folder each, beside the one that came with the program.

Only whole voices are seen: one is written under a hidden name and then given its own, in one step.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from api.errors import ModelUnknown, RequestRefused
from cloning.errors import BundleError

if TYPE_CHECKING:
    from cloning.bundle import BundleInfo

BUNDLED = "default"
ENCODER = "encoder"
_IN_USE = "in-use"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class ShelfVoice:
    """One installed voice; `problem` says why it cannot be loaded, or is empty."""

    name: str
    folder: Path
    in_use: bool
    info: BundleInfo | None
    problem: str

    @property
    def encoder_dir(self) -> Path | None:
        """The folder of the voice's own speaker encoder, where it has one."""
        folder = self.folder / ENCODER
        return folder if folder.is_dir() else None


class Shelf:
    """Installed voices by name. Every question looks at the disk, so that no process needs a restart."""

    def __init__(self, folder: Path, bundled: Path) -> None:
        self._folder, self._bundled = folder, bundled
        self._read: dict[Path, tuple[tuple[int, ...], BundleInfo]] = {}

    def names(self) -> tuple[str, ...]:
        """All names, the bundled voice's first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return (BUNDLED, *sorted(path.name for path in found if path.is_dir() and _NAME.fullmatch(path.name)))

    def voices(self) -> list[ShelfVoice]:
        """All voices, those that cannot be loaded too."""
        return [self.voice(name) for name in self.names()]

    def voice(self, name: str) -> ShelfVoice:
        """One voice. Raises: ModelUnknown, naming those that there are."""
        folder, in_use = self.folder_of(name), self.in_use() == name
        try:
            return ShelfVoice(name, folder, in_use, self._info(folder), "")
        except BundleError as error:
            return ShelfVoice(name, folder, in_use, None, error.message)

    def _info(self, folder: Path) -> BundleInfo:
        """What a voice says, read again only when its file has changed: every request asks."""
        from cloning.bundle import load_info

        stamp: tuple[int, ...] = ()
        with suppress(OSError):
            found = (folder / "model.json").stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._read.get(folder)
        if known is None or not stamp or known[0] != stamp:
            known = self._read[folder] = (stamp, load_info(folder))
        return known[1]

    def in_use(self) -> str:
        """The voice that speaks where none is named."""
        with suppress(OSError, UnicodeDecodeError):
            name = (self._folder / _IN_USE).read_text("utf-8").strip()
            if _NAME.fullmatch(name) and (self._folder / name).is_dir():
                return name
        return BUNDLED

    def use(self, name: str) -> None:
        """Makes a voice the one that speaks where none is named. Raises: ModelUnknown; BundleError for a broken one."""
        self.verify(name)
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh = self._hidden("in-use")
        fresh.write_text(f"{name}\n", encoding="utf-8")
        os.replace(fresh, self._folder / _IN_USE)

    def folder_of(self, name: str) -> Path:
        """Where a voice lies. Raises: ModelUnknown."""
        if name == BUNDLED:
            return self._bundled
        folder = self._folder / name
        if not _NAME.fullmatch(name) or not folder.is_dir():
            known = ", ".join(self.names())
            raise ModelUnknown("model_unknown", f"no voice is named {name[:80]!r}; there are {known}", field="model")
        return folder

    def verify(self, name: str) -> BundleInfo:
        """The voice, after all its files were found to be what it says. Raises: ModelUnknown, BundleError."""
        from cloning.bundle import verify
        from encoder.bundle import verify_encoder

        folder = self.folder_of(name)
        info = verify(folder)
        if (folder / ENCODER).is_dir():
            try:
                found = verify_encoder(folder / ENCODER)
            except (OSError, ValueError) as error:
                raise BundleError("bundle_corrupt", f"{name}: its speaker encoder: {error}") from error
            if found.encoder_id != info.voice.encoder_id:
                message = f"{name} wants the encoder {info.voice.encoder_id}, its own is {found.encoder_id}"
                raise BundleError("bundle_mismatch", message)
        return info

    def remove(self, name: str) -> None:
        """Takes a voice off the shelf. Raises: ModelUnknown; RequestRefused for one in use or bundled."""
        folder = self.folder_of(name)
        if name == BUNDLED:
            raise RequestRefused("bad_field", "the bundled voice cannot be removed", field="name")
        if self.in_use() == name:
            words = f"{name} is in use; choose another first: voicekin voices use {BUNDLED}"
            raise RequestRefused("bad_field", words, field="name")
        hidden = self._hidden(name)
        folder.rename(hidden)
        shutil.rmtree(hidden)

    @contextmanager
    def installing(self, name: str) -> Iterator[Path]:
        """A folder to write a voice into; it is on the shelf once the block has ended without an error.

        Raises: RequestRefused for a name that is taken or cannot be one.
        """
        self._check_free(name)
        self._folder.mkdir(parents=True, exist_ok=True)
        hidden = self._hidden(name)
        hidden.mkdir()
        try:
            yield hidden
            self._check_free(name)
            hidden.rename(self._folder / name)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def _check_free(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            words = f"{name[:80]!r} cannot be a voice's name: up to 63 of a-z 0-9 . _ -, the first a letter or digit"
            raise RequestRefused("bad_field", words, field="name")
        if name == _IN_USE or name in self.names():
            words = f"a voice named {name} is here already; remove it, or give another name with --name"
            raise RequestRefused("bad_field", words, field="name")

    def _hidden(self, name: str) -> Path:
        return self._folder / f".{name}-{uuid.uuid4().hex[:8]}"
