"""Requests with a key, and what is said when they are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chat.api_keys import ApiKey
from tests.chat.api import bodies
from tests.chat.api.completions import HELLO, PATH
from tests.chat.conftest import user

HI = {"messages": [user("Say hello")], "max_tokens": 4}


@pytest.fixture
def knock(async_client, key, engine):
    """Ask for a reply with these headers; with the key's own where none are given."""

    async def knock(path="/v1/chat/completions", **headers):
        headers = headers or {"Authorization": f"Bearer {key.secret}"}
        if path == "/v1/models":
            return await async_client.get(path, headers=headers)
        return await async_client.post(path, json.dumps(HI), content_type="application/json", headers=headers)

    return knock


async def change(key: ApiKey, **fields) -> None:
    await ApiKey.objects.filter(pk=key.pk).aupdate(**fields)


async def refusal(answer) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


@pytest.fixture
def send(async_client, key, engine):
    """A request to one of the doors, with Ana's key."""

    async def send(path: str, more: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {key.secret}"}
        body = json.dumps(bodies.HELLO[path] | more)
        return await async_client.post(path, body, content_type="application/json", headers=headers)

    return send


@pytest.fixture
def ask(async_client, key, engine):
    """Send a request with the key; the body is JSON unless it is bytes already."""

    async def ask(body, path=PATH, secret=key.secret, **headers):
        headers["Authorization"] = f"Bearer {secret}"
        if isinstance(body, dict):
            body = json.dumps({"messages": HELLO} | body if path == PATH else body).encode()
        return await async_client.post(path, body, content_type="application/json", headers=headers)

    return ask
