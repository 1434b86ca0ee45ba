"""How sure the judge's adapter is, and how often it is right when it is sure: accuracy against coverage.

No votes are drawn: the probability of each answer is that of the one token which decides it, among the tokens that the
grammar allows there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chat.rendering.renderer import Renderer
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.learner import Learner
from lab.curriculum import lessons
from lab.curriculum.lessons import Lesson
from lab.curriculum.phrasings import Split
from lab.curriculum.training import ANSWERS, deciding, grouped

THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
BINS = 10


@dataclass(frozen=True)
class Weighed:
    """One lesson and how likely each answer to its questions is."""

    lesson: Lesson
    scores: dict[int | None, float]
    """By score; None is a change of subject. They sum to one."""
    hint: float
    """That what came back asks for a change."""

    @property
    def score(self) -> int | None:
        return max(self.scores, key=lambda score: self.scores[score])

    @property
    def confidence(self) -> float:
        return self.scores[self.score]

    @property
    def is_right(self) -> bool:
        return self.score == self.lesson.label.score


def weigh(
    model: Path, adapter: Path, split: Split, groups: int, seed: int, swayed: int = 0
) -> tuple[list[Weighed], list[Weighed]]:
    """Weigh the answers to lessons without injections, and those to the lessons of the first `swayed` groups once more
    with an injection in each; these come in the order of the first."""
    learner = Learner(model, adapter_dir=adapter, micro_batch=64)
    renderer = Renderer.for_model(model)
    plain = [lesson for lesson in lessons.made(split, groups, seed, injections=False) if lesson.label.role != "person"]
    hostile = [lessons.swayed(lesson, split, seed) for lesson in plain if lesson.group < swayed]
    found = (
        [one for group in grouped(every) for one in weighed(learner, group, renderer)] for every in (plain, hostile)
    )
    return next(found), next(found)


def weighed(learner: Learner, group: Sequence[Lesson], renderer: Renderer) -> list[Weighed]:
    """The lessons of one reply, weighed together."""
    opening, scores = deciding(renderer, list(ANSWERS.values()))
    start, hints = deciding(renderer, [r"\boxed{1} [HINT_START]", r"\boxed{-1}"])
    pairs: list[Pair] = []
    for lesson in group:
        score = [*renderer.prompt_ids(lesson.messages("score")), *opening]
        hint = [*renderer.prompt_ids(lesson.messages("hint")), *start]
        pairs += [*((score, [token]) for token in scores), *((hint, [token]) for token in hints)]
    likely = [sum(one) for one in learner.logprobs(pairs)]
    width = len(scores) + len(hints)
    found = []
    for at, lesson in enumerate(group):
        row = likely[at * width : (at + 1) * width]
        shares = dict(zip(ANSWERS, softmax(row[: len(scores)]), strict=True))
        found.append(Weighed(lesson, shares, softmax(row[len(scores) :])[0]))
    return found


def softmax(logs: Sequence[float]) -> list[float]:
    """
    >>> softmax([0.0, 0.0])
    [0.5, 0.5]
    """
    top = max(logs)
    powers = [math.exp(log - top) for log in logs]
    return [power / sum(powers) for power in powers]


def calibration_error(some: Sequence[Weighed]) -> float:
    """The expected calibration error: how far, on average, confidence is from the share that is right, in ten bins."""
    bins: dict[int, list[Weighed]] = {}
    for one in some:
        bins.setdefault(min(int(one.confidence * BINS), BINS - 1), []).append(one)
    return sum(
        abs(sum(one.confidence for one in bin_) - sum(one.is_right for one in bin_)) for bin_ in bins.values()
    ) / len(some)


def table(every: Sequence[Weighed], hostile: Sequence[Weighed] = ()) -> str:
    """What is decided at each threshold, and how much of that is right; then kind by kind what is likeliest, and how
    often that stays so with an injection in it."""
    rows = ["threshold  coverage  right of the decided  +1 for a true -1, of all"]
    for threshold in THRESHOLDS:
        decided = [one for one in every if one.confidence >= threshold]
        if decided:
            right = sum(one.is_right for one in decided) / len(decided)
            praised = sum(one.score == 1 and one.lesson.label.score == -1 for one in decided) / len(every)
            rows.append(f"{threshold:9.2f}  {len(decided) / len(every):8.3f}  {right:20.3f}  {praised:24.3f}")
    rows += ["", f"calibration error {calibration_error(every):.3f} of {len(every)}", ""]
    rows += ["cases                right  sure by    asks by 0.9 or more"]
    for title, some in by_kind(every):
        right = sum(one.is_right for one in some) / len(some)
        sure = sum(one.confidence for one in some) / len(some)
        asks = sum(one.hint >= 0.9 for one in some) / len(some)
        rows.append(f"{title:20} {right:5.3f}  {sure:7.3f}  {asks:5.3f} ({len(some)})")
    if hostile:
        pairs = [(before, after) for before, after in zip(every, hostile, strict=False)]
        same = sum(before.score == after.score for before, after in pairs) / len(pairs)
        turned = sum(before.score != after.score and after.confidence >= 0.9 for before, after in pairs) / len(pairs)
        rows += [
            "",
            f"with an injection: score as without it {same:.3f}, another by 0.9 or more {turned:.3f} ({len(pairs)})",
        ]
    return "\n".join(rows)


def by_kind(every: Iterable[Weighed]) -> list[tuple[str, list[Weighed]]]:
    """The cases by what came back: changes together, those in a person's own words apart."""
    found: dict[str, list[Weighed]] = {}
    for one in every:
        found.setdefault(kind_of(one.lesson), []).append(one)
    return sorted(found.items())


def kind_of(lesson: Lesson) -> str:
    """The kind of what came back, as a table names it."""
    label = lesson.label
    part, _, kind = label.kind.partition(":")
    if part == "change":
        return "change, unseen" if label.is_unseen else "change, own words" if kind == "own" else "change"
    return f"{part}, {label.role}" if label.role != "user" else part
