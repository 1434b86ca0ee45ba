"""What was measured of a judge on gold follow-ups, as its verdicts use it: how its probabilities are scaled, and from
which on it is sure enough.

Worked out from the newest reading of each gold follow-up by the same judge with the same prompts: those of this
installation, and those that came with the repository for the judge's own adapter (judge.votes.shipped).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from django.db.models import QuerySet

from judge.calibration import gold, judge_answers, scale_fitting, thresholds, verdict_figures
from judge.calibration.gold import Item
from judge.calibration.judge_answers import DECISIONS, SCORES
from judge.calibration.scale_fitting import Case
from judge.calibration.scalings import Scale
from judge.calibration.thresholds import LEAST
from judge.calibration.verdict_figures import Verdict
from judge.models import GoldReading, Ruling
from judge.votes import shipped

Said = Mapping[str, float] | Sequence[str]
"""Of one judge on one question: the probability of each answer, or the votes it cast."""

MAJORITY = 0.5 + 1e-6
"""From which share on a judge that was not measured, and that an operator lets count, is heard: more than half."""

NAMED_LEAST = 0.85
"""Share of the changes asked for that the hints of a judge must name, before a policy may accept its hints."""
FALSE_MOST = 0.02
"""Share of the follow-ups that ask for nothing on which it may propose a hint all the same."""

KEPT_S = 30.0
"""How long a measure is kept in this process before it is worked out again."""


@dataclass(frozen=True)
class Found:
    """One gold follow-up as one judge read it."""

    gold: str
    """The item's digest."""
    item: str
    role: str
    expected: int
    said: int | None
    """The likeliest reward; None: it came to no verdict."""
    score: Said | None
    hint: Said | None
    words: str
    """The hint that it worded."""
    at: datetime


@dataclass(frozen=True)
class Hints:
    """What a judge proposes, where it is sure enough, and what it should."""

    named: int
    """Proposed, and it names the change."""
    owed: int
    """Follow-ups that ask for a change."""
    false: int
    """Proposed where nothing is asked for."""
    idle: int
    """Follow-ups that ask for nothing."""
    right: int
    """Whether there is a hint, right with or without being sure."""

    @property
    def of(self) -> int:
        return self.owed + self.idle

    @property
    def is_good(self) -> bool:
        """True when a policy may accept them without a person."""
        if self.owed < LEAST or not self.idle:
            return False
        return self.named / self.owed >= NAMED_LEAST and self.false / self.idle <= FALSE_MOST


@dataclass(frozen=True)
class Measure:
    """How one judge with one version of its prompts is heard."""

    of_score: Scale | None = None
    of_hint: Scale | None = None
    least: float | None = MAJORITY
    """How sure of a reward it must be; None: nothing of what it says is sure enough."""
    least_hint: float | None = MAJORITY
    """How sure that a change is asked for, for a hint to be proposed."""
    least_own: float | None = None
    """How sure, for the person's own next message to teach by itself; None: it never does."""
    measured: int = 0
    """Gold follow-ups it was measured on."""
    by_rule: float | None = MAJORITY
    """What `least` would be without an operator's word."""
    ruling: Ruling | None = None
    """The operator's word that stands in place of the rule."""
    scores: tuple[Verdict, ...] = field(default=(), repr=False)
    """What it would decide on each follow-up, by a scale that has not seen it."""
    hints: tuple[Verdict, ...] = field(default=(), repr=False)
    proposed: Hints | None = None
    """What its hints came to."""

    @property
    def hints_hold(self) -> bool:
        """True when its hints were measured, and a policy may accept them without a person."""
        return self.proposed is not None and self.proposed.is_good

    @property
    def is_measured(self) -> bool:
        """True when its confidence is a probability that was held against what is so."""
        return self.of_score is not None

    def score(self, said: Said, role: str, asked: Said | None = None) -> dict[str, float]:
        """The probability of each answer to how it went; `asked` is what the judge said to its other question."""
        beside = None if asked is None else probabilities(asked, DECISIONS)
        return scaled(self.of_score, said, SCORES, role, beside)

    def hint(self, said: Said, role: str, scored: Said | None = None) -> dict[str, float]:
        """The probability that a change is asked for, and that none is; `scored` is what the judge said to its other
        question."""
        beside = None if scored is None else probabilities(scored, SCORES)
        return scaled(self.of_hint, said, DECISIONS, role, beside)


PLAIN = Measure()
"""Of a judge that was not measured: votes count as they are, and more than half decide."""


def scaled(
    scale: Scale | None, said: Said, answers: tuple[str, ...], role: str, beside: Mapping[str, float] | None
) -> dict[str, float]:
    if scale is not None:
        return scale(probabilities(said, answers), role, beside)
    if isinstance(said, Mapping):
        return {answer: said.get(answer, 0.0) for answer in answers}
    return {answer: said.count(answer) / len(said) for answer in answers}


def probabilities(said: Said, answers: tuple[str, ...]) -> dict[str, float]:
    """What a scale is fitted to and applied to: probabilities as they are, votes as smoothed shares."""
    return dict(said) if isinstance(said, Mapping) else judge_answers.shares(said, answers)


def of(judge: str, prompt_version: str) -> Measure:
    """The measure of this judge, kept for a moment: it is asked for with every verdict."""
    now = time.monotonic()
    kept = _kept.get((judge, prompt_version))
    if kept is None or kept[0] < now:
        kept = _kept[judge, prompt_version] = (now + KEPT_S, measure(judge, prompt_version))
    return kept[1]


def of_no_database(judge: str, prompt_version: str) -> Measure:
    """The measure that came with the repository, where there is no database to look for others in."""
    found = tuple(shipped_of(judge, prompt_version).values())
    return _worked_out(_cases(found, "score"), _cases(found, "hint"))


def forget(judge: str = "", prompt_version: str = "") -> None:
    """Work measures out again when they are asked for next: this one, or all."""
    if judge:
        _kept.pop((judge, prompt_version), None)
    else:
        _kept.clear()


_kept: dict[tuple[str, str], tuple[float, Measure]] = {}


def measure(judge: str, prompt_version: str) -> Measure:
    """The same, from what stands now."""
    return measure_by(found_of(judge, prompt_version), threshold_ruling(judge, prompt_version))


def measure_by(readings: Iterable[Found], ruling: Ruling | None) -> Measure:
    """The same, from these readings and an operator's word on the threshold."""
    found = tuple(readings)
    known = _worked_out(_cases(found, "score"), _cases(found, "hint"))
    if ruling is not None:
        known = replace(known, least=float(ruling.after["threshold"]), ruling=ruling)
    return replace(known, proposed=hints_of(found, known, gold.by_digest()) if known.is_measured else None)


def hints_of(found: Iterable[Found], measure: Measure, items: Mapping[str, Item]) -> Hints:
    """What is proposed on each of these follow-ups by the rule that holds for verdicts."""
    asks = {one.id: one for one in measure.hints}
    scores = {one.id: one for one in measure.scores}
    named = owed = false = idle = right = 0
    for one in found:
        item, ask, score = items.get(one.gold), asks.get(one.item), scores.get(one.item)
        if item is None:
            continue
        owed, idle = owed + item.wants_hint, idle + (not item.wants_hint)
        if ask is None and not measure.is_measured and one.hint is not None:  # too few for a scale: as it said
            ask = verdict_figures.hint_verdict(measure.hint(one.hint, one.role, one.score), item.wants_hint)
            score = score or Verdict(1.0, one.said or 0, one.expected)
        if ask is None:
            continue
        right += (ask.confidence > 0.5) is item.wants_hint
        if proposes(ask, score, measure) and one.words:
            named += item.wants_hint and item.is_named_in(one.words)
            false += not item.wants_hint
    return Hints(named, owed, false, idle, right)


def proposes(ask: Verdict, score: Verdict | None, measure: Measure) -> bool:
    """Whether a hint is proposed: sure enough that a change is asked for, and sure enough of a verdict that is no
    change of subject."""
    if score is None or measure.least is None or measure.least_hint is None:
        return False
    return ask.confidence >= measure.least_hint and score.confidence >= measure.least and not score.is_new


_Shares = tuple[tuple[str, float], ...]
_Row = tuple[str, str, _Shares, _Shares | None, frozenset[str], int]
"""Id, role, probabilities, those of the other question, expected answers, expected reward or decision: hashable, so
that it is worked out once."""


@lru_cache(maxsize=64)
def _worked_out(score_rows: tuple[_Row, ...], hint_rows: tuple[_Row, ...]) -> Measure:
    if len(score_rows) < LEAST:
        return replace(PLAIN, measured=len(score_rows))
    cases, hinted = [_case(row) for row in score_rows], [_case(row) for row in hint_rows]
    crossed = scale_fitting.cross_fit(cases, SCORES)
    scores = tuple(
        verdict_figures.score_verdict(found, row[-1], row[0], row[1])
        for found, row in zip(crossed, score_rows, strict=True)
    )
    least = thresholds.threshold(scores, worst=thresholds.WORST)
    known = Measure(
        of_score=scale_fitting.fit(cases, SCORES),
        least=least,
        least_hint=None,
        measured=len(cases),
        by_rule=least,
        scores=scores,
    )
    if len(hinted) < LEAST:
        return known
    asked = scale_fitting.cross_fit(hinted, DECISIONS)
    hints = tuple(
        verdict_figures.hint_verdict(found, row[-1] == 1, row[0], row[1])
        for found, row in zip(asked, hint_rows, strict=True)
    )
    return replace(
        known,
        of_hint=scale_fitting.fit(hinted, DECISIONS),
        least_hint=thresholds.threshold(hints),
        least_own=thresholds.threshold(hints, precision=thresholds.OWN_PRECISION, least=thresholds.OWN_LEAST),
        hints=hints,
    )


def _case(row: _Row) -> Case:
    id, role, chances, beside, expected, _ = row
    return Case(dict(chances), expected, role, id, None if beside is None else dict(beside))


def _cases(found: Sequence[Found], question: str) -> tuple[_Row, ...]:
    known = gold.by_digest()
    rows: list[_Row] = []
    for one in found:
        item = known.get(one.gold)
        said, other = (one.score, one.hint) if question == "score" else (one.hint, one.score)
        if said is None or (question == "hint" and item is None):
            continue
        answers, others = (SCORES, DECISIONS) if question == "score" else (DECISIONS, SCORES)
        if question == "score":
            meant, right = one.expected, expected_answers(one.expected, item.new_topic if item else None)
        else:
            assert item is not None
            meant = 1 if item.wants_hint else -1
            right = frozenset({str(meant)})
        beside = None if other is None else _shares(other, others)
        rows.append((one.item, one.role, _shares(said, answers), beside, right, meant))
    return tuple(rows)


def _shares(said: Said, answers: tuple[str, ...]) -> _Shares:
    return tuple(sorted(probabilities(said, answers).items()))


def expected_answers(score: int, new_topic: bool | None) -> frozenset[str]:
    """Which answers are right. Of a 0 without a word on the subject it is not known whether the subject changes.

    >>> sorted(expected_answers(0, None)), sorted(expected_answers(0, True)), sorted(expected_answers(-1, None))
    (['0', 'new'], ['new'], ['-1'])
    """
    if score:
        return frozenset({str(score)})
    return frozenset({"0", "new"} if new_topic is None else {"new"} if new_topic else {"0"})


def found_of(judge: str, prompt_version: str) -> list[Found]:
    """This judge's newest reading of each gold follow-up; those made here before those that were shipped."""
    rows = GoldReading.objects.filter(judge=judge, prompt_version=prompt_version).order_by("pk")
    return found_among(judge, prompt_version, rows)


def found_among(judge: str, prompt_version: str, rows: Iterable[GoldReading]) -> list[Found]:
    """The same, where its readings are known, oldest first."""
    known = gold.by_digest()
    found = shipped_of(judge, prompt_version)
    for row in rows:
        if row.item in found and row.gold not in known and found[row.item].gold in known:
            continue  # the item was changed since, and what is known of it now is newer
        found[row.item] = Found(
            gold=row.gold,
            item=row.item,
            role=row.role,
            expected=row.expected,
            said=row.score,
            score=_said(row, "score"),
            hint=_said(row, "hint"),
            words=row.hint,
            at=row.read_at,
        )
    return sorted(found.values(), key=lambda one: one.at)


def shipped_of(judge: str, prompt_version: str) -> dict[str, Found]:
    """What came with the repository of this judge, by the follow-up's id: those that are still in the gold set."""
    known = gold.by_digest()
    return {
        known[one.gold].id: Found(
            gold=one.gold,
            item=known[one.gold].id,
            role=known[one.gold].role,
            expected=known[one.gold].score,
            said=None if one.score is None else judge_answers.likeliest(judge_answers.rewards(one.score)),
            score=one.score,
            hint=one.hint,
            words=one.words,
            at=one.at,
        )
        for one in shipped.readings(judge, prompt_version)
        if one.gold in known
    }


def _said(row: GoldReading, question: str) -> Said | None:
    """What a reading's votes on one question say; None where it came to no verdict on it."""
    if (row.score if question == "score" else row.wants_hint) is None:
        return None
    votes = [one for one in row.raw if one.get("question") == question and one.get("said") is not None]
    read = [one["probabilities"] for one in votes if one.get("probabilities")]
    if read:
        return {str(answer): float(p) for answer, p in read[-1].items()}
    return tuple(str(one.get("topic") or one["said"]) for one in votes) or None


def threshold_ruling(judge: str, prompt_version: str) -> Ruling | None:
    """The operator's word on the threshold that stands, if one does."""
    return last_word(rulings_on(judge, prompt_version), "threshold")


def rulings_on(judge: str, prompt_version: str) -> QuerySet[Ruling]:
    """What operators said of this judge, newest first; what was undone too."""
    return policies().filter(after__judge=judge, after__prompt_version=prompt_version)


def policies() -> QuerySet[Ruling]:
    """What operators said of any judge, newest first; what was undone too."""
    return Ruling.objects.filter(verb=Ruling.Verb.POLICY).select_related("by", "undone_by").order_by("-pk")


def last_word(rulings: Iterable[Ruling], on: str) -> Ruling | None:
    """Of these, newest first, the one that stands on the "threshold" or the "weight", if one does: the newest, unless
    it gave it back to the rule."""
    for ruling in rulings:
        if on in ruling.after and getattr(ruling, "undone_by", None) is None:
            return None if ruling.after[on] is None else ruling
    return None
