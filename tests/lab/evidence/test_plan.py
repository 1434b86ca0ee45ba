"""What a run will do, and to whom: settled before anything is started, and the same for every arm."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from environments.errors import Unplayable
from environments.wishes import WISHES
from lab.evidence import compared_arms, plan
from lab.evidence.__main__ import parse, planned, sentences
from lab.evidence.compared_arms import ARMS, chosen
from lab.evidence.plan import FULL, Plan, Sizes, made, seed_of, sessions
from training import config


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path / "model"


def a_plan(
    model: Path, names: str = "base,prompt-only,binary,combined", seeds: tuple[int, ...] = (1, 2), **how
) -> Plan:
    return made(chosen(names.split(",")), seeds, model, **how)


@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if arm.learns])
def test_the_recipe_of_every_arm_is_one_that_training_takes(name: str) -> None:
    recipe = config.read(compared_arms.recipe(ARMS[name], updates=4, samples=16))
    assert (recipe.updates, recipe.batch_size, recipe.holdout) == (4, 16, 0)
    assert recipe.gate.off


def test_arms_learn_from_what_their_names_say() -> None:
    binary, opd = (config.read(compared_arms.recipe(ARMS[name], updates=4, samples=16)) for name in ("binary", "opd"))
    assert (binary.w_rl > 0, binary.w_opd) == (True, 0)
    assert (opd.w_rl, opd.w_opd > 0) == (0, True)
    assert config.read(compared_arms.recipe(ARMS["topk"], updates=4, samples=16)).distillation == "topk"


def test_few_shot_is_asked_by_name_or_with_all_of_them() -> None:
    assert [arm.name for arm in chosen(compared_arms.USUAL)] == [
        "base",
        "prompt-only",
        "binary",
        "opd",
        "topk",
        "combined",
    ]
    assert [arm.name for arm in chosen([compared_arms.ALL])] == list(ARMS)
    assert "few-shot" in ARMS


def test_a_knob_is_set_over_one_arm_over_all_that_learn_and_in_the_gate() -> None:
    base, binary, topk = chosen(
        ["base", "binary", "topk"], ["binary.lr=3e-4", "all.beta=0.5", "topk.gate.kl=2", "topk.distillation=vocabulary"]
    )
    assert (binary.recipe["lr"], binary.recipe["beta"], topk.recipe["beta"]) == (3e-4, 0.5, 0.5)
    assert topk.recipe["distillation"] == "vocabulary"
    gate = config.read(compared_arms.recipe(topk, updates=1, samples=1)).gate
    assert (gate.off, gate.kl, gate.pack) == (False, 2, 32)  # and what is not named is the preset's
    assert base.recipe == {}
    assert ARMS["binary"].recipe["lr"] != 3e-4  # the table itself stays


@pytest.mark.parametrize(
    ("names", "settings", "said"),
    [
        ([""], [], "No arm is named"),
        (["base", "worst"], [], "There is no arm 'worst'. There are base, prompt-only"),
        (["base", "base"], [], "named twice"),
        (["binary"], ["binary.lr"], "it reads ARM.knob=value"),
        (["binary"], ["opd.lr=1"], "opd is no arm of this run that learns"),
        (["base"], ["base.lr=1"], "base is no arm of this run that learns"),
    ],
)
def test_arms_that_cannot_be_are_refused(names: list[str], settings: list[str], said: str) -> None:
    with pytest.raises(Unplayable, match=said):
        chosen(names, settings)


def test_prompt_only_is_told_every_wish_in_the_words_of_the_teachers_hint() -> None:
    hints = [WISHES["short"].hint, WISHES["no-lists"].hint]
    assert compared_arms.guided("Why?", hints) == f"Why?\n\n(Guidance: {' '.join(hints)})"


def test_probes_are_at_0_4_8_12_16_and_hold_out_a_hundred_prompts() -> None:
    assert FULL.marks == (0, 4, 8, 12, 16)
    assert FULL.probes >= 100


def test_every_arm_plays_the_same_sessions_and_no_probe_is_among_them(model: Path) -> None:
    found = a_plan(model)
    one, other = (list(islice(sessions(found, 1), 300)) for _ in range(2))
    assert one == other
    asked = {task.prompt for _, task, _ in one}
    assert not asked & {task.prompt for task in found.heldout(1)}
    assert len({seed for _, _, seed in one}) == 300  # no person says the same twice, also where tasks begin again
    assert one != list(islice(sessions(found, 2), 300))


def test_the_untouched_persona_wants_nothing_that_the_taught_one_wants(model: Path) -> None:
    found = a_plan(model)
    for seed in range(1, 12):
        assert not set(found.own(seed).wishes) & set(found.other(seed).wishes)
        assert found.own(seed).split == found.other(seed).split == "heldout"


def test_steps_are_a_round_and_a_probe_an_arm_and_base_and_prompt_are_probed_once_a_seed(model: Path) -> None:
    keys = [step.key for step in a_plan(model).steps()]
    assert len(keys) == len(set(keys))
    assert [key for key in keys if key.startswith("probed/base/")] == ["probed/base/1/0", "probed/base/2/0"]
    assert [key for key in keys if key.startswith("probed/combined/1")] == [
        f"probed/combined/1/{n}" for n in (4, 8, 12, 16)
    ]
    assert sum(key.startswith("round/") for key in keys) == 2 * 2 * 4  # arms, seeds, rounds
    assert [key for key in keys if key.startswith("pack/")] == [
        *("pack/base/1/0", "pack/binary/1/16", "pack/combined/1/16", "pack/binary/2/16", "pack/combined/2/16")
    ]


def test_what_is_done_takes_no_time_and_all_of_it_none_at_all(model: Path) -> None:
    found = a_plan(model)
    keys = [step.key for step in found.steps()]
    assert found.seconds() > found.seconds(keys[:10]) > found.seconds(keys[:-1]) > 0
    assert found.seconds(keys) == 0


def test_engines_and_learner_share_two_cores(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "START_S", 10.0)
    monkeypatch.setattr(Plan, "steps", lambda self: iter([plan.Step("a", 100.0, 40.0), plan.Step("b", 20.0)]))
    assert a_plan(model).seconds() == pytest.approx(95.6)  # 160 of work on two cores, 0.07 of it beside, 10 to start


def test_a_plan_says_all_that_makes_it_this_one(model: Path) -> None:
    assert json.loads(json.dumps(a_plan(model).as_json())) == a_plan(model).as_json()
    other = made(chosen(["base"], []), (1,), model, sizes={"probes": 7})
    assert other.as_json() != made(chosen(["base"], []), (1,), model).as_json()
    assert a_plan(model).as_json()["arms"][2]["recipe"]["preset"] == "binary"


def test_people_whom_a_model_plays_are_another_plan_and_the_key_is_no_part_of_it(model: Path) -> None:
    said = ["--model", str(model), "--actor", "http://there/v1", "--actor-model", "m-1", "--actor-key", "hunter2"]
    found = planned(parse(said))
    assert found.as_json()["actor"] == "m-1"  # the same model behind another address is the same plan
    assert "What people answer in sessions is worded by m-1." in sentences(found, [])
    assert "hunter2" not in json.dumps(found.as_json())
    assert "actor" not in planned(parse(["--model", str(model)])).as_json()
    for alone in (["--actor", "http://there/v1"], ["--actor-model", "m-1"]):
        with pytest.raises(Unplayable, match="go together"):
            planned(parse(["--model", str(model), *alone]))


def test_a_plan_shows_no_secret_of_the_private_talkback(model: Path) -> None:
    found = a_plan(model, settings={"JUDGE_VOTES": "5", "JUDGE_API_KEY": "hunter2"})
    assert found.as_json()["settings"] == {"JUDGE_VOTES": "5", "JUDGE_API_KEY": "(secret)"}
    assert found.settings["JUDGE_API_KEY"] == "hunter2"  # it is told, to the Talkback alone


def test_people_of_a_file_are_taken_in_turn_and_its_prompts_are_parted(model: Path, tmp_path: Path) -> None:
    people, prompts = tmp_path / "people.jsonl", tmp_path / "prompts.jsonl"
    people.write_text('{"name": "brief", "wishes": ["short"]}\n{"name": "asker", "wishes": ["asks-back"]}\n')
    prompts.write_text("".join(json.dumps({"prompt": f"What is {n}?"}) + "\n" for n in range(10)))
    found = a_plan(model, people=people, prompts=prompts, seeds=(1, 2, 3))
    assert [found.own(seed).name for seed in (1, 2, 3)] == ["brief", "asker", "brief"]
    assert found.other(1).name == "asker"
    held, trained = ({task.prompt for task in some} for some in (found.heldout(1), found.training(1)))
    assert len(held) == 5
    assert len(trained) == 5
    assert not held & trained
    assert held == {task.prompt for task in found.heldout(2)}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("people", '{"name": "x", "wishes": ["loud"]}', r"people\.jsonl, line 1: there is no wish 'loud'"),
        ("prompts", '{"prompt": "a"}\n{', r"prompts\.jsonl, line 2 is no JSON"),
        ("prompts", '{"prompt": "a"}', "half are held out"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    model: Path, tmp_path: Path, file: str, text: str, said: str
):
    path = tmp_path / f"{file}.jsonl"
    path.write_text(text)
    with pytest.raises(Unplayable, match=said):
        a_plan(model, **{file: path})


def test_what_cannot_be_planned_is_said_before_anything_starts(model: Path, tmp_path: Path) -> None:
    with pytest.raises(Unplayable, match=r"holds no config\.json"):
        a_plan(tmp_path)
    with pytest.raises(Unplayable, match="cannot be read"):
        a_plan(model, people=tmp_path / "missing.jsonl")
    with pytest.raises(Unplayable, match="Seeds are different"):
        a_plan(model, seeds=(1, 1))
    with pytest.raises(Unplayable, match="samples is more than 1: one session may bring 2"):
        a_plan(model, sizes={"samples": 1})
    with pytest.raises(Unplayable, match="questions to heldout"):
        a_plan(model, sizes={"probes": 100_000})


def test_seeds_are_the_same_everywhere_and_fit_a_sampler() -> None:
    assert seed_of("probe", 1, "open-1") == seed_of("probe", 1, "open-1") != seed_of("probe", 2, "open-1")
    assert all(0 <= seed_of("x", n) < 2**31 for n in range(50))


def test_sizes_without_rounds_only_probe() -> None:
    assert Sizes(rounds=0).marks == (0,)
