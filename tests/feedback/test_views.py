"""Thumbs and corrections on the page."""

from __future__ import annotations

import uuid

import pytest

from chat.models import Turn
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
    say(kind="thumb", value=-1)
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
    html = say(kind="guidance", text="Be brief.").content.decode()
    assert "data-given" in html.split('class="opener teach"')[1].split(">")[0]
    assert ">Saved</span>" in html
    say(kind="guidance", text="Be very brief.")
    assert stands() == {"guidance": "Be very brief."}
    say(kind="rewrite", text="Four.")
    assert stands() == {"guidance": "Be very brief.", "rewrite": "Four."}
    say(kind="guidance", text="Be very brief.", take_back=1)
    say(kind="rewrite", text="")
    assert stands() == {}


def test_the_rewrite_box_starts_with_the_reply(client, turn, ana):
    client.force_login(ana)
    assert ">Five.</textarea>" in client.get(f"/turns/{turn.pk}/teach/").content.decode()


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


@pytest.mark.parametrize("whose", ["ben", "no person"])
def test_other_peoples_replies_are_not_there(client, ben, turn, whose):
    client.force_login(ben)
    pk = turn.pk if whose == "ben" else uuid.uuid4()
    assert client.post(f"/turns/{pk}/feedback/", {"kind": "thumb", "value": 1}).status_code == 404
    assert stands() == {}


def test_what_is_said_is_text(say):
    html = say(kind="guidance", text="</textarea><script>alert(1)</script>").content.decode()
    assert "<script" not in html


@pytest.fixture
def mark(client, ana, turn):
    client.force_login(ana)

    def mark(start, end, value, **data):
        data = {"start": start, "end": end, "value": value} | data
        return client.post(f"/turns/{turn.pk}/marks/", data, headers={"HX-Request": "true"})

    return mark


def marks():
    return [row.spans for row in Feedback.objects.standing().filter(kind="marks")]


def test_words_are_marked_drawn_listed_and_taken_off(mark):
    html = mark(0, 2, -1, words="Fi").content.decode()
    assert '<mark class="bad" title="Marked as bad" data-at="0">Fi</mark><span data-at="2">ve.</span>' in html
    assert "<q>Fi</q>" in html
    assert '>1<span class="visually-hidden"> mark</span>' in html
    assert "Marked as bad." in html
    assert marks() == [[[0, 2, -1]]]
    html = mark(0, 2, 0).content.decode()
    assert "<mark" not in html
    assert ">Mark words<" in html
    assert marks() == []


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"start": 0, "end": 9, "value": 1}, "The reply has 5 characters; this mark ends at 9."),
        ({"start": 2, "end": 2, "value": 1}, "A mark has at least one character"),
        ({"start": 0, "end": 2, "value": 1, "words": "Si"}, "These are not the words of the reply as it stands"),
        ({"start": 0, "end": 2, "value": 7}, "Select some words of the reply"),
        ({"start": "", "end": "", "value": 1}, "Select some words of the reply"),
        ({}, "Select some words of the reply"),
    ],
)
def test_a_mark_on_no_words_says_so_and_draws_nothing(client, ana, turn, sent, sentence):
    client.force_login(ana)
    answer = client.post(f"/turns/{turn.pk}/marks/", sent, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert 'class="prose"' not in answer.content.decode()
    assert marks() == []


def test_what_is_selected_in_the_plain_text_counts_each_line_end_once(mark, turn):
    Turn.objects.filter(pk=turn.pk).update(text="One.\r\nTwo **2**.\r\nThree.")
    assert mark(5, 12, 1, words="Two **2", plain="1").status_code == 200
    assert marks() == [[[6, 13, 1]]]
    assert mark(3, 8, -1, words=".\r\nTwo", plain="1").status_code == 200  # a form sends two characters for each
    assert marks() == [[[3, 9, -1], [9, 13, 1]]]


def test_what_the_page_shows_is_held_against_the_reply_without_its_markup(mark, turn):
    Turn.objects.filter(pk=turn.pk).update(text="It is **very** nice.")
    assert mark(3, 14, 1, words="is very").status_code == 200
    assert marks() == [[[3, 14, 1]]]
    assert mark(3, 14, 1, words="is **very**").status_code == 422


def test_a_mark_without_scripts_brings_the_page_back(client, ana, turn):
    client.force_login(ana)
    answer = client.post(f"/turns/{turn.pk}/marks/", {"start": 0, "end": 2, "value": 1})
    assert answer.headers["Location"] == f"/chats/{turn.session_id}/"
    assert marks() == [[[0, 2, 1]]]


@pytest.mark.parametrize("door", ["marks", "difference"])
def test_no_person_marks_or_reads_another_persons_reply(client, ben, turn, door):
    sent = {"start": 0, "end": 2, "value": 1, "text": "x"}
    assert client.post(f"/turns/{turn.pk}/{door}/", sent).status_code == 302  # to the door
    client.force_login(ben)
    assert client.post(f"/turns/{turn.pk}/{door}/", sent).status_code == 404
    assert marks() == []


def test_a_rewrite_shows_what_it_would_change_and_keeps_nothing(client, ana, turn):
    client.force_login(ana)
    html = client.post(f"/turns/{turn.pk}/difference/", {"text": "Four<b>."}).content.decode()
    assert "<del>Five</del><ins>Four&lt;b&gt;</ins>." in html
    assert "<del>" not in client.post(f"/turns/{turn.pk}/difference/", {"text": "Five."}).content.decode()
    assert not Feedback.objects.exists()


def test_either_thumb_takes_anything_else_in_words(say):
    html = say(kind="thumb", value=1).content.decode()
    assert "What was good?" in html
    html = say(kind="thumb", value=1, tags=["", "clear"], text=" Just <right>. ").content.decode()
    assert 'value="Just &lt;right&gt;."' in html
    thumb = Feedback.objects.standing().get()
    assert (thumb.value, thumb.text, thumb.tags) == (1, "Just <right>.", ["clear"])
    say(kind="thumb", value=1)  # a thumb alone speaks of nothing else
    assert Feedback.objects.standing().get().text == "Just <right>."
    say(kind="thumb", value=1, text="")
    assert Feedback.objects.standing().get().text == ""
