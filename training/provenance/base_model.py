"""Name the base model of this installation, in hashes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from checkpoints import checksums
from training.provenance.canonical_json import FORMAT, digest

UNSTABLE = ("_name_or_path", "transformers_version")
"""Keys of a model's config.json that say how it came here, and nothing of what it is."""


def base(form: str = FORMAT) -> dict[str, Any]:
    """The base model of this installation: its name, its config's digest and its weights' files."""
    folder = Path(settings.MODEL)
    files = [file for file in sorted(folder.glob("*.safetensors")) if file.is_file()]
    stats = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return {"name": base_name(folder), "config": config_digest(folder, form), "weights": dict(_weights(folder, stats))}


def base_name(model: Path) -> str:
    """What the model in this folder is called where it came from; the folder's name where its files do not say."""
    said = str(_config(model).get("_name_or_path") or "")
    return said if said and not Path(said).is_absolute() else model.name


def config_digest(model: Path, form: str = FORMAT) -> str:
    return digest({name: value for name, value in _config(model).items() if name not in UNSTABLE}, form)


def _config(model: Path) -> dict[str, Any]:
    try:
        read = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


@cache  # gigabytes, read once a process
def _weights(folder: Path, stats: tuple[tuple[str, int, int], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, checksums.digest(folder / name)) for name, _, _ in stats)
