"""One conversation, whichever protocol speaks it, and wherever it changes from one to another: the same turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from chat import stories
from chat.models import Session, Turn

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ABOUT = {"name": "weather", "description": "What the weather is like."}
PROTOCOLS = ("chat", "responses", "continued", "messages")


class Talk:
    """A client that keeps its conversation in chat completions' shape and can send it in any protocol."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.said: list[dict[str, Any]] = []
        self.last = ""
        self.news: list[dict[str, Any]] = []

    async def ask(self, protocol: str, *news: dict[str, Any]) -> None:
        """Say something, and hear the reply."""
        self.news = list(news)
        self.said += news
        path, body = getattr(self, f"as_{protocol}")()
        response = await self.send(path, body | {"model": "talkback"})
        assert response.status_code == 200, response.content
        answer = response.json()
        self.last = answer["id"]
        self.said.append(getattr(self, f"from_{protocol}")(answer))

    def as_chat(self) -> tuple[str, dict[str, Any]]:
        tool = {"type": "function", "function": ABOUT | {"parameters": PARAMETERS}}
        return "/v1/chat/completions", {"messages": self.said, "tools": [tool]}

    def from_chat(self, answer: dict[str, Any]) -> dict[str, Any]:
        return dict(answer["choices"][0]["message"])

    def as_responses(self) -> tuple[str, dict[str, Any]]:
        tool = {"type": "function", "parameters": PARAMETERS} | ABOUT
        return "/v1/responses", {"input": [item for said in self.said for item in items(said)], "tools": [tool]}

    def from_responses(self, answer: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": ""}
        for item in answer["output"]:
            if item["type"] == "reasoning":
                said["reasoning_content"] = item["content"][0]["text"]
            elif item["type"] == "message":
                said["content"] = item["content"][0]["text"]
            else:
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                said.setdefault("tool_calls", []).append(call)
        return said

    def as_continued(self) -> tuple[str, dict[str, Any]]:
        """Responses, with nothing but the news where there is something to continue."""
        path, body = self.as_responses()
        if self.last:
            body |= {"input": [item for said in self.news for item in items(said)], "previous_response_id": self.last}
        return path, body

    from_continued = from_responses

    def as_messages(self) -> tuple[str, dict[str, Any]]:
        turns: list[dict[str, Any]] = []
        for said in self.said:
            role = "assistant" if said["role"] == "assistant" else "user"
            if not turns or turns[-1]["role"] != role:
                turns.append({"role": role, "content": []})
            turns[-1]["content"] += blocks(said)
        tool = ABOUT | {"input_schema": PARAMETERS}
        return "/v1/messages", {"messages": turns, "max_tokens": 512, "tools": [tool]}

    def from_messages(self, answer: dict[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": ""}
        for block in answer["content"]:
            if block["type"] == "thinking":
                said["reasoning_content"] = block["thinking"]
            elif block["type"] == "text":
                said["content"] = block["text"]
            else:
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                said.setdefault("tool_calls", []).append({"id": block["id"], "type": "function", "function": function})
        return said


def items(said: dict[str, Any]) -> list[dict[str, Any]]:
    if said["role"] == "tool":
        return [{"type": "function_call_output", "call_id": said["tool_call_id"], "output": said["content"]}]
    if said["role"] == "user":
        return [{"role": "user", "content": [{"type": "input_text", "text": said["content"]}]}]
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": said["reasoning_content"]}],
    }
    words = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said["content"]}]}
    calls = [
        {"type": "function_call", "call_id": call["id"]} | call["function"] for call in said.get("tool_calls") or ()
    ]
    return [thought, words, *calls]


def blocks(said: dict[str, Any]) -> list[dict[str, Any]]:
    if said["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": said["tool_call_id"], "content": said["content"]}]
    if said["role"] == "user":
        return [{"type": "text", "text": said["content"]}]
    thought = {"type": "thinking", "thinking": said["reasoning_content"], "signature": "s"}
    calls = [
        {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
        | {"input": json.loads(call["function"]["arguments"])}
        for call in said.get("tool_calls") or ()
    ]
    return [thought, {"type": "text", "text": said["content"]}, *calls]


@pytest.fixture
def talk(async_client, key) -> Talk:
    async def send(path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {key.secret}"}
        return await async_client.post(path, json.dumps(body), "application/json", headers=headers)

    return Talk(send)


def called(city: str) -> str:
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


@pytest.mark.parametrize(
    "spoken",
    [
        *[(protocol,) * 3 for protocol in PROTOCOLS],
        ("chat", "messages", "responses"),
        ("messages", "continued", "chat"),
        ("responses", "chat", "continued"),
        ("continued", "responses", "messages"),
    ],
    ids="-".join,
)
async def test_the_same_conversation_is_the_same_turns(talk: Talk, engine, spoken):
    engine.says(f"<think>Look it up.</think>Let me look.\n{called('Paris')}\n{called('Rome')}")
    engine.says("<think>Both.</think>Sun in both.", to="18 degrees")
    engine.says("<think>Polite.</think>Bye, captain.", to="Thanks")

    await talk.ask(spoken[0], {"role": "user", "content": "The weather in Paris and Rome?"})
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{number}8 degrees"}
        for number, call in enumerate(talk.said[-1]["tool_calls"], 1)
    ]
    await talk.ask(spoken[1], *results)
    await talk.ask(spoken[2], {"role": "user", "content": "Thanks"})

    one, two, three = [turn async for turn in Turn.objects.order_by("position").select_related("follows")]
    assert await Session.objects.acount() == 1
    assert (one.follows, two.follows, three.follows) == (None, one, two)
    assert [turn.text for turn in (one, two, three)] == ["Let me look.", "Sun in both.", "Bye, captain."]
    assert [said["content"] for said in one.next_state] == ["18 degrees", "28 degrees"]
    assert [said["content"] for said in two.next_state] == ["Thanks"]
    assert (one.status, two.status, three.status) == (Turn.Status.OBSERVED, Turn.Status.OBSERVED, Turn.Status.SERVED)
    assert [turn.protocol for turn in (one, two, three)] == [name.replace("continued", "responses") for name in spoken]
    assert three.chain == stories.chain(talk.said)
    asked = [call.prompt for call in engine.asked("stream")]
    assert one.message["content"] in asked[2]
    assert all(f'"city": "{city}"' in asked[2] for city in ("Paris", "Rome"))
