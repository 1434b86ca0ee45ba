"""Lines that are short enough to send: what was lowest and highest is never left out."""

from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from training.monitoring import series

VALUES = st.lists(st.none() | st.floats(-1e9, 1e9), min_size=1, max_size=300)


@given(VALUES, st.integers(5, 60))
def test_a_line_is_bounded_and_keeps_its_ends_its_extremes_and_a_gap(values, most):
    kept = series.kept(values, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert {0, len(values) - 1} <= set(kept)
    known = [value for value in values if value is not None]
    shown = [values[place] for place in kept]
    if known:
        assert {min(known), max(known)} <= set(shown)
    assert (None in values) == (None in shown)


def test_a_figure_has_its_update_and_the_moment_it_was_known():
    metrics = [
        {"update": 1, "loss": 0.5, "seconds": 3.0, "at_s": 10.0},
        {"update": 2, "loss": None, "seconds": 3.0, "at_s": 13.5},
    ]
    found = series.of_updates(metrics, "loss")
    assert (found.steps, found.times, found.values) == ((1.0, 2.0), (10.0, 13.5), (0.5, None))
    assert series.of_updates(metrics, "kl") is None


def test_a_run_that_kept_no_times_counts_the_seconds_of_its_updates():
    found = series.of_updates([{"loss": 1.0, "seconds": 2.0}, {"loss": 2.0, "seconds": 3.0}], "loss")
    assert (found.steps, found.times) == ((1.0, 2.0), (2.0, 5.0))


def test_the_docstrings_of_series_hold():
    found = doctest.testmod(series)
    assert found.attempted
    assert not found.failed
