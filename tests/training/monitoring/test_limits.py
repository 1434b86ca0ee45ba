"""The limits of a run's figures: each is passed where its sentence says so, and not at the limit itself."""

from __future__ import annotations

import doctest
import json

import pytest

from training import config, journals
from training.models import Run
from training.monitoring import limits

RECIPE = config.PRESETS["embedded"].model_dump()


def keys(*steps, recipe=RECIPE):
    return [one.limit.key for one in limits.passed(steps, recipe)]


@pytest.mark.parametrize(
    ("key", "fine", "past"),
    [
        ("loss_missing", [{"loss": 0.5}], [{"loss": None}]),
        ("kl", [{"kl": 2.5}], [{"kl": 2.51}]),  # the exam's limit
        ("entropy_low", [{"entropy": 2.0}, {"entropy": 0.2}], [{"entropy": 2.0}, {"entropy": 0.19}]),  # a tenth of 2
        ("entropy_high", [{"entropy": 2.0}, {"entropy": 4.0}], [{"entropy": 2.0}, {"entropy": 4.1}]),  # twice 2
        ("clip", [{"clip_fraction": 0.3}], [{"clip_fraction": 0.34}]),
        ("gap", [{"gap_mean": 0.5}], [{"gap_mean": 0.51}]),  # the recipe's max_gap
        ("grad_norm", [{"grad_norm": 1.0}], [{"grad_norm": 1.87}]),
        ("grad_zero", [{"grad_norm": 1e-6}], [{"grad_norm": 0.0}]),
        ("adapter_unchanged", [{"adapter_norm": 9.0}, {"adapter_norm": 9.1}], [{"adapter_norm": 9.0}] * 2),
        ("adapter_leap", [{"adapter_norm": 9.0}, {"adapter_norm": 18.0}], [{"adapter_norm": n} for n in (9.0, 18.1)]),
        ("closed", [{"closed_right": 0.8}, {"closed_right": 0.5}], [{"closed_right": 0.8}, {"closed_right": 0.3}]),
        ("speed", [{"tokens_per_s": 90.0}, {"tokens_per_s": 30.0}], [{"tokens_per_s": n} for n in (90.0, 29.0)]),
        (
            "advantages",
            [{"advantage_max": 0.0, "advantage_min": -0.5}],
            [{"advantage_max": 0.0, "advantage_min": 0.0}],
        ),
    ],
)
def test_a_limit_is_passed_beyond_it_and_not_at_it(key, fine, past):
    assert keys(*fine) == []
    assert keys(*past) == [key]


def test_every_limit_was_tried_above():
    tried = test_a_limit_is_passed_beyond_it_and_not_at_it.pytestmark[0].args[1]
    assert {key for key, *_ in tried} == {limit.key for limit in limits.LIMITS}


def test_no_advantage_is_no_worry_where_a_teacher_or_a_rewrite_teaches():
    none = {"advantage_max": 0.0, "advantage_min": 0.0}
    assert keys(none | {"distillation_loss": 0.2}) == []
    assert keys(none | {"supervised_loss": 0.2, "distillation_loss": 0.0}) == []
    assert keys(none | {"distillation_loss": 0.0}) == ["advantages"]


def test_what_was_passed_says_by_how_much_how_often_and_since_when():
    steps = [{"update": n, "clip_fraction": share} for n, share in ((4, 0.1), (5, 0.31), (6, 0.4), (7, 0.2))]
    [found] = limits.passed(steps, RECIPE)
    assert (found.worst, found.at, found.since, found.count, found.updates) == (0.4, 0.3, 5, 2, 4)


def test_a_recipe_says_where_its_own_limits_are():
    assert keys({"gap_mean": 0.3, "kl": 1.0}, recipe={"max_gap": 0.2, "gate": {"kl": 0.5}}) == ["kl", "gap"]
    assert keys({"grad_norm": 1.5}, recipe={"max_grad_norm": 2.0}) == []  # a run of an earlier version


def test_figures_that_are_not_there_pass_nothing():
    assert keys() == keys({}, {"note": "x"}) == []


@pytest.mark.django_db
def test_the_figures_that_are_taken_away_say_which_limits_were_passed():
    run = Run.objects.create(status="finished", recipe=RECIPE, metrics=[{"update": 1, "clip_fraction": 0.34}])
    [told] = json.loads(next(journals.lines(run)))["limits_passed"]
    assert (told["limit"], told["worst"], told["at"], told["since_update"]) == ("clip", 0.34, 0.3, 1)


def test_the_docstrings_of_limits_hold():
    found = doctest.testmod(limits)
    assert found.attempted
    assert not found.failed
