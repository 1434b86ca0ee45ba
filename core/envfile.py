"""Read and write DATA_DIR/env, an installation's settings, and find the model that it names."""

from __future__ import annotations

from pathlib import Path

from core.textfiles import read_lines

BEFORE_A_PATH = ("", "sqlite:///")
"""What may stand in a setting before a path."""


def read_settings(file: Path, data_dir: Path) -> dict[str, str]:
    """The settings in `file` by name; none where it is not there.

    The file says by DATA_DIR where it was written, and is not asked for that: it lies in `data_dir`. What it names
    inside the folder as it was then is read inside `data_dir`, so a folder may be moved, or restored elsewhere.
    """
    if not file.is_file():
        return {}
    lines = (line.partition("=") for line in read_lines(file) if not line.startswith("#"))
    found = {name: value for name, separator, value in lines if separator}
    written_in = found.pop("DATA_DIR", "") or str(data_dir)
    return {name: rebase(value, written_in, str(data_dir)) for name, value in found.items()}


def rebase(value: str, old: str, new: str) -> str:
    """A setting whose path lay in the folder `old`, in the folder `new`; any other as it is.

    >>> rebase("/srv/a/recipe.json", "/srv/a", "/mnt/b"), rebase("/srv/ab", "/srv/a", "/mnt/b")
    ('/mnt/b/recipe.json', '/srv/ab')
    """
    for before in BEFORE_A_PATH:
        if value.startswith(f"{before}{old}/"):
            return f"{before}{new}{value.removeprefix(before + old)}"
    return value


def model_folder(model: str, data_dir: Path) -> str:
    """The folder of a model by the name that a person gave it: its copy in `data_dir` where it has one, as those from
    the hub do; else as it was given.

    >>> model_folder("Qwen/Qwen3-4B", Path("/nowhere"))
    'Qwen/Qwen3-4B'
    """
    copy = copy_folder(model, data_dir)
    return str(copy) if (copy / "config.json").is_file() else model


def copy_folder(model: str, data_dir: Path) -> Path:
    """Where a model of the hub is copied to.

    >>> copy_folder("Qwen/Qwen3-4B", Path("/data")).as_posix()
    '/data/models/Qwen--Qwen3-4B'
    """
    return data_dir / "models" / model.replace("/", "--")
