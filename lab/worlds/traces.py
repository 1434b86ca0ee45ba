"""Traces are made-up attempts in the world till, by an expert who is wrong on purpose in a quarter of the steps.

A model that learned of them can call, and errs: there is something left to learn by playing. Items of both splits
stand in them, since a word must have been seen to be said; their tasks are none that are ever played.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from environments.worlds.base import Call, Message, Task
from environments.worlds.till import DEAREST, ITEMS, MANY, Till, TillAttempt

WRONG = 0.25
"""Share of steps that are wrong."""

Said = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


@dataclass(frozen=True)
class Manner:
    """What traces are made of, and how the expert errs."""

    names: tuple[str, ...] = ()
    """What is asked for; none: the items of both splits. A model that knows more words than the world has learns to
    copy what it reads from many names, and from eighteen learns these by heart."""
    wrong: float = WRONG
    dearest: int = DEAREST
    """The highest price, where there are names."""
    invents: bool = True
    """Whether mistakes name items and numbers that do not stand in the attempt. Else they are an item asked for again,
    a sum that helps nothing, an answer too early; and a first step is right."""


@dataclass(frozen=True)
class Trace:
    """One attempt, from the first message to the last result."""

    messages: Sequence[Message]
    """In OpenAI's form."""
    tools: Sequence[dict[str, Any]]
    scores: tuple[float, ...]
    """What the world said of each step, -1 or 1."""
    is_solved: bool


Teacher = Callable[[int, int], Sequence[Trace]]
"""(how many, seed) → traces: the same for the same seed."""


def traces(count: int, seed: int, *, wanted: int = 3, manner: Manner = Manner()) -> list[Trace]:
    """Make `count` traces of tasks with `wanted` items; the same seed makes the same ones."""
    return [_trace(number, random.Random(f"trace {seed} {number}"), wanted, manner) for number in range(count)]


def as_text(made: Sequence[Trace]) -> str:
    """All of them, as JSON."""
    return json.dumps([[one.messages, one.tools] for one in made])


def _trace(number: int, draw: random.Random, wanted: int, manner: Manner) -> Trace:
    world = Till(wanted)
    if manner.names:
        prices = {name: draw.randint(1, manner.dearest) for name in draw.sample(manner.names, wanted)}
        task = Task(world.name, f"trace-{number}", "train", {"prices": prices})
    else:
        split = draw.choice(tuple(ITEMS))
        task = world.task(split, MANY + draw.randrange(MANY * MANY))  # the world never plays numbers from MANY on
    wrong = _wrong if manner.invents else _slip
    with world.open(task, 0) as attempt:
        messages: list[Message] = list(attempt.opening)
        scores: list[float] = []
        for step in range(world.horizon):
            say = wrong if draw.random() < manner.wrong else _right
            name, arguments = say(attempt, draw)
            call = Call(f"call_{number}_{step}", name, json.dumps(arguments))
            function = {"name": name, "arguments": call.arguments}
            calls = [{"id": call.id, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            seen = attempt.act(call)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": seen.text})
            scores.append(seen.score or 0.0)
            if seen.is_over:
                break
        return Trace(messages, [dict(tool) for tool in attempt.tools], tuple(scores), attempt.is_right)


def _right(attempt: TillAttempt, draw: random.Random) -> Said:
    """The next step towards the sum: what is not known yet, then one more item added, then the answer."""
    unknown = _unknown(attempt)
    if unknown:
        return "price", {"item": unknown[0]}
    whole = frozenset(attempt.prices)
    if whole in attempt.known:
        return "answer", {"value": attempt.known[whole]}
    largest = max(attempt.known, key=len)
    rest = next(item for item in attempt.prices if item not in largest)
    return "add", {"a": attempt.known[largest], "b": attempt.prices[rest]}


def _wrong(attempt: TillAttempt, draw: random.Random) -> Said:
    """One of the mistakes that can be made now."""
    mistakes: list[Callable[[], Said]] = [
        lambda: ("price", {"item": _elsewhere(attempt, draw)}),
        lambda: ("add", {"a": _number(attempt, draw), "b": draw.randint(1, DEAREST)}),
        lambda: ("answer", {"value": _number(attempt, draw)}),
    ]
    if known := [item for item in attempt.prices if item not in _unknown(attempt)]:
        mistakes += [lambda: ("price", {"item": draw.choice(known)})] * 2
    while True:
        name, arguments = draw.choice(mistakes)()
        if (name, arguments) != _right(attempt, draw) and not (
            name == "answer" and arguments["value"] == attempt.total
        ):
            return name, arguments


def _slip(attempt: TillAttempt, draw: random.Random) -> Said:
    """A mistake that says nothing but what was seen; where nothing was, the right step."""
    prices = [price for item, price in attempt.prices.items() if frozenset((item,)) in attempt.known]
    if not prices:
        return _right(attempt, draw)
    seen = list(attempt.known.values())
    mistakes: list[Said] = [
        ("price", {"item": draw.choice([item for item in attempt.prices if item not in _unknown(attempt)])}),
        ("add", {"a": draw.choice(seen), "b": draw.choice(prices)}),
        ("answer", {"value": seen[-1]}),
    ]
    return draw.choice(mistakes)


def _unknown(attempt: TillAttempt) -> list[str]:
    return [item for item in attempt.prices if frozenset((item,)) not in attempt.known]


def _elsewhere(attempt: TillAttempt, draw: random.Random) -> str:
    """An item that is not asked for."""
    return draw.choice([item for items in ITEMS.values() for item in items if item not in attempt.prices])


def _number(attempt: TillAttempt, draw: random.Random) -> int:
    """One that was seen, or any."""
    return draw.choice([*attempt.known.values(), draw.randint(1, DEAREST)])
