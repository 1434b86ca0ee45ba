"""What is asked for and what is replied: the ground on which a follow-up stands."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

from lab.curriculum import phrasings, threads
from lab.curriculum.phrasings import Split
from lab.curriculum.threads import Thread

FAULTY = 0.3
"""The share of replies with a fault. Labels come from the follow-up: a person may be content with a bad reply."""
TALKED = 0.25
"""The share of tasks that stand in a conversation."""
CONSTRAINED = 0.12
"""The share of requests that already name a change: no person asks for it afterwards."""
LONG = 0.08
"""The share of replies that are long enough to be shortened in the evidence."""
THREADED = {"user": 0.8, "tool": 0.6, "environment": 0.3}
"""The share of tasks that are threads: what comes back was written for this very reply."""
RESUMED = 0.5
"""The share of earlier talk that is another thread's request and reply."""

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
    thread: Thread | None = None
    """Where the task comes from one: what was written to come back after this reply."""
    others: tuple[str, ...] = ()
    """Requests and questions of other tasks: after this reply each of them turns to something else."""


def drawn(split: Split, rng: random.Random) -> Task:
    """A question or a piece of work for a person."""
    thread = rng.choice(threads.written(split)) if rng.random() < THREADED["user"] else None
    if thread:
        request, reply, onward, again = thread.request, thread.reply, "", ""
    else:
        request, reply, onward, again = rng.choice(phrasings.lines(phrasings.read("tasks"), split)).split(" || ")
    kept = reply
    if not thread and rng.random() < FAULTY:
        reply = rng.choice(faults(split)).replace("{reply}", reply)
    if not thread and rng.random() < LONG:
        every = phrasings.lines(phrasings.read("tasks"), split)
        replies = [line.split(" || ")[1] for line in rng.sample(every, min(6, len(every)))]
        reply = " ".join([reply, *replies, *replies])
    if rng.random() < CONSTRAINED:
        kinds = phrasings.changes(phrasings.read("changes"), split)
        plain = [kind.hint for kind in kinds if "{" not in kind.hint and kind.is_unseen == (split == "heldout")]
        request = f"{request} {rng.choice(plain)}"
    earlier, taken = before(split, rng, {kept})
    said = {request, *(text for _, text in earlier)}
    others = tuple(
        text
        for told, texts in elsewhere(split)
        if told != kept and told not in taken
        for text in texts
        if text not in said
    )
    return Task((*earlier, ("user", request)), reply, onward, again, thread=thread, others=others)


@cache
def elsewhere(split: Split) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Of every task for a person its reply, and what is asked in words that need no other: the request, the request in
    other words, and questions that go on and name what they are about."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for line in phrasings.lines(phrasings.read("tasks"), split):
        request, reply, _, again = line.split(" || ")
        found.append((reply, (request, again)))
    for thread in threads.written(split):
        onward = (line.text for line in (*thread.of("onward"), *thread.of("again")))
        found.append((thread.reply, (thread.request, *onward)))
    return tuple(found)


def acted(split: Split, rng: random.Random, world: str = "tool") -> Task:
    """A piece of work that the assistant does with a tool, or in an environment."""
    tables = phrasings.read("tools")
    slots = {name: rng.choice(values) for name, values in phrasings.fillers(tables["slots"], split).items()}
    kind = "environment" if world == "environment" else "tool"
    written = threads.written(split, kind)
    if written and rng.random() < THREADED[kind]:
        thread = rng.choice(written)
        earlier, _ = before(split, rng, set())
        return Task((*earlier, ("user", thread.request)), thread.reply, slots=slots, thread=thread)
    line = rng.choice(phrasings.lines(tables["actions"], split))
    request, call, *results = (filled(part, slots) for part in line.split(" || "))
    said: Said = (("user", request),)
    if rng.random() < 0.2:  # in the middle of a loop
        said += (("assistant", rng.choice(LOOKS)), ("tool", f"{slots['file']}\nREADME.md"))
    earlier, _ = before(split, rng, set())
    return Task(earlier + said, call, results=tuple(results), slots=slots)


LOOKS = ('calls ls({"path": "."})', 'calls run({"command": "ls"})', 'calls search({"query": "files"})')


def before(split: Split, rng: random.Random, kept: set[str]) -> tuple[Said, set[str]]:
    """Talk before the request, and the replies in it: what follows must not turn back to one of them."""
    if rng.random() >= TALKED:
        return (), set()
    if rng.random() < RESUMED:
        thread = rng.choice(threads.written(split))
        if thread.reply not in kept:
            return (("user", thread.request), ("assistant", thread.reply)), {thread.reply}
    words = rng.choice(phrasings.read("tasks")["context"]["heldout" if split == "heldout" else "train"])
    return tuple(zip(words[::2], words[1::2], strict=True)), set()


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
