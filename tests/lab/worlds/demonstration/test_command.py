"""What `python -m lab.worlds` refuses, in a sentence, before anything is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.worlds.__main__ import TINY, laid_over, main, parse, planned, recipe
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
            ["--world", "terminal", "--smollm"],
            "In the world terminal the tiny model alone has a warm start: name no other.",
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
    every = [planned(parse(model)).marks for model in ([], ["--tiny"], ["--smollm"])]
    assert every == [(0, 5, 10)] * 3  # so that the last line has "0" and "10"
    assert laid_over(["gate={}", "baseline=pooled", "lr=1e-3"]) == {"gate": {}, "baseline": "pooled", "lr": 0.001}


@pytest.mark.parametrize("arm", ARMS.values(), ids=ARMS)
def test_a_line_can_learn_by_the_recipe_of_each_arm_also_of_the_tiny_model(arm: Arm) -> None:
    for more in (["--smollm"], ["--tiny"]):
        own = of_arm(arm, attempts=32, laid_over=recipe(parse(more)))
        assert usable(own).baseline == arm.baseline


def test_the_tiny_model_learns_without_an_anchor_unless_another_recipe_is_set() -> None:
    for other in (["--smollm"], ["--model", "folder"], ["--warm", "folder"]):
        assert recipe(parse([*other, "--set", "lr=0.1"])) == {"lr": 0.1}
    assert recipe(parse([])) == recipe(parse(["--tiny", "--model", "folder"])) == TINY
    own = recipe(parse(["--tiny", "--set", "lr=0.1"]))
    assert (own["beta"], own["lr"]) == (0, 0.1)


@pytest.mark.parametrize(
    ("settings", "flags", "brings"),
    [([], [], False), (["TINY=1"], ["--tiny"], False), (["SMOLLM=1"], ["--smollm"], True)],
)
def test_make_plays_the_tiny_model_unless_another_is_named(settings: list[str], flags: list[str], brings: bool) -> None:
    root = Path(__file__).parents[4]
    environment = {name: value for name, value in os.environ.items() if name not in ("TINY", "SMOLLM", "MODEL")}
    said = subprocess.run(
        ["make", "-n", "worlds", *settings], cwd=root, env=environment, capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in said.replace("\\\n", " ").splitlines() if "-m lab.worlds" in line]
    assert [word for word in line.split() if word in ("--tiny", "--smollm", "--model")] == flags
    assert any(line.rstrip().endswith(" model") for line in said.splitlines()) is brings
