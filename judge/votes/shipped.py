"""The measurement that comes with the repository: what the judge's own adapter said of each gold follow-up.

So a fresh installation has a judge that was measured. It counts for these very files of the adapter and these very
prompts: with others it is as if it were not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.errors import TalkbackError
from judge.votes import fitting, naming

FILE = "calibration.json"
"""Beside the adapter's files."""

DIGITS = 6
"""Of a probability that are written: more than any figure shows."""


class ShippedInvalid(TalkbackError):
    """The measurement beside an adapter cannot be read."""

    code, status = "calibration_invalid", 500


@dataclass(frozen=True)
class Shipped:
    """One gold follow-up as the adapter read it."""

    gold: str
    score: Mapping[str, float] | None
    hint: Mapping[str, float] | None
    words: str
    at: datetime


def readings(judge: str, prompt_version: str, folder: Path = fitting.FOLDER) -> tuple[Shipped, ...]:
    """What the repository says of this judge; nothing where it is another one, or is asked in other words."""
    adapter = fitting.adapter(folder)
    if adapter is None or judge not in names_of(adapter.name, folder):
        return ()
    try:
        stamp = (folder / FILE).stat()
    except OSError:
        return ()
    measured = _read(folder / FILE, (stamp.st_mtime_ns, stamp.st_size))
    is_of_it = measured["adapter"] == adapter.name and measured["prompts"] == prompt_version
    return measured["readings"] if is_of_it else ()


def names_of(adapter: str, folder: Path) -> frozenset[str]:
    """What a judge with this adapter is called here: by the adapter's digest, or as JUDGES names it."""
    try:
        named = naming.named()
    except naming.JudgesInvalid:
        named = ()
    own = (one.name for one in named if one.kind == "adapter" and Path(one.adapter or folder) == folder and one.name)
    return frozenset({adapter, *own})


def write(adapter: str, prompt_version: str, found: Sequence[Shipped], folder: Path = fitting.FOLDER) -> Path:
    """Write the measurement beside the adapter, in an order and with digits that do not depend on the run."""
    lines = [
        json.dumps(
            {"gold": one.gold, "score": _rounded(one.score), "hint": _rounded(one.hint), "words": one.words},
            ensure_ascii=False,
        )
        for one in sorted(found, key=lambda one: one.gold)
    ]
    about = {"adapter": adapter, "prompts": prompt_version, "read_at": max(one.at for one in found).isoformat()}
    head = json.dumps(about)[:-1] + ', "readings": [\n'
    path = folder / FILE
    path.write_text(head + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    return path


def _rounded(said: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if said is None else {answer: round(p, DIGITS) for answer, p in said.items()}


@lru_cache(maxsize=4)
def _read(path: Path, stamp: tuple[int, int]) -> Any:
    """`stamp` says which state of the file."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        at = datetime.fromisoformat(said["read_at"])
        found = tuple(Shipped(one["gold"], one["score"], one["hint"], one["words"], at) for one in said["readings"])
        return {"adapter": str(said["adapter"]), "prompts": str(said["prompts"]), "readings": found}
    except (ValueError, KeyError, TypeError) as error:
        raise ShippedInvalid(f"{path} is no measurement: {error}") from error
