"""What `python -m lab.worlds` refuses, in a sentence, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.worlds.__main__ import laid_over, main, parse, planned, recipe
from lab.worlds.demonstration.arms import ARMS, Arm
from lab.worlds.demonstration.arms import recipe as of_arm
from training.line_recipes import usable


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--arms", "outcome,best"], "There is no arm 'best': outcome, index, judge, random are."),
        (["--seeds", "one"], "Seeds are whole numbers with commas between, as in 1,2,3: 'one'."),
        (["--updates", "0"], "There is at least one seed, and every size is at least 1."),
        (["--set", "lr"], "--set reads KNOB=VALUE, as in --set lr=0.001: 'lr'."),
        (
            ["--world", "terminal"],
            "In the world terminal the tiny model alone has a warm start: add --tiny.",
        ),
        (["--model", "nowhere"], "nowhere holds no model: make model brings it."),
    ],
)
def test_what_cannot_be_played_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], said: str
) -> None:
    assert main([*wrong, "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.strip() == said


def test_arms_seeds_and_sizes_are_the_plans() -> None:
    plan = planned(parse(["--arms", "index,index,random", "--seeds", "3,1,3", "--updates", "7", "--every", "3"]))
    assert [arm.name for arm in plan.arms] == ["index", "random"]
    assert (plan.seeds, plan.marks, plan.batch) == ((3, 1), (0, 3, 6, 7), 32)
    assert [arm.name for arm in planned(parse([])).arms] == ["outcome", "index"]
    assert [arm.name for arm in planned(parse(["--world", "terminal"])).arms] == ["outcome"]  # no rule scores its steps
    tiny = [planned(parse(["--tiny", *more])) for more in ([], ["--updates", "12", "--every", "4"])]
    assert [plan.marks for plan in tiny] == [(0, 5), (0, 4, 8, 12)]  # what is said goes before what a tiny one plays
    assert laid_over(["gate={}", "baseline=pooled", "lr=1e-3"]) == {"gate": {}, "baseline": "pooled", "lr": 0.001}


@pytest.mark.parametrize("arm", ARMS.values(), ids=ARMS)
def test_a_line_can_learn_by_the_recipe_of_each_arm_also_of_the_tiny_model(arm: Arm) -> None:
    for more in ([], ["--tiny"]):
        own = of_arm(arm, attempts=32, laid_over=recipe(parse(more)))
        assert usable(own).baseline == arm.baseline


def test_the_tiny_model_learns_without_an_anchor_unless_another_recipe_is_set() -> None:
    assert recipe(parse(["--set", "lr=0.1"])) == {"lr": 0.1}
    own = recipe(parse(["--tiny", "--set", "lr=0.1"]))
    assert (own["beta"], own["lr"]) == (0, 0.1)
