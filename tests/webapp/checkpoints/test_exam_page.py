"""What the exam was made of, on the checkpoint's page; and the exam once more, from the command line."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint, Decision
from feedback.models import Feedback
from gate import general_pack
from gate.models import AskedAgain, Examination
from gpu_workers import engines
from judge.models import Judgement
from tests.rows import made_by
from tests.webapp.conftest import unfolded
from training.models import Run


@pytest.fixture
def candidate(db):
    run = Run.objects.create(recipe={"gate": {"own_enough": 2, "prompts": 2, "pack": 4, "an old knob": 1}})
    return made_by(
        run,
        Checkpoint.objects.create(
            number=1, adapter="talkback-1-a", path="checkpoints/1", parent=Checkpoint.live(), status="rejected"
        ),
    )


@pytest.fixture
def page(candidate, client):
    def page() -> str:
        client.force_login(get_user_model().objects.create_user("op", is_staff=True))
        return unfolded(client, 1)

    return page


def test_a_failed_check_leads_to_the_examples_that_failed_it(candidate, page):
    lost = next(item for item in general_pack.items() if item.wrong)
    person = get_user_model().objects.create_user("ana")
    turn = Turn.objects.create(
        session=Session.objects.create(user=person), position=0, checkpoint=Checkpoint.live(), status="judged",
        messages=[{"role": "user", "content": "How far is it?"}], text="Far.",
    )  # fmt: skip
    Judgement.objects.create(turn=turn, hint="Say it in <b>miles</b>.", held_out=True)
    gauge = {
        "name": "copied", "readings": [["live", 0.1], ["candidate", 0.6]], "scale": [0, 1], "value": 0.6, "limit": 0.3,
        "passed": False, "sentence": "60% of its runs.", "worst": ["h01"],
    }  # fmt: skip
    numbers = {"live": "One.", "candidate": "Two.", "live_tokens": 2, "candidate_tokens": 2}
    failed = {"passed": False, "value": 0.0, "limit": 0.5, "sentence": "It fell."}
    Examination.objects.create(
        checkpoint=candidate,
        against=Checkpoint.live(),
        passed=False,
        progress={"phase": "done", "seconds": {"meter": 2.04, "replies": 31.26}},
        pairs=[{"id": "h01", "prompt": "Why?", **numbers}],
        pack=[{"id": lost.id, "mark": lost.mark, "live": [-1, -2, -3], "candidate": [-2, -3, -1]}],
        personal=[
            {"turn": str(turn.pk), "person": person.pk, "kind": "hint", "live": 0.4, "candidate": 0.1},
            {"turn": str(UUID(int=1)), "person": 0, "kind": "hint", "live": None, "candidate": None},
        ],
        meter={"copied": gauge},
        checks=[
            {"name": "general pack", "where": "pack", "worst": [lost.id], **failed},
            {"name": "kept corrections", "where": "own", "worst": [str(turn.pk)], **failed},
            {"name": "copied", "where": "pairs", "worst": ["h01"], **failed},
            {"name": "of an earlier version", **failed},
        ],
    )  # fmt: skip

    said = page()

    assert "It took 33 s: replies 31.3, meter 2.0." in said
    for anchor in (f"pack-{lost.id}", f"own-{turn.pk}", "pair-h01"):
        assert f'href="#{anchor}"' in said
        assert f'id="{anchor}"' in said
    assert lost.prompt.replace("'", "&#x27;") in said
    assert lost.wrong[1].replace("'", "&#x27;") in said  # what it finds likeliest now
    assert "Say it in &lt;b&gt;miles&lt;/b&gt;." in said
    assert "deleted since" in said
    assert "not enough to know: 4 kept corrections more" in said  # five are, whatever an old recipe says
    assert '<meter class="meter" min="0" max="1" value="0.6"' in said


def test_an_exam_of_an_earlier_version_is_shown_as_it_was(candidate, page):
    Examination.objects.create(checkpoint=candidate, against=Checkpoint.live(), pairs=[], passed=True)
    assert "Overfitting meter" not in page()


@pytest.fixture
def asked(candidate, engine, tiny_model, settings, monkeypatch):
    settings.MODEL = str(tiny_model)
    monkeypatch.setattr(engines, "policy", lambda: engine)
    prompt, response = [5, 6, 7], [8, 9, 2]
    new, base = (engine.logprobs(prompt, response, adapter) for adapter in (candidate.adapter, None))
    candidate.probe = {
        "prompt_ids": prompt, "response_ids": response, "logprobs": new, "base_logprobs": base, "dtype": "float32",
    }  # fmt: skip
    candidate.status = "live"
    Checkpoint.objects.update(status="retired")
    candidate.save()
    assert Renderer.for_model(tiny_model)


def test_a_live_checkpoint_is_examined_again_and_stays_where_it_is(asked, candidate, capsys):
    call_command("examine", "1", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["checkpoint"], found["against"], len(found["pairs"]), len(found["pack"])) == (1, 0, 2, 4)
    candidate.refresh_from_db()
    assert candidate.status == "live"
    assert not Examination.objects.exists()
    assert not Decision.objects.exists()
    call_command("examine", "1")
    assert "general pack" in capsys.readouterr().out


def test_what_cannot_be_examined_is_said(candidate):
    with pytest.raises(CommandError, match="no checkpoint 9"):
        call_command("examine", "9")
    with pytest.raises(CommandError, match="base model"):
        call_command("examine", "0")


# What changed, and corrected questions asked again


@pytest.fixture
def again(candidate):
    person = get_user_model().objects.create_user("ana")
    turn = Turn.objects.create(
        session=Session.objects.create(user=person), position=0, checkpoint=Checkpoint.live(), status="judged",
        messages=[{"role": "user", "content": "What is <b>rain</b>?"}], text="Rain is water that falls, and falls.",
        finish_reason="length",
    )  # fmt: skip
    Feedback.objects.create(turn=turn, by=person, kind="guidance", text="Say it in four words.")
    check = {"name": "length", "passed": True, "value": 0.5, "limit": 0.1, "sentence": "It is shorter."}
    exam = Examination.objects.create(
        checkpoint=candidate, against=Checkpoint.live(), passed=True, checks=[check],
        pairs=[{"id": "h1", "prompt": "Why?", "live": "one two three four", "candidate": "one two",
                "live_own": -1.2, "candidate_own": -1.3, "candidate_on_live": -1.4}],
    )  # fmt: skip
    return AskedAgain.objects.create(examination=exam, turn=turn, live="", candidate="Rain is falling water.")


def test_the_page_says_what_changed_and_shows_what_was_corrected_before_and_after_with_the_lesson(again, page):
    said = page()
    assert "Replies are half as long: 2 words, were 4." in said
    assert "What is &lt;b&gt;rain&lt;/b&gt;?" in said
    assert "Say it in four words." in said
    assert "· 7 words</span> · cut short" in said  # the reply that was corrected came to its limit
    assert '<mark class="here">falling </mark>' in said
    assert said.index('id="verdict"') < said.index('id="again"') < said.index('id="figures"')


def test_of_what_is_off_the_record_nothing_is_shown_again(again, page):
    Turn.objects.update(learns=False)
    said = page()
    assert 'id="again"' not in said
    assert "falling" not in said


def test_what_live_says_now_stands_beside_where_other_weights_wrote_the_corrected_reply(again, page):
    older = Checkpoint.objects.create(number=7, adapter="talkback-7-x", path="checkpoints/7", status="retired")
    Turn.objects.update(checkpoint=older)
    AskedAgain.objects.update(live="It rains, I say.")
    said = page()
    assert "What talkback@0 says now, 4 words" in said
    assert "It rains, I say." in said


def test_an_exam_whose_gate_is_off_shows_what_it_asked(candidate, page):
    said = {"passed": True, "value": 0.0, "limit": 0.1, "sentence": "The engine gives what the learner gave."}
    Examination.objects.create(
        checkpoint=candidate, against=Checkpoint.live(), passed=True, progress={"phase": "done", "done": 0, "total": 0},
        checks=[{"name": "applied", **said}, {"name": "new", **said}],
    )  # fmt: skip

    assert "The engine gives what the learner gave." in page()


def test_every_figure_has_words_and_no_recipe_is_printed_as_code(again, page):
    Run.objects.update(recipe={"gate": {"prompts": 12, "handful": 4}})
    said = page()
    assert "How sure it was of its own words; nearer to 0 is surer" in said
    assert "How likely it finds the live reply; nearer to 0 is likelier" in said
    assert "How long its replies are, as a share of live ones." in said
    assert "Nats per token say how likely a model finds a text" in said
    assert "{'" not in said
    assert "{&#x27;" not in said
