"""Which of several wordings of a hint a turn learns from: by what the teacher says under each, never by length.

Where a better reply than the served one is known, the wording that raises it most. Else, of those that move the teacher
enough in the wanted direction, the one under which most of what the model itself would have said stays likely: a
teacher whose words the model can reach teaches more than one who only thinks less of the reply, as most hints do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chat.models import Turn
from gpu_workers.types import Top
from judge.votes.evidence import Evidence

TOP = 4
"""How many of the likeliest tokens at each place are compared: as many as in OpenClaw-RL's own later practice."""

ENOUGH = 0.5
"""Of the largest gain. A wording that changes nothing agrees with the model everywhere: it must move the teacher."""

FURTHEST = 3
"""How many replies down the same history the one that was accepted is looked for."""


@dataclass(frozen=True)
class Measured:
    """What one wording does to the teacher."""

    gain: float
    """Nats a token by which it moves the served reply in the wanted direction (hints.gain)."""
    raises: float | None = None
    """Nats a token by which it raises the better reply; None where none is known."""
    overlap: float | None = None
    """Share of the model's likeliest tokens that are the teacher's too, 0 to 1; None where the engine names none."""


def better_reply(turn: Turn, seen: Evidence) -> str:
    """What should have been said in place of this reply, as far as a person or a judge has shown it; empty where
    neither has.

    A person's rewrite; else the first reply further down the same history that was found good, while each before it
    was found bad: it is what the person took in the end.
    """
    if rewrite := seen.rewrite.strip():
        return rewrite
    at = turn
    for _ in range(FURTHEST):
        after = last_try_after(at)
        judged = getattr(after, "judgement", None)
        if after is None or judged is None or not after.is_trainable or not judged.reward:
            return ""
        if judged.reward > 0:
            return after.text.strip() if after.finish_reason == "stop" else ""
        at = after
    return ""


def last_try_after(turn: Turn) -> Turn | None:
    """The last try at an answer to what came back after this reply. An edit of that message is no answer to it."""
    after = turn.followers.select_related("judgement", "session").order_by("position")
    first = after.first()
    return after.filter(request_chain=first.request_chain).last() if first and first.request_chain else first


def overlap(student: Top, teacher: Top) -> float | None:
    """The share of the student's likeliest tokens that are among the teacher's, over all places of a reply; None where
    either names none. Lengths that disagree raise ValueError.

    >>> overlap((((7, -0.1), (8, -2.5)), ((3, -0.5), (4, -1.0))), (((7, -0.2), (9, -2.0)), ((4, -0.1), (3, -3.0))))
    0.75
    """
    pairs = [({id for id, _ in own}, {id for id, _ in other}) for own, other in zip(student, teacher, strict=True)]
    total = sum(len(own) for own, _ in pairs)
    return sum(len(own & other) for own, other in pairs) / total if total else None


def best(measured: Mapping[str, Measured], wordings: Sequence[str]) -> str:
    """Which of these wordings is learned from.

    >>> both = {"Think.": Measured(1.0, overlap=0.75), "Say four.": Measured(1.5, overlap=0.25)}
    >>> best(both | {"Yes.": Measured(0.1, overlap=1.0)}, ["Think.", "Say four.", "Yes."])  # the last moves too little
    'Think.'
    """
    return max(wordings, key=lambda text: _rank(text, measured, wordings))


def why(measured: Mapping[str, Measured], wordings: Sequence[str], chosen: str) -> str:
    """Why this one was chosen, in a sentence for a reviewer; empty where there was no choice."""
    others = [measured[text] for text in dict.fromkeys(wordings) if text != chosen]
    if not others:
        return ""
    one, said = measured[chosen], f"Chosen among {len(others) + 1} wordings because"
    if _by_better(measured, wordings):
        rest = ", ".join(f"{other.raises:.2f}" for other in others)
        return f"{said} it raises the better reply most: by {one.raises:.2f} nats per token (others: {rest})."
    if _by_overlap(measured, wordings):
        rest = ", ".join(
            f"{other.overlap:.0%}" if _is_enough(other, measured, wordings) else "changes too little"
            for other in others
        )
        return (
            f"{said} under it {one.overlap:.0%} of the {TOP} tokens that the model finds likeliest at each place stay "
            f"among the teacher's {TOP} (others: {rest})."
        )
    rest = ", ".join(f"{other.gain:.2f}" for other in others)
    return f"{said} it moves the teacher most: by {one.gain:.2f} nats per token (others: {rest})."


def _rank(text: str, measured: Mapping[str, Measured], wordings: Sequence[str]) -> tuple[float, ...]:
    one = measured[text]
    if _by_better(measured, wordings):
        return (one.raises or 0.0, one.gain)
    if _by_overlap(measured, wordings) and _is_enough(one, measured, wordings):
        return (1.0, one.overlap or 0.0, one.gain)
    return (0.0, one.gain)


def _by_better(measured: Mapping[str, Measured], wordings: Sequence[str]) -> bool:
    return all(measured[text].raises is not None for text in wordings)


def _by_overlap(measured: Mapping[str, Measured], wordings: Sequence[str]) -> bool:
    """Overlap chooses where every wording has one, and one at least moves the teacher in the wanted direction."""
    has_all = all(measured[text].overlap is not None for text in wordings)
    return has_all and max(measured[text].gain for text in wordings) > 0


def _is_enough(one: Measured, measured: Mapping[str, Measured], wordings: Sequence[str]) -> bool:
    return one.gain >= ENOUGH * max(measured[text].gain for text in wordings)
