"""Verdicts beside what was right: how far their confidence holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judge.calibration.judge_answers import likeliest, rewards


@dataclass(frozen=True)
class Verdict:
    """What a judge would decide on one follow-up, and what was right."""

    confidence: float
    said: int
    expected: int
    is_new: bool = False
    """It says that the subject changes."""
    id: str = ""
    role: str = ""

    @property
    def is_right(self) -> bool:
        return self.said == self.expected

    @property
    def is_worst(self) -> bool:
        """It took for good what was bad."""
        return self.said == 1 and self.expected == -1


def score_verdict(probabilities: Mapping[str, float], expected: int, id: str = "", role: str = "") -> Verdict:
    """The likeliest reward."""
    found = rewards(probabilities)
    said = likeliest(found)
    is_new = said == 0 and probabilities["new"] >= probabilities["0"]
    return Verdict(found[said], said, expected, is_new, id, role)


def hint_verdict(probabilities: Mapping[str, float], asks: bool, id: str = "", role: str = "") -> Verdict:
    """1: a change is asked for. Its confidence is that of its being asked for, whichever is likelier."""
    return Verdict(probabilities["1"], 1, 1 if asks else -1, False, id, role)


@dataclass(frozen=True)
class Bin:
    """Verdicts of about one confidence."""

    low: float
    high: float
    count: int
    confidence: float
    """Their mean."""
    right: int

    @property
    def share(self) -> float:
        return self.right / self.count


def reliability(verdicts: Sequence[Verdict], bins: int = 10) -> list[Bin]:
    """Confidence against how many were right, in bins of equal width; empty ones are left out."""
    found = []
    for n in range(bins):
        inside = [one for one in verdicts if min(int(one.confidence * bins), bins - 1) == n]
        if inside:
            mean = sum(one.confidence for one in inside) / len(inside)
            found.append(Bin(n / bins, (n + 1) / bins, len(inside), mean, sum(one.is_right for one in inside)))
    return found


def calibration_error(verdicts: Sequence[Verdict], bins: int = 10) -> float | None:
    """The expected calibration error: how far confidence and share right are apart in a bin, by how many it holds."""
    if not verdicts:
        return None
    parts = reliability(verdicts, bins)
    return sum(part.count * abs(part.share - part.confidence) for part in parts) / len(verdicts)
