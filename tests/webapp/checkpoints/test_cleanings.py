"""The operator's page of what was taken back: what answers with it, what one click would do, what came of it."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chat.rendering.renderer import Renderer
from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Taint
from evaluation import clean_lines
from gate.models import Examination
from tests.webapp.conftest import text_of
from training.models import Sample
from training.provenance import taints


@pytest.fixture
def tainted(make_lesson, make_checkpoint):
    """A live checkpoint that learned from two replies, one of which was taken back."""
    checkpoint = make_checkpoint(1, "approved")
    lessons = [make_lesson("trained", run=checkpoint.run) for _ in range(2)]
    checkpoint.go_live()
    Sample.objects.filter(pk=lessons[0].sample_id).update(drop_reason="its chat was deleted")
    taints.mark(Sample.objects.filter(pk=lessons[0].sample_id))
    return checkpoint


@pytest.fixture
def renderer(tiny_model, settings):
    settings.MODEL = str(tiny_model)
    return Renderer.for_model(settings.MODEL)


def test_the_page_says_what_one_click_would_do_and_the_click_does_it(console, tainted):
    text = text_of(console.get("/console/cleanings/"))
    assert "talkback@1 answers, and holds what was taken back" in text
    assert "1 run would be repeated" in text
    assert "on 1 sample that is left" in text

    text = text_of(console.post("/console/cleanings/start/", {"checkpoint": "1"}, follow=True))

    row = Cleaning.objects.get()
    assert (row.ancestor.number, row.replaces, row.steps) == (0, tainted, [tainted.run.pk])
    assert "talkback@1 is learned again from talkback@0 on: 1 run, without 1 sample." in text
    assert "Step 1 of 1." in text
    text = text_of(console.post("/console/cleanings/start/", {"checkpoint": "1"}, follow=True))
    assert "is being learned again already: one at a time" in text
    text = text_of(console.post(f"/console/cleanings/{row.pk}/stop/", follow=True))
    assert "Stopped by a person." in text
    assert "Go on from there" in text
    console.post(f"/console/cleanings/{row.pk}/again/")
    assert Cleaning.objects.get().status == "queued"


def test_the_checkpoints_page_says_what_was_taken_back_and_offers_the_same(console, tainted):
    text = text_of(console.get("/console/checkpoints/1/"))
    assert "1 sample was taken back" in text
    assert "Learn it again without it" in text


def test_going_back_to_what_holds_something_that_was_taken_back_warns_first(console, tainted, make_checkpoint):
    make_checkpoint(2, "approved").go_live()
    text = text_of(console.get("/console/checkpoints/1/"))
    assert "talkback@1 learned 1 sample that was taken back since.</strong> Live again, it may repeat that" in text


def test_a_clean_line_stands_beside_what_it_replaces(console, tainted, make_checkpoint, engine, renderer):
    result = make_checkpoint(2)
    checks = [{"name": "length", "passed": True, "value": 0.97, "limit": 4.0, "sentence": "Fine."}]
    Examination.objects.filter(checkpoint=result).update(checks=checks)
    row = Cleaning.objects.create(
        line_id="shared", ancestor_id=tainted.parent_id, replaces=tainted, result=result, status="finished",
        steps=[tainted.run.pk], removed=1, finished_at=timezone.now(),
    )  # fmt: skip
    clean_lines.measure(row.pk, engine=engine, renderer=renderer)
    row.refresh_from_db()
    assert row.distance["prompts"] == clean_lines.PROMPTS
    assert clean_lines.unmeasured() == []
    text = text_of(console.get("/console/cleanings/"))
    assert "answers in its place once a person says yes" in text
    assert "Learn it again without" not in text
    for page in ("/console/cleanings/", "/console/checkpoints/2/"):
        text = text_of(console.get(page))
        assert "nats per token apart" in text
        assert "It waits for a person’s yes on its page." in text
        assert "0.97" in text


def test_with_nothing_taken_back_there_is_nothing_to_do(console):
    assert "There is nothing to do here." in text_of(console.get("/console/cleanings/"))
    assert not Taint.objects.exists()


def test_it_is_for_those_who_run_talkback(client, talker, tainted):
    client.force_login(talker)
    assert client.get("/console/cleanings/").status_code == 403
    assert client.post("/console/cleanings/start/", {"checkpoint": "1"}).status_code == 403
    assert not Cleaning.objects.exists()
