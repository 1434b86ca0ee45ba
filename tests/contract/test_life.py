"""The whole life of a lesson (design.md, section 3) on the real SGLang: talk, correct, learn, examine, approve, swap,
undo. On one server, on two, and on two behind SGLang's router. Every process is real; only the model is the tiny one,
which writes nonsense that can be taught all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from benchmarks.stack import Stack, wait_for
from tests.contract.conftest import Server, Servers, emptied, running_router

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]

BATCH = 3
EXAM = {
    "prompts": 2,
    "max_new_tokens": 8,
    "pack": 0,
    "own": 0,
    "meter": 0,
    "fluency": 9.0,
    "worst_fluency": -20.0,
    "variety": 0.0,
}
"""Short, and mild: SGLang takes its time on a CPU, and the tiny model writes nonsense with a lesson or without."""
RECIPE = {"batch_size": BATCH, "updates": 20, "distillation": "token", "max_gap": 5.0, "gate": EXAM}
GUIDANCE = "Answer in one short sentence."
QUESTIONS = ("What is a glacier?", "Why does the sea taste of salt?")


@pytest.fixture(params=["one server", "two servers", "two servers behind the router"])
def servers(request: pytest.FixtureRequest) -> Iterator[list[Server]]:
    """They are left running, without adapters."""
    if request.param == "one server":
        servers = [request.getfixturevalue("sglang_server")]
    else:
        servers = request.getfixturevalue("sglang_servers").take(2)
    yield servers
    for server in servers:
        asyncio.run(emptied(server))


@pytest.fixture
def stack(servers: list[Server], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    """All of Talkback but its engines, which are SGLangs."""
    first = servers[0]
    addresses = {"ENGINE_URL": first.url, "ENGINE_URLS": ",".join(server.url for server in servers)}
    more = {"ENGINE_API_KEY": first.api_key, "ENGINE_ADMIN_KEY": first.admin_key, "CALIBRATION_VOTES": "0"}
    with ExitStack() as running:
        if "router" in request.node.callspec.id:
            more["ROUTER_URL"] = running.enter_context(running_router(servers, tmp_path / "router.log"))
        stack = Stack(tmp_path / "life", first.model, RECIPE, **addresses, **more)
        running.callback(stack.stop)
        stack.manage("migrate", "-v", "0")
        stack.start(*(name for name in stack.commands if name != "engine"))
        wait_for("every process is ready", stack.ready, 600)
        yield stack


class Reply(NamedTuple):
    model: str
    text: str
    logprobs: list[float]


def alike(replies: Sequence[Reply], others: Sequence[Reply]) -> bool:
    """Whether the same model said the same, as likely: log-probs tell of an adapter that changes no word yet."""
    return all(
        (one.model, one.text) == (other.model, other.text) and one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        for one, other in zip(replies, others, strict=True)
    )


class Person:
    """Who talks to it through its public API."""

    def __init__(self, stack: Stack) -> None:
        self._url = stack.url
        key = stack.manage("create_key", "--name", "life").strip().splitlines()[-1]
        self._bearer = {"Authorization": f"Bearer {key}"}

    def ask(self, text: str, **options: Any) -> dict[str, Any]:
        # The tiny model never ends by itself: it stops at the first of some letters.
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 300, "stop": list("aeio"), **options}
        answer = httpx.post(f"{self._url}/v1/chat/completions", json=body, headers=self._bearer, timeout=300)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ask_plainly(self, text: str) -> Reply:
        """Who answered, and what, where chance has no part."""
        reply = self.ask(text, temperature=0, max_tokens=12, stop=None, logprobs=True)
        choice = reply["choices"][0]
        logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
        return Reply(reply["model"], choice["message"]["content"], logprobs)

    def ask_at_once(self, *texts: str) -> list[Reply]:
        with ThreadPoolExecutor(len(texts)) as pool:
            return list(pool.map(self.ask_plainly, texts))

    def guide(self, reply: dict[str, Any]) -> None:
        said = {"completion_id": reply["id"], "guidance": GUIDANCE}
        answer = httpx.post(f"{self._url}/v1/feedback", json=said, headers=self._bearer, timeout=300)
        assert answer.status_code == 200, answer.text


async def held(server: Server) -> dict[str, str]:
    engine = server.engine()
    try:
        return await engine.adapters()
    finally:
        await engine.aclose()


async def said(server: Server, adapter: str | None) -> list[float]:
    """What a server, asked directly, says of the same ids."""
    engine = server.engine()
    try:
        return list((await engine.score(range(3, 11), range(11, 35), adapter=adapter)).logprobs)
    finally:
        await engine.aclose()


def test_a_lesson_becomes_weights_that_sglang_answers_with_and_is_undone(
    stack: Stack, servers: list[Server], request: pytest.FixtureRequest
) -> None:
    person, has_router = Person(stack), "router" in request.node.callspec.id

    def standing() -> dict[str, int]:
        return dict(stack.board()["checkpoints"])

    # talk and correct
    for n in range(BATCH):
        answer = person.ask(f"Question {n}?")
        assert (answer["model"], answer["choices"][0]["finish_reason"]) == ("talkback@0", "stop")
        person.guide(answer)

    # learn and examine
    wait_for("there is a checkpoint", lambda: sum(standing().values()) == 2, 600, every_s=3)
    wait_for("the exam is over", lambda: not standing()["candidate"], 600, every_s=3)
    assert standing()["passed"] == 1, stack.manage("checkpoints", "list")
    assert person.ask("And now?")["model"] == "talkback@0"  # no operator has said yes

    # approve and swap: each SGLang holds the adapter, has proven it, and the next replies are by it
    before = person.ask_at_once(*QUESTIONS)
    base = asyncio.run(said(servers[0], None))
    stack.manage("checkpoints", "approve", "1")
    wait_for("checkpoint 1 is live", lambda: stack.board()["live"] == 1, 300, every_s=3)
    [adapter] = asyncio.run(held(servers[0]))
    assert adapter.startswith("talkback-1-")
    learned = asyncio.run(said(servers[0], adapter))
    assert learned != pytest.approx(base, abs=1e-3)
    for server in servers:
        assert list(asyncio.run(held(server))) == [adapter]
        assert asyncio.run(said(server, adapter)) == pytest.approx(learned, abs=1e-3)
    taught = person.ask_at_once(*QUESTIONS)
    for reply, earlier in zip(taught, before, strict=True):
        assert (earlier.model, reply.model) == ("talkback@0", "talkback@1")
        assert reply.text != earlier.text or reply.logprobs != pytest.approx(earlier.logprobs, abs=1e-3)

    # one of two is killed and comes back empty: it is given the adapter, and proven, before it is asked
    if len(servers) > 1:
        processes: Servers = request.getfixturevalue("sglang_servers")
        log_so_far = len(processes.log(servers[0]))
        processes.kill(servers[0])
        assert alike(person.ask_at_once(*QUESTIONS), taught)
        processes.start(servers[0])
        assert alike(person.ask_at_once(*QUESTIONS), taught)
        wait_for("it holds the adapter again", lambda: adapter in asyncio.run(held(servers[0])), 120, every_s=1)
        assert alike(person.ask_at_once(*QUESTIONS), taught)
        assert asyncio.run(said(servers[0], adapter)) == pytest.approx(learned, abs=1e-3)
        assert "Nothing was missing." in stack.manage("engines", "--repair")
        if not has_router:  # one that was not told may ask it too early, and Talkback then asks the other
            assert "never been loaded" not in processes.log(servers[0])[log_so_far:]

    # undo: each answers with the base, as it did before
    stack.manage("checkpoints", "rollback")
    assert alike(person.ask_at_once(*QUESTIONS), before)
    for server in servers:
        assert asyncio.run(said(server, None)) == pytest.approx(base, abs=1e-3)
