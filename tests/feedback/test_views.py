"""Thumbs and corrections on the page."""

from __future__ import annotations

import uuid

import pytest

from feedback.models import Feedback


@pytest.fixture
def say(client, ana, turn):
    client.force_login(ana)

    def say(**data):
        return client.post(f"/turns/{turn.pk}/feedback/", data, headers={"HX-Request": "true"})

    return say


def stands():
    return {row.kind: row.value or row.text for row in Feedback.objects.standing()}


def test_a_thumb_is_pressed_changed_and_taken_back(say):
    html = say(kind="thumb", value=1).content.decode()
    assert 'aria-label="Good reply" aria-pressed="true"' in html
    assert stands() == {"thumb": 1}
    html = say(kind="thumb", value=-1).content.decode()
    assert 'aria-label="Good reply" aria-pressed="false"' in html
    assert stands() == {"thumb": -1}
    say(kind="thumb", value=0)
    assert stands() == {}


def test_a_thumb_sends_what_the_person_saw_so_that_a_double_click_takes_nothing_back(say):
    for _ in range(2):
        html = say(kind="thumb", value=1).content.decode()
        assert stands() == {"thumb": 1}
    assert 'value="0" title="Good reply"' in html
    assert 'value="-1" title="Bad reply"' in html
    assert 'value="1" title="Good reply"' in say(kind="thumb", value=0).content.decode()


def test_a_correction_is_given_changed_and_taken_back(say):
    assert "Corrected" in say(kind="guidance", text="Be brief.").content.decode()
    say(kind="guidance", text="Be very brief.")
    assert stands() == {"guidance": "Be very brief."}
    say(kind="rewrite", text="Four.")
    assert stands() == {"guidance": "Be very brief.", "rewrite": "Four."}
    say(kind="guidance", text="Be very brief.", take_back=1)
    say(kind="rewrite", text="")
    assert stands() == {}


def test_the_rewrite_box_starts_with_the_reply(say):
    assert ">Five.</textarea>" in say(kind="thumb", value=1).content.decode()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "guidance", "text": "x" * 8001}, "at most 8000 characters; this has 8001"),
        ({"kind": "applause"}, "not one of the available choices"),
        ({"kind": "thumb"}, "A thumb is up"),
        ({"kind": "rewrite", "text": "Five."}, "That is what the reply said"),
        ({"kind": "thumb", "value": 5}, "not one of the available choices"),
        ({}, "required"),
    ],
)
def test_what_makes_no_sense_says_why(say, data, sentence):
    answer = say(**data)
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert stands() == {}


def test_lines_end_as_the_model_knows_them(say):
    say(kind="guidance", text="One.\r\nTwo.")
    assert stands() == {"guidance": "One.\nTwo."}


def test_without_scripts_the_page_comes_back(client, ana, turn):
    client.force_login(ana)
    answer = client.post(f"/turns/{turn.pk}/feedback/", {"kind": "thumb", "value": 1})
    assert answer.headers["Location"] == f"/chats/{turn.session_id}/"
    assert stands() == {"thumb": 1}


@pytest.mark.parametrize("whose", ["ben", "nobody"])
def test_other_peoples_replies_are_not_there(client, ben, turn, whose):
    client.force_login(ben)
    pk = turn.pk if whose == "ben" else uuid.uuid4()
    assert client.post(f"/turns/{pk}/feedback/", {"kind": "thumb", "value": 1}).status_code == 404
    assert stands() == {}


def test_what_is_said_is_text(say):
    html = say(kind="guidance", text="</textarea><script>alert(1)</script>").content.decode()
    assert "<script" not in html
