"""The official JavaScript clients on Messages and Responses against a live server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chat.models import Session, Turn
from tests.chat.conftest import until
from tests.clients.javascript.install import HERE, MODULES, node

pytestmark = [pytest.mark.javascript, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

USER = r"<\|im_start\|>user\n"


def call(town: str) -> str:
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"town": "{town}"}}}}\n</tool_call>'


@pytest.fixture
def script(tmp_path: Path):
    """Start a script; it ends within two minutes."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str, **environment: str) -> subprocess.Popen[str]:
        shutil.copy(HERE / name, tmp_path)
        (tmp_path / "node_modules").symlink_to(MODULES)
        command = [str(node()), str(tmp_path / name)]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def found(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, wrong = process.communicate(timeout=120)
    assert process.returncode == 0, wrong
    return dict(json.loads(out))


def test_anthropics_client_is_pleased(site, key, engine, script):
    engine.says("Hello, captain.", to=f"{USER}plain<")
    engine.says("Hello again.", to=f"{USER}stream<")
    engine.says("It is warm.", to="31 degrees")
    engine.says(f"Let me look.\n{call('Lisbon')}\n{call('Porto')}", to=f"{USER}tools<")
    engine.says("A long answer that is not awaited. " * 40, to=f"{USER}abort<")
    engine.hold(after=300)  # only the long one comes so far: it waits there until its reader has left

    seen = found(script("anthropic.mjs", BASE_URL=site, API_KEY=key.secret))

    assert seen["plain"] == {
        "content": [{"type": "text", "text": "Hello, captain."}],
        "stop": "end_turn",
        "model": "talkback@0",
    }
    assert seen["stream"]["text"] == seen["stream"]["whole"] == "Hello again."
    assert min(seen["stream"]["pieces"], seen["stream"]["tokens"]) > 2
    assert seen["tools"] == {
        "stop": "tool_use",
        "inputs": [{"town": "Lisbon"}, {"town": "Porto"}],
        "after": "It is warm.",
    }
    assert {name: (error["name"], error["status"], error["type"]) for name, error in seen["errors"].items()} == {
        "fault": ("BadRequestError", 400, "invalid_request_error"),
        "length": ("BadRequestError", 400, "invalid_request_error"),
        "model": ("NotFoundError", 404, "not_found_error"),
        "key": ("AuthenticationError", 401, "authentication_error"),
    }
    assert seen["abort"]["words"] >= 1
    assert seen["abort"]["ended"] == "APIUserAbortError"
    asked, told = Turn.objects.filter(session__in=Session.objects.filter(turns__position=1)).order_by("position")
    assert told.follows == asked
    assert [said["content"] for said in asked.next_state] == ["Lisbon: 31 degrees", "Porto: 31 degrees"]

    async def no_reply_waits() -> bool:
        return not await Turn.objects.filter(status=Turn.Status.ANSWERING).aexists()

    asyncio.run(until(no_reply_waits, "the aborted reply is closed"))
    assert Turn.objects.get(finish_reason="abort").completion_id in engine.aborted


def test_openais_client_is_pleased_with_responses(site, key, engine, script):
    engine.says("Worth waiting for.", to=f"{USER}wait<")
    engine.says("Hello, captain.", to=f"{USER}plain<[^>]*>\\s*<[^>]*>assistant\n$")
    engine.says("Hello again.", to=f"{USER}again<")
    engine.says("It is warm.", to="31 degrees")
    engine.says(f"{call('Lisbon')}\n{call('Porto')}", to=f"{USER}tools<")
    engine.hold()

    process = script("responses.mjs", BASE_URL=f"{site}/v1", API_KEY=key.secret)
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    engine.release()
    seen = found(process)

    assert seen["waited"] == {"text": "Worth waiting for.", "alive": True}
    assert [seen["continued"][name] for name in ("first", "second", "kept")] == [
        "Hello, captain.",
        "Hello again.",
        "Hello again.",
    ]
    assert seen["continued"]["usage"]["output_tokens"] > 2
    assert seen["tools"] == {"inputs": [{"town": "Lisbon"}, {"town": "Porto"}], "after": "It is warm."}
    assert seen["refused"] == ["BadRequestError", 400, "previous_response_not_found"]
