"""Requests with a key, and what is said when they are refused."""

from __future__ import annotations

import json

import pytest

from chat.api_keys import ApiKey
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
