"""What a person taught stands under its reply in their own words: the wish, its wording, and the way back."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from judge.models import Hint
from webapp.people import taught
from webapp.people.own_data.own_export import exported

MERGE, ONE = "Merge the paragraphs into one and send it again", "Write the whole reply as one paragraph."
REDO = "Redo the second point."


@pytest.fixture
def own(client, talker):
    client.force_login(talker)
    return client


@pytest.fixture
def turn(talker):
    return Turn.objects.create(
        session=Session.objects.create(user=talker),
        position=0,
        status="served",
        finish_reason="stop",
        messages=[{"role": "user", "content": "What is tea?"}],
        prompt_ids=[5],
        response_ids=[6],
        logprobs=[-0.1],
        text="A drink.",
        checkpoint=Checkpoint.live(),
        completion_id="chatcmpl-taught",
    )


def give(client, turn, htmx=True, **fields):
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(reverse("feedback:give", args=[turn.pk]), fields, headers=headers)


def put(client, turn, text, htmx=True):
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(reverse("taught:put", args=[turn.pk]), {"text": text}, headers=headers)


def undo(client, turn, htmx=True, **fields):
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(reverse("taught:undo", args=[turn.pk]), fields, headers=headers)


def words(answer) -> str:
    """The page's words without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).replace("&quot;", '"').split())


def page(client, turn) -> str:
    return words(client.get(reverse("chat:session", args=[turn.session_id])))


def test_the_wish_stands_under_the_reply_with_what_was_written(own, turn):
    answer = give(own, turn, kind="guidance", text=MERGE)
    assert f"You taught: {ONE} You wrote: {MERGE}" in words(answer)
    assert f'id="taught-{turn.pk}"' in answer.content.decode()
    assert f"You taught: {ONE} You wrote: {MERGE}" in page(own, turn)


def test_a_standing_wish_stands_there_word_for_word(own, turn):
    give(own, turn, kind="guidance", text="Use metric units.")
    shown = page(own, turn)
    assert "You taught: Use metric units. Edit" in shown
    assert "You wrote" not in shown


def test_where_no_wording_is_found_the_person_is_asked_under_the_reply(own, turn):
    answer = give(own, turn, kind="guidance", text=REDO)
    assert "Say it so that it holds for every reply" in words(answer)
    assert "it teaches nothing yet" in words(answer)

    refused = put(own, turn, "Redo it with sources.")
    assert refused.status_code == 422
    assert "“Redo it” speaks of an earlier reply." in words(refused)
    assert "Redo it with sources." in refused.content.decode()  # what was typed is still in the box
    assert Feedback.objects.get().wish == ""

    taken = put(own, turn, "Give a source for each point.")
    assert taken.status_code == 200
    assert f"You taught: Give a source for each point. You wrote: {REDO}" in words(taken)
    assert Feedback.objects.standing().get().wish == "Give a source for each point."


def test_the_box_begins_with_the_best_try(own, turn):
    answer = give(own, turn, kind="guidance", text="Redo the second point. Stop apologising to me.")
    box = re.search(r'<textarea[^>]*id="wish-[^>]*>([^<]*)</textarea>', answer.content.decode())
    assert box[1] == "Stop apologising to me."


def test_a_wish_is_put_in_other_words_and_back(own, turn):
    give(own, turn, kind="guidance", text=MERGE)
    put(own, turn, "Write one paragraph of five sentences.")
    assert f"You taught: Write one paragraph of five sentences. You wrote: {MERGE}" in page(own, turn)
    give(own, turn, kind="guidance", text="Use fewer words.")  # said anew: the wording was of other words
    assert "You taught: Use fewer words." in page(own, turn)


@pytest.mark.parametrize(
    ("kind", "said", "shown"),
    [
        ("guidance", {"text": MERGE}, f"You taught: {ONE}"),
        ("rewrite", {"text": "Tea is a drink."}, "You taught: It should have said: Tea is a drink."),
        (
            "thumb",
            {"value": "-1", "tags": ["too long"], "text": "Half would do."},
            "You taught: Bad reply: too long. Half would do.",
        ),
    ],
)
def test_each_thing_that_was_taught_is_shown_in_the_persons_words_and_undone(own, turn, kind, said, shown):
    give(own, turn, kind=kind, value=said.get("value", 0), text=said.get("text", "")) if "tags" in said else None
    give(own, turn, kind=kind, **said)
    assert shown in page(own, turn)
    answer = undo(own, turn, kind=kind)
    assert answer.status_code == 200
    assert "You taught" not in words(answer)
    assert f'id="feedback-{turn.pk}"' in answer.content.decode()  # the bar comes with it, as it then stands
    assert "You taught" not in page(own, turn)
    assert not Feedback.objects.standing().exists()


def test_an_accepted_hint_of_the_next_message_is_shown_and_undone(own, turn):
    hint = Hint.objects.create(turn=turn, source="user", status="accepted", proposed="Use metres.", text="Use metres.")
    assert "It learns from your next message: Use metres." in page(own, turn)
    answer = undo(own, turn, hint=str(hint.pk))
    assert "next message" not in words(answer)
    hint.refresh_from_db()
    assert hint.status == Hint.Status.REJECTED


def test_a_hint_that_waits_or_came_from_a_tool_is_not_said_to_be_taught(own, turn):
    Hint.objects.create(turn=turn, source="user", status="waiting", proposed="Use metres.", text="Use metres.")
    Hint.objects.create(turn=turn, source="tool", status="accepted", proposed="Use feet.", text="Use feet.")
    assert "It learns from" not in page(own, turn)


def test_without_scripts_the_same_forms_lead_back_to_the_chat(own, turn):
    assert give(own, turn, htmx=False, kind="guidance", text=REDO).status_code == 302
    refused = put(own, turn, "Redo it.", htmx=False)
    assert refused.status_code == 302
    assert "speaks of an earlier reply" in page(own, turn)
    put(own, turn, "Use metric units.", htmx=False)
    assert "You taught: Use metric units." in page(own, turn)
    assert undo(own, turn, htmx=False, kind="guidance").status_code == 302
    assert "You taught" not in page(own, turn)


def test_off_the_record_it_says_that_nothing_is_learned(own, turn):
    Session.objects.update(learns=False)
    give(own, turn, kind="guidance", text="Use metric units.")
    shown = page(own, turn)
    assert "You said, and nothing is learned of it here: Use metric units." in shown
    assert "You taught" not in shown


def test_a_thumb_on_a_cut_reply_says_that_it_teaches_nothing(own, turn):
    Turn.objects.update(finish_reason="length")
    give(own, turn, kind="thumb", value="1")
    assert "You said: Good reply. It teaches nothing: the reply was cut off." in page(own, turn)


def test_no_person_words_or_undoes_what_another_taught(client, turn, operator, talker):
    Feedback.objects.give(turn, by=talker, kind="guidance", text=REDO)
    client.force_login(operator)
    assert put(client, turn, "Use metric units.").status_code == 404
    assert undo(client, turn, kind="guidance").status_code == 404
    assert Feedback.objects.standing().get().wish == ""


def test_words_cannot_be_put_where_no_guidance_stands(turn, talker):
    with pytest.raises(taught.NotAWish, match="no guidance"):
        taught.word(turn, talker, "Use metric units.")


def test_empty_and_endless_wishes_are_refused(turn, talker):
    Feedback.objects.give(turn, by=talker, kind="guidance", text=REDO)
    for text in ("  ", "a" * 8001):
        with pytest.raises(taught.NotAWish):
            taught.word(turn, talker, text)


# By the API


@pytest.fixture
def asked(client, turn, talker):
    """The API, with a key of the person who talks."""
    key, secret = ApiKey.objects.issue(talker, "test")
    Session.objects.update(key=key)

    def asked(path, body=None):
        headers = {"Authorization": f"Bearer {secret}"}
        if body is None:
            return client.get(path, headers=headers).json()
        return client.post(path, json.dumps(body), content_type="application/json", headers=headers).json()

    return asked


def test_the_api_tells_the_wish_that_guidance_comes_to(asked):
    answer = asked("/v1/feedback", {"completion_id": "chatcmpl-taught", "guidance": MERGE})
    told = {"said": MERGE, "text": ONE, "waits": False, "suggestion": None, "refers_back": []}
    assert answer["guidance"] == MERGE  # their own words are kept
    assert answer["learning"]["wish"] == told
    assert asked("/v1/completions/chatcmpl-taught/learning")["wish"] == told


def test_the_api_says_that_guidance_waits_and_for_what(asked):
    answer = asked("/v1/feedback", {"completion_id": "chatcmpl-taught", "guidance": REDO})
    wish = answer["learning"]["wish"]
    assert (wish["waits"], wish["text"], wish["suggestion"]) == (True, None, REDO)
    assert wish["refers_back"] == ["Redo the second point"]
    assert asked("/v1/feedback", {"completion_id": "chatcmpl-taught", "guidance": None})["learning"]["wish"] is None


def test_a_persons_wording_goes_with_what_is_handed_out_of_theirs(turn, talker):
    Feedback.objects.give(turn, by=talker, kind="guidance", text=REDO, wish="Give a source for each point.")
    [given] = [row for row in exported(talker) if row["object"] == "feedback"]
    assert (given["text"], given["wish"]) == (REDO, "Give a source for each point.")
