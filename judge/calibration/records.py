"""What is on record of a judge with one version of its prompts, each asked for once: for pages, which say it in several
ways."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from judge.calibration import scales, vote_floor
from judge.calibration.agreement import Reading
from judge.calibration.scales import Found, Measure
from judge.calibration.vote_floor import Standing
from judge.models import GoldReading, Ruling


@dataclass(frozen=True)
class Record:
    """A judge with one version of its prompts."""

    judge: str
    prompt_version: str
    rows: Sequence[GoldReading]
    """Its readings of gold follow-ups, oldest first."""
    rulings: Sequence[Ruling]
    """What operators said of it, newest first; what was undone too."""

    @classmethod
    def of(cls, judge: str, prompt_version: str) -> Record:
        """That of this judge. Two queries."""
        rows = GoldReading.objects.filter(judge=judge, prompt_version=prompt_version).order_by("pk")
        return cls(judge, prompt_version, list(rows), list(scales.rulings_on(judge, prompt_version)))

    @cached_property
    def found(self) -> list[Found]:
        return scales.found_among(self.judge, self.prompt_version, self.rows)

    @cached_property
    def gold(self) -> list[Reading]:
        return vote_floor.readings_of(self.found)

    @cached_property
    def thumbs(self) -> list[Reading]:
        """One query, once."""
        return vote_floor.thumb_readings(self.judge, self.prompt_version)

    @cached_property
    def standing(self) -> Standing:
        ruling = scales.last_word(self.rulings, "weight")
        return vote_floor.standing_by(self.judge, self.prompt_version, [*self.gold, *self.thumbs], ruling)

    @cached_property
    def measure(self) -> Measure:
        return scales.measure_by(self.found, scales.last_word(self.rulings, "threshold"))


class Records:
    """Those of all judges. Two queries."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[GoldReading]] = defaultdict(list)
        self._rulings: dict[tuple[object, object], list[Ruling]] = defaultdict(list)
        self._known: dict[tuple[str, str], Record] = {}
        for row in GoldReading.objects.order_by("pk"):
            self._rows[row.judge, row.prompt_version].append(row)
        for ruling in scales.policies():
            self._rulings[ruling.after.get("judge"), ruling.after.get("prompt_version")].append(ruling)

    @property
    def read(self) -> set[tuple[str, str]]:
        """Judges, with the version of their prompts, that have read gold follow-ups."""
        return set(self._rows)

    def of(self, judge: str, prompt_version: str) -> Record:
        about = judge, prompt_version
        if about not in self._known:
            self._known[about] = Record(*about, self._rows.get(about, []), self._rulings.get(about, []))
        return self._known[about]
