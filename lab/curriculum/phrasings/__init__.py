"""The words that lessons are made of, as files, and how they are split."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Split = Literal["train", "dev", "heldout"]

LANGUAGES = ("de", "fr", "es", "nl", "it", "pt", "pl", "sv", "da", "tr", "ru", "ja", "zh")

DEV_EVERY, DEV_AT = 8, 5
"""Of each list that trains, lines 6, 14, 22 … are kept for choosing a checkpoint, and train nothing."""


@dataclass(frozen=True)
class Wording:
    """One line of a phrasing file."""

    text: str
    language: str = "en"


@dataclass(frozen=True)
class Change:
    """One kind of asked-for change, or of failure that names its remedy."""

    name: str
    wordings: tuple[Wording, ...]
    hint: str = ""
    key: tuple[str, ...] = ()
    against: str = ""
    is_unseen: bool = False
    """None of its wordings train."""


CHOICE = re.compile(r"\(([^()]*)\)")
BRACKETS = (("\\(", "\x01"), ("\\)", "\x02"))


@cache
def patterns(part: str, name: str) -> tuple[str, ...]:
    """The patterns of one kind in one part of patterns.toml; none: there are none."""
    table = read("patterns")[part]
    written = table if isinstance(table, str) else table.get(name, "")
    return tuple(line.replace("\\n", "\n") for line in written.strip("\n").split("\n")) if written else ()


def drawn(pattern: str, rng: random.Random) -> str:
    """One of the texts that a pattern stands for.

    >>> drawn("(Make|Make) it (short|short) \\\\(please\\\\)(|).", random.Random(0))
    'Make it short (please).'
    """
    for written, kept in BRACKETS:
        pattern = pattern.replace(written, kept)
    while found := CHOICE.search(pattern):
        pattern = pattern[: found.start()] + rng.choice(found[1].split("|")) + pattern[found.end() :]
    for written, kept in BRACKETS:
        pattern = pattern.replace(kept, written[1:])
    return pattern


@cache
def examined() -> frozenset[str]:
    """What the held-out lines and those for choosing say, letters only: no pattern may come to it."""
    tables = [read("changes"), read("replies"), read("tools")["failures"], {"unclear": read("tools")["unclear"]}]
    return frozenset(
        plain(line)
        for table in tables
        for entry in table.values()
        if "heldout" in entry and isinstance(entry["heldout"], str)
        for split in ("heldout", "dev")
        for line in lines(entry, split)
    )


def plain(text: str) -> str:
    """
    >>> plain("Shorter, please!") == plain("shorter please")
    True
    """
    return "".join(letter for letter in text.casefold() if letter.isalnum() or letter in "{}")


@cache
def read(name: str) -> Mapping[str, Any]:
    """A phrasing file as it is written."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def lines(table: Mapping[str, Any], split: Split) -> list[str]:
    """The lines of a split; `\\n` in them are line ends."""
    written = table["heldout" if split == "heldout" else "train"]
    every = written.strip("\n").split("\n") if isinstance(written, str) else list(written)
    every = [line.replace("\\n", "\n") for line in every] if written else []
    return every if split == "heldout" else parted(every, split)


def parted(every: Sequence[Any], split: Split) -> list[Any]:
    """What of a training list belongs to `split`: most of it trains, every eighth is for choosing a checkpoint."""
    return [one for n, one in enumerate(every) if (n % DEV_EVERY == DEV_AT) == (split == "dev")]


def wordings(table: Mapping[str, Any], split: Split) -> tuple[Wording, ...]:
    found = []
    for line in lines(table, split):
        tag, _, rest = line.partition(": ")
        found.append(Wording(rest, tag) if tag in LANGUAGES else Wording(line))
    return tuple(found)


def changes(tables: Mapping[str, Any], split: Split) -> tuple[Change, ...]:
    """The kinds of change that have wordings in this split."""
    kinds = (
        Change(
            name=name,
            wordings=wordings(table, split),
            hint=table.get("hint", ""),
            key=tuple(table.get("key", ())),
            against=table.get("against", ""),
            is_unseen=not table["train"],
        )
        for name, table in tables.items()
        if name != "slots"
    )
    return tuple(kind for kind in kinds if kind.wordings)


def fillers(tables: Mapping[str, Any], split: Split) -> dict[str, list[str]]:
    """What may stand in each {slot}. A checkpoint is chosen with the fillers that train."""
    return {name: table["heldout" if split == "heldout" else "train"] for name, table in tables.items()}
