"""Who talks: a name, a scene, and what they want of every reply."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from core.textfiles import read_lines
from core.visible import name_fault
from environments.errors import Unplayable
from environments.wishes import WISHES

Scene = Literal["talk", "student", "teacher", "assistant"]
Split = Literal["train", "heldout"]

SELDOM = ("short", "asks-back", "second-person", "plain-words", "example", "as-list")
"""What a small model seldom does unasked (docs/how-to/environments.md has the shares)."""
OFTEN = ("long", "no-lists", "no-exclamation", "digits", "no-opening")
"""What it mostly does anyway. A composed persona wants at most one of these, or there would be little to learn."""
MOST_HELDOUT = 0.3
"""The share of compositions that is kept for held-out personas."""


@dataclass(frozen=True)
class Persona:
    """A person with wishes. `split` says of which phrasings and compositions they are."""

    name: str
    scene: Scene
    wishes: tuple[str, ...]
    split: Split


STUDENT = Persona("student", "student", ("shows-working", "no-lists", "no-banner"), "train")
TEACHER = Persona("teacher", "teacher", ("specific", "kind"), "train")
ASSISTANT = Persona("assistant", "assistant", ("specific",), "train")
NAMED = {persona.name: persona for persona in (STUDENT, TEACHER, ASSISTANT)}


def parts(persona: Persona, text: str, *, finished: bool) -> dict[str, bool]:
    """Which wishes this reply obeys; of a reply that was cut off, none that speaks of its end.

    >>> parts(Persona("p", "talk", ("short", "digits"), "train"), "It takes 2 days.", finished=False)
    {'short': False, 'digits': True}
    """
    return {name: WISHES[name].holds(text, finished=finished) for name in persona.wishes}


def style(persona: Persona, text: str, *, finished: bool) -> float:
    """The share of the wishes that this reply obeys, in [0, 1]."""
    obeyed = parts(persona, text, finished=finished)
    return sum(obeyed.values()) / len(obeyed)


def agree(wishes: Iterable[str]) -> bool:
    """Whether one reply can obey all of these.

    >>> agree(["short", "digits"]), agree(["short", "long"])
    (True, False)
    """
    named = set(wishes)
    return not any(named & set(WISHES[name].opposes) for name in named)


def compositions(split: Split) -> list[tuple[str, ...]]:
    """Every pair and triple of wishes that agree, at most one of them OFTEN. No composition is of both splits."""
    pairs = [(one, other) for one, other in itertools.product(SELDOM, OFTEN)]
    pairs += itertools.combinations(SELDOM, 2)
    triples = [(*two, other) for two, other in itertools.product(itertools.combinations(SELDOM, 2), OFTEN)]
    triples += itertools.combinations(SELDOM, 3)
    return [each for each in (*pairs, *triples) if agree(each) and _split_of(each) == split]


def composed(split: Split, number: int, seed: int) -> list[Persona]:
    """`number` different personas of 2 to 3 wishes, drawn at random from the compositions of `split`."""
    every = compositions(split)
    if number > len(every):
        raise Unplayable(f"There are {len(every)} {split} compositions of wishes, and {number} were asked for.")
    drawn = random.Random(f"{split}:{seed}").sample(every, number)
    return [Persona("+".join(wishes), "talk", wishes, split) for wishes in drawn]


def named(name: str, split: Split = "heldout") -> Persona:
    """student, teacher or assistant, or a person with these wishes: "short+asks-back".

    >>> named("short+digits").wishes
    ('short', 'digits')
    """
    if name in NAMED:
        return NAMED[name]
    wishes = name.split("+")
    if unknown := [wish for wish in wishes if wish not in WISHES]:
        raise Unplayable(
            f"There is no persona {name!r}, and {unknown[0]!r} is no wish. There are {', '.join(NAMED)}, a file of "
            f"personas, or wishes joined by +: {', '.join(WISHES)}."
        )
    return _read(json.dumps({"name": name, "wishes": wishes, "split": split, "scene": _scene(wishes)}), repr(name))


def _scene(wishes: Iterable[str]) -> Scene:
    """Where a person with such wishes stands."""
    wanted = set(wishes)
    return "student" if "shows-working" in wanted else "teacher" if wanted & {"kind", "specific"} else "talk"


def load(path: str | Path) -> list[Persona]:
    """Personas from a file of JSON lines: {"name": …, "wishes": […], "scene"?: …, "split"?: …}."""
    found: list[Persona] = []
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            found.append(_read(line, f"{Path(path).name}, line {number}"))
            if found[-1].name in {persona.name for persona in found[:-1]}:
                raise Unplayable(f"{Path(path).name}, line {number}: two personas are called {found[-1].name!r}.")
    if not found:
        raise Unplayable(f'{Path(path).name} names no persona. A line reads {{"name": "brief", "wishes": ["short"]}}.')
    return found


def _read(line: str, where: str) -> Persona:
    try:
        said = json.loads(line)
    except json.JSONDecodeError as error:
        raise Unplayable(f"{where} is no JSON: {error.msg} at column {error.colno}.") from None
    if not isinstance(said, dict):
        raise Unplayable(f'{where} is no object. It reads {{"name": "brief", "wishes": ["short"]}}.')
    if unknown := sorted(set(said) - {"name", "scene", "wishes", "split"}):
        raise Unplayable(f"{where}: unknown field {unknown[0]!r}. Accepted are name, wishes, scene and split.")
    name, wishes = said.get("name"), said.get("wishes")
    scene, split = said.get("scene", "talk"), said.get("split", "heldout")
    if not isinstance(name, str) or not name.strip():
        raise Unplayable(f"{where}: name is missing, or no text.")
    if fault := name_fault(name):
        raise Unplayable(f"{where}: {fault}")
    if not isinstance(wishes, list) or not wishes or not all(isinstance(wish, str) for wish in wishes):
        raise Unplayable(f"{where}: wishes is a list of one name or more. Known are {', '.join(WISHES)}.")
    for wish in wishes:
        if wish not in WISHES:
            raise Unplayable(f"{where}: there is no wish {wish!r}. Known are {', '.join(WISHES)}.")
    if len(set(wishes)) < len(wishes):
        raise Unplayable(f"{where}: a wish stands there twice.")
    for wish in wishes:
        if against := set(WISHES[wish].opposes) & set(wishes):
            raise Unplayable(f"{where}: no reply can be both {wish!r} and {against.pop()!r}. Leave one of them out.")
    if scene not in get_args(Scene):
        raise Unplayable(f"{where}: scene is one of {', '.join(get_args(Scene))}, not {scene!r}.")
    if split not in get_args(Split):
        raise Unplayable(f"{where}: split is train or heldout, not {split!r}.")
    return Persona(name, scene, tuple(wishes), split)


def _split_of(wishes: tuple[str, ...]) -> Split:
    digest = hashlib.sha256(" ".join(sorted(wishes)).encode()).digest()
    return "heldout" if digest[0] < 256 * MOST_HELDOUT else "train"
