"""Files of the world `mcp` that tests make, with servers that really run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments.worlds.base import Call, Seen
from environments.worlds.mcp.world import McpAttempt, McpWorld

SERVERS = Path(__file__).parent / "servers"
ASK = {"prompt": "What do apple and bread cost together?", "split": "train", "check": {"answer": "7"}}
FILL = {
    "prompt": "Put apple and milk into the basket.",
    "split": "train",
    "check": {"tool": "verdict", "arguments": {"wanted": ["apple", "milk"]}},
}


def shop(folder: Path, *tasks: dict[str, Any], **server: Any) -> Path:
    """A file with the shop of servers/shop.py."""
    command = {"command": ["python3", "/server/shop.py"], "folder": "server", "packages": True}
    return _write(folder, "shop.py", command | server, tasks or (ASK,))


def raw(folder: Path, tools: Sequence[Any], how: str = "plain", **server: Any) -> Path:
    """A file with the server of servers/raw.py, which lists these tools."""
    path = _write(
        folder, "raw.py", {"command": ["python3", "/server/raw.py", how], "folder": "server", **server}, (ASK,)
    )
    (folder / "server" / "tools.json").write_text(json.dumps(tools))
    return path


def _write(folder: Path, server: str, said: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Path:
    (folder / "server").mkdir(exist_ok=True)
    shutil.copy(SERVERS / server, folder / "server" / server)
    path = folder / "world.json"
    path.write_text(json.dumps({"server": said, "tasks": list(tasks)}))
    return path


def opened(path: Path, **more: Any) -> McpAttempt:
    world = McpWorld(path, **more)
    (task,) = world.tasks("train", 1, 0)
    return world.open(task, 0)


def do(attempt: McpAttempt, tool: str, **arguments: Any) -> Seen:
    return attempt.act(Call("call_1", tool, json.dumps(arguments)))


def listed(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}
