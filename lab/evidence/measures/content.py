"""Whether a reply still says something on the matter: measured apart from what any recipe is trained towards.

A recipe raises the log-prob of replies under a *hinted* prompt, or a judged reward. This measure asks three other
things, and a reply must pass all of them, for it is their product:

- topic: can the question be told from the reply? Its telling words are held against the words of every question and of
  the base's own further replies to it: do they point to the question that was asked, or to another?
- substance: does it tell anything that the question did not? Words that the base's further replies to this question
  tell too count fully, new ones a little, those that belong to other questions not at all.
- fluency: does the base take it for language, from end to end? Its log-prob a token given the plain question, and that
  of its worst run of tokens, count only below what nearly all of the base's own replies have: nothing is gained by
  being likelier than they are, so this is a floor and no target.

All three are whole for a good answer of two sentences; more is not better. Pure, but for `read`.
`python -m lab.evidence.measures.content --validate FILE` shows what it says of replies that were spoilt on purpose.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, quantiles
from typing import Any, Protocol

from core import pipes
from core.textfiles import read_lines
from environments import grams

Message = Mapping[str, Any]

RUN = 12
"""Tokens in a row that are looked at together: a fluent beginning hides no broken end."""


class Reader(Protocol):
    """Gives the base's log-probs of a reply's tokens, natural and at temperature 1."""

    async def logprobs(self, messages: Sequence[Message], reply: str) -> list[float]: ...


@dataclass(frozen=True)
class Reading:
    """What the base says of one reply, given what was asked without guidance; in nats."""

    fluency: float
    """Mean log-prob a token."""
    worst: float
    """The same of the worst RUN tokens in a row."""

    @classmethod
    def of(cls, logprobs: Sequence[float]) -> Reading:
        """Raises ValueError without a token."""
        if not logprobs:
            raise ValueError("no token, no reading")
        return cls(mean(logprobs), worst(logprobs))


async def read(reader: Reader, asked: Sequence[Message], reply: str) -> Reading | None:
    """Have the base read a reply to `asked`. None for a reply without a word."""
    return Reading.of(await reader.logprobs(asked, reply)) if grams.words(reply) else None


def worst(logprobs: Sequence[float], run: int = RUN) -> float:
    """The lowest mean of `run` neighbours, or of all where they are fewer.

    >>> worst([-1.0, -3.0, -5.0, -1.0], run=2)
    -4.0
    """
    size = min(run, len(logprobs))
    return min(mean(logprobs[at : at + size]) for at in range(len(logprobs) - size + 1))


# Words that tell

_PLAIN = (
    "a about above after again all also am an and any are as at be because been before being below best better "
    "between both but by can could did do does doing down during each either else etc even ever every few first "
    "for from further get give go good great had has have having he help her here hers him his how however i if "
    "in into is it its itself just keep kind know least less let like likely lot made make makes making many may "
    "me might more most much must my need neither never new no nor not now of off often on once one only or other "
    "our out over own people perhaps quite rather really same see seem several shall she should simply since so "
    "some something sometimes still such take than that the their them then there these they thing things this "
    "those though through thus to together too try under until up upon us use used using usually various very "
    "want was way ways we well were what when where whether which while who whole whom whose why will with within "
    "without would yes yet you your yours "
)
PLAIN = frozenset(_PLAIN.split())
"""Words that any reply may hold."""
_ENDINGS = "ational ingly ations ation ness ment edly ings ing ies ed ly es s e"
ENDINGS = tuple(_ENDINGS.split())


def stem(word: str) -> str:
    """A word without its usual endings: rough, but the same for all that are compared.

    >>> stem("plants"), stem("planting"), stem("planted"), stem("gas")
    ('plant', 'plant', 'plant', 'gas')
    """
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def telling(text: str, question: str = "") -> frozenset[str]:
    """Stems of the words that tell something, those of the question left out: who repeats it tells nothing.

    >>> sorted(telling("The sky is blue because air scatters blue light.", "Why is the sky blue?"))
    ['air', 'light', 'scatter']
    """
    asked = {stem(word) for word in grams.words(question)}
    said = {stem(word) for word in grams.words(text) if word not in PLAIN and len(word) > 2}
    return frozenset(said - asked)


# The measure

BRIEFLY = "Answer in one or two short sentences."
"""What the base is told for every second reference: a brief reply is a whole one, so the scale must know brief ones."""
LEAST = 2
"""References that a question needs: fewer say too little of what belongs to it."""

POINTS = 0.55
"""The share of a reply's telling words, by weight, that points to its own question rather than to the next likely one,
from which on the topic is whole. Half is chance between two."""
TOLD = 1.0
"""How much a whole reply tells: a word that belongs to this question alone, or a few that belong to few."""
NEW = 0.3
"""What a word counts that no reference tells: it may be a good one that was not thought of, or nonsense."""
FALL = 2.0
"""Nats a token below the floor that leave 1/e of the fluency."""


@dataclass(frozen=True)
class Reference:
    """A further reply of the base to a question, which is itself never scored."""

    text: str
    reading: Reading | None = None


@dataclass(frozen=True)
class Content:
    """What of a whole reply's content is here; all in [0, 1]."""

    score: float
    """The product of the others."""
    topic: float
    substance: float
    fluency: float | None
    """None where the references were never read: the score is of the other two."""


class Yardstick:
    """The measure for one base and some questions: its scale is what the references show."""

    def __init__(self, references: Mapping[str, Sequence[Reference]]) -> None:
        """References by question. Raises ValueError for fewer than two questions (there is nothing to confuse one
        with), or where a question has fewer than LEAST."""
        if len(references) < 2 or min(map(len, references.values())) < LEAST:
            raise ValueError(f"there must be two questions or more, each with {LEAST} references or more")
        self._told = {
            question: frozenset().union(*(telling(one.text, question) for one in found))
            for question, found in references.items()
        }
        self._about = {question: told | telling(question) for question, told in self._told.items()}
        self._weight = _weights(self._told.values())
        self._points = _weights(self._about.values())
        readings = [one.reading for found in references.values() for one in found if one.reading is not None]
        self.reads = bool(readings)
        """Whether fluency is a part of it."""
        if readings:
            self._fluent, self._unbroken = _low([r.fluency for r in readings]), _low([r.worst for r in readings])

    def __contains__(self, question: object) -> bool:
        return question in self._told

    def content(self, question: str, reply: str, reading: Reading | None) -> Content:
        """Of a reply to a question that has references. `reading` is None where there was no word to read."""
        topic, substance = self._topic(question, reply), self._substance(question, reply)
        if not self.reads:
            return Content(topic * substance, topic, substance, None)
        fluency = 0.0
        if reading is not None:
            fluency = min(_above(reading.fluency, self._fluent), _above(reading.worst, self._unbroken))
        return Content(topic * substance * fluency, topic, substance, fluency)

    def _topic(self, question: str, reply: str) -> float:
        said = telling(reply)
        points = {
            other: sum(self._points[word] for word in sorted(said & about)) for other, about in self._about.items()
        }
        own, next_ = points.pop(question), max(points.values())
        return min(own / (own + next_) / POINTS, 1.0) if own > 0 else 0.0

    def _substance(self, question: str, reply: str) -> float:
        said = telling(reply, question)
        known = sum(self._weight[word] for word in sorted(said & self._told[question]))
        new = sum(word not in self._points for word in said)
        return min((known + NEW * new) / TOLD, 1.0)


def _weights(sets: Collection[frozenset[str]]) -> dict[str, float]:
    """How much a word tells of where it stands: 1 in one of the sets alone, near 0 in all of them."""
    holding = Counter(word for each in sets for word in each)
    return {word: math.log((len(sets) + 1) / number) / math.log(len(sets) + 1) for word, number in holding.items()}


def _above(value: float, floor: float) -> float:
    """1 down to the floor, and below it a factor e less for every FALL nats."""
    return math.exp(min(value - floor, 0.0) / FALL)


def _low(values: Sequence[float]) -> float:
    """Their 2nd percentile."""
    return quantiles(values, n=50, method="inclusive")[0] if len(values) > 1 else values[0]


# Replies that are spoilt on purpose

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def spoilt(question: str, reply: str, others: Sequence[str], seed: int) -> dict[str, str]:
    """A good reply made worthless in every way that a lesson may bring about, or that would fool a lesser measure.
    `others` are replies to other questions, three or more."""
    words = reply.split()
    shuffled = [*words]
    random.Random(seed).shuffle(shuffled)
    own, theirs = _sentences(reply), _sentences(others[0])
    return {
        "empty": "I see.",
        "generic": "It depends on many things.",
        "collapsed": "You lie.",
        "the question again": question,
        "first three words": " ".join(words[:3]),
        "words shuffled": " ".join(shuffled),
        "one word repeated": " ".join([max(words, key=len)] * 25),
        "sentences of other answers": " ".join(_sentences(other)[-1] for other in others[:3]),
        "another question's answer": others[0],
        "half of it another's": " ".join([*own[: max(1, len(own) // 2)], *theirs[len(theirs) // 2 :]]),
    }


def _sentences(text: str) -> list[str]:
    return [each for each in SENTENCE.split(text) if grams.words(each)]


@dataclass(frozen=True)
class Kept:
    """What the measure says of one kind of reply."""

    kind: str
    topic: float
    substance: float
    fluency: float
    content: float
    kept: float
    """Of the base's own content."""
    is_read: bool
    """False: the base did not read these, so fluency is taken as 1 and content is at most this."""


GOOD = ("base", "fresh", "brief", "reference")
"""Four replies of the base to a question: as it is asked, drawn anew, told to be brief, and one more as it is asked."""


def validated(rows: Sequence[Mapping[str, Any]]) -> list[Kept]:
    """What the measure says of a base's own replies, of fresh and brief ones, and of all that `spoilt` makes of them.

    `rows` have a "question", a "reply", a "kind" (one of each of GOOD for a question) and, where the base read the
    reply, "logprobs"; rows of other kinds are only read. All replies are references but the one that is scored; of
    those that are spoilt, and so may hold sentences of each other, all of that kind are left out. Where the base read
    some replies of a kind, only these are counted.
    """
    replies = {(row["kind"], row["question"]): row["reply"] for row in rows}
    readings = {(row["question"], row["reply"]): Reading.of(row["logprobs"]) for row in rows if row.get("logprobs")}
    questions = list(dict.fromkeys(row["question"] for row in rows))

    def scale(kinds: Sequence[str], left: tuple[str, str]) -> Yardstick:
        made: dict[str, list[Reference]] = {question: [] for question in questions}
        for kind in kinds:
            for question in questions:
                if (kind, question) != left:
                    text = replies[kind, question]
                    made[question].append(Reference(text, readings.get((question, text))))
        return Yardstick(made)

    cases: dict[str, list[tuple[Yardstick, str, str]]] = {kind: [] for kind in GOOD[:3]}
    for at, question in enumerate(questions):
        for kind in GOOD[:3]:
            cases[kind].append((scale(GOOD, (kind, question)), question, replies[kind, question]))
        kind = "base" if at % 2 else "brief"  # of long replies and short ones
        others = scale([each for each in GOOD if each != kind], ("", ""))
        later = [replies[kind, questions[(at + step) % len(questions)]] for step in (2, 5, 7)]
        for name, text in spoilt(question, replies[kind, question], later, seed=at).items():
            cases.setdefault(name, []).append((others, question, text))
    best, whole = Reading(0.0, 0.0), dict[str, float]()
    found: list[Kept] = []
    for name, each in cases.items():
        known = [one for one in each if one[1:] in readings]
        marks = {q: scale.content(q, text, readings.get((q, text), best)) for scale, q, text in known or each}
        whole = whole or {question: one.score for question, one in marks.items()}
        seen = [one for question, one in marks.items() if question in whole]
        found.append(
            Kept(
                name,
                mean(one.topic for one in seen),
                mean(one.substance for one in seen),
                mean(1.0 if one.fluency is None else one.fluency for one in seen),
                mean(one.score for one in seen),
                sum(one.score for one in seen) / sum(whole[question] for question in marks if question in whole),
                bool(known),
            )
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.evidence.measures.content", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--validate", type=Path, required=True, metavar="FILE", help="a base's own replies, JSON lines")
    rows = [json.loads(line) for line in read_lines(parser.parse_args().validate)]
    print(f"{'reply':<28}{'topic':>7}{'subst.':>8}{'fluency':>9}{'content':>9}{'of base':>9}")
    for one in validated(rows):
        fluency = f"{one.fluency:.2f}" if one.is_read else "≤ 1"
        most = "" if one.is_read else "≤ "
        print(
            f"{one.kind:<28}{one.topic:>7.2f}{one.substance:>8.2f}{fluency:>9}{most + format(one.content, '.2f'):>9}"
            f"{most + format(one.kept, '.2f'):>9}"
        )


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
