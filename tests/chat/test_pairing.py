"""Whatever clients do, and in whatever order: a reply is judged by what followed it, once, and nothing is lost.

Clients are small models that know what they continue; the server sees only what such clients really send.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from chat import asking, clients
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.replying import replies
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.conftest import user

pytestmark = pytest.mark.django_db

WORDS = ("Go on.", "No.", "Again, please.")
INTERNAL = user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nActive exec sessions: none")
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
HEARTBEAT = user("Follow the heartbeat monitor scratch context if it is there.\nReference UTC: 10:04")

Message = dict[str, Any]


@dataclass
class Exchange:
    """What was said, and the reply to it."""

    said: list[Message]
    reply: Message
    before: tuple[str, ...]
    """All that had been said and replied when the request was made; with the reply, what no two turns share unless
    nothing tells them apart."""

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.before, json.dumps([self.said, told(self.reply)]))


@dataclass
class Pending:
    ask: Ask
    turns: list[Turn]
    said: list[Message]
    path: list[Exchange]
    is_main: bool = True


@dataclass
class Client:
    """A program at the other end: what it holds, and how it writes that down."""

    kind: str
    """plain: its messages are all it says; named: it names its session; openclaw: as it comes"""
    name: str
    path: list[Exchange] = field(default_factory=list)
    older: list[list[Exchange]] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    failed: Pending | None = None
    unanswered: list[Message] = field(default_factory=list)
    """What was said to a reply that never came, and stays in the history."""
    compacted: int | None = None
    """From which exchange on the history is still there word for word."""
    is_halved: bool = False
    """Of that exchange only the reply is left."""
    minute: int = 0

    def words(self, text: str) -> Message:
        if self.kind != "openclaw":
            return user(text)
        self.minute += 1
        return user(f"[Fri 2026-11-20 10:{self.minute % 60:02} UTC] {text}")

    def written(self, path: list[Exchange], said: list[Message]) -> list[Message]:
        """The request's messages."""
        messages: list[Message] = [{"role": "system", "content": f"Be brief. {self.minute}"}]
        since = self.compacted or 0
        if self.compacted is not None:
            summary = (
                "The conversation history before this point was compacted into the following summary: ## Decisions"
            )
            messages.append(user(summary))
        for n, exchange in enumerate(path[since:]):
            halved = self.is_halved and n == 0
            messages += [*([] if halved else exchange.said), self.replayed(exchange.reply)]
        messages += said
        if self.kind == "openclaw":
            first = next(n for n, message in enumerate(messages) if message["role"] == "user")
            line = (
                f"\n\nRuntime: agent=main | session=agent:main:explicit:{self.name} | sessionId={self.name} | host=vm"
            )
            messages[first] = user(messages[first]["content"] + line)
            messages = [rewritten(message) for message in messages] + [INTERNAL]
        return messages

    def replayed(self, reply: Message) -> Message:
        if self.kind == "plain":
            return reply
        content = re.sub(r"<think>.*?</think>", "", reply.get("content") or "")
        return reply | {"content": content if content.strip() or not reply.get("tool_calls") else None}

    def ask(self, messages: list[Message], body: bytes, **about: Any) -> Ask:
        named = {"session_id": self.name} if self.kind == "named" else {}
        about = {"tools": TOOLS, "body": body, **named, **about}
        return Ask(messages, Sampling(max_new_tokens=4), Checkpoint.live(), **about)


def told(reply: Message) -> list[Any]:
    calls = [call["function"]["arguments"] for call in reply.get("tool_calls") or []]
    return [re.sub(r"<think>.*?</think>", "", reply.get("content") or "").strip(), calls]


def rewritten(message: Message) -> Message:
    """As OpenClaw sends a message back: ids lose what is no letter or digit, arguments are serialised anew."""
    if message["role"] == "tool":
        return message | {"tool_call_id": re.sub(r"\W|_", "", message["tool_call_id"])}
    if not message.get("tool_calls"):
        return message
    calls = [
        {
            "id": re.sub(r"\W|_", "", call["id"]),
            "type": "function",
            "function": call["function"]
            | {"arguments": json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))},
        }
        for call in message["tool_calls"]
    ]
    return message | {"tool_calls": calls}


class World:
    """Clients at work, and what is true of their turns."""

    def __init__(self, chance: Random, keys: list[ApiKey]) -> None:
        self.chance, self.number = chance, count(1)
        self.clients: list[tuple[ApiKey, Client]] = []
        for key in keys:
            for kind in ("plain", "plain", "named", "openclaw"):
                self.clients.append((key, Client(kind, f"s{len(self.clients)}")))
        self.alike: dict[Any, list[Turn]] = defaultdict(list)
        """Whole turns by what was said up to and with their replies, in the order of their making."""
        self.followed: set[Any] = set()
        self.next_states: dict[Any, list[Message]] = {}
        self.unsure: set[Any] = set()
        """Turns whose next message came with a history in which two exchanges look the same."""
        self.housekeeping: list[Turn] = []

    def choose(self, options: Any) -> Any:
        return self.chance.choice(list(options))

    def step(self) -> None:
        key, client = self.choose(self.clients)
        acts = ["side"]
        if client.pending:
            acts += ["answer"] * 4 + ["fail"]
        if not client.pending or client.kind == "named":
            acts += ["say"] * 4
            if client.path:
                acts += ["compact"] if client.kind == "openclaw" else ["regenerate", "edit", "branch", "anew"]
        if client.failed and not client.pending:
            acts += ["retry"] * 2
        getattr(self, self.choose(acts))(key, client)

    # what clients do

    def say(self, key: ApiKey, client: Client) -> None:
        last = client.path[-1].reply if client.path else {}
        said = [*client.unanswered]
        if calls := last.get("tool_calls"):
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": self.choose(("ok", "error"))} for call in calls
            ]
            said = [*self.chance.sample(results, len(results)), *said]
        if not calls or self.choose((True, False)):
            # a conversation that nothing names begins with words of its own, or it could not be told from another
            words = self.choose(WORDS) if client.path or client.kind != "plain" else f"Hello, {next(self.number)}."
            said.append(client.words(words))
        self.send(key, client, client.path, said)

    def regenerate(self, key: ApiKey, client: Client) -> None:
        self.send(key, client, client.path[:-1], client.path[-1].said)

    def edit(self, key: ApiKey, client: Client) -> None:
        said = [m for m in client.path[-1].said if m["role"] == "tool"]
        self.send(key, client, client.path[:-1], [*said, client.words(f"Rather {next(self.number)}.")])

    def branch(self, key: ApiKey, client: Client) -> None:
        older = self.choose(
            [client.path[: n + 1] for n in range(len(client.path))] + [one for one in client.older if one]
        )
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "ok"}
            for call in older[-1].reply.get("tool_calls") or []
        ]
        self.send(key, client, older, [*results, client.words(self.choose(WORDS))])

    def anew(self, key: ApiKey, client: Client) -> None:
        client.older.append(client.path)
        client.path, client.unanswered = [], []

    def compact(self, key: ApiKey, client: Client) -> None:
        """Old turns become a summary; the last exchange, or nothing, stays as it was."""
        if client.pending:
            return
        keep = self.choose((0, 1, 2))
        client.compacted, client.is_halved = (
            max(len(client.path) - keep, client.compacted or 0),
            self.choose((True, False)),
        )

    def side(self, key: ApiKey, client: Client) -> None:
        messages = [{"role": "system", "content": "Generate a concise session title"}, user("Hello")]
        about: dict[str, Any] = {"tools": ()}
        if client.kind == "openclaw" and client.path:
            messages, about = client.written(client.path, [HEARTBEAT]), {}
        elif client.kind == "named":
            messages, about = client.written(client.path, [user("A title, please")]), {"turn_type": "side"}
        (turn,) = asking.open_turns(key, client.ask(messages, b"side %d" % next(self.number), **about))
        self.housekeeping.append(turn)
        finished(turn, {"role": "assistant", "content": self.choose(("OK.", "A title"))})

    def answer(self, key: ApiKey, client: Client) -> None:
        pending = client.pending.pop(0)
        given = [finished(turn, self.reply()) for turn in pending.turns]
        for turn, reply in zip(pending.turns, given, strict=True):
            exchange = Exchange(pending.said, reply, pending.path[-1].path if pending.path else ())
            self.alike[self.known(key, client, exchange)].append(turn)
        client.older.append(client.path)
        picked = self.choose(given)
        client.path = [*pending.path, Exchange(pending.said, picked, pending.path[-1].path if pending.path else ())]
        client.failed, client.unanswered = None, []

    def fail(self, key: ApiKey, client: Client) -> None:
        pending = client.pending.pop(0)
        for turn in pending.turns:
            replies.finish(turn, Turn.Status.CLOSED, {"text": "Half a", "finish_reason": "abort"})
        client.failed = pending if not client.pending else None
        if client.kind == "openclaw" or self.choose((True, False)):
            stays = [m for m in pending.said if m["role"] == "user"]
            client.unanswered = stays if client.path == pending.path else []

    def retry(self, key: ApiKey, client: Client) -> None:
        failed, client.failed, client.unanswered = client.failed, None, []
        assert failed is not None
        counted = self.choose((True, False))
        ask = replace(failed.ask, headers=failed.ask.headers | {"x-stainless-retry-count": "1"} if counted else {})
        turns = asking.open_turns(key, ask)
        assert [turn.pk for turn in turns] == [turn.pk for turn in failed.turns]
        client.pending.append(replace(failed, turns=turns))

    # what becomes of it

    def send(self, key: ApiKey, client: Client, path: list[Exchange], said: list[Message]) -> None:
        since = client.compacted
        messages = client.written(path, said)
        n = self.choose((1, 1, 1, 2)) if client.kind != "openclaw" else 1
        ask = client.ask(messages, b"request %d" % next(self.number), n=n)
        turns = asking.open_turns(key, ask)
        assert [turn.line for turn in turns] == [Turn.Line.MAIN] * n
        client.failed = None
        client.pending.append(Pending(ask, turns, said, path))
        if not path:
            return
        twins = self.alike[self.known(key, client, path[-1])]
        unfollowed = [turn for turn in twins if turn.pk not in self.followed]
        true = (unfollowed or twins)[-1]  # of turns that nothing tells apart, the newest that was not continued
        if since is not None and turns[0].follows_id is None:
            self.unsure.add(true.pk)  # it may say nothing where it cannot know, and only there
            assert true.pk in self.next_states or since == len(path) or self.looks_alike(path, since)
            return
        self.followed.add(true.pk)
        self.next_states.setdefault(true.pk, list(said))

    def looks_alike(self, path: list[Exchange], since: int) -> bool:
        """More than one turn ended as this history does."""
        tail = [json.dumps([one.said, told(one.reply)]) for one in path[since:]]
        everything = [json.dumps([one.said, told(one.reply)]) for one in path]
        stripped = [re.sub(r"\[Fri [^\]]*\] ", "", one) for one in everything]
        return stripped.count(re.sub(r"\[Fri [^\]]*\] ", "", tail[-1])) > 1

    def known(self, key: ApiKey, client: Client, exchange: Exchange) -> Any:
        return (key.pk, client.name, exchange.path)

    def reply(self) -> Message:
        number = next(self.number)
        text = self.choose(("OK.", "<think>hm</think>OK.", "Yes?", ""))
        count = self.choose((0, 0, 0, 1, 2)) if text != "" else self.choose((1, 2))
        calls = [
            {
                "id": f"call_{number}_{n}",
                "type": "function",
                "function": {"name": "read", "arguments": f'{{"path": "{number}", "n": 1.0}}'},
            }
            for n in range(count)
        ]
        return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})

    # what must hold

    def check(self) -> None:
        for turn in Turn.objects.filter(session__key__in={key for key, _ in self.clients}):
            true = [m["content"] for m in self.next_states.get(turn.pk, [])]
            came = [m["content"] for m in turn.next_state]
            assert [bare(one) for one in came] == [bare(one) for one in true], (turn.pk in self.unsure, turn.asked)
            if turn.line == Turn.Line.SIDE:
                assert (turn.follows_id, turn.chain, turn.followers.count()) == (None, "", 0)
        for turn in self.housekeeping:
            assert Turn.objects.get(pk=turn.pk).line == Turn.Line.SIDE


def bare(words: str) -> str:
    return clients.of("openclaw").words(words)


def finished(turn: Turn, reply: Message) -> Message:
    ended = "tool_calls" if reply.get("tool_calls") else "stop"
    said = {"text": reply.get("content") or "", "message": reply, "finish_reason": ended, "response_ids": [1]}
    replies.finish(turn, Turn.Status.SERVED, said)
    return reply


@settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
@given(seed=st.integers(0, 2**32))
@example(seed=415)  # a compaction between a call and its result, after two exchanges
@example(seed=779)  # the same, with two results in another order than their calls, and calls in the next reply
def test_no_turn_is_judged_by_what_did_not_follow_it_none_twice_none_lost(ana, seed):
    chance = Random(seed)
    keys = [ApiKey.objects.issue(ana, name)[0] for name in ("one", "two")]
    world = World(chance, keys)
    for _ in range(chance.randint(10, 60)):
        world.step()
    world.check()
