"""Folders of tasks that are drawn by rule: those of each split from names of its own, each task once."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from environments.worlds.base import Split

Drawn = TypeVar("Drawn")


def write_splits(
    folder: Path,
    many: Mapping[Split, int],
    names: Mapping[Split, Sequence[str]],
    draw: Callable[[Sequence[str], random.Random], Drawn],
    *,
    seed: str,
    said: Callable[[Drawn], str],
    files: Callable[[str, Drawn], Mapping[str, str]],
) -> Path:
    """Write `many` tasks of each split to SPLIT/SPLIT-NUMBER below `folder`; an older folder is replaced. `said` tells
    tasks apart, `files` is a task's text by path, given its folder's name."""
    shutil.rmtree(folder, ignore_errors=True)
    for split, of_split in names.items():
        tasks: dict[str, Drawn] = {}
        chance = random.Random(f"{seed} {split}")
        while len(tasks) < many[split]:
            task = draw(of_split, chance)
            tasks.setdefault(said(task), task)
        for number, task in enumerate(tasks.values()):
            name = f"{split}-{number}"
            write_files(folder / split / name, files(name, task))
    return folder


def write_files(place: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
