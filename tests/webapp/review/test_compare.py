"""The page of two checkpoints side by side: blind until a person has chosen."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from evaluation import comparing
from evaluation.models import Choice, Comparison

pytestmark = pytest.mark.django_db


@pytest.fixture
def answered(make_checkpoint):
    other = make_checkpoint(1)
    replies = [
        {"prompt": "Why?", "first": "Because of rain.", "second": "Rain.", "is_swapped": True},
        {"prompt": "How?", "first": "Slowly.", "second": "Fast.", "is_swapped": False},
    ]
    layer = {"layer": "0", "first": 1.0, "second": 2.0, "apart": 3.0, "alike": 0.5}
    return Comparison.objects.create(
        first=Checkpoint.live(),
        second=other,
        status="answered",
        prompts=["Why?", "How?"],
        replies=replies,
        distances=[layer],
    )


def test_two_are_asked_from_the_form(console, make_checkpoint, workers):
    make_checkpoint(1)
    answer = console.post("/console/compare/", {"first": "0", "second": "1", "prompts": "What is tea?\n\n"})

    made = Comparison.objects.get()
    assert answer["Location"] == f"/console/compare/{made.pk}/"
    assert made.prompts == ["What is tea?"]
    assert "0 of 1 prompts" in console.get(answer["Location"]).content.decode()


def test_the_same_one_twice_is_refused_and_what_was_typed_stays(console, make_checkpoint):
    make_checkpoint(1)
    answer = console.post("/console/compare/", {"first": "1", "second": "1", "prompts": "What is tea?"})

    assert answer.status_code == 422
    assert "two different checkpoints" in answer.content.decode()
    assert "What is tea?</textarea>" in answer.content.decode()


def test_nothing_says_which_is_which_before_all_is_chosen(console, answered, operator):
    page = console.get(f"/console/compare/{answered.pk}/").content.decode()
    body = page[page.index('class="pair blind"') :]
    assert body.index("Rain.") < body.index("Because of rain.")  # it is swapped: the second stands on the left
    assert "chosen" not in body

    console.post(f"/console/compare/{answered.pk}/choose/", {"place": "0", "side": "left"})
    assert "How?" in console.get(f"/console/compare/{answered.pk}/").content.decode()
    console.post(f"/console/compare/{answered.pk}/choose/", {"place": "1", "side": "same"})

    assert sorted(Choice.objects.values_list("place", "picked")) == [(0, "second"), (1, "same")]
    page = console.get(f"/console/compare/{answered.pk}/").content.decode()
    # One for it: 6 more of the same make seven, which is what refutes a coin.
    assert "talkback@1 is ahead with 1 of 1. About 6 more" in page
    assert "The weights, layer by layer" in page


def test_a_turn_brings_its_question_along(console, make_checkpoint, make_turn):
    make_checkpoint(1)
    turn = make_turn()
    page = console.get(f"/console/compare/?turn={turn.pk}").content.decode()
    assert f"{comparing.question_of(turn)}</textarea>" in page

    turn.session.learns = False  # off the record: what was said is its person's alone to read
    turn.session.save()
    assert comparing.question_of(turn) not in console.get(f"/console/compare/?turn={turn.pk}").content.decode()


def test_talkers_have_no_business_there(client, answered, talker):
    client.force_login(talker)
    for path in ("/console/compare/", f"/console/compare/{answered.pk}/"):
        assert client.get(path).status_code == 403
