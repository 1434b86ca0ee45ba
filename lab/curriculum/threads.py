"""Threads: a request, its reply, and what may come back after this very reply, each line with what it says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lab.curriculum import phrasings
from lab.curriculum.phrasings import Split

FILES = (
    "threads",
    *(f"threads_{part}" for part in ("talk", "questions", "work", "languages", "tools", "outcomes")),
)

MARKS = {">": "onward", "+": "builds", "-": "wrong", "!": "own", "0": "unsure", "=": "again", "~": "turned"}
"""How a line of `threads.toml` begins, and the kind of follow-up that it is."""

SCORES: dict[str, int | None] = {
    "onward": 1,
    "builds": 1,
    "wrong": -1,
    "own": -1,
    "unsure": 0,
    "again": -1,
    "turned": None,
}


@dataclass(frozen=True)
class Line:
    """One thing that comes back."""

    kind: str
    text: str
    hint: str = ""
    """What the judge is to propose, in words near to those of the line; only of kind `own`."""


@dataclass(frozen=True)
class Thread:
    """One request with its reply and what may follow."""

    request: str
    reply: str
    lines: tuple[Line, ...]
    role: str = "user"
    language: str = "en"

    def of(self, kind: str) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.kind == kind)


@cache
def written(split: Split, role: str = "user") -> tuple[Thread, ...]:
    """The threads of a split in which this role answers. Every eighth that trains is kept for choosing a checkpoint,
    whole: its request, its reply and its lines."""
    side = "heldout" if split == "heldout" else "train"
    every = [thread for name in FILES for thread in parsed(phrasings.read(name)[side]) if thread.role == role]
    return tuple(every if split == "heldout" else phrasings.parted(every, split))


def parsed(text: str) -> Iterator[Thread]:
    """Threads as they are written: blocks with a blank line between; `T role language` may stand first.

    >>> list(parsed("T user de\\nQ Hallo?\\nA Ja.\\n! Lauter => Sprich lauter."))[0].lines
    (Line(kind='own', text='Lauter', hint='Sprich lauter.'),)
    """
    for block in text.strip("\n").split("\n\n"):
        role, language, request, reply = "user", "en", "", ""
        lines: list[Line] = []
        for line in block.split("\n"):
            mark, _, rest = line.partition(" ")
            rest = rest.replace("\\n", "\n")
            if mark == "T":
                role, language = rest.split()
            elif mark == "Q":
                request = rest
            elif mark == "A":
                reply = rest
            elif mark in MARKS:
                said, _, hint = rest.partition(" => ")
                if bool(hint) != (MARKS[mark] == "own"):
                    raise ValueError(f"a line with {mark!r} and the hint {hint!r}: {line}")
                lines.append(Line(MARKS[mark], said, hint))
            else:
                raise ValueError(f"unknown mark {mark!r}: {line}")
        if not (request and reply and lines):
            raise ValueError(f"a thread without a request, a reply or lines: {block}")
        yield Thread(request, reply, tuple(lines), role, language)
