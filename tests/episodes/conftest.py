"""A player, its agents, and the doors with a scripted engine behind them."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from chat.api_keys import ApiKey

TASK = {"world": "till", "task": "sum-7", "split": "train", "group": "g1", "attempt": 0}
HI = [{"role": "user", "content": "What do three pears cost?"}]


@pytest.fixture(autouse=True)
def small(settings, tiny_model):
    settings.MODEL = str(tiny_model)
    settings.MODEL_NAME = "talkback"


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana")


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben")


def issue(person, name="player", **terms) -> ApiKey:
    key, key.secret = ApiKey.objects.issue(person, name, **{"scopes": ["chat", "feedback", "episodes"]} | terms)  # type: ignore[attr-defined]
    return key


@pytest.fixture
def key(ana) -> ApiKey:
    return issue(ana)


@pytest.fixture
def ask(async_client, key, engine):
    """Send a request through the API: with the player's key, or with `secret`. The status and what was said."""

    async def ask(path, body=None, *, secret=key.secret, method="post", raw=None, **headers):
        headers["Authorization"] = f"Bearer {secret}"
        if method == "get":
            answer = await async_client.get(f"/v1/{path}", headers=headers)
        else:
            sent = raw if raw is not None else json.dumps(body or {})
            answer = await async_client.post(f"/v1/{path}", sent.encode(), "application/json", headers=headers)
        return answer.status_code, answer.json()

    return ask


@pytest.fixture
def begin(ask):
    """An episode, with its key."""

    async def begin(**differs):
        status, episode = await ask("episodes", TASK | differs)
        assert status == 200, episode
        return episode

    return begin


@pytest.fixture
def say(ask):
    """One request for a reply with an episode's own key: the answer's id and its message."""

    async def say(episode, messages=HI, **headers):
        body = {"messages": messages, "max_tokens": 4}
        status, answer = await ask("chat/completions", body, secret=episode["key"], **headers)
        assert status == 200, answer
        return answer["id"], answer["choices"][0]["message"]

    return say


issued = sync_to_async(issue)
