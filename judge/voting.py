"""What a judge's text says, and what several of them come to. Pure: strings and numbers in, numbers out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

BOXED = re.compile(r"\\?boxed\s*\{\s*([^{}\n]{0,20}?)\s*\}", re.IGNORECASE)
NUMBER = re.compile(r"([+\-\u2212\u2013]?)\s*([01])(?:\.0*)?")  # a minus sign is often a typographic one
HINT = re.compile(r"\[\s*HINT[_ ]START\s*\](.*?)\[\s*HINT[_ ]END\s*\]", re.IGNORECASE | re.DOTALL)


def score_of(text: str) -> int | None:
    """The last readable boxed score, -1, 0 or 1; None when there is none.

    >>> score_of(r"They thanked. \\boxed{ +1 }"), score_of(r"\\boxed{1} no, \\boxed{-1.0}"), score_of("1, clearly")
    (1, -1, None)
    """
    scores = [score for inside in BOXED.findall(text) if (score := _number(inside)) is not None]
    return scores[-1] if scores else None


def decision_of(text: str) -> int | None:
    """The last readable boxed decision of a hint vote: 1 (there is a hint) or -1; None when there is none.

    >>> decision_of(r"\\boxed{1} [HINT_START]Be brief.[HINT_END]"), decision_of(r"\\boxed{0}")
    (1, None)
    """
    decision = score_of(text)
    return decision if decision in (1, -1) else None


def hint_of(text: str) -> str:
    """What stands between the last pair of markers, stripped; empty when there is no pair.

    >>> hint_of("[HINT_START] Answer in one sentence. [HINT_END]")
    'Answer in one sentence.'
    """
    found = HINT.findall(text)
    return " ".join(found[-1].split()) if found else ""


def _number(inside: str) -> int | None:
    read = NUMBER.fullmatch(inside)
    if read is None:
        return None
    sign, digit = read.groups()
    return -int(digit) if sign not in ("", "+") else int(digit)


@dataclass(frozen=True)
class Outcome:
    """What a round of votes came to."""

    reward: int | None
    """-1, 0 or 1; None: too few votes could be read, so nobody knows."""
    confidence: float | None
    """The share of the valid votes that agree with the reward."""
    valid: int
    asked: int

    @property
    def is_tie(self) -> bool:
        return self.reward == 0 and self.confidence is not None and self.confidence <= 0.5


def quorum(asked: int) -> int:
    """How many of `asked` votes must be valid (for a hint: must accept it): more than half."""
    return asked // 2 + 1


def majority(scores: Sequence[int | None]) -> int:
    """The score that more than half of the valid votes gave. A tie, or no readable vote at all, is 0.

    >>> majority([1, 1, -1, None])
    1
    >>> majority([1, -1]), majority([1, 1, 0, -1]), majority([None])
    (0, 0, 0)
    """
    valid = [score for score in scores if score is not None]
    if not valid:
        return 0
    winner, count = Counter(valid).most_common(1)[0]
    return winner if 2 * count > len(valid) else 0


def outcome(scores: Sequence[int | None]) -> Outcome:
    """The reward and how sure it is; None marks a failed vote, which is no vote and never a zero.

    >>> outcome([1, 1, None])
    Outcome(reward=1, confidence=1.0, valid=2, asked=3)
    >>> outcome([1, None, None])
    Outcome(reward=None, confidence=None, valid=1, asked=3)
    """
    valid = [score for score in scores if score is not None]
    if len(valid) < quorum(len(scores)):
        return Outcome(None, None, len(valid), len(scores))
    reward = majority(scores)
    return Outcome(reward, valid.count(reward) / len(valid), len(valid), len(scores))


def is_accepted(decisions: Sequence[int | None], usable: int) -> bool:
    """Whether a round of hint votes yields a hint: a quorum could be read, and more than half of `asked` brought a
    usable one. A lone vote accepts nothing.

    >>> is_accepted([1, 1, None], usable=2), is_accepted([1, -1, -1], usable=1), is_accepted([1, 1, 1], usable=1)
    (True, False, False)
    """
    valid = [decision for decision in decisions if decision is not None]
    return len(valid) >= quorum(len(decisions)) and usable >= quorum(len(decisions))
