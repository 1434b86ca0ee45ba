"""One connection to an MCP server, for one attempt: its tools are listed and called from the attempt's own thread."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal

from core.mcp.link import FAULTS, Link, why
from core.mcp.offered import Listed
from core.mcp.places import NoPlace, places
from core.mcp.programs import Own, Talker
from core.mcp.results import Answered
from core.mcp.streams import LastWords, by_http, by_pipes
from core.visible import visible
from environments.errors import SandboxUnavailable
from environments.sandboxes.piped import Confined
from environments.sandboxes.sandbox import Mount, Wants
from environments.worlds.base import WorldFailed
from environments.worlds.mcp.task_file import Server

Result = TypeVar("Result")

PLACE_S = 600.0
"""How long an attempt waits for a place where as many programs run as may: others end with their attempts."""
CLOSE_S = 5.0
"""How long a server may take to hear that it is left."""
SERVER_AT, PACKAGES_AT = "/server", "/packages"


class Connection:
    """Opened once, closed always. Everything may raise WorldFailed; opening also what a sandbox raises."""

    def __init__(self, server: Server, *, trusted: bool = False) -> None:
        """Start the server's program, or reach its URL, and shake hands. `trusted`: it runs as this user."""
        self._server = server
        self._link = Link(server.start_s, server.call_s)
        self._words = LastWords()
        self._talker = placed(server, trusted) if server.command else None
        self._portal: BlockingPortal | None = None
        self._holds = start_blocking_portal(name="mcp")
        try:
            self._portal = self._holds.__enter__()
            self._leaving = self._portal.call(anyio.Event)
            self._running: Future[Any]
            self._running, _ = self._portal.start_task(self._live)
        except FAULTS as error:
            self.close()
            raise WorldFailed(f"The MCP server did not start: {why(error, self._words)}") from error
        except BaseException:
            self.close()
            raise

    async def _live(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the connection until it is left."""
        server = self._server
        with anyio.CancelScope() as scope:
            if self._talker:
                streams = by_pipes(self._talker.process, self._words)
            else:
                streams = by_http(server.url, server.headers)
            async with self._link.over(streams):
                task_status.started()
                await self._leaving.wait()
                scope.deadline = anyio.current_time() + CLOSE_S

    @property
    def has_changed(self) -> bool:
        """The server said that its list of tools has."""
        return self._link.has_changed

    def tools(self) -> list[Listed]:
        """The server's tools, page by page."""
        return self._do(self._link.tools, "did not list its tools")

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answered:
        """Call a tool (core.mcp.link.Link.call)."""
        return self._do(lambda: self._link.call(name, arguments), f"failed in its tool {visible(name[:60])!r}")

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]], what: str) -> Result:
        if self._portal is None:
            raise WorldFailed("The MCP server's connection is closed.")
        try:
            return self._portal.call(work)
        except FAULTS as error:
            raise WorldFailed(f"The MCP server {what}: {why(error, self._words)}") from error

    def close(self) -> None:
        """Leave the server, and end its program with all that it started."""
        portal, self._portal = self._portal, None
        try:
            if portal is not None:
                with suppress(*FAULTS, TooLate):
                    portal.call(self._leaving.set)
                    if hasattr(self, "_running"):
                        self._running.result(2 * CLOSE_S)
                with suppress(*FAULTS):
                    portal.start_task_soon(portal.stop, True)
                with suppress(*FAULTS):
                    self._holds.__exit__(None, None, None)
        finally:
            talker, self._talker = self._talker, None
            if talker is not None:
                try:
                    talker.kill()
                finally:
                    places.give_back()


def placed(server: Server, trusted: bool) -> Talker:
    """Start a server's program once there is a place for it. Raises SandboxUnavailable, SandboxRefused."""
    try:
        places.take(PLACE_S)
    except NoPlace as full:
        raise SandboxUnavailable(str(full)) from full
    try:
        return start(server, trusted)
    except BaseException:
        places.give_back()
        raise


def start(server: Server, trusted: bool) -> Talker:
    """Start a server's program. Raises SandboxUnavailable, SandboxRefused."""
    env = dict(server.env)
    packages = next((Path(path) for path in sys.path if path.endswith("site-packages")), None)
    if trusted:
        folder = server.folder or Path.cwd()
        argv = [re.sub(rf"^{SERVER_AT}(?=/|$)", str(folder.resolve()), word) for word in server.command]
        own = env | ({"PYTHONPATH": str(packages)} if server.packages and packages else {})
        try:
            return Own(argv, own, folder)
        except OSError as error:
            raise SandboxUnavailable(f"{argv[0]}: {error.strerror}") from error
    mounts = [Mount(server.folder, SERVER_AT)] if server.folder else []
    if server.packages and packages:
        mounts.append(Mount(packages, PACKAGES_AT))
        env["PYTHONPATH"] = PACKAGES_AT
    return Confined(server.command, env, Wants(memory=server.memory, mounts=tuple(mounts)))
