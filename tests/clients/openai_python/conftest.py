"""OpenAI's Python client, and a way to ask with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.clients.openai_python.waiting import HI


@pytest.fixture
def client(site, key) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{site}/v1", api_key=key.secret, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def say(client):
    def say(messages: Any = HI, **more: Any) -> Any:
        return client.chat.completions.create(**{"model": "talkback", "messages": messages} | more)

    return say
