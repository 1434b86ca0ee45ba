"""A chat that may use the tools of a real MCP server, and an engine that calls them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.patience import Patience
from chat.models import Session, Turn
from chat.replying import live_replies
from chat.tools import reaching
from chat.tools.calls import ToolCall
from chat.tools.servers import ToolServer
from installation.diagnosis import free_port
from tests.chat.conftest import until

SHOP = Path(__file__).parents[2] / "environments" / "worlds" / "mcp" / "servers" / "shop.py"
RAW = SHOP.parent / "raw.py"


def calling(*calls: tuple[str, dict]) -> str:
    """A reply of the tiny model's that calls these tools."""
    made = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    return "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in made)


def serve(port: int) -> subprocess.Popen:
    """The shop behind a port, once it listens."""
    process = subprocess.Popen(
        [sys.executable, str(SHOP), str(port)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    patience = Patience(60)
    while not patience.is_over:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.02)  # a core that asks on and on is one that the server starts without
    raise TimeoutError("the server does not listen")


@pytest.fixture(scope="session")
def shop_port() -> Iterator[int]:
    port = free_port()
    process = serve(port)
    yield port
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def inside(settings):
    settings.TOOLS_INSIDE = True


@pytest.fixture
async def shop(db, shop_port) -> ToolServer:
    """The shop as this installation knows it, its list read."""
    server = await ToolServer.objects.acreate(name="shop", url=f"http://127.0.0.1:{shop_port}/mcp")
    await reaching.look(server)
    return server


async def raw_server(settings, folder, tools, how: str) -> ToolServer:
    """The server of servers/raw.py, started by the installation's file, which lists these tools."""
    folder.mkdir(exist_ok=True)
    (folder / "raw.py").write_text(RAW.read_text())
    (folder / "tools.json").write_text(json.dumps(tools))
    file = folder / "file.json"
    file.write_text(json.dumps({"servers": {"raw": {"command": [sys.executable, "raw.py", how], "folder": "."}}}))
    settings.TOOLS_FILE = str(file)
    server = await ToolServer.objects.acreate(name="raw", url="")
    await reaching.look(server)
    return server


async def let_use(session: Session, server: ToolServer, *names: str) -> None:
    """Have the chat use these tools of this server, as its settings do."""
    await server.arefresh_from_db()
    kept = await Session.objects.values_list("tools", flat=True).aget(pk=session.pk)
    mine = [tool.id for tool in server.tools if tool.name in names]
    assert len(mine) == len(names)
    await Session.objects.filter(pk=session.pk).aupdate(tools=[*kept, *mine])


async def mark_safe(server: ToolServer, *names: str) -> None:
    await server.arefresh_from_db()
    server.safe = {tool.name: tool.definition for tool in server.tools if tool.name in names}
    await server.asave()


@pytest.fixture
def say(page, session, htmx):
    """Send a message in the chat, and wait until nothing is under way."""

    async def send(text: str, status: int = 200) -> str:
        message = {"text": text, "message_id": str(uuid.uuid4())}
        answer = await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
        assert answer.status_code == status, answer.content.decode()
        await all_quiet()
        return answer.content.decode()

    return send


@pytest.fixture
def word(page, htmx):
    """Say once, always or refuse to the call that waits, and wait until nothing is under way."""

    async def send(said: str) -> None:
        call = await ToolCall.objects.filter(status="waiting").afirst()
        assert call is not None, "no call waits"
        answer = await page.post(f"/calls/{call.pk}/", {"word": said}, headers=htmx)
        assert answer.status_code == 204, answer.content.decode()
        await all_quiet()

    return send


async def all_quiet(within_s: float = 60.0) -> None:
    async def quiet() -> bool:
        return not live_replies._speaking

    await until(quiet, "replies and tools", within_s)


async def turns_of(session: Session) -> list[Turn]:
    return [turn async for turn in Turn.objects.filter(session=session).order_by("position")]


async def calls_of(session: Session) -> list[ToolCall]:
    return [call async for call in ToolCall.objects.filter(turn__session=session).order_by("turn__position", "place")]


async def shown(page, session) -> str:
    answer = await page.get(f"/chats/{session.pk}/")
    assert answer.status_code == 200
    return answer.content.decode()
