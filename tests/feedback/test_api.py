"""Feedback by completion id."""

from __future__ import annotations

import json

import pytest

from chat.models import ApiKey
from feedback.models import Feedback

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def say(async_client, key, turn):
    async def say(secret=key.secret, **body):
        body = {"completion_id": turn.completion_id} | body
        return await async_client.post(
            "/v1/feedback",
            json.dumps(body).encode(),
            content_type="application/json",
            headers={"Authorization": f"Bearer {secret}"},
        )

    return say


async def test_thumb_correction_and_guidance_stand_as_the_answer_says(say, turn):
    answer = await say(thumb="down", correction=" Four. ", guidance="Do the sum.")
    assert answer.status_code == 200
    assert answer.json() == {
        "object": "feedback",
        "completion_id": turn.completion_id,
        "thumb": "down",
        "correction": "Four.",
        "guidance": "Do the sum.",
    }
    assert await Feedback.objects.standing().acount() == 3


async def test_the_same_again_changes_nothing(say):
    for _ in range(2):
        assert (await say(thumb="up")).json()["thumb"] == "up"
    assert await Feedback.objects.acount() == 1


@pytest.mark.parametrize("nothing", [None, "none"])
async def test_a_thumb_is_taken_back(say, nothing):
    await say(thumb="up", guidance="Be brief.")
    answer = (await say(thumb=nothing)).json()
    assert (answer["thumb"], answer["guidance"]) == (None, "Be brief.")


@pytest.mark.parametrize("nothing", [None, "", "  "])
async def test_a_correction_is_taken_back(say, nothing):
    await say(correction="Four.")
    assert (await say(correction=nothing)).json()["correction"] is None


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "Give a thumb, a correction or a guidance"),
        ({"thumb": "sideways"}, 400, "thumb"),
        ({"thumb": 1}, 400, "thumb"),
        ({"guidance": "x" * 8001}, 400, "guidance"),
        ({"thumb": "up", "completion_id": "chatcmpl-unknown"}, 404, "chatcmpl-unknown"),
        ({"thumb": "up", "completion_id": 7}, 400, "completion_id"),
    ],
)
async def test_what_makes_no_sense_says_why(say, body, status, words):
    answer = await say(**body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert await Feedback.objects.acount() == 0


async def test_another_persons_completion_is_not_there(say, ben):
    from asgiref.sync import sync_to_async

    _, secret = await sync_to_async(ApiKey.objects.issue)(ben, "other")
    answer = await say(secret=secret, thumb="up")
    assert answer.status_code == 404
    assert await Feedback.objects.acount() == 0
