"""What a judge's text says, and what several of them come to. Pure: strings and numbers in, numbers out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

BOXED = re.compile(r"\\?boxed\s{0,8}\{\s{0,8}([^{}\n]{0,20}?)\s{0,8}\}", re.IGNORECASE)
NUMBER = re.compile(r"([+\-\u2212\u2013]?)\s*([01])(?:\.0*)?")  # a minus sign is often a typographic one
WORDS = re.compile(
    r"^[ \t>*_#]*(?:final[ _]+)?score[ \t*_]*:[ \t*_`]*([+\-\u2212\u2013]?[ \t]*[01](?:\.0*)?)[ \t*_`.]*$",
    re.IGNORECASE | re.MULTILINE,
)
FIELD = re.compile(r"\"score\"\s*:\s*\"?(?:[+-]?[01](?:\.0*)?|new)\"?\s*[,}]")
NEW: Final = "new"
"""The answer of a judge that sees a change of subject: it says nothing of the reply."""

Answer = int | Literal["new"]
"""What a judge says how it went: 1, 0, -1, or NEW."""

HINT = re.compile(
    r"\[\s{0,8}HINT[_ ]START\s{0,8}\](.{0,4000}?)\[\s{0,8}HINT[_ ]END\s{0,8}\]", re.IGNORECASE | re.DOTALL
)
QUOTED = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
READ = 20_000
"""Characters of an answer that are read, its end: a judge that babbles on says nothing new, and must cost nothing."""


def own(text: str) -> str:
    """A judge's own words: no thoughts before them, and no line that it quotes from the evidence. In an object, where
    an engine holds it to one, all words are its own.

    >>> own("<think>Maybe 1.</think>No.\\n| They said 1.")
    'No.\\n'
    """
    if not text.lstrip().startswith("{"):
        if "<think>" in text and "</think>" not in text:
            return ""  # cut off before it spoke
        text = text.rpartition("</think>")[2]
    return QUOTED.sub("", text[-READ:])


def answer_of(text: str) -> Answer | None:
    """The last readable boxed answer, -1, 0, 1 or NEW; without any, that of a JSON object which is the whole answer, or
    of the last line "Score: …". None when there is none.

    >>> answer_of(r"They ask for something else. \\boxed{new}"), answer_of('{"reasoning": "Else.", "score": "new"}')
    ('new', 'new')
    """
    said = own(text)
    for spelled in (BOXED.findall(said), [_object(said).get("score")], WORDS.findall(said)):
        answers = [answer for one in spelled if (answer := _answer(one)) is not None]
        if answers:
            return answers[-1]
    return None


def score_of(text: str) -> int | None:
    """The score of `answer_of`: a change of subject scores 0.

    >>> score_of(r"They thanked. \\boxed{ +1 }"), score_of(r"\\boxed{1} no, \\boxed{-1.0}"), score_of("1, clearly")
    (1, -1, None)
    >>> score_of('{"reasoning": "They thanked.", "score": 1}'), score_of("They object.\\n**Score:** -1")
    (1, -1)
    """
    answer = answer_of(text)
    return 0 if answer == NEW else answer


def decision_of(text: str) -> int | None:
    """The last readable boxed decision of a hint vote: 1 (there is a hint) or -1; None when there is none.

    >>> decision_of(r"\\boxed{1} [HINT_START]Be brief.[HINT_END]"), decision_of(r"\\boxed{0}")
    (1, None)
    """
    decision = answer_of(text)
    return decision if decision == 1 or decision == -1 else None


def hint_of(text: str) -> str:
    """What stands between the last pair of markers, or in a JSON answer's `hint`, stripped; else empty.

    >>> hint_of("[HINT_START] Answer in one sentence. [HINT_END]"), hint_of('{"score": 1, "hint": "Be brief, please."}')
    ('Answer in one sentence.', 'Be brief, please.')
    """
    said = own(text)
    found = HINT.findall(said) or [str(_object(said).get("hint") or "")]
    return " ".join(found[-1].split())


def _object(text: str) -> dict[str, object]:
    """The JSON object that is the whole answer, perhaps in a fence; empty when it is none, or spells its score in
    another way than plainly."""
    inside = text.strip()
    if inside.startswith("```") and inside.endswith("```"):
        inside = inside.strip("`").removeprefix("json").strip()
    if not inside.startswith("{") or not FIELD.search(inside):
        return {}
    try:
        found = json.loads(inside)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _answer(inside: object) -> Answer | None:
    return NEW if isinstance(inside, str) and inside.strip().casefold() == NEW else _number(inside)


def _number(inside: object) -> int | None:
    if isinstance(inside, bool) or not isinstance(inside, str | int | float):
        return None
    read = NUMBER.fullmatch(str(inside).strip())
    if read is None:
        return None
    sign, digit = read.groups()
    return -int(digit) if sign not in ("", "+") else int(digit)


@dataclass(frozen=True)
class Outcome:
    """What a round of votes came to."""

    reward: int | None
    """-1, 0 or 1; None: too few votes could be read, or they are not sure enough."""
    confidence: float | None
    """How likely the reward, or what they lean to, is right; None: too few votes could be read."""
    valid: int
    asked: int
    leaning: int | None = None
    """What they lean to where there is no reward, since they are not sure enough."""
    is_new: bool = False
    """They say that the subject has changed."""

    @property
    def is_unclear(self) -> bool:
        """True when votes were read, and are not sure enough."""
        return self.reward is None and self.leaning is not None

    @property
    def likeliest(self) -> int | None:
        """The reward, or what they lean to."""
        return self.leaning if self.reward is None else self.reward

    @property
    def is_tie(self) -> bool:
        return self.reward == 0 and self.confidence is not None and self.confidence <= 0.5


def quorum(asked: int) -> int:
    """How many of `asked` votes must be valid (for a hint: must accept it): more than half."""
    return asked // 2 + 1


def majority(scores: Sequence[int | None], weights: Sequence[float] = ()) -> int:
    """The score that more than half of the valid votes gave, by weight. A tie, or no readable vote at all, is 0.

    >>> majority([1, 1, -1, None]), majority([1, 1, -1], [0.25, 0.25, 1])
    (1, -1)
    >>> majority([1, -1]), majority([1, 1, 0, -1]), majority([None])
    (0, 0, 0)
    """
    shares = _shares(scores, weights)
    winner = max(shares, key=lambda score: shares[score], default=0)
    return winner if shares and 2 * shares[winner] > sum(shares.values()) + SLACK else 0


def outcome(scores: Sequence[int | None], weights: Sequence[float] = ()) -> Outcome:
    """The reward and how sure it is; None marks a failed vote, which is no vote and never a zero. Votes without weight
    are as good as failed.

    >>> found = outcome([1, 1, None])
    >>> found.reward, found.confidence, found.valid, found.asked
    (1, 1.0, 2, 3)
    >>> outcome([1, None, None]).reward is None
    True
    """
    heard = [None if not weight else score for score, weight in zip(scores, _weights(scores, weights), strict=True)]
    valid = sum(score is not None for score in heard)
    if valid < quorum(len(scores)):
        return Outcome(None, None, valid, len(scores))
    reward, shares = majority(heard, weights), _shares(heard, weights)
    return Outcome(reward, min(shares.get(reward, 0.0) / sum(shares.values()), 1.0), valid, len(scores))


def is_accepted(decisions: Sequence[int | None], usable: Sequence[bool], weights: Sequence[float] = ()) -> bool:
    """Whether a round of hint votes yields a hint: a quorum could be read, and more than half of those asked, by number
    and by weight, brought a usable one. A lone vote accepts nothing.

    >>> is_accepted([1, 1, None], [True, True, False]), is_accepted([1, -1, -1], [True, False, False])
    (True, False)
    >>> is_accepted([1, 1, 1], [True, False, False]), is_accepted([1, 1, -1], [True, True, False], [0.25, 0.25, 1])
    (False, False)
    """
    each = _weights(decisions, weights)
    valid = [weight for decision, weight in zip(decisions, each, strict=True) if decision is not None and weight]
    bringing = [weight for brings, weight in zip(usable, each, strict=True) if brings and weight]
    needed = quorum(len(decisions))
    return len(valid) >= needed and len(bringing) >= needed and 2 * sum(bringing) > sum(each) + SLACK


SLACK = 1e-9
"""What sums of weights may be off by."""


def _weights(votes: Sequence[int | None], weights: Sequence[float]) -> Sequence[float]:
    """One a vote; none given: all count alike. Raises ValueError for another number of them, or a negative one."""
    if weights and len(weights) != len(votes):
        raise ValueError(f"{len(weights)} weights for {len(votes)} votes")
    if any(weight < 0 for weight in weights):
        raise ValueError("a vote cannot weigh less than nothing")
    return weights or [1.0] * len(votes)


def _shares(scores: Sequence[int | None], weights: Sequence[float]) -> dict[int, float]:
    """What each score weighs that was given."""
    shares: dict[int, float] = {}
    for score, weight in zip(scores, _weights(scores, weights), strict=True):
        if score is not None and weight:
            shares[score] = shares.get(score, 0.0) + weight
    return shares
