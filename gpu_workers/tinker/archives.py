"""Tinker's files say where a checkpoint's weights are at Tinker, and which names stand for them."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_workers.errors import AdapterInvalid

FILE = "tinker.json"


@dataclass(frozen=True)
class Place:
    """The place at Tinker where the weights of one checkpoint are kept."""

    tinker: str
    """What a sampler takes."""
    state: str
    """What training goes on from: weights and optimiser."""
    model: str
    """The base, by Tinker's name."""
    rank: int
    steps: int
    external: str = ""
    """The same adapter as files, where the service made them; a copy of them stands beside this file."""

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read(folder: Path | str) -> Place:
    """Raises AdapterInvalid where the folder was not left by a run at Tinker."""
    try:
        said = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
        return Place(**said)
    except FileNotFoundError as error:
        raise AdapterInvalid(f"{Path(folder).name} was not trained at Tinker, which cannot serve it.") from error
    except (OSError, ValueError, TypeError) as error:
        raise AdapterInvalid(f"{FILE} in {Path(folder).name} cannot be read: {error}") from error


class Names:
    """Keep the adapters that are loaded, by name: a file each, so that every process of this machine sees the same
    ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> dict[str, str]:
        """Name to the checkpoint's folder."""
        if not self.folder.is_dir():
            return {}
        loaded = {}
        for file in sorted(self.folder.iterdir()):
            if not file.name.startswith("."):
                path = self.get(file.name)
                if path is not None:
                    loaded[file.name] = path
        return loaded

    def get(self, name: str) -> str | None:
        try:
            return self._file(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put(self, name: str, path: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{uuid.uuid4().hex}"
        draft.write_text(path, encoding="utf-8")
        os.replace(draft, self._file(name))

    def drop(self, name: str) -> bool:
        """False when it was not there."""
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def _file(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name:
            raise AdapterInvalid(f"{name!r} cannot be an adapter's name.")
        return self.folder / name
