"""One whole chat with a real model and a real server: asked, allowed, called over standard streams, answered.

A model of 135 million weights calls no tool of its own accord that one can rely on, so its first reply must call one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from html import escape
from pathlib import Path

import pytest

from chat import views
from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from chat.requests import Ask
from chat.tools import reaching
from chat.tools.servers import ToolServer
from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from installation.diagnosis import free_port
from tests.chat.tools.conftest import SHOP, calls_of, let_use, shown, turns_of

pytestmark = [pytest.mark.real_model, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.fixture(scope="module")
def served(smol_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The embedded engine."""
    port = free_port()
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    command = embedded_command(str(smol_model), port)
    with EngineProcess(command, f"http://127.0.0.1:{port}", log, environment=ONE_THREAD) as process:
        yield EngineClient(process.url, timeout_s=120)


async def test_a_real_model_calls_a_real_server_and_answers(
    say, word, session, page, served, smol_model, settings, tmp_path, monkeypatch
):
    settings.MODEL = str(smol_model)
    monkeypatch.setattr(engines, "policy", lambda: served)
    monkeypatch.setattr(views, "Ask", partial(Ask, tool_choice="=put_in"))
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"servers": {"shop": {"command": [sys.executable, str(SHOP)]}}}))
    settings.TOOLS_FILE = str(file)
    server = await ToolServer.objects.acreate(name="shop", url="")
    await reaching.look(server)
    await let_use(session, server, "put in")
    await Session.objects.filter(pk=session.pk).aupdate(sampling={"temperature": 0, "max_new_tokens": 64})

    await say("Put bread into my basket.")
    (first,) = await turns_of(session)
    (call,) = await calls_of(session)
    assert (first.finish_reason, call.status, call.name, call.server_id) == (
        "tool_calls",
        "waiting",
        "put_in",
        server.pk,
    )
    assert list(json.loads(call.arguments)) == ["item"]
    assert len(first.response_ids) == len(first.logprobs) > 0
    renderer = Renderer.for_model(smol_model)
    prompt = renderer.decode(first.prompt_ids, controls=True)
    assert '"name": "put_in", "description": "Put an item into the basket."' in prompt
    assert "Allow once" in await shown(page, session)

    await word("once")
    (call,) = await calls_of(session)
    assert (call.status, call.result) == ("done", "1 in the basket")  # each call starts the program: an empty basket
    first, second = await turns_of(session)
    assert (second.follows_id, second.status) == (first.pk, Turn.Status.SERVED)
    assert "1 in the basket" in renderer.decode(second.prompt_ids, controls=True)
    assert second.finish_reason in ("stop", "length")
    assert len(second.text) > 3
    _, _, drawn = (await shown(page, session)).partition(f'id="said-{second.pk}"')
    assert escape(second.text.split()[0]) in drawn
    await served.aclose()
    assert (first.status, first.next_state[0]["content"]) == (Turn.Status.OBSERVED, "1 in the basket")
