"""Agents' part of the exam: held-out tasks, played by the candidate and by live, compared pair by pair. Pure.

A pair is the same task, the same attempt number and the same seed. A task is what is drawn: attempts at one task say
little of the next task, so each task counts as one value, the mean over its attempts, and the paired bootstrap draws
tasks anew. McNemar's test would take each attempt for a witness of its own: it calls luck a fall where a candidate is
better at some tasks and worse at others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils.translation import gettext_noop

from core import statistics
from core.statistics import Interval
from gate.findings import WORST, Check

ATTEMPTS = 4
"""At each task, by each of the two. More tasks say more than more attempts; a group needs a few to be looked at."""

ENOUGH = 10
"""Tasks from which on an interval is believed: of fewer, the same sign by luck alone is not rare enough."""

ERROR = 0.05
"""How often an interval may miss the truth, over all worlds of one exam together."""

CUT = 0.1
"""Most rise of the share of attempts that were cut off: those are unsolved already, so this sees only a runaway."""

INVALID = 0.1
"""Most rise of the share of replies without a valid call."""

LEFT_OUT = 0.2
"""Most share of the pairs that may be left out: a candidate that breaks its world is not to pass by it."""

SOLVED, TRUNCATED, CALLS = "tasks solved", "attempts cut off", "valid calls"
"""The checks' names."""

SAYS = {
    SOLVED: gettext_noop(
        "In %(world)s it solved %(now)s of %(number)s attempts at %(tasks)s held-out tasks (live %(live)s): %(change)s "
        "(%(level)s between %(low)s and %(high)s); it fails when all of that is below 0."
    ),
    TRUNCATED: gettext_noop(
        "Of its attempts in %(world)s %(now)s were cut off (live %(live)s): %(change)s (%(level)s between %(low)s and "
        "%(high)s); it fails when all of that is above %(most)s."
    ),
    CALLS: gettext_noop(
        "In %(world)s %(now)s of its replies had no valid call (live %(live)s): %(change)s (%(level)s between %(low)s "
        "and %(high)s); it fails when all of that is above %(most)s."
    ),
    "none": gettext_noop("Neither solved one, so a fall cannot be seen."),
    "unplayed": gettext_noop("Not played in %(world)s."),
    "too few": gettext_noop(
        "Not enough was played in %(world)s to know: %(number)s of %(wanted)s pairs count, at %(tasks)s tasks of the "
        "%(enough)s that it takes at least."
    ),
    "left out": gettext_noop("Left out, since they say nothing of either: %(reasons)s."),
}
"""What is found, as gate.findings.SAYS."""


@dataclass(frozen=True)
class Attempt:
    """How one of the two did once."""

    is_solved: bool
    is_cut: bool
    """At its last step, or because the window was full."""
    steps: int
    """Replies."""
    invalid: int
    """Of the replies: those with a call that no tool takes, and those that call nothing where there are tools."""
    tokens: int
    """Sampled."""

    @property
    def invalid_share(self) -> float:
        return self.invalid / self.steps if self.steps else 0.0


@dataclass(frozen=True)
class Pair:
    """One task and attempt, played by both."""

    task: str
    attempt: int
    live: Attempt
    candidate: Attempt


@dataclass(frozen=True)
class Played:
    """What was played in one world of one person."""

    exam: int
    world: str
    person: int
    wanted: int
    """Pairs that were asked for."""
    is_whole: bool
    """All was played that will be."""
    why: str = ""
    """Why it was not, or not all, in a sentence."""
    pairs: Sequence[Pair] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """{reason: how many pairs}: they say nothing of the two."""
    groups: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """{task: numbers of live's group and of the candidate's}."""

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Played:
        """From the exam's column, as `written` gives it."""
        pairs = [
            Pair(one["task"], one["attempt"], Attempt(**one["live"]), Attempt(**one["candidate"]))
            for one in row["pairs"]
        ]
        groups = {task: (live, candidate) for task, (live, candidate) in row["groups"].items()}
        return cls(**{**row, "pairs": pairs, "groups": groups})

    def written(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def tasks(self) -> list[str]:
        """Those with a pair that counts."""
        return sorted({pair.task for pair in self.pairs})


@dataclass(frozen=True)
class Compared:
    """One figure of both, and how much more of it the candidate has; means of tasks, with intervals."""

    live: Interval
    candidate: Interval
    change: Interval


@dataclass(frozen=True)
class Task:
    """One task as both did on it: how many of its pairs each solved."""

    name: str
    pairs: int
    live: int
    candidate: int

    @property
    def change(self) -> float:
        return (self.candidate - self.live) / self.pairs


@dataclass(frozen=True)
class Outcome:
    """What the pairs come to. Shares lie from 0 to 1."""

    solved: Compared
    cut: Compared
    """Attempts that were cut off."""
    invalid: Compared
    """Replies without a valid call."""
    steps: Compared
    """Replies an attempt."""
    tokens: tuple[float | None, float | None]
    """Sampled for each solved attempt, by live and by the candidate; None where it solved nothing."""
    tasks: Sequence[Task]
    """Those that the candidate lost most on come first."""


def outcome(pairs: Sequence[Pair], worlds: int = 1) -> Outcome | None:
    """None of no pair. `worlds`: in how many the exam looks; the more, the wider each interval is."""
    if not pairs:
        return None

    def compared(value: Callable[[Attempt], float]) -> Compared:
        live = _by_task([(pair.task, value(pair.live)) for pair in pairs])
        candidate = _by_task([(pair.task, value(pair.candidate)) for pair in pairs])
        changes = {task: candidate[task] - live[task] for task in live}
        return Compared(_interval(live), _interval(candidate), _drawn(changes, 1 - ERROR / worlds))

    return Outcome(
        compared(lambda one: float(one.is_solved)),
        compared(lambda one: float(one.is_cut)),
        compared(lambda one: one.invalid_share),
        compared(lambda one: float(one.steps)),
        (_tokens([pair.live for pair in pairs]), _tokens([pair.candidate for pair in pairs])),
        _tasks(pairs),
    )


def findings(played: Played, worlds: int = 1) -> list[Check]:
    """Whether the candidate does no worse, beyond luck, at tasks that it never trained on.

    Where too little was played to know it passes with no room to spare, so that a person decides and no policy.
    """
    found = outcome(played.pairs, worlds)
    number, all_of = len(played.pairs), len(played.pairs) + sum(played.left_out.values())
    if found is None or len(found.tasks) < ENOUGH or all_of - number > LEFT_OUT * all_of:
        return [_unknown(played, found)]
    solved, worst = found.solved, [task.name for task in found.tasks[:WORST]]
    is_kept = solved.change.high >= 0
    said = SAYS[SOLVED] % (_figures(solved, played, worlds) | {"number": number, "tasks": len(found.tasks)})
    if not (solved.candidate.mean or solved.live.mean):
        said += f" {SAYS['none']}"
    if left := _word_left_out(played):
        said += f" {left}"
    if is_kept and not played.is_whole:
        return [Check(SOLVED, True, 0.0, 0.0, f"{said} {played.why}", "agents")]
    return [
        Check(SOLVED, is_kept, solved.change.high, 0.0, said, "agents", () if is_kept else tuple(worst)),
        _no_rise(TRUNCATED, found.cut, CUT, played, worlds),
        _no_rise(CALLS, found.invalid, INVALID, played, worlds),
    ]


def _unknown(played: Played, found: Outcome | None) -> Check:
    """A part of which nothing can be said: it passes with no room to spare."""
    tasks = len(found.tasks) if found is not None else 0
    if not played.pairs and not played.left_out:
        said = SAYS["unplayed"] % {"world": played.world}
    else:
        numbers = {"number": len(played.pairs), "wanted": played.wanted, "tasks": tasks, "enough": ENOUGH}
        said = SAYS["too few"] % ({"world": played.world} | numbers)
    return Check(SOLVED, True, 0.0, 0.0, " ".join(filter(None, (said, _word_left_out(played), played.why))), "agents")


def _no_rise(name: str, compared: Compared, most: float, played: Played, worlds: int) -> Check:
    """Whether a share did not rise by more than `most`, beyond luck."""
    change = compared.change
    passed = change.low <= most
    said = SAYS[name] % (_figures(compared, played, worlds) | {"most": f"{most:+.0%}"})
    return Check(name, passed, change.low, most, said, "agents")


def _figures(compared: Compared, played: Played, worlds: int) -> dict[str, str]:
    """A share's figures as the sentences have them."""
    change = compared.change
    return {
        "world": played.world,
        "now": f"{compared.candidate.mean:.0%}",
        "live": f"{compared.live.mean:.0%}",
        "change": f"{change.mean:+.0%}",
        "level": _level(worlds),
        "low": f"{change.low:+.0%}",
        "high": f"{change.high:+.0%}",
    }


def _level(worlds: int) -> str:
    return f"{100 * (1 - ERROR / worlds):.4g} %"


def _word_left_out(played: Played) -> str:
    if not played.left_out:
        return ""
    reasons = ", ".join(f"{number} {reason}" for reason, number in sorted(played.left_out.items()))
    return SAYS["left out"] % {"reasons": reasons}


def _by_task(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The mean of each task's values."""
    of: dict[str, list[float]] = defaultdict(list)
    for task, value in values:
        of[task].append(value)
    return {task: statistics.mean(each) for task, each in of.items()}


def _drawn(values: Mapping[str, float], level: float = statistics.LEVEL) -> Interval:
    """Their mean, with the interval of a bootstrap that draws tasks anew."""
    return statistics.average({statistics.Pair(0, task): value for task, value in values.items()}, level=level)


def _interval(values: Mapping[str, float]) -> Interval:
    """The same; where all are 0, or all 1, a bootstrap sees no chance at all, and Wilson's of as many tasks does."""
    if (seen := set(values.values())) in ({0.0}, {1.0}):
        share = seen.pop()
        return Interval(share, *statistics.wilson(int(share) * len(values), len(values)), len(values))
    return _drawn(values)


def _tokens(attempts: Sequence[Attempt]) -> float | None:
    solved = sum(one.is_solved for one in attempts)
    return sum(one.tokens for one in attempts) / solved if solved else None


def _tasks(pairs: Sequence[Pair]) -> list[Task]:
    of: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        of[pair.task].append(pair)
    found = [
        Task(name, len(each), sum(one.live.is_solved for one in each), sum(one.candidate.is_solved for one in each))
        for name, each in of.items()
    ]
    return sorted(found, key=lambda task: (task.change, task.name))
