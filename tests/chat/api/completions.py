"""What tests ask of the OpenAI-compatible door."""

from __future__ import annotations

from tests.chat.conftest import user

PATH = "/v1/chat/completions"
HELLO = [user("Say hello")]
PROTOCOLS = {
    PATH: {"messages": HELLO},
    "/v1/responses": {"input": "Say hello"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 50},
}
