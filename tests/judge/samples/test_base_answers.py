"""The base answers ordinary prompts for later runs, while no person waits for anything."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command

from chat.models import Turn
from checkpoints.models import Checkpoint
from gate import general_pack
from gpu_workers.errors import EngineUnavailable
from judge import tasks
from judge.samples import base_answers, exam_questions
from lab.research import recipe as measured
from tests.environments.test_tasks import plain
from training.models import Rehearsal
from training.rehearsals import TOKENS
from webapp import pipeline


@pytest.fixture
def rehearsing(renderer, settings, tmp_path, db):
    """An installation whose recipe rehearses a quarter of each batch."""
    settings.RECIPE = str(tmp_path / "recipe.json")
    (tmp_path / "recipe.json").write_text(json.dumps({"rehearsal": 0.25}))


def test_there_are_many_ordinary_prompts_and_none_of_the_exam():
    prompts = base_answers.prompts()

    assert len(prompts) == len(set(prompts)) >= 100
    assert not [prompt for prompt in prompts if exam_questions.includes(prompt)]
    examined = {*(item.prompt for item in general_pack.items()), *measured.HELD_OUT}
    assert not set(map(plain, prompts)) & set(map(plain, examined))


def test_the_base_answers_a_handful_at_temperature_1_after_everybody_else(rehearsing, engine, renderer, settings):
    engine.loaded["talkback-1"] = "/somewhere"  # an adapter is live, and is not asked

    assert base_answers.answer(engine=engine, renderer=renderer)

    asked = engine.asked("generate")
    assert len(asked) == base_answers.HANDFUL
    assert {call.adapter for call in asked} == {None}
    assert {call.priority for call in asked} == {-1}
    assert {(call.sampling.temperature, call.sampling.top_p, call.sampling.max_new_tokens) for call in asked} == {
        (1.0, 1.0, TOKENS)
    }
    row = Rehearsal.objects.first()
    assert renderer.decode(row.prompt_ids).strip().endswith("assistant")
    assert base_answers.prompts()[0] in renderer.decode(row.prompt_ids)
    assert renderer.decode(row.response_ids, controls=True) == "I see.<|im_end|>"
    assert row.logprobs == engine.logprobs(row.prompt_ids, row.response_ids, None)
    assert row.model == settings.MODEL


def test_each_prompt_is_answered_once_until_all_are(rehearsing, engine, renderer, monkeypatch):
    monkeypatch.setattr(base_answers, "HANDFUL", 50)
    rounds = 1
    while base_answers.answer(engine=engine, renderer=renderer):
        rounds += 1

    asked = [call.prompt for call in engine.asked("generate")]
    assert len(asked) == len(set(asked)) == len(base_answers.prompts())
    assert rounds == 3  # of 136 prompts, 50 at once
    assert not base_answers.is_due()


def test_it_can_be_had_at_once(rehearsing, engine, capsys):
    call_command("rehearse")
    call_command("rehearse")

    assert len(engine.asked("generate")) == len(base_answers.prompts()) == 136
    assert capsys.readouterr().out.splitlines() == ["The base has answered 136 of 136 prompts that runs rehearse."] * 2


def test_an_engine_that_is_away_is_named_to_an_operator_who_wants_it_at_once(rehearsing, engine):
    engine.goes_down(EngineUnavailable("away"))

    with pytest.raises(CommandError, match="away"):
        call_command("rehearse")


def test_nothing_is_asked_where_no_recipe_rehearses(renderer, engine, settings, tmp_path, db, capsys):
    settings.RECIPE = str(tmp_path / "recipe.json")
    (tmp_path / "recipe.json").write_text(json.dumps({"rehearsal": 0}))

    assert not base_answers.is_due()
    call_command("rehearse")
    assert capsys.readouterr().out == "No line's recipe rehearses, so there is nothing to answer.\n"
    assert not base_answers.answer(engine=engine, renderer=renderer)
    assert not engine.calls


def test_chat_and_learning_come_first(rehearsing, engine, renderer, serve, capsys):
    turn = serve(status=Turn.Status.ANSWERING)
    assert not base_answers.is_due()
    call_command("rehearse")
    assert "0 of 136" in (said := capsys.readouterr().out)
    assert "A person chats" in said
    turn.delete()
    assert base_answers.is_due()


def test_weights_that_took_the_bases_place_are_not_asked_in_its_name(rehearsing):
    Checkpoint.objects.update(status=Checkpoint.Status.RETIRED)
    Checkpoint.objects.create(number=7, kind=Checkpoint.Kind.FULL, status=Checkpoint.Status.LIVE)

    assert not base_answers.is_due()


def test_the_sweep_begins_it_and_the_task_goes_on_by_itself(rehearsing, engine, monkeypatch):
    sent = []
    monkeypatch.setattr(tasks.rehearse, "apply_async", lambda *args, **options: sent.append(options))
    pipeline.sweep()
    assert [options["priority"] for options in sent] == [tasks.LOWEST]

    tasks.rehearse()
    assert len(sent) == 2
    assert Rehearsal.objects.count() == base_answers.HANDFUL


def test_an_engine_that_is_away_is_asked_by_a_later_sweep(rehearsing, engine, monkeypatch):
    monkeypatch.setattr(tasks.rehearse, "apply_async", lambda *args, **options: pytest.fail("it would go on for ever"))
    engine.goes_down(EngineUnavailable("away"))

    tasks.rehearse()

    assert not Rehearsal.objects.exists()
