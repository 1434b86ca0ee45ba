"""A run's figures as charts: what is drawn lies where its number says, and what is not drawn is said."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.statistics import Arm, Tally
from webapp.charts import accuracy, frame, run_charts, shares

STEPS = [
    {"update": 1, "loss": 0.5, "policy_loss": 0.5, "kl": 0.0, "grad_norm": 2.0, "lr": 0.1},
    {"update": 2, "loss": 0.4, "policy_loss": None, "kl": 0.1, "grad_norm": 0.5, "lr": 0.1},
    {"update": 3, "loss": 0.3, "policy_loss": 0.1, "kl": 0.2, "grad_norm": 0.5, "lr": 0.1},
]
RECIPE = {"max_grad_norm": 1.0, "max_gap": 0.5, "max_tokens": 100}
HISTOGRAM = {"edges": [-1.0, -0.5, 0.5, 1.0], "counts": [2, 5, 3]}


def drawn(key, metrics=STEPS, recipe=RECIPE, lengths=()):
    return next((chart for chart in run_charts.charts(metrics, recipe, lengths) if chart.key == key), None)


def test_a_line_spans_its_picture_and_a_higher_number_stands_higher():
    kl = drawn("kl")
    # 340 × 132: 46 to the left, 10 to the right, 8 above, 20 below. The axis goes from 0 to 0.2.
    assert [(point.x, point.y) for point in kl.lines[0].points] == [(46.0, 112.0), (188.0, 60.0), (330.0, 8.0)]
    assert kl.figure == "0.2"
    assert kl.sentence == "KL: from 0 to 0.2 in 3 updates, between 0 and 0.2."


def test_where_an_update_has_no_number_the_line_is_parted_and_the_table_says_so():
    loss = drawn("loss")
    policy = next(line for line in loss.lines if line.label == "policy")
    assert [len(segment) for segment in policy.segments] == [1, 1]
    assert loss.head == ("update", "loss", "policy")
    assert loss.rows[1] == ("2", "0.4", "–")
    assert "policy: from 0.5 to 0.1 in 3 updates, between 0.1 and 0.5; 1 update has no number." in loss.sentence


def test_a_limit_of_the_recipe_is_drawn_where_it_is_near_and_said_where_it_is_far():
    norm = drawn("grad_norm")
    assert norm.limit == 60.0  # 1 on an axis from 0 to 2, between 112 and 8
    far = drawn("gap", [{"gap_mean": 0.01, "gap_p99": 0.02}] * 2)
    assert (far.limit, far.limit_says) == (None, "limit 0.5, far above")


def test_figures_that_a_run_has_not_make_no_chart_and_unknown_ones_are_not_lost():
    assert [chart.key for chart in run_charts.charts(STEPS, RECIPE)] == ["loss", "kl", "grad_norm"]
    assert run_charts.others(STEPS) == ["lr"]
    assert run_charts.charts([], {}) == []


def test_a_run_of_one_update_says_its_numbers_and_draws_no_line():
    [loss, *_] = run_charts.charts(STEPS[:1], RECIPE)
    assert not loss.is_drawn
    assert loss.sentence == "loss: 0.5 in its one update. policy: 0.5 in its one update."


def test_the_advantages_are_a_strip_the_darker_the_more_tokens():
    chart = drawn("advantages", [{"update": n, "advantage_histogram": HISTOGRAM} for n in (1, 2)])
    assert len(chart.cells) == 6
    first = chart.cells[:3]
    low, middle, high = first
    assert high.y < middle.y < low.y  # the best stand highest
    assert middle.shade == 1.0 > high.shade > low.shade  # 5, 3 and 2 tokens
    assert high.title == "update 1: 30 % between 0.5 and 1"
    assert chart.sentence == "Advantages of the last update's 10 tokens: 30 % above 0, 20 % below, 50 % about 0."
    assert chart.rows == (("1", "2", "5", "3"), ("2", "2", "5", "3"))


def test_a_strip_of_very_many_updates_puts_neighbours_together():
    chart = drawn("advantages", [{"update": n, "advantage_histogram": HISTOGRAM} for n in range(1, 201)])
    # 200 updates in columns of 9: 23 columns of 3 bins, each as full as 9 updates
    assert len(chart.cells) == 69
    assert chart.cells[0].title == "updates 1 to 9: 20 % between −1 and −0.5"
    assert len(chart.rows) == 40


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        {"edges": [0, 1], "counts": [1, 2]},
        {"edges": [0, 1], "counts": [None]},
        {"edges": [1, 0], "counts": [1]},
    ],
)
def test_without_a_histogram_that_can_be_read_the_advantages_ends_are_drawn(broken):
    steps = [{"advantage_mean": 0.1, "advantage_max": 1.0, "advantage_min": -1.0, "advantage_histogram": broken}] * 2
    chart = drawn("advantages", steps)
    assert [line.label for line in chart.lines] == ["highest", "mean", "lowest"]
    assert not chart.cells


def test_reply_lengths_are_counted_once_each_and_deleted_ones_not_at_all():
    chart = drawn("lengths", lengths=[10, 10, 60, 130, 0])
    assert sum(int(count) for _, count in chart.rows) == 4
    assert chart.rows[0] == ("10 to 20", "2")  # 121 lengths in 12 bars are 11 a bar
    assert "Of 1 of them only the first 100 tokens are learned from." in chart.reading
    assert chart.sentence == "Reply lengths: from 10 to 130 tokens, half of them up to 35."


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_every_point_lies_within_its_picture(values):
    [loss] = run_charts.charts([{"loss": value} for value in values], {})
    for point in loss.lines[0].points:
        assert run_charts.FRAME.left <= point.x <= run_charts.FRAME.end
        assert run_charts.FRAME.top - 0.1 <= point.y <= run_charts.FRAME.foot + 0.1
    assert len(loss.grid) <= 8


def test_of_very_many_updates_some_are_shown_with_the_extremes_and_all_are_counted():
    values = [1 / n for n in range(1, 1002)]
    values[500], values[501] = 3.0, -3.0
    loss = drawn("loss", [{"update": n, "loss": value} for n, value in enumerate(values, 1)])
    points = loss.lines[0].points
    assert len(loss.lines[0].segments) == 1
    assert len(points) <= 240
    assert (points[0].x, points[-1].x) == (46.0, 330.0)
    assert {"update 501: 3", "update 502: −3"} <= {point.title for point in points}
    assert len(loss.rows) == 40
    assert loss.rows[-1] == ("1001", "0.000999")
    assert "in 1001 updates" in loss.sentence


def test_a_frame_has_its_ends_where_its_margins_say():
    # 340 × 132: 46 to the left, 10 to the right, 8 above, 20 below
    at = frame.Frame(340, 132, left=46, right=10, top=8, bottom=20)
    assert [at.across(part) for part in (0, 0.5, 1)] == [46.0, 188.0, 330.0]
    assert [at.up(value) for value in (0, 0.5, 1)] == [112.0, 60.0, 8.0]
    assert (at.along(0, 1), at.up(7.0, 7.0, 7.0)) == (188.0, 60.0)  # one alone, and an axis of one value: the middle


def test_a_ladder_names_counts_and_leaves_out_the_oldest():
    # From 92 to 432. 1 of 2: Wilson's interval is 0.0945 to 0.9055, so 124.1, 262 and 399.9
    drawn = shares.ladder({f"it@{number}": Arm(1, 1) for number in range(14)}, "up")
    assert [bar.name for bar in drawn.bars] == [f"it@{number}" for number in range(2, 14)]
    assert (drawn.left_out, drawn.frame.height) == (2, 14 + 12 * 26 + 8)
    first = drawn.bars[0]
    assert (first.y, first.low, first.at, first.high) == (14.0, 124.1, 262.0, 399.9)
    assert (first.count, first.title) == ("1 of 2", "it@2: 1 of 2 up, 9% to 91%")


def test_shares_of_nothing_are_not_drawn():
    assert shares.ladder({"it@1": Arm()}, "up") is None
    assert shares.choices(Tally(same=3)) is None
    assert accuracy.reliability([]) is None
    assert accuracy.coverage([], 0.9) is None


@pytest.mark.parametrize("module", [frame, run_charts])
def test_the_docstrings_of_charts_hold(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
