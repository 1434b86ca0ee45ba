"""A small server of OpenEnv's protocol that really listens: guess a number, or lift a weight by a tool of its own."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

GUESS = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "metadata": {"type": "object"}},
    "required": ["value"],
    "additionalProperties": False,
}
CALL = {
    "type": "object",
    "properties": {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "metadata": {"type": "object"},
    },
}
LIFT = {
    "name": "lift",
    "description": "Lift so many kilograms.",
    "input_schema": {"type": "object", "properties": {"kilograms": {"type": "integer"}}},
}


@dataclass
class Server:
    """What it does, and what it saw."""

    url: str = ""
    places: int = 64
    """Sessions at once; the published one answers CAPACITY_REACHED beyond that."""
    schema: Mapping[str, Any] = field(default_factory=lambda: dict(GUESS))
    twist: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda said: said
    """Changes what a step is answered with; None: it is not answered at all."""
    open: int = 0
    most: int = 0
    resets: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept()
        if self.open >= self.places:
            await socket.send_json({"type": "error", "data": {"message": "no place", "code": "CAPACITY_REACHED"}})
            await socket.close()
            return
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await self._talk(socket)
        except WebSocketDisconnect:
            pass
        finally:
            self.open -= 1

    async def _talk(self, socket: WebSocket) -> None:
        number, steps = 0, 0
        while True:
            asked = await socket.receive_json()
            kind, data = asked["type"], asked.get("data") or {}
            if kind == "close":
                self.closed += 1
                return await socket.close()
            if kind == "reset":
                self.resets.append(data)
                number, steps = random.Random(data.get("seed")).randrange(10), 0
                said = {"observation": {"text": "Guess a number from 0 to 9."}, "reward": None, "done": False}
                await socket.send_json({"type": "observation", "data": said})
            elif kind == "state":
                await socket.send_json({"type": "state", "data": {"episode_id": "e", "step_count": steps}})
            elif kind == "mcp":
                result = {"jsonrpc": "2.0", "id": data["id"], "result": {"tools": [LIFT]}}
                await socket.send_json({"type": "mcp", "data": result})
            elif kind == "step":
                steps += 1
                answer = self._step(data, number)
                if answer.get("type") == "observation":
                    twisted = self.twist(answer["data"])
                    if twisted is None:
                        continue
                    answer["data"] = twisted
                await socket.send_text(json.dumps(answer))  # NaN and all
        return None

    def _step(self, action: dict[str, Any], number: int) -> dict[str, Any]:
        if action.get("type") == "call_tool":
            kilograms = action["arguments"].get("kilograms", 0)
            if action["tool_name"] != "lift" or kilograms > 100:
                error = {"error_type": "execution_error", "message": "too heavy"}
                held = {"tool_name": action["tool_name"], "result": None, "error": error}
                return {"type": "observation", "data": {"observation": held, "reward": None, "done": False}}
            result = {"content": [{"type": "text", "text": f"{kilograms} kg lifted"}], "is_error": False}
            held = {"tool_name": "lift", "result": result, "error": None}
            return {"type": "observation", "data": {"observation": held, "reward": kilograms / 100, "done": True}}
        if type(action.get("value")) is not int:
            faults = [{"loc": ["value"], "msg": "Input should be a valid integer"}]
            data = {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": faults}
            return {"type": "error", "data": data}
        is_right = action["value"] == number
        text = "Right." if is_right else "Higher." if action["value"] < number else "Lower."
        data = {"observation": {"text": text}, "reward": float(is_right), "done": is_right}
        return {"type": "observation", "data": data}


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    async def schema(_: Any) -> JSONResponse:
        return JSONResponse({"action": server.schema, "observation": {}, "state": {}})

    async def metadata(_: Any) -> JSONResponse:
        return JSONResponse({"name": "guess", "description": "Guess a number."})

    routes = [Route("/schema", schema), Route("/metadata", metadata), WebSocketRoute("/ws", server.serve)]
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=0, log_level="error", ws="websockets-sansio"
    )
    running = uvicorn.Server(config)
    listens = threading.Event()
    startup = running.startup

    async def note(sockets: Any = None) -> None:
        await startup(sockets)
        listens.set()

    running.startup = note
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()), daemon=True)
    thread.start()
    assert listens.wait(30)
    server.url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        running.should_exit = running.force_exit = True
        thread.join(30)
