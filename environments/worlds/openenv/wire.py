"""A light client of OpenEnv's protocol: one websocket an attempt, and what the server says of itself by HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from core.visible import visible
from environments.errors import Unplayable
from environments.worlds.base import WorldFailed

MOST_MESSAGE = 16 * 2**20
"""Bytes of one message."""
CONNECT_S = 10.0
ROOM_S = 120.0
"""How long an attempt waits for a place at a server that is full."""
PAUSE_S = 0.5
FULL = "CAPACITY_REACHED"
INVALID = "VALIDATION_ERROR"


class ActionRefused(Exception):
    """The server read an action and found it invalid: it is the agent's."""


class ServerFull(WorldFailed):
    """All of the server's sessions are in use."""


class Session:
    """One environment at a server. Everything raises WorldFailed where the server fails."""

    def __init__(self, url: str, answer_s: float) -> None:
        self._answer_s = answer_s
        try:
            self._holds = connect(
                socket_url(url), open_timeout=CONNECT_S, close_timeout=CONNECT_S, max_size=MOST_MESSAGE
            )
            self._socket: ClientConnection = self._holds.__enter__()
        except (OSError, WebSocketException, ValueError) as error:
            raise WorldFailed(f"The OpenEnv server cannot be reached: {_line(error)}") from error

    def reset(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an episode, and return what is seen at first."""
        return self._ask("reset", given, "observation")

    def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Act, and return what came of it. Raises ActionRefused."""
        return self._ask("step", action, "observation")

    def state(self) -> dict[str, Any]:
        return self._ask("state", None, "state")

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the environment's MCP server, in the same session. Raises ActionRefused where it answers an error."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        said = self._ask("mcp", asked, "mcp")
        if said.get("error"):
            raise ActionRefused(_line(said["error"]))
        if not isinstance(said.get("result"), dict):
            raise WorldFailed(f"The OpenEnv server's answer to {method} is none.")
        return said["result"]

    def _ask(self, kind: str, data: Mapping[str, Any] | None, wanted: str) -> dict[str, Any]:
        asked = {"type": kind} if data is None else {"type": kind, "data": dict(data)}
        try:
            with suppress(ConnectionClosed):  # a server that is full says so, and leaves, before it is asked
                self._socket.send(json.dumps(asked))
            said = json.loads(self._socket.recv(self._answer_s))
        except TimeoutError as error:
            raise WorldFailed(f"The OpenEnv server did not answer {kind} within {self._answer_s:g} s.") from error
        except (OSError, WebSocketException) as error:
            raise WorldFailed(f"The OpenEnv server left at {kind}: {_line(error)}") from error
        except (ValueError, RecursionError) as error:
            raise WorldFailed(f"The OpenEnv server's answer to {kind} is no JSON.") from error
        if not isinstance(said, dict) or not isinstance(said.get("data"), dict):
            raise WorldFailed(f"The OpenEnv server's answer to {kind} is none: {_line(said)}")
        if said.get("type") == "error":
            raise _error(kind, said["data"])
        if said.get("type") != wanted:
            raise WorldFailed(f"The OpenEnv server answered {kind} with {_line(said.get('type'))}.")
        return said["data"]

    def close(self) -> None:
        """Leave. Safe to call twice, and whatever became of the server."""
        with suppress(OSError, WebSocketException):
            self._socket.send(json.dumps({"type": "close"}))
        with suppress(OSError, WebSocketException):
            self._holds.__exit__(None, None, None)


def begin(url: str, given: Mapping[str, Any], answer_s: float) -> tuple[Session, dict[str, Any]]:
    """Open a session and reset it, and wait for a place where the server is full. Raises WorldFailed."""
    until = time.monotonic() + ROOM_S
    while True:
        session = Session(url, answer_s)
        try:
            return session, session.reset(given)
        except ServerFull:
            session.close()
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE_S)
        except ActionRefused as error:
            session.close()
            raise WorldFailed(f"The OpenEnv server takes no such reset: {error}") from error
        except BaseException:
            session.close()
            raise


def _error(kind: str, data: Mapping[str, Any]) -> Exception:
    code, said = data.get("code"), _line(data.get("message"))
    if code == FULL:
        return ServerFull(f"The OpenEnv server is full: {said}")
    if code == INVALID:
        errors = data.get("errors")
        faults = errors[:3] if isinstance(errors, list) else []
        where = [_line(f"{one.get('loc')}: {one.get('msg')}") for one in faults if isinstance(one, dict)]
        return ActionRefused("; ".join([said, *where]))
    return WorldFailed(f"The OpenEnv server failed at {kind} ({_line(code)}): {said}")


def ask_http(url: str, path: str) -> dict[str, Any]:
    """What the server says of itself at /schema, /metadata or /health. Raises WorldFailed."""
    try:
        with httpx.stream("GET", f"{url.rstrip('/')}{path}", timeout=CONNECT_S) as answer:
            answer.raise_for_status()
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MOST_MESSAGE:
                    raise WorldFailed(f"The OpenEnv server's {path} has over {MOST_MESSAGE:,} bytes.")
        said = json.loads(bytes(body))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WorldFailed(f"The OpenEnv server does not answer {path}: {_line(error)}") from error
    except (ValueError, RecursionError) as error:
        raise WorldFailed(f"The OpenEnv server's {path} is no JSON.") from error
    if not isinstance(said, dict):
        raise WorldFailed(f"The OpenEnv server's {path} is no JSON object.")
    return said


def socket_url(url: str) -> str:
    """The address of a server's websocket.

    >>> socket_url("https://host/env/"), socket_url("ws://host:8000")
    ('wss://host/env/ws', 'ws://host:8000/ws')
    """
    kind, _, rest = url.partition("://")
    return f"{ {'http': 'ws', 'https': 'wss'}.get(kind, kind) }://{rest.rstrip('/')}/ws"


def require_url(url: str) -> str:
    """The address by HTTP. Raises Unplayable for what is none."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https", "ws", "wss") or not address.hostname:
        raise Unplayable(f"An OpenEnv server's address begins with http:// or ws://, and {url!r} does not.")
    return url.replace("ws", "http", 1) if address.scheme.startswith("ws") else url


def _line(said: object) -> str:
    return visible(" ".join(str(said).split())[:300], one_line=True)
