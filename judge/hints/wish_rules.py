"""The words by which wishes are read: judge/hints/wish_words.toml, ready to be used."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Concept:
    """A matter that wishes are about, and what is taught for it and against it."""

    name: str
    words: re.Pattern[str]
    want: str
    avoid: str
    always: str


@dataclass(frozen=True)
class Frame:
    """A clause in which a person names something themselves."""

    said: re.Pattern[str]
    wish: str
    verbs: tuple[str, ...] = ()
    """The clause begins with one of these; empty: any."""
    is_adjective: bool = False


@dataclass(frozen=True)
class Numbers:
    """How amounts are read: `numbers` in judge/hints/wish_words.toml."""

    ones: frozenset[str]
    listed: frozenset[str]
    amount: re.Pattern[str]
    loose: re.Pattern[str]
    alone: re.Pattern[str]
    laid_before: re.Pattern[str]
    laid_after: re.Pattern[str]
    unwanted_before: re.Pattern[str]
    unwanted_after: re.Pattern[str]
    too_few: re.Pattern[str]
    wanted_before: re.Pattern[str]


@dataclass(frozen=True)
class Rules:
    """judge/hints/wish_words.toml, ready to be used; the names are those of the file."""

    references: tuple[re.Pattern[str], ...]
    languages: tuple[re.Pattern[str], ...]
    """What speaks of an earlier reply in a language whose clauses are not read here."""
    openers: re.Pattern[str]
    tails: re.Pattern[str]
    noise: re.Pattern[str]
    joints: re.Pattern[str]
    directive: re.Pattern[str]
    wish: re.Pattern[str]
    place: re.Pattern[str]
    named: re.Pattern[str]
    exchange: re.Pattern[str]
    other: re.Pattern[str]
    own: re.Pattern[str]
    asked: re.Pattern[str]
    pronoun: re.Pattern[str]
    past: re.Pattern[str]
    condition: re.Pattern[str]
    antecedent: re.Pattern[str]
    lack: re.Pattern[str]
    excess: re.Pattern[str]
    deny: re.Pattern[str]
    deny_after: re.Pattern[str]
    want_after: re.Pattern[str]
    told: re.Pattern[str]
    praise: re.Pattern[str]
    fill: frozenset[str]
    numbers: Numbers
    contrary: tuple[frozenset[str], ...]
    concepts: tuple[Concept, ...]
    frames: tuple[Frame, ...]
    empty: frozenset[str]
    ends: frozenset[str]
    begins: frozenset[str]
    determiners: re.Pattern[str]
    softened: re.Pattern[str]
    instead: str
    verbs: dict[str, str]
    verb: re.Pattern[str]
    unit: re.Pattern[str]
    tongue: re.Pattern[str]


@lru_cache(maxsize=1)
def load_rules() -> Rules:
    data = tomllib.loads(Path(__file__).with_name("wish_words.toml").read_text("utf-8"))
    classes: dict[str, str] = data["classes"]

    def filled(pattern: str) -> str:
        """The pattern with the classes that it names; a class may name another."""
        for _ in range(3):
            pattern = re.sub(r"\{([a-z]+)\}", lambda match: classes.get(match[1], match[0]), pattern)
        return pattern

    def ready(pattern: str) -> re.Pattern[str]:
        return re.compile(filled(pattern), re.IGNORECASE)

    def any_of(patterns: Sequence[str]) -> str:
        return f"(?:{'|'.join(map(filled, patterns))})"

    clauses, polarity, numbers, opened = data["clauses"], data["polarity"], data["numbers"], data["open"]
    lists = {"openers", "tails", "noise", "fill"}
    return Rules(
        references=tuple(ready(one) for patterns in data["references"].values() for one in patterns),
        languages=tuple(ready(one) for patterns in data["languages"].values() for one in patterns),
        openers=re.compile(rf"^(?:please )?{any_of(clauses['openers'])}(?:[,.!?:]|\b)\s*(?!\S*')"),
        tails=re.compile(rf"(?:^|[\s,.!?]+){any_of(clauses['tails'])}$"),
        noise=re.compile(any_of(clauses["noise"])),
        **{name: ready(pattern) for name, pattern in clauses.items() if name not in lists},
        **{name: ready(pattern) for name, pattern in polarity.items()},
        fill=frozenset(clauses["fill"].split()) | _plain_words(polarity.values()),
        numbers=Numbers(
            ones=frozenset(numbers["ones"]),
            listed=frozenset(numbers["listed"]),
            **{name: ready(pattern) for name, pattern in numbers.items() if isinstance(pattern, str)},
        ),
        contrary=tuple(frozenset(one["wishes"]) for one in data["contrary"]),
        concepts=tuple(_concept(one, ready(rf"(?<![\w-]){one['words']}(?![\w-])")) for one in data["concepts"]),
        frames=tuple(
            Frame(ready(one["said"]), one["wish"], tuple(one.get("verbs", ())), one.get("adjective", False))
            for one in data["frames"]
        ),
        empty=frozenset(opened["empty"]),
        ends=frozenset(opened["ends"]),
        begins=frozenset(opened["begins"]),
        determiners=ready(opened["determiners"]),
        softened=ready(opened["softened"]),
        instead=opened["instead"],
        verbs=data["verbs"],
        verb=ready("{produce}|{redo}"),
        unit=ready(r"\b{unit}\b"),
        tongue=ready("{tongue}"),
    )


def _concept(one: dict[str, str], words: re.Pattern[str]) -> Concept:
    return Concept(one["name"], words, one.get("want", ""), one.get("avoid", ""), one.get("always", ""))


def _plain_words(patterns: Iterable[str]) -> frozenset[str]:
    """Every word that a pattern of polarity names: it says for or against, and nothing else."""
    return frozenset(word for pattern in patterns for word in re.findall(r"[a-z]{2,}", pattern))
