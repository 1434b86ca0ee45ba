"""What a judge came to on gold follow-ups, in figures: for `manage.py calibrate` and the judge's page.

Each is of verdicts by a scale that has not seen the follow-up (judge.calibration.scale_fitting), and of the follow-ups
of the repository, or of a file, that the judge has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.statistics import wilson
from judge.calibration import judge_answers, scales, verdict_figures
from judge.calibration.agreement import Agreement
from judge.calibration.gold import Item
from judge.calibration.records import Record
from judge.calibration.verdict_figures import Verdict


def figures(record: Record, items: Sequence[Item]) -> dict[str, Any]:
    """All of it for one judge with one version of its prompts."""
    known = {item.digest: item for item in items}
    found, measure = [one for one in record.found if one.gold in known], record.measure
    by_id = {one.item: known[one.gold] for one in found}
    verdicts = [one for one in measure.scores if one.id in by_id]
    if not measure.is_measured:  # too few for a scale: what it said, and no more
        verdicts = [
            Verdict(0.0, one.said, one.expected, False, one.item, one.role) for one in found if one.said is not None
        ]
    silent = len(found) - len(verdicts)
    asks = [one for one in measure.hints if one.id in by_id]
    told = scales.hints_of(found, measure, known)
    own = [one for one in asks if by_id[one.id].role == "user"]

    def group(key: Callable[[Item], str]) -> dict[str, dict[str, Any]]:
        groups: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            groups.setdefault(key(by_id[verdict.id]) or "none named", []).append(verdict)
        return {name: of_verdicts(groups[name], measure.least) for name in sorted(groups)}

    return {
        "measured": len(found),
        "no_verdict": silent,
        "is_calibrated": measure.is_measured,
        "score": agreed(verdicts, silent) | of_verdicts(verdicts, measure.least),
        "recall": recall(verdicts, by_id),
        "calibration_error": verdict_figures.calibration_error(verdicts) if measure.is_measured else None,
        "threshold": measure.least,
        "by_rule": measure.by_rule,
        "worst": share(sum(one.is_worst for one in verdicts), len(verdicts)),
        "worst_given": share(sum(one.is_worst and is_given(one, measure.least) for one in verdicts), len(verdicts)),
        "by_role": group(lambda item: item.role),
        "by_slice": group(lambda item: item.slice),
        "by_language": group(lambda item: item.language),
        "hint": {
            "right": told.right,
            "of": told.of,
            "named": told.named,
            "of_wanted": told.owed,
            "false": told.false,
            "of_idle": told.idle,
            "threshold": measure.least_hint,
            "calibration_error": verdict_figures.calibration_error(asks) if asks else None,
            "may_be_accepted": told.is_good,
        },
        "own_words": {"threshold": measure.least_own} | of_verdicts(own, measure.least_own),
    }


def agreed(verdicts: Sequence[Verdict], silent: int) -> dict[str, Any]:
    """Accuracy, its interval and kappa, of all that was read; no verdict is never right."""
    found = Agreement(Counter((one.expected, one.said) for one in verdicts))
    total = len(verdicts) + silent
    interval = wilson(found.right, total)
    return {
        "accuracy": share(found.right, total),
        "low": interval.low,
        "high": interval.high,
        "kappa": found.kappa,
    }


def of_verdicts(verdicts: Sequence[Verdict], least: float | None) -> dict[str, Any]:
    """How many, how many right, and what a threshold does."""
    given = [one for one in verdicts if is_given(one, least)]
    return {
        "count": len(verdicts),
        "right": sum(one.is_right for one in verdicts),
        "given": len(given),
        "given_right": sum(one.is_right for one in given),
        "coverage": share(len(given), len(verdicts)),
        "precision": share(sum(one.is_right for one in given), len(given)),
    }


def is_given(verdict: Verdict, least: float | None) -> bool:
    return least is not None and verdict.confidence >= least


def recall(verdicts: Sequence[Verdict], items: Mapping[str, Item]) -> dict[str, list[int]]:
    """Of each answer that is right: [how often it was given, how often it was right]. `new` counts where a follow-up
    says that the subject changes."""
    found: dict[str, list[int]] = {answer: [0, 0] for answer in judge_answers.SCORES}
    for one in verdicts:
        is_new = bool(items[one.id].new_topic)
        cell = found["new" if is_new else str(one.expected)]
        cell[0] += one.is_new if is_new else one.is_right
        cell[1] += 1
    return found


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
