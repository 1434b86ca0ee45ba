"""A client says that its session is over."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import sync_to_async

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from tests.chat.conftest import assistant, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("Say hello")]


@pytest.fixture
def post(async_client, key, engine):
    async def post(path, body=None, secret=key.secret, **headers):
        headers["Authorization"] = f"Bearer {secret}"
        return await async_client.post(
            path, json.dumps(body or {}).encode(), content_type="application/json", headers=headers
        )

    return post


@pytest.fixture
def chat(post):
    """One request for a reply; its completion's id and words."""

    async def chat(messages=HI, name="agent:main/x"):
        answer = await post("/v1/chat/completions", {"messages": messages}, **{"X-Session-Id": name})
        return answer.json()["id"], answer.json()["choices"][0]["message"]["content"]

    return chat


@pytest.mark.parametrize("how", ["name", "escaped", "id", "id without dashes"])
async def test_a_session_is_closed_by_either_name_and_so_are_replies_that_nothing_came_back_to(post, chat, how):
    _, said = await chat()
    await chat([*HI, assistant(said), user("More")])
    session = await Session.objects.aget()
    names = {
        "name": "agent:main/x",
        "escaped": "agent%3Amain%2Fx",
        "id": str(session.pk),
        "id without dashes": session.pk.hex,
    }

    answer = (await post(f"/v1/sessions/{names[how]}/close")).json()

    closed_at = answer.pop("closed_at")
    assert answer == {
        "object": "session",
        "id": str(session.pk),
        "name": "agent:main/x",
        "client": session.client or None,
        "named_by": session.named_by or None,
        "created": int(session.created_at.timestamp()),
        "turns": 2,
        "closed": 1,
        "still_writing": 0,
    }
    statuses = [turn.status async for turn in session.turns.order_by("position")]
    assert statuses == [Turn.Status.OBSERVED, Turn.Status.CLOSED]
    session = await Session.objects.aget()
    assert closed_at == int(session.closed_at.timestamp())

    again = (await post(f"/v1/sessions/{names[how]}/close")).json()
    assert (again["closed"], again["turns"]) == (0, 2)
    assert (await Session.objects.aget()).closed_at == session.closed_at


async def test_a_message_or_feedback_opens_what_was_closed(post, chat):
    first, said = await chat()
    await post("/v1/sessions/agent:main/x/close")
    assert (await post("/v1/feedback", {"completion_id": first, "thumb": "up"})).status_code == 200
    assert (await Turn.objects.aget()).status == Turn.Status.OBSERVED
    assert (await Session.objects.aget()).closed_at is not None
    await chat([*HI, assistant(said), user("More")])
    assert (await Session.objects.aget()).closed_at is None
    assert (await post("/v1/sessions/agent:main/x/close")).json()["closed"] == 1


async def test_a_reply_that_is_being_written_is_left_to_be_finished(post, chat):
    await chat()
    await Turn.objects.aupdate(status=Turn.Status.ANSWERING)
    answer = (await post("/v1/sessions/agent:main/x/close")).json()
    assert (answer["closed"], answer["still_writing"]) == (0, 1)
    assert (await Turn.objects.aget()).status == Turn.Status.ANSWERING


async def test_a_name_that_was_too_long_to_keep_is_found_again(post, chat):
    name = "n" * 300
    await chat(name=name)
    assert (await post(f"/v1/sessions/{name}/close")).json()["closed"] == 1


async def test_a_clients_name_comes_before_an_id(post, chat):
    await chat(name="one")
    one = await Session.objects.aget()
    await chat(name=str(one.pk))
    answer = (await post(f"/v1/sessions/{one.pk}/close")).json()
    assert (answer["name"], answer["closed"]) == (str(one.pk), 1)
    await one.arefresh_from_db()
    assert one.closed_at is None


@pytest.mark.parametrize("whose", ["another key", "another person", "the browser", "no person"])
async def test_only_the_keys_own_sessions_are_there(post, chat, key, ana, ben, whose):
    await chat()
    session = await Session.objects.aget()
    secret, name = key.secret, str(session.pk)
    if whose in ("another key", "another person"):
        _, secret = await sync_to_async(ApiKey.objects.issue)(ana if whose == "another key" else ben, "other")
    elif whose == "the browser":
        name = str((await Session.objects.acreate(user=ana)).pk)
    else:
        name = "%00unknown"
    answer = await post(f"/v1/sessions/{name}/close", secret=secret)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_not_found")
    assert not await Session.objects.exclude(closed_at=None).aexists()
    assert (await Turn.objects.aget()).status == Turn.Status.SERVED


async def test_a_key_for_feedback_only_closes_nothing_and_one_without_tokens_left_does(post, chat, key, ana):
    await chat()
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "other", scopes=["feedback"])
    answer = await post("/v1/sessions/agent:main/x/close", secret=secret)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")
    await ApiKey.objects.filter(pk=key.pk).aupdate(tokens_per_day=1)
    assert (await post("/v1/sessions/agent:main/x/close")).json()["closed"] == 1


async def test_a_session_and_its_turns_can_be_looked_at(async_client, chat, key):
    await chat()
    headers = {"Authorization": f"Bearer {key.secret}"}
    answer = (await async_client.get("/v1/sessions/agent:main/x", headers=headers)).json()
    assert [turn["stage"] for turn in answer["turns"]] == ["served"]
