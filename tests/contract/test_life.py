"""The whole life of a lesson (design.md, section 3) on the real SGLang: talk, correct, learn, examine, approve, swap,
undo. Every process is real; only the model is the tiny one, which writes nonsense that can be taught all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.conftest import Server
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(1800)]

BATCH = 3
EXAM = {
    "prompts": 2,
    "handful": 2,
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


@pytest.fixture
def stack(sglang_server: Server, tmp_path: Path) -> Iterator[Stack]:
    """All of Talkback but its engine, which is SGLang."""
    address = {"ENGINE_URL": sglang_server.url, "ENGINE_API_KEY": sglang_server.api_key}
    more = {"ENGINE_ADMIN_KEY": sglang_server.admin_key, "CALIBRATION_VOTES": "0"}
    stack = Stack(tmp_path / "life", sglang_server.model, RECIPE, **address, **more)
    try:
        stack.manage("migrate", "-v", "0")
        stack.start(*(name for name in stack.commands if name != "engine"))
        wait_for("every process is ready", stack.ready, 600)
        yield stack
    finally:
        stack.stop()


async def held(server: Server) -> dict[str, str]:
    engine = server.engine()
    try:
        return await engine.adapters()
    finally:
        await engine.aclose()


def test_a_lesson_becomes_weights_that_sglang_answers_with_and_is_undone(stack: Stack, sglang_server: Server) -> None:
    key = stack.manage("create_key", "--name", "life").strip().splitlines()[-1]
    bearer = {"Authorization": f"Bearer {key}"}

    def ask(text: str, **options: Any) -> dict[str, Any]:
        # The tiny model never ends by itself: it stops at the first of some letters.
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 300, "stop": list("aeio"), **options}
        answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, headers=bearer, timeout=300)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def standing() -> dict[str, int]:
        return dict(stack.board()["checkpoints"])

    # talk and correct
    for n in range(BATCH):
        reply = ask(f"Question {n}?")
        assert (reply["model"], reply["choices"][0]["finish_reason"]) == ("talkback@0", "stop")
        said = {"completion_id": reply["id"], "guidance": GUIDANCE}
        assert httpx.post(f"{stack.url}/v1/feedback", json=said, headers=bearer, timeout=300).status_code == 200

    # learn and examine
    wait_for("there is a checkpoint", lambda: sum(standing().values()) == 2, 600, every_s=3)
    wait_for("the exam is over", lambda: not standing()["candidate"], 600, every_s=3)
    assert standing()["passed"] == 1, stack.manage("checkpoints", "list")
    assert ask("And now?")["model"] == "talkback@0"  # nobody has said yes

    # approve and swap: SGLang holds the adapter, has proven it, and the next reply is by it
    greedy = {"temperature": 0, "max_tokens": 12, "stop": None}
    before = ask("What is a glacier?", **greedy)
    stack.manage("checkpoints", "approve", "1")
    wait_for("checkpoint 1 is live", lambda: stack.board()["live"] == 1, 300, every_s=3)
    [adapter] = asyncio.run(held(sglang_server))
    assert adapter.startswith("talkback-1-")
    taught = ask("What is a glacier?", **greedy)
    assert taught["model"] == "talkback@1"

    # undo: the base answers as it did before
    stack.manage("checkpoints", "rollback")
    undone = ask("What is a glacier?", **greedy)
    assert undone["model"] == "talkback@0"
    assert undone["choices"][0]["message"] == before["choices"][0]["message"]
