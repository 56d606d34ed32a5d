"""A downloaded checkpoint folder to an installed voice: the cloning room's reader and the encoder room's, joined."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from api.shelf import BUNDLED, ENCODER, Shelf
from cloning.errors import BundleError

if TYPE_CHECKING:
    from cloning.importers.coqui import Imported
    from cloning.importers.coqui_config import Listener
    from encoder.networks.hasp import Hasp

_ENCODER_FILES = ("config_se.json", "model_se.pth")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Brought:
    """What was installed: the voice, whose speakers must be enrolled with `encoder_id`, and what was left out."""

    name: str
    model_id: str
    encoder_id: str
    languages: tuple[str, ...]
    sample_rate: int
    n_unspoken: int
    checkpoint_sha256: str


def import_coqui(shelf: Shelf, source: Path, name: str | None = None, speaker: str | None = None) -> Brought:
    """Installs the voice of a Coqui VITS or YourTTS folder, after it has been loaded once.

    Raises: BundleError, naming what is missing or does not fit; RequestRefused for the name. Nothing is installed then.
    """
    from cloning.bundle import save
    from cloning.importers.coqui import read_voice
    from cloning.importers.coqui_config import Listener
    from encoder.bundle import save_encoder

    if not source.is_dir():
        raise BundleError("bundle_missing", f"{source} is not a folder; give the one that holds config.json")
    chosen = name or _name_of(source)
    with shelf.installing(chosen) as folder:
        network = _own_encoder(source)
        listener = _bundled_listener(shelf)
        if network is not None:
            saved = save_encoder(folder / ENCODER, network)
            listener = Listener(saved.encoder_id, saved.dim)
        voice = read_voice(source, chosen, listener, speaker)
        with voice.source.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        save(folder, voice.config, voice.weights, _card(source, voice, speaker, sha256), half=False)
        model_id = check_speaks(folder)
    config = voice.config
    languages, rate = tuple(config.text.languages), config.audio.sample_rate
    return Brought(chosen, model_id, config.encoder_id, languages, rate, voice.n_unspoken, sha256)


def _own_encoder(source: Path) -> Hasp | None:
    """The folder's speaker encoder, which voices that follow d-vectors must have.

    Raises: BundleError where one is needed and missing, or cannot be read.
    """
    from cloning.importers.checkpoint import read_json, read_tensors
    from cloning.importers.coqui import takes_d_vectors
    from encoder.networks.hasp import read_coqui

    if not takes_d_vectors(source):
        return None
    if missing := [name for name in _ENCODER_FILES if not (source / name).is_file()]:
        words = "this voice follows d-vectors, which only its own speaker encoder makes"
        raise BundleError("bundle_missing", f"{source.name}: {words}; missing {', '.join(missing)}")
    config, model = (source / name for name in _ENCODER_FILES)
    try:
        return read_coqui(read_json(config), read_tensors(model))
    except ValueError as error:
        raise BundleError("bundle_mismatch", f"{source.name}: {error}") from error


def _bundled_listener(shelf: Shelf) -> Listener:
    """The encoder of the bundled voice: speakers enrolled for that one can choose a voice of one speaker too."""
    from cloning.bundle import load_info
    from cloning.importers.coqui_config import Listener

    voice = load_info(shelf.folder_of(BUNDLED)).voice
    return Listener(voice.encoder_id, voice.speaker.d_vector)


def check_speaks(folder: Path) -> str:
    """The installed voice's id, once it could be loaded as a server loads it. Raises: BundleError."""
    from cloning.synthesis import Synthesiser

    with Synthesiser.open(folder) as voice:
        return voice.voice.model_id


def _name_of(source: Path) -> str:
    plain = re.sub(r"[^a-z0-9._-]+", "-", source.resolve().name.lower()).strip("-._")
    return plain[:_LONGEST_NAME] or "voice"


def _card(source: Path, voice: Imported, speaker: str | None, sha256: str) -> str:
    config = voice.config
    row = f" (speaker `{speaker}` of its table)" if speaker else ""
    lines = [
        f"# {config.name}",
        "",
        f"Brought on {datetime.now(UTC):%Y-%m-%d} from the Coqui checkpoint `{source.name}/{voice.source.name}`{row}.",
        f"SHA-256 of the checkpoint: {sha256}",
        "",
        f"{config.audio.sample_rate} Hz; languages: {', '.join(config.text.languages)}; speaker encoder:",
        f"`{config.encoder_id}`. {voice.n_unspoken} tensors that only training reads were left out.",
        "",
        "The licence of the checkpoint is that of whoever published it, not this program's; read it before use.",
    ]
    return "\n".join(lines) + "\n"
