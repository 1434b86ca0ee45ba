"""OpenAI's own JavaScript client against a live server: one script, one JSON of what it saw."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from chat.models import Turn
from tests.chat.conftest import until
from tests.clients.javascript.install import HERE, MODULES, node

pytestmark = [pytest.mark.javascript, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Lisbon"}}\n</tool_call>'


def test_the_official_client_is_pleased(site, key, engine, tmp_path: Path):
    engine.says("Hello, captain.", to="plain")
    engine.says("Hello again.", to="<\\|im_start\\|>user\nstream<")
    engine.says(CALL, to="user\ntools<")
    engine.says("It is warm.", to="31 degrees")
    engine.says(CALL, to="streamed tools")
    engine.says(CALL + "\n" + CALL.replace("Lisbon", "Porto"), to="user\nparallel<", times=2)
    engine.says("It is warm in both.", to="28 degrees")
    engine.says('{"town": "Lisbon"}', to="schema")
    engine.says("A long answer that is not awaited. " * 40, to="abort")
    engine.hold(after=300)  # only the long one comes so far: it waits there until its reader has left
    shutil.copy(HERE / "openai.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(MODULES)
    environment = {"BASE_URL": f"{site}/v1", "API_KEY": key.secret}
    command = [str(node()), str(tmp_path / "openai.mjs")]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["models"] == ["talkback", "talkback@0", "talkback@base"]
    assert seen["plain"]["choice"]["message"]["content"] == "Hello, captain."
    assert (seen["plain"]["choice"]["finish_reason"], seen["plain"]["model"]) == ("stop", "talkback@0")
    assert seen["stream"]["first"] == {"role": "assistant", "content": ""}
    assert (seen["stream"]["text"], seen["stream"]["finish"]) == ("Hello again.", ["stop"])
    assert seen["stream"]["usage"]["completion_tokens"] > 3
    assert seen["stream"]["earlier"] == []
    assert seen["tools"] == {
        "finish": "tool_calls",
        "calls": [["weather", {"town": "Lisbon"}]],
        "after": "It is warm.",
    }
    assert seen["toolsInAStream"] == [["weather", {"town": "Lisbon"}]]
    both = [["weather", {"town": "Lisbon"}], ["weather", {"town": "Porto"}]]
    assert seen["toolsAtOnce"] == {
        "finish": "tool_calls",
        "calls": both,
        "streamed": both,
        "ids": 2,
        "after": "It is warm in both.",
    }
    assert seen["schema"] == {"town": "Lisbon"}
    errors = {name: (error["name"], error["status"], error["code"]) for name, error in seen["errors"].items()}
    assert errors == {
        "fault": ("BadRequestError", 400, "invalid_request"),
        "length": ("BadRequestError", 400, "context_length_exceeded"),
        "model": ("NotFoundError", 404, "model_not_found"),
        "key": ("AuthenticationError", 401, "invalid_api_key"),
    }
    assert seen["errors"]["fault"]["param"] == "temperature"
    assert seen["abort"]["words"] >= 1

    async def no_reply_waits() -> bool:
        return not await Turn.objects.filter(status=Turn.Status.ANSWERING).aexists()

    asyncio.run(until(no_reply_waits, "the aborted reply is closed"))
    assert Turn.objects.get(finish_reason="abort").completion_id in engine.aborted
