"""The transport carries the engine client's requests: pooled HTTP connections, keys, and network failures by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
import orjson

from gpu_workers.engine import native_wire
from gpu_workers.engine.connections import Connections
from gpu_workers.errors import EngineUnavailable

log = logging.getLogger(__name__)

KEPT_S = 4.0
"""How long an idle connection is kept: less than the 5 s after which the engine's server closes it."""

TOLD_S = 10.0
"""How often the log says that the engine does not answer, however many ask."""

LOOK_S = 15.0
"""How long a stream may bring nothing before its server is asked whether it is there, and how often then: one that
hangs keeps its connections open, and a busy one is silent too, but answers that."""

LOOKED_S = 10.0
"""How long that answer may take."""

MISSES = 2
"""After so many answers in a row that did not come the server is gone."""

JSON = {"Content-Type": "application/json"}

Failures = (aiohttp.ClientError, TimeoutError, OSError)
"""How a network fails."""


class Watch:
    """Watch a stream for a server that hangs: it brings nothing, and answers nothing else."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]]) -> None:
        self.heard_at = monotonic()
        self.is_gone = False
        self.end: Callable[[], object] = bool
        """What ends the stream."""
        self._is_there = is_there

    async def run(self) -> None:
        misses = 0
        while misses < MISSES:
            if (left_s := LOOK_S - (monotonic() - self.heard_at)) > 0:
                misses = 0
                await asyncio.sleep(left_s)
                continue
            misses = 0 if await self._is_there() else misses + 1
            if misses < MISSES:
                await asyncio.sleep(LOOK_S)
        self.is_gone = True
        self.end()


class Heard:
    """What arrives, of which a watch hears."""

    def __init__(self, arrivals: AsyncIterable[bytes], watch: Watch) -> None:
        self._arrivals, self._watch = aiter(arrivals), watch

    def __aiter__(self) -> Heard:
        return self

    async def __anext__(self) -> bytes:
        arrived = await anext(self._arrivals)
        self._watch.heard_at = monotonic()
        return arrived


class Transport:
    """Send requests to one server. Raises EngineUnavailable when it does not answer."""

    def __init__(self, url: str, *, api_key: str, admin_key: str, timeout_s: float) -> None:
        """`admin_key` is for what changes the server, where it differs; `timeout_s` the longest silence."""
        self.url = url.rstrip("/")
        self.failures = 0
        """How often no server answered: behind each may stand a server that was started again, and forgot all."""
        self._told_at = -TOLD_S
        self._api_key, self._admin_key = api_key, admin_key or api_key
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=timeout_s)

        def opened() -> aiohttp.ClientSession:
            pool = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S)
            return aiohttp.ClientSession(connector=pool, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())

        self._connections = Connections(opened, close=aiohttp.ClientSession.close, forget=_forget)

    def _session(self) -> aiohttp.ClientSession:
        return self._connections.client()

    def _auth(self, admin: bool = False) -> dict[str, str]:
        key = self._admin_key if admin else self._api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def _post(self, path: str, body: Mapping[str, Any], admin: bool = False) -> Any:
        headers = self._auth(admin) | JSON
        return native_wire.content_of(*await self._asked("POST", path, headers, orjson.dumps(body)))

    async def _get(self, path: str) -> Any:
        return native_wire.content_of(*await self._asked("GET", path, self._auth()))

    async def _asked(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """The status and the whole content."""
        try:
            async with self._session().request(method, self.url + path, data=body, headers=headers) as response:
                return response.status, await response.read()
        except Failures as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _streamed(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[tuple[int, AsyncIterable[bytes]], None]:
        """The status, and the content as it arrives. Leaving early closes the connection."""
        watch = Watch(self._is_there)
        asking = asyncio.ensure_future(self._session().post(self.url + path, data=body, headers=headers))
        watch.end = asking.cancel
        watching = asyncio.create_task(watch.run())
        try:
            try:
                response = await asking
            except asyncio.CancelledError:
                asker = asyncio.current_task()
                if not watch.is_gone or (asker is not None and asker.cancelling()):  # who asked leaves
                    raise
                raise TimeoutError("it hangs") from None
            async with response:
                hangs = aiohttp.ClientConnectionError("it hangs")
                watch.end = partial(response.content.set_exception, hangs)
                yield response.status, Heard(response.content.iter_any(), watch)
        finally:
            watching.cancel()

    async def _is_there(self) -> bool:
        """Whether the server answers at all, whatever it says."""
        try:
            timeout = aiohttp.ClientTimeout(total=LOOKED_S)
            async with self._session().get(f"{self.url}/ready", timeout=timeout):
                return True
        except Failures:
            return False

    async def _events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The JSON objects of an SSE stream up to [DONE], all that have arrived at once; an error among them raises."""
        try:
            async with self._streamed(path, self._auth() | JSON, orjson.dumps(body)) as (status, arrivals):
                if status != 200:
                    raise native_wire.refusal(status, b"".join([part async for part in arrivals]))
                rest, is_first = b"", True
                async for arrived in arrivals:
                    if is_first and native_wire.is_page(arrived):
                        raise native_wire.no_engine()
                    is_first = False
                    *lines, rest = (rest + arrived).split(b"\n") if rest else arrived.split(b"\n")
                    events, end = native_wire.events(lines)
                    if events:
                        yield events
                    if end is not None:
                        if isinstance(end, Exception):
                            raise end
                        return
        except Failures as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> EngineUnavailable:
        """Where the engine is, and how its network fails, is for the log: the sentence goes to the caller."""
        self.failures += 1
        if monotonic() - self._told_at > TOLD_S:
            self._told_at = monotonic()
            log.warning("The engine at %s does not answer (%s).", self.url, str(error) or type(error).__name__)
        return EngineUnavailable("The engine does not answer.")


def _forget(session: aiohttp.ClientSession) -> None:
    """Let go of connections whose event loop has ended: there is nothing left to close them with."""
    connector = session.connector
    session.detach()
    if connector is not None:
        with suppress(StopIteration):
            next(connector.close().__await__())
