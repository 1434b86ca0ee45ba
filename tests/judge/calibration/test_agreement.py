"""Accuracy, its interval, kappa and the confusion matrix, each against a worked example."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.calibration import agreement
from judge.calibration.agreement import ANSWERS, SCORES, Reading

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday


def readings(*pairs: tuple[int, int | None], role: str = "user", at: datetime = NOON) -> list[Reading]:
    return [Reading(expected, said, role, at) for expected, said in pairs]


some = st.lists(st.tuples(st.sampled_from(SCORES), st.sampled_from(ANSWERS)), max_size=60)


def test_kappa_by_a_known_example():
    # 20 both yes, 5 yes/no, 10 no/yes, 15 both no: seen 35/50 = 0.7, by chance 0.5 · 0.6 + 0.5 · 0.4 = 0.5
    found = agreement.agreement(readings(*[(1, 1)] * 20, *[(1, -1)] * 5, *[(-1, 1)] * 10, *[(-1, -1)] * 15))
    assert found.accuracy == 0.7
    assert found.kappa == pytest.approx((0.7 - 0.5) / (1 - 0.5))


def test_a_judge_that_always_says_the_same_has_no_kappa_above_chance():
    # Nine good ones and a bad one, all called good: 0.9 seen, 0.9 · 1 + 0.1 · 0 = 0.9 by chance
    found = agreement.agreement(readings(*[(1, 1)] * 9, (-1, 1)))
    assert found.accuracy == 0.9
    assert found.kappa == pytest.approx(0.0)


def test_no_kappa_where_both_sides_know_one_answer_only():
    assert agreement.agreement(readings((1, 1), (1, 1))).kappa is None
    assert agreement.agreement([]).kappa is None
    assert agreement.agreement([]).accuracy is None


def test_no_verdict_is_a_column_of_its_own_and_never_right():
    found = agreement.agreement(readings((1, 1), (1, None), (-1, None), (0, 0)))
    assert (found.measured, found.right, found.silent) == (4, 2, 2)
    assert found.accuracy == 0.5
    assert (found.of(1, None), found.of(-1, None), found.of(0, 0), found.of(-1, -1)) == (1, 1, 1, 0)
    # expected: 2 × 1, 1 × −1, 1 × 0; said: 1 × 1, 2 × none, 1 × 0; by chance (2·1 + 1·1) / 16
    assert found.kappa == pytest.approx((0.5 - 3 / 16) / (1 - 3 / 16))


def test_by_role():
    found = agreement.by_role([*readings((1, 1), (1, -1)), *readings((0, 0), role="tool")])
    assert list(found) == ["tool", "user"]
    assert (found["tool"].accuracy, found["user"].accuracy) == (1.0, 0.5)


def test_over_days_and_weeks():
    monday, sunday = datetime(2026, 11, 16, 0, 5, tzinfo=UTC), datetime(2026, 11, 22, 23, 55, tzinfo=UTC)
    after = datetime(2026, 11, 23, tzinfo=UTC)
    seen = [*readings((1, 1), at=sunday), *readings((1, -1), at=monday), *readings((0, 0), at=after)]
    assert list(agreement.over_time(seen)) == [date(2026, 11, 16), date(2026, 11, 22), date(2026, 11, 23)]
    weekly = agreement.over_time(seen, days=7)
    assert {start: found.accuracy for start, found in weekly.items()} == {
        date(2026, 11, 16): 0.5,
        date(2026, 11, 23): 1.0,
    }


def test_a_month_of_days_is_told_in_weeks():
    days = [readings((1, 1), at=datetime(2026, 10, day, tzinfo=UTC))[0] for day in range(1, 31)]
    assert agreement.spans(days[:14])[0] == 1
    length, weeks = agreement.spans(days)
    assert length == 7
    assert sum(week.measured for week in weeks.values()) == 30


@given(some)
def test_all_cells_add_up_and_the_interval_holds_the_share(pairs):
    found = agreement.agreement(readings(*pairs))
    assert sum(found.of(meant, said) for meant in SCORES for said in ANSWERS) == found.measured == len(pairs)
    assert 0 <= found.interval.low <= found.interval.high <= 1
    if pairs:
        assert found.interval.low - 1e-9 <= found.accuracy <= found.interval.high + 1e-9
    if found.kappa is not None:
        assert -1 <= found.kappa <= 1


@given(some)
def test_parts_make_the_whole(pairs):
    mixed = [Reading(meant, said, "tool" if n % 3 else "user", NOON) for n, (meant, said) in enumerate(pairs)]
    parts = agreement.by_role(mixed).values()
    assert sum((part.counts for part in parts), agreement.agreement([]).counts) == agreement.agreement(mixed).counts
