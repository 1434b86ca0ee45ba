"""Bodies of requests, and what is read of their answers."""

from __future__ import annotations

from tests.chat.conftest import user

CHAT, RESPONSES, MESSAGES = DOORS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
COUNT = "/v1/messages/count_tokens"
HELLO = {
    CHAT: {"messages": [user("Hi")]},
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"messages": [user("Hi")], "max_tokens": 9},
    COUNT: {"messages": [user("Hi")]},
}


async def refused(answer) -> tuple[int, str, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("param", ""), error["message"]
