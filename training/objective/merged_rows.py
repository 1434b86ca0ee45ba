"""Merge an attempt's steps into rows: what the next prompt repeats goes through the model once. Pure.

A step whose prompt goes on from the prompt and the reply of the step before it stands in the same row: its prompt is
the first step's, its response all that came after. What lies between replies (results, the template's words) is read
and not learned from. Every attempt weighs the same, however many steps and rows it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.marked import gettext_noop as _
from gpu_workers.types import Example


class Apart(StrEnum):
    """Why a step begins a row of its own, as far as token ids tell."""

    REPLY = _("the reply before it stands in its prompt in other tokens")
    CUT = _("its prompt is shorter than the one before it: the context was cut")
    PROMPT = _("the prompt was written anew")


@dataclass(frozen=True)
class Step:
    """One reply of an attempt. Lists agree in length with `response_ids`."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    behaviour_logprobs: Sequence[float]  # T = 1, under the checkpoint that served it
    mask: Sequence[float] = ()  # 1 learns, 0 does not; empty means all ones
    advantage: float | None = None  # None: it is read and not learned from

    def __post_init__(self) -> None:
        for name in ("behaviour_logprobs", "mask"):
            values = getattr(self, name)
            if (name == "behaviour_logprobs" or values) and len(values) != len(self.response_ids):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.response_ids)} response tokens")


@dataclass(frozen=True)
class Merged:
    rows: tuple[tuple[Example, ...], ...]
    """One tuple an attempt, in the order in which they were given; empty where nothing of it is learned."""
    apart: Mapping[str, int] = field(default_factory=dict)
    """How many steps begin a row of their own, by reason, of the attempts that have rows."""


def merged_rows(attempts: Iterable[Sequence[Step]], *, max_tokens: int | None = None) -> Merged:
    """The rows of attempts, each with `weight`, which add up to 1 over those of an attempt: its share of the attempt's
    tokens that learn. So the sum of weight · (mean over a row's tokens) is the mean over the attempt's tokens.

    Of each reply the first `max_tokens` are learned from; its row keeps the rest, which the next prompt repeats. A row
    without a token to learn is left out, and so is what lies behind the last one of a row.
    """
    rows, why = [], Counter[str]()
    for steps in attempts:
        runs, reasons = chains(steps)
        drafts = [row for run in runs if (row := _row(run, max_tokens)) is not None]
        whole = sum(sum(row["mask"]) for row in drafts)
        rows.append(tuple(Example(**row, weight=sum(row["mask"]) / whole) for row in drafts))
        if drafts:
            why.update(reasons)
    return Merged(tuple(rows), dict(why))


def chains(steps: Sequence[Step]) -> tuple[list[list[Step]], list[Apart]]:
    """The steps of an attempt, in their order, in the rows that they make, and why each row but the first begins."""
    found: list[list[Step]] = []
    reasons = []
    for step in steps:
        why = apart(found[-1][-1], step) if found else None
        if found and why is None:
            found[-1].append(step)
        else:
            found.append([step])
        if why is not None:
            reasons.append(why)
    return found, reasons


def apart(before: Step, after: Step) -> Apart | None:
    """Why `after` does not go on from `before`; None where it does.

    >>> prompts = [1, 2, 3, 4], [1, 2, 4], [2], [5, 6]
    >>> whys = [apart(Step([1, 2], [3], [-1.0]), Step(prompt, [9], [-1.0])) for prompt in prompts]
    >>> [why and why.name for why in whys]
    [None, 'REPLY', 'CUT', 'PROMPT']
    """
    said, heard = [*before.prompt_ids, *before.response_ids], list(after.prompt_ids)
    if heard[: len(said)] == said:
        return None
    if heard[: len(before.prompt_ids)] == said[: len(before.prompt_ids)]:
        return Apart.REPLY
    return Apart.CUT if len(heard) < len(before.prompt_ids) else Apart.PROMPT


def _row(steps: Sequence[Step], max_tokens: int | None) -> dict[str, Any] | None:
    """The fields of the Example that these steps make; None where nothing of it is learned."""
    prompt = list(steps[0].prompt_ids)
    response: list[int] = []
    logprobs: list[float] = []
    mask: list[float] = []
    rewards: list[float] = []
    spans: list[tuple[int, int]] = []
    for step in steps:
        between = list(step.prompt_ids)[len(prompt) + len(response) :]
        learns = _learns(step, max_tokens)
        response += [*between, *step.response_ids]
        logprobs += [*[0.0] * len(between), *step.behaviour_logprobs]
        mask += [*[0.0] * len(between), *learns]
        rewards += [*[0.0] * len(between), *(step.advantage or 0.0 if one else 0.0 for one in learns)]
        spans.append((len(response) - len(step.response_ids), len(response)))
    end = max((at + 1 for at, one in enumerate(mask) if one), default=0)
    if not end:
        return None
    return {
        "prompt_ids": prompt,
        "response_ids": response[:end],
        "behaviour_logprobs": logprobs[:end],
        "mask": mask[:end],
        "rewards": rewards[:end],
        "spans": [(first, min(last, end)) for first, last in spans if first < end],
    }


def _learns(step: Step, max_tokens: int | None) -> list[float]:
    """1 for each token of a step that learns, else 0."""
    if step.advantage is None:
        return [0.0] * len(step.response_ids)
    mask = step.mask or [1.0] * len(step.response_ids)
    return [float(one) if max_tokens is None or at < max_tokens else 0.0 for at, one in enumerate(mask)]
