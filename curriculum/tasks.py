"""What is asked for and what is replied: the ground on which a follow-up stands."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from curriculum import phrasings
from curriculum.phrasings import Split

FAULTY = 0.3
"""The share of replies with a fault. Labels come from the follow-up: a person may be content with a bad reply."""
TALKED = 0.25
"""The share of tasks that stand in a conversation."""
CONSTRAINED = 0.12
"""The share of requests that already name a change: nobody asks for it afterwards."""
LONG = 0.12
"""The share of replies that are long enough to be shortened in the evidence."""

Said = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Task:
    """A request with what leads up to it, and the reply to it."""

    request: Said
    reply: str
    onward: str = ""
    """A new question on top of the reply."""
    again: str = ""
    """The request in other words."""
    results: tuple[str, ...] = ()
    """What tools give back when the action was right."""
    slots: dict[str, str] = field(default_factory=dict)


def drawn(split: Split, rng: random.Random) -> Task:
    """A question or a piece of work for a person."""
    tables = phrasings.read("tasks")
    request, reply, onward, again = rng.choice(phrasings.lines(tables, split)).split(" || ")
    if rng.random() < FAULTY:
        reply = rng.choice(faults(split)).replace("{reply}", reply)
    if rng.random() < LONG:
        others = [line.split(" || ")[1] for line in rng.sample(phrasings.lines(tables, split), 6)]
        reply = " ".join([reply, *others, *others])
    if rng.random() < CONSTRAINED:
        kinds = phrasings.changes(phrasings.read("changes"), split)
        plain = [kind.hint for kind in kinds if "{" not in kind.hint and kind.is_unseen == (split == "heldout")]
        request = f"{request} {rng.choice(plain)}"
    return Task((*before(split, rng), ("user", request)), reply, onward, again)


def acted(split: Split, rng: random.Random) -> Task:
    """A piece of work that the assistant does with a tool."""
    tables = phrasings.read("tools")
    slots = {name: rng.choice(values) for name, values in phrasings.fillers(tables["slots"], split).items()}
    line = rng.choice(phrasings.lines(tables["actions"], split))
    request, call, *results = (filled(part, slots) for part in line.split(" || "))
    said: Said = (("user", request),)
    if rng.random() < 0.2:  # in the middle of a loop
        said += (("assistant", rng.choice(LOOKS)), ("tool", f"{slots['file']}\nREADME.md"))
    return Task(before(split, rng) + said, call, results=tuple(results), slots=slots)


LOOKS = ('calls ls({"path": "."})', 'calls run({"command": "ls"})', 'calls search({"query": "files"})')


def before(split: Split, rng: random.Random) -> Said:
    if rng.random() >= TALKED:
        return ()
    words = rng.choice(phrasings.read("tasks")["context"]["heldout" if split == "heldout" else "train"])
    return tuple(zip(words[::2], words[1::2], strict=True))


def faults(split: Split) -> list[str]:
    return phrasings.lines(phrasings.read("tasks")["faults"], "heldout" if split == "heldout" else "train")


def filled(text: str, slots: dict[str, str]) -> str:
    """`text` with every {slot} in it filled; other braces stay as they are.

    >>> filled('calls f({"city": "{city}"})', {"city": "Rome"})
    'calls f({"city": "Rome"})'
    """
    for name, value in slots.items():
        text = text.replace("{" + name + "}", value)
    return text
