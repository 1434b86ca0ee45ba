"""The school on a model small enough to train in a test."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from chat.rendering.renderer import Renderer
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from lab.curriculum import lessons, training
from lab.curriculum.training import BASE, Plan

PLAN = Plan(groups=6, groups_a_step=2, rank=4, alpha=8, lr=2e-2, warm_up=1, dev_groups=1, look_every=2, seed=3)


def test_an_adapter_is_kept_in_half_precision_without_a_path_of_this_machine(tiny_model, tmp_path):
    said: list[str] = []
    best = training.train(tiny_model, tmp_path / "adapter", PLAN, dtype="float32", told=said.append)

    weights = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert any(bool(tensor.any()) for name, tensor in weights.items() if "lora_B" in name)  # it learned
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["base_model_name_or_path"]) == (4, BASE)
    assert not any(str(tmp_path) in file.read_text(errors="replace") for file in (tmp_path / "adapter").iterdir())
    assert len(said) == 2  # after steps 2 and 3 of 3
    assert best["loss"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter"]  # no checkpoint is left lying


def test_training_makes_the_wanted_answers_likelier(tiny_model, tmp_path):
    renderer = Renderer.for_model(tiny_model)
    group = [list(lessons.made("train", 1, PLAN.seed))]
    fresh = Learner(tiny_model, dtype="float32", lora=LoraShape(4, 8), micro_batch=64)
    before = training.looked(fresh, group, renderer, 2)["loss"]
    training.train(tiny_model, tmp_path / "adapter", PLAN, dtype="float32", told=lambda _: None)
    taught = Learner(tiny_model, adapter_dir=tmp_path / "adapter", dtype="float32", micro_batch=64)

    assert training.looked(taught, group, renderer, 2)["loss"] < before - 0.1


def test_a_run_ends_when_its_minutes_are_over_and_keeps_what_it_has(tiny_model, tmp_path):
    said: list[str] = []
    plan = replace(PLAN, groups=40, minutes=1e-6, look_every=100)
    best = training.train(tiny_model, tmp_path / "adapter", plan, dtype="float32", told=said.append)

    assert best["step"] == 1  # of twenty
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_an_adapter_that_is_there_is_not_overwritten(tiny_model, tmp_path):
    with pytest.raises(FileExistsError):
        training.train(tiny_model, tmp_path, PLAN)


def test_what_is_trained_is_what_is_served(tiny_model):
    renderer = Renderer.for_model(tiny_model)
    lesson = next(lessons.made("train", 1, 3))
    (prompt, answer), *_ = training.ids_of(lesson, renderer, end=2)

    assert prompt == renderer.prompt_ids(lesson.messages("score"))
    assert answer[-1] == 2
    assert renderer.decode(answer[:-1]) == lesson.answer("score")


def test_the_rate_rises_in_a_line_and_falls_to_a_twentieth():
    plan = replace(PLAN, lr=1.0, warm_up=4)
    rates = [training._rate(step, 104, plan) for step in range(104)]

    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == pytest.approx(1.0)
    assert rates[54] == pytest.approx(0.05 + 0.95 / 2)  # half way
    assert rates[-1] == pytest.approx(0.05, abs=1e-3)


@pytest.mark.real_model
def test_each_answer_is_stressed_where_it_is_decided(smol_model):
    renderer = Renderer.for_model(smol_model)
    lesson = next(one for one in lessons.made("train", 9, 3) if one.label.hint and one.label.role == "user")
    pairs = training.ids_of(lesson, renderer, end=2)
    stressed = training.stressed(pairs, renderer)

    assert stressed[:2] == pairs
    assert [renderer.decode(prompt)[-7:] for prompt, _ in stressed[2:4]] == [r"\boxed{"] * 2
    assert [renderer.decode(answer) for _, answer in stressed[2:4]] == ["-", "1"]  # a score of -1, and a hint
    _, decisions = training.deciding(renderer, list(training.ANSWERS.values()))
    assert [renderer.decode([token]) for token in decisions] == ["1", "0", "-", "new"]
    words = f" {lesson.label.hint} [HINT_END]"
    assert [renderer.decode(answer[:-1]) for _, answer in stressed[4:]] == [words]  # and the words of the hint
