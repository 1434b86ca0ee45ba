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


def reasons():
    return [row.tags for row in Feedback.objects.standing().filter(kind="thumb")]


def test_a_thumb_down_offers_reasons_and_keeps_those_chosen(say):
    assert "What was wrong?" not in say(kind="thumb", value=1).content.decode()
    html = say(kind="thumb", value=-1).content.decode()
    assert html.count('type="checkbox"') == 7
    assert "checked" not in html.split('class="reasons"')[1]
    html = say(kind="thumb", value=-1, tags=["", "too long", "tone"]).content.decode()
    assert 'value="too long" checked' in html
    assert reasons() == [["too long", "tone"]]


def test_reasons_are_what_is_chosen_now_and_another_thumb_leaves_them(say):
    say(kind="thumb", value=-1, tags=["", "too long", "tone"])
    say(kind="thumb", value=-1, tags=["", "tone"])
    assert reasons() == [["tone"]]
    say(kind="thumb", value=-1)  # a thumb alone speaks of no reasons
    assert reasons() == [["tone"]]
    say(kind="thumb", value=-1, tags=[""])
    assert reasons() == [[]]
    say(kind="thumb", value=-1, tags=["", "wrong"])
    say(kind="thumb", value=0)
    say(kind="thumb", value=-1)
    assert reasons() == [[]]


def test_a_reason_of_ones_own_stays_among_those_offered(say, turn, ana):
    Feedback.objects.give(turn, by=ana, kind="thumb", value=-1, tags=["<b>mine</b>"])
    html = say(kind="thumb", value=-1, tags=["", "<b>mine</b>", "tone"]).content.decode()
    assert 'value="&lt;b&gt;mine&lt;/b&gt;" checked' in html
    assert html.count('type="checkbox"') == 8


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
        ({"kind": "verdict", "value": 1}, "not one of the available choices"),
        ({"kind": "thumb", "value": -1, "tags": ["x" * 41]}, "A tag has at most 40 characters"),
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
