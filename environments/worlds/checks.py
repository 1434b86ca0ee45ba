"""What is found of a task before it is played, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Checked:
    """What a check came to. `reason` is empty where the task can be played."""

    task: str
    reason: str
    oracle: float | None = None
    nothing: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    is_lasting: bool = True
    """False where the machine was to blame: then it is asked again next time."""

    @property
    def is_playable(self) -> bool:
        return not self.reason


def report(found: Iterator[Checked], *, as_json: bool = False, with_notes: bool = False) -> int:
    """Print a line for each task. 1 where one cannot be played."""
    failed = count = 0
    for each in found:
        count += 1
        failed += not each.is_playable
        if as_json:
            print(json.dumps(asdict(each)), flush=True)
            continue
        print(f"{'ok' if each.is_playable else 'no':<3} {each.task:<40} {each.reason}".rstrip(), flush=True)
        for note in each.notes if with_notes else ():
            print(f"    {note}")
    if not as_json:
        print(f"{count - failed} of {count} can be played.")
    return 1 if failed else 0
