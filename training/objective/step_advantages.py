"""How much better than its peers each step of an agent's attempt was: several attempts at one task, standardised."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from core.marked import gettext_noop as _

Baseline = Literal["outcome", "index", "pooled", "episode_plus_step"]
Ending = Literal["solved", "failed", "truncated", "gave_up", "infra_error", "cancelled"]
Counting = Literal["lost", "left_out"]
"""What a truncated attempt is: an outcome of -1, or nothing at all."""

EPSILON = 1e-6
"""Added to a standard deviation before it divides."""

EQUAL = 1e-9
"""Values that lie no further apart are the same: sums of the same numbers in another order are."""

UNSCORED: tuple[Ending, ...] = ("infra_error", "cancelled")
"""Endings that say nothing of the agent. They have no outcome, and a missing one is never read as 0 or -1."""


class LeftOut(StrEnum):
    """Why a step has no advantage."""

    INFRA_ERROR = _("the world failed, not the agent")
    CANCELLED = _("the attempt was called off")
    TRUNCATED = _("the attempt was cut off, and is not counted")
    SHORT = _("fewer than two attempts at this task count")
    SINGLE = _("no other attempt came as far as this step")
    CONSTANT = _("all attempts are equal here")


@dataclass(frozen=True)
class Attempt:
    """One try at a task. Raises ValueError for an outcome or a score that is none."""

    group: Hashable
    """Attempts are compared within it: one task, tried by the same weights."""
    ending: Ending
    outcome: float | None
    """-1 to 1; None where the ending is infra_error or cancelled, and where a truncated attempt has none."""
    scores: tuple[float, ...]
    """One a step, -1 to 1; 0 where a rule or the votes said nothing."""
    cut_by: Literal["horizon", "context"] = "horizon"
    """What ended a truncated attempt: its last step was played, or the model's window was full."""

    def __post_init__(self) -> None:
        if self.ending not in get_args(Ending):
            raise ValueError(f"{self.ending!r} is no ending")
        if self.outcome is None:
            if self.ending not in (*UNSCORED, "truncated"):
                raise ValueError(f"an attempt that {self.ending} has an outcome")
        elif self.ending in UNSCORED:
            raise ValueError(f"an attempt with {self.ending} has no outcome")
        for value in (*self.scores, *(() if self.outcome is None else (self.outcome,))):
            if not (math.isfinite(value) and -1 <= value <= 1):
                raise ValueError(f"{value} does not lie between -1 and 1")


@dataclass(frozen=True)
class Step:
    """What one step is worth. `advantage` None: it does not learn, and `left_out` says why."""

    value: float | None
    """Its score and its attempt's outcome together; None where the attempt does not count."""
    advantage: float | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True)
class Figures:
    """What a run logs beside its advantages: standardising by step index favours attempts that go on where the policy
    itself chooses when to stop, and these show it."""

    attempts_at: Mapping[int, int]
    """How many attempts that count came to each step index, over all groups."""
    buckets: Mapping[tuple[Hashable, int], int]
    """The same of each group."""
    mean_length: float
    """Steps of an attempt that counts; 0.0 where none does."""
    truncated_share: float
    """Of the attempts that came to an end of their own or were cut off; 0.0 where none did."""
    left_out: Mapping[LeftOut, int]
    """Steps without an advantage, by reason."""


@dataclass(frozen=True)
class Advantages:
    steps: tuple[tuple[Step, ...], ...]
    """One tuple an attempt, in the order in which they were given; one Step a score."""
    figures: Figures


def step_advantages(
    attempts: Sequence[Attempt],
    *,
    baseline: Baseline = "index",
    horizon: Counting = "lost",
    context: Counting = "left_out",
) -> Advantages:
    """Standardise what the steps of attempts are worth within their groups: (x - mean) / (population std + 1e-6).

    index               step value = score + outcome, among the group's attempts at this step index; the default
    outcome             the outcome among the group's attempts, at each of their steps
    pooled              step value among all steps of the group
    episode_plus_step   (outcome's advantage + that of the scores among all steps of the group) / sqrt 2

    A bucket in which all are equal, or in which one attempt is alone, teaches nothing. An attempt with infra_error or
    cancelled takes no part: it moves no mean. `horizon` and `context` say what an attempt counts as that was cut off
    by either. Raises ValueError for an unknown baseline.
    """
    if baseline not in get_args(Baseline):
        raise ValueError(f"{baseline!r} is no baseline: {', '.join(get_args(Baseline))} are")
    outcomes = [outcome_of(attempt, horizon=horizon, context=context) for attempt in attempts]
    by_group: dict[Hashable, list[int]] = defaultdict(list)
    for at, outcome in enumerate(outcomes):
        if not isinstance(outcome, LeftOut):
            by_group[attempts[at].group].append(at)
    worth: dict[tuple[int, int], float | LeftOut] = {}
    buckets: dict[tuple[Hashable, int], int] = {}
    for group, members in by_group.items():
        counted = {at: outcome for at in members if not isinstance(outcome := outcomes[at], LeftOut)}
        scores = {(at, n): score for at in members for n, score in enumerate(attempts[at].scores)}
        for n in range(max(len(attempts[at].scores) for at in members)):
            buckets[group, n] = sum((at, n) in scores for at in members)
        if len(members) < 2:
            worth |= dict.fromkeys(scores, LeftOut.SHORT)
        else:
            worth |= _of_group(counted, scores, baseline)
    steps = tuple(
        tuple(_step(score, outcome, worth.get((at, n))) for n, score in enumerate(attempts[at].scores))
        for at, outcome in enumerate(outcomes)
    )
    return Advantages(steps, _figures(attempts, outcomes, steps, buckets))


def outcome_of(attempt: Attempt, *, horizon: Counting = "lost", context: Counting = "left_out") -> float | LeftOut:
    """What the attempt counts as, -1 to 1, or why it does not count."""
    if attempt.ending == "infra_error":
        return LeftOut.INFRA_ERROR
    if attempt.ending == "cancelled":
        return LeftOut.CANCELLED
    if attempt.ending == "truncated":
        counts_as = horizon if attempt.cut_by == "horizon" else context
        return -1.0 if counts_as == "lost" else LeftOut.TRUNCATED
    assert attempt.outcome is not None
    return attempt.outcome


def standardised(values: Sequence[float]) -> list[float] | None:
    """(x - mean) / (population std + EPSILON) of each; None where all are equal.

    >>> standardised([1.0, 1.0]), [round(x, 5) for x in standardised([3.0, 1.0])]
    (None, [1.0, -1.0])
    """
    if max(values) - min(values) <= EQUAL:
        return None
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / (std + EPSILON) for value in values]


def _of_group(
    outcomes: Mapping[int, float], scores: Mapping[tuple[int, int], float], baseline: Baseline
) -> dict[tuple[int, int], float | LeftOut]:
    """The advantage of each (attempt, step index) of a group of two and more, or why it has none."""
    values = {(at, n): score + outcomes[at] for (at, n), score in scores.items()}
    if baseline == "index":
        return _within(values, {key: key[1] for key in scores})
    if baseline == "pooled":
        return _within(values, dict.fromkeys(scores, 0))
    episode = standardised(list(outcomes.values()))
    by_attempt = dict(zip(outcomes, episode, strict=True)) if episode else None
    if baseline == "outcome":
        return {key: LeftOut.CONSTANT if by_attempt is None else by_attempt[key[0]] for key in scores}
    pooled = _within(scores, dict.fromkeys(scores, 0))
    both: dict[tuple[int, int], float | LeftOut] = {}
    for key, own in pooled.items():
        if isinstance(own, LeftOut) and by_attempt is None:
            both[key] = own
        else:
            whole = 0.0 if by_attempt is None else by_attempt[key[0]]
            both[key] = (whole + (0.0 if isinstance(own, LeftOut) else own)) / math.sqrt(2)
    return both


def _within(
    values: Mapping[tuple[int, int], float], buckets: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], float | LeftOut]:
    """Each (attempt, step index) standardised in its bucket, or why it is not."""
    in_bucket: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, bucket in buckets.items():
        in_bucket[bucket].append(key)
    found: dict[tuple[int, int], float | LeftOut] = {}
    for keys in in_bucket.values():
        if len({at for at, _ in keys}) < 2:
            found |= dict.fromkeys(keys, LeftOut.SINGLE)
        elif (advantages := standardised([values[key] for key in keys])) is None:
            found |= dict.fromkeys(keys, LeftOut.CONSTANT)
        else:
            found |= dict(zip(keys, advantages, strict=True))
    return found


def _step(score: float, outcome: float | LeftOut, worth: float | LeftOut | None) -> Step:
    if isinstance(outcome, LeftOut):
        return Step(None, left_out=outcome)
    value = score + outcome
    return Step(value, left_out=worth) if isinstance(worth, LeftOut) else Step(value, worth)


def _figures(
    attempts: Sequence[Attempt],
    outcomes: Sequence[float | LeftOut],
    steps: Iterable[Sequence[Step]],
    buckets: Mapping[tuple[Hashable, int], int],
) -> Figures:
    lengths = [len(a.scores) for a, outcome in zip(attempts, outcomes, strict=True) if not isinstance(outcome, LeftOut)]
    ended = [attempt.ending for attempt in attempts if attempt.ending not in UNSCORED]
    at: Counter[int] = Counter()
    for (_place, n), count in buckets.items():
        at[n] += count
    return Figures(
        attempts_at=dict(sorted(at.items())),
        buckets=dict(buckets),
        mean_length=sum(lengths) / len(lengths) if lengths else 0.0,
        truncated_share=ended.count("truncated") / len(ended) if ended else 0.0,
        left_out=dict(Counter(step.left_out for row in steps for step in row if step.left_out is not None)),
    )
