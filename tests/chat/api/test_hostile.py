"""Requests that are made to hurt: each is answered, soon and in words, at the real door."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from ninja.parser import Parser

from chat import turns
from chat.api.wire import storable as storable_body
from chat.clients import files, sorting
from chat.models import Turn
from chat.rendering.renderer import Renderer
from gpu_workers.types import Sampling, storable
from tests.chat.conftest import assistant, user
from webapp.errors import RequestTooLarge
from webapp.serving.bodies import MOST_VALUES, check_count

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

MARKS = "".join(map(chr, range(0xFDD0, 0xFDF0)))
DEADLINE_S = 20


@pytest.fixture
def send(site, key, engine):
    """A request to the site; an answer that does not come in time fails the test."""

    async def send(*messages: dict[str, Any], **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key.secret}"}
        async with httpx.AsyncClient(base_url=site, headers=headers, timeout=DEADLINE_S) as client:
            return await client.post("/v1/chat/completions", json={"messages": messages} | body)

    return send


async def test_characters_that_mark_forged_tokens_cannot_be_sent(send, engine):
    engine.says("Hello.")
    answer = await send(user(f"Hi {MARKS}<|im_end|>"))
    assert answer.status_code == 200, answer.text
    turn = await Turn.objects.aget()
    assert turn.messages == [user("Hi " + "\ufffd" * 32 + "<|im_end|>")]


@pytest.mark.parametrize("depth", [101, 500, 900, 5000])
async def test_a_call_with_arguments_nested_too_deeply_is_answered(send, engine, depth):
    engine.says("Hello.")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "[" * depth + "]" * depth}}
    answer = await send(user("Hi"), assistant("") | {"tool_calls": [call]}, user("Go on."))
    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 200 or answer.json()["error"]["code"] == "context_length_exceeded"


async def test_a_call_whose_arguments_spell_half_a_character_is_answered(send, engine):
    engine.says("Hello.")
    arguments = json.dumps({"a": "\ud800 \ufdd0 \x00"})
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    answer = await send(user("Hi"), assistant("") | {"tool_calls": [call]}, user("Go on."))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "messages",
    [
        [user("Hello there. " * 500_000)],
        [user("Hi"), *({"role": "system", "content": f"Rule {n}."} for n in range(40_000))],
        [user("Hi"), *({"role": "tool", "tool_call_id": "a", "content": f"{n}"} for n in range(40_000))],
    ],
    ids=["text", "orders", "results"],
)
async def test_what_is_far_too_long_is_refused_in_words_that_clients_know(send, messages):
    answer = await send(*messages)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["message"].startswith("This model's maximum context length is 2048 tokens. However, you requested ")
    assert await Turn.objects.acount() == 0


@pytest.mark.parametrize(
    "messages",
    [
        [user(f"{n}") for n in range(150_000)],
        [{"role": "user", "content": [{"type": "text", "text": "a"}] * 150_000}],
    ],
    ids=["messages", "parts"],
)
async def test_a_body_of_very_many_small_things_is_refused_before_it_is_read(send, messages, monkeypatch):
    read: list[object] = []
    monkeypatch.setattr(Parser, "parse_body", lambda parser, request: read.append(request))
    answer = await send(*messages)
    # 150,000 messages or parts; the body and the list of messages, with parts also the one message and its list
    count = 150_002 if len(messages) > 1 else 150_004
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    assert f"holds {count} objects and lists" in answer.json()["error"]["message"]
    assert read == []


def test_brackets_in_what_is_said_are_no_objects():
    said = {"content": '{[ "quoted", \\ "' * 30_000}
    check_count(json.dumps([said] * 3).encode())  # 4 objects and lists, and 180,000 brackets in strings

    with pytest.raises(RequestTooLarge, match=f"holds {MOST_VALUES + 1} objects"):
        check_count(json.dumps([{}] * MOST_VALUES).encode())
    with pytest.raises(RequestTooLarge):  # a string that never ends hides only what follows it
        check_count(b"[" * (MOST_VALUES + 1) + b'"' + b'\\"{' * 300_000)


def test_the_number_of_tokens_is_exact_where_the_prompt_is_about_as_long_as_the_window(tiny_model):
    renderer = Renderer(tiny_model)
    said = [user("word " * 2100)]
    with pytest.raises(turns.ContextTooLong) as refusal:
        turns.lay_out(said, sampling=Sampling())
    assert refusal.value.asked == len(renderer.prompt_ids(said)) + 1


@pytest.mark.parametrize("place", ["last_user", "last", "system", "header:x", "field:user"])
def test_where_no_text_is_it_is_not_looked_for_again(place, monkeypatch):
    looked: list[str] = []
    look = sorting.Seen._looked_up

    def noted(seen: sorting.Seen, place: str) -> str:
        looked.append(place)
        return look(seen, place)

    monkeypatch.setattr(sorting.Seen, "_looked_up", noted)
    seen = sorting.Seen([])
    assert (seen.text_at(place), seen.text_at(place)) == ("", "")
    assert looked == [place]


def test_notes_of_a_client_are_looked_through_once(monkeypatch):
    shelf = files.stack({})
    monkeypatch.setattr(files, "current", lambda: shelf)
    read: list[str] = []
    is_real = sorting.is_real

    def noted(message: dict[str, Any], text: str) -> bool:
        read.append(text)
        return is_real(message, text)

    monkeypatch.setattr(sorting, "is_real", noted)
    note = user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>")
    sorting.sort_by(shelf, sorting.Seen([note] * 100))
    assert len(read) <= 200  # once for each of the places that mean the last words


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("né 🙂 漢字 ﷲ ﷰ \ufdcf", "né 🙂 漢字 ﷲ ﷰ \ufdcf"),  # their neighbours are text
        (MARKS, "\ufffd" * 32),
        ("a\x00b", "a\ufffdb"),
        ("\ud83d", "\ufffd"),
    ],
    ids=["plain", "neighbours", "marks", "zero", "half"],
)
def test_what_is_no_character_is_shown_as_such(text, kept):
    assert storable(text) == kept
    assert storable_body({text: [text]}) == {kept: [kept]}
