"""All of a person's words at once: counted, exported, taken off the record, deleted."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.tools.servers import ToolServer
from checkpoints.models import Taint
from checkpoints.notice_rows import Notice
from feedback.models import Feedback
from judge.models import Hint, Vote
from privacy import consent
from tests.webapp.conftest import text_of
from training.models import Sample
from webapp.people.own_data import own_export


def test_everything_at_once_goes_off_the_record(page, lesson, make_lesson, talker):
    make_lesson()
    key, _ = ApiKey.objects.issue(talker, "laptop")
    answer = page.post("/privacy/everything-off/", follow=True)
    assert "Everything is off the record. 2 lessons that waited went." in text_of(answer)
    assert not Session.objects.filter(learns=True).exists()
    assert not Sample.objects.exists()
    assert not consent.by_default(talker)
    key.refresh_from_db()
    assert not key.learns


def test_the_page_counts_what_is_stored_and_names_who_reads(page, lesson, settings):
    settings.ENGINE_URL = "http://127.0.0.1:8001"
    text = text_of(page.get("/privacy/"))
    assert '<th scope="row">conversations</th><td class="number">1</td>' in text
    assert '<th scope="row">lessons that wait</th><td class="number">1</td>' in text
    assert "No checkpoint has learned from what is stored of you." in text
    assert "stays here" in text
    assert "leaves this machine" not in text


def test_every_engine_that_answers_is_named_with_where_it_is(page, settings):
    settings.ENGINE_URLS = ["http://127.0.0.1:8001", "http://gpu.example.com:30000"]
    settings.ROUTER_URL = "http://127.0.0.1:9000"
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> gpu.example.com:30000" in text
    assert "127.0.0.1:8001" in text
    assert "the router" in text


def test_servers_of_tools_are_named_with_where_they_are(page):
    ToolServer.objects.create(name="shop", url="https://tools.example.com/mcp")
    ToolServer.objects.create(name="near", url="http://127.0.0.1:9/mcp")
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> tools.example.com" in text
    assert 'stays here</span> <span class="quiet">127.0.0.1:9' in text
    assert text.count("runs tools that you choose") == 2


def test_a_judge_elsewhere_is_named_as_one_that_text_leaves_the_machine_for(page, settings):
    settings.JUDGES = ""
    settings.JUDGE_URL, settings.JUDGE_MODEL = "https://judge.example.com/v1", "big"
    text = text_of(page.get("/privacy/"))
    assert "leaves this machine</span> judge.example.com" in text
    assert "without what is removed below" in text


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_the_export_is_all_a_person_said_and_nothing_of_others(async_client, make_lesson, talker, operator):
    turn = (await sync_to_async(make_lesson)()).turn
    said = {"turn": turn, "text": "Be brief, please."}
    await Hint.objects.acreate(source="person", proposed=said["text"], **said)
    await Feedback.objects.acreate(by=talker, kind="guidance", **said)
    foreign = await Session.objects.acreate(user=operator, title="Not yours")
    await async_client.aforce_login(talker)
    answer = await async_client.get("/privacy/export/")
    rows = [json.loads(line) for line in b"".join([part async for part in answer.streaming_content]).splitlines()]
    assert [row["object"] for row in rows] == ["account", "session", "turn", "feedback", "hint", "device", "deed"]
    assert rows[2]["reply"] == {"role": "assistant", "content": "Paris, of course."}
    assert rows[3]["text"] == rows[4]["text"] == "Be brief, please."
    assert str(foreign.pk) not in json.dumps(rows)
    assert "attachment" in answer["Content-Disposition"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_long_export_comes_in_parts_and_whole(async_client, talker):
    for n in range(own_export.PART + 5):
        await Session.objects.acreate(user=talker, title=f"chat {n}")
    await async_client.aforce_login(talker)
    answer = await async_client.get("/privacy/export/")
    parts = [part async for part in answer.streaming_content]
    assert len(parts) == 2
    assert len(b"".join(parts).splitlines()) == own_export.PART + 8  # account, chats, browser, deed


def test_everything_is_deleted_once_its_person_is_sure(page, lesson, make_turn, operator, talker):
    foreign = Session.objects.create(user=operator)
    Feedback.objects.give(make_turn("served"), by=talker, kind="thumb", value=1)
    assert "Nothing was deleted: type “delete”" in text_of(page.post("/privacy/delete/", {"sure": "yes"}, follow=True))
    assert Session.objects.count() == 3
    text = text_of(page.post("/privacy/delete/", {"sure": " Delete "}, follow=True))
    gone = "2 conversations, 2 replies, 1 thumb or correction and 1 waiting lesson."
    assert f"Everything of yours is deleted</strong>, since {timezone.now():%-d %B %Y}" in text
    assert gone in text
    assert "No checkpoint had learned from it." in text
    assert Session.objects.get() == foreign
    assert not any(model.objects.exists() for model in (Turn, Sample, Hint, Vote, Feedback))


@pytest.mark.parametrize(("keys", "revoked"), [("revoke", True), ("keep", False)])
def test_keys_are_revoked_with_it_or_kept_as_their_person_says(page, talker, keys, revoked):
    key, _ = ApiKey.objects.issue(talker, "laptop")
    assert "Revoke them" in text_of(page.get("/privacy/"))
    page.post("/privacy/delete/", {"sure": "delete", "keys": keys})
    key.refresh_from_db()
    assert (key.revoked_at is not None) is revoked


def test_what_was_learned_is_named_and_an_operator_is_asked_to_have_it_out(page, make_lesson, make_checkpoint, talker):
    checkpoint = make_checkpoint(1, "retired")
    make_lesson("trained", run=checkpoint.run)
    text = text_of(page.post("/privacy/delete/", {"sure": "delete"}, follow=True))
    assert '1 reply was learned from before that, and is in the weights of <span class="badge">talkback@1' in text
    assert "No checkpoint has learned from you" not in text  # weights are no store, and hold it
    assert Taint.objects.get().checkpoint == checkpoint
    answer = text_of(page.post("/privacy/learn-again/", follow=True))
    assert "Those who run this Talkback read now that you want talkback@1 learned again without it." in answer
    assert "ben asks that talkback@1 be learned again" in Notice.objects.get(key__startswith="wish").text


def test_a_deleted_chat_names_the_weights_that_learned_from_it(page, make_lesson, make_checkpoint):
    turn = make_lesson("trained", run=make_checkpoint(1).run).turn
    Sample.objects.update(origin=turn.pk)
    text = text_of(page.post(f"/chats/{turn.session_id}/delete/", follow=True))
    assert "What was learned of it is in the weights of talkback@1 still" in text


@pytest.mark.parametrize(("is_staff", "offer"), [(True, "Learn it again without this"), (False, "Ask that it be")])
def test_feedback_that_is_taken_back_after_it_was_learned_says_where_it_is(
    page, make_lesson, make_checkpoint, talker, is_staff, offer
):
    if is_staff:
        give(talker, Role.OPERATOR)
    turn = make_lesson().turn
    Feedback.objects.give(turn, by=talker, kind="guidance", text="Be brief.")
    checkpoint = make_checkpoint(1, "retired")
    said = {"origin": turn.pk, "status": "trained", "run": checkpoint.run, "created_at": timezone.now()}
    Sample.objects.update(**said)
    answer = page.post(
        f"/turns/{turn.pk}/feedback/", {"kind": "guidance", "take_back": "1"}, headers={"HX-Request": "true"}
    )
    text = text_of(answer)
    assert "It was learned already, and is in the weights of talkback@1 still." in text
    assert offer in text
    assert Taint.objects.get().reason == "its feedback was withdrawn"
    answer = text_of(page.post("/privacy/learn-again/", {"turn": str(turn.pk)}, follow=True))
    if is_staff:  # it is begun, or refused with what to do instead
        assert "Nothing is left of what talkback@1 learned since talkback@0: roll back to talkback@0" in answer
    else:
        assert Notice.objects.filter(key__startswith="wish").exists()
