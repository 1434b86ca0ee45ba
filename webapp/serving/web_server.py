"""Run uvicorn with an end to requests that are begun and never finished, and a limit of connections.

    python -m webapp.serving.web_server --host localhost --port 8000

Half a request costs its sender nothing, and uvicorn waits for the other half for ever. What takes long by right is
left alone: a request that waits for its answer, a stream, a WebSocket (uvicorn pings it), a body that goes on coming.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import resource
import socket
import sys
import termios
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webapp.asgi import api, application

# isort: split
# Django is set up by now, which the following need.
from django.conf import settings

from core.errors import TalkbackError
from core.network import loopback
from webapp import errors
from webapp.serving.handler import STALL_S, Receive, Scope, Send, finished, unread

log = logging.getLogger(__name__)

BODY_BYTES = 32 * 1024
"""What a body brings in each REQUEST_BODY_S, or its end: one KB a second, for which no line is too slow."""

HEAD_BYTES = 64 * 1024
"""More than browsers send with all their cookies."""

CLOSE_S = 30.0
"""How long the client of a connection that we have closed may take nothing of what is left."""

QUIET_S = 60.0
"""How often the log says that there are too many connections."""

TICKS = 10
"""of uvicorn's, of a tenth of a second each, between two looks at the connections."""

FILES = 256
"""Files that are open beside the connections: databases, Redis, engines, logs."""


class TooManyConnections(TalkbackError):
    """MAX_CONNECTIONS are open, and all of them in use."""

    code, status, retryable = "too_many_connections", 503, True


class Outflow:
    """What was written to a client who has not taken it yet."""

    def __init__(self, transport: asyncio.Transport, now: float) -> None:
        self.transport, self.since = transport, now
        self.left = self.measure()

    def stalled_s(self, now: float) -> float:
        """For how long nothing of it was taken, as far as was looked."""
        left = self.measure()
        if left < self.left:
            self.since = now
        self.left = left
        return now - self.since

    def measure(self) -> int:
        """Bytes: ours, and the system's, which takes more of ours only once much of its own has gone."""
        left = self.transport.get_write_buffer_size()
        if one := self.transport.get_extra_info("socket"):
            with contextlib.suppress(OSError, ValueError):  # where it does not tell, or is closed
                left += int.from_bytes(fcntl.ioctl(one.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return left


class Connection(HttpToolsProtocol):
    """A connection, until it ends or becomes a WebSocket."""

    owes = "request"
    """What the client is to send: a "request" (not begun), the rest of its "head" or of its "body"; "": nothing."""
    since = 0.0
    """When it began to owe that; of a body, when its present REQUEST_BODY_S began. On the loop's clock."""
    brought = 0
    """Bytes that came since then."""
    full: Outflow | None = None
    """What waits for a client who is slower than we are; None while it is not."""
    quiet_until = float("-inf")
    """Of the class: until when no more is said of too many connections."""

    @property
    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_waiting(self) -> bool:
        """Whether there is nothing for us to do before more comes."""
        return self.owes in ("request", "head") and not self.is_answering and not self.transport.is_closing()

    def now_owes(self, part: str) -> None:
        self.owes, self.since, self.brought = part, self.loop.time(), 0

    # What asyncio and the parser tell

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # type: ignore[override]
        super().connection_made(transport)  # type: ignore[arg-type]
        self.now_owes("request")
        if len(self.connections) > settings.MAX_CONNECTIONS and not self.make_room():
            self.app = too_many  # type: ignore[assignment]
            if self.since >= Connection.quiet_until:
                Connection.quiet_until = self.since + QUIET_S
                log.warning("All %d connections that MAX_CONNECTIONS allows are in use.", settings.MAX_CONNECTIONS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.owes == "head":
            self.brought += len(data)
            if self.brought > HEAD_BYTES:
                self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request's headers are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.owes != "request":  # its time runs since the connection, or since the answer before
            self.since = self.loop.time()
        self.owes, self.brought = "head", 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.now_owes("body")

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.brought += len(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.now_owes("" if self.is_answering else "request")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.owes and not self.is_answering:
            self.now_owes("request")

    def pause_writing(self) -> None:
        super().pause_writing()
        self.full = Outflow(self.transport, self.loop.time())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.full = None

    def handle_websocket_upgrade(self) -> None:
        if self.app is too_many:
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections. Try again in a moment.")
        else:
            super().handle_websocket_upgrade()

    # What ends it

    def look(self, now: float) -> None:
        """End what is overdue."""
        if self.full is not None and self.full.stalled_s(now) >= STALL_S:
            self.transport.abort()
            return
        if self.flow.read_paused:  # it is us who read no further
            self.since = now
        waited_s = now - self.since
        if self.is_waiting and waited_s >= settings.REQUEST_HEAD_S:
            if self.owes == "head":
                self.refuse(HTTPStatus.REQUEST_TIMEOUT, "The request's headers took too long.")
            else:
                self.transport.close()
        elif self.owes == "body" and waited_s >= settings.REQUEST_BODY_S:
            if self.is_answering and self.brought >= BODY_BYTES:
                self.now_owes("body")
            else:  # too slow, or still coming though it was answered
                self.refuse(HTTPStatus.REQUEST_TIMEOUT, "The request's body took too long.")

    def make_room(self) -> bool:
        """Close the connection that has owed a request for longest; False where none does."""
        waiting = [
            one for one in self.connections if isinstance(one, Connection) and one is not self and one.is_waiting
        ]
        if waiting:
            min(waiting, key=lambda one: one.since).transport.close()
        return bool(waiting)

    def refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Close, with an answer to the request that came in part, unless one has begun or another is being given."""
        is_spoken = self.cycle is not None and self.cycle.response_started if self.owes == "body" else self.is_answering
        if not is_spoken and not self.transport.is_closing():
            head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(sentence)}\r\nconnection: close"
            self.transport.write(STATUS_LINE[status] + f"{head}\r\n\r\n{sentence}".encode())
        if self.cycle is not None:  # the application hears at once that nothing more comes
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's, which looks over its connections once a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.closing: dict[Any, Outflow] = {}
        """Connections, WebSockets too, that were closed and are still there; and what they have yet to send off."""

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            loop = asyncio.get_running_loop()
            loop.call_soon(self.look, loop.time())  # so that a fault in it is logged, and ends no server
        return await super().on_tick(counter)

    def look(self, now: float) -> None:
        connections = list(self.server_state.connections)
        for one in connections:
            if isinstance(one, Connection) and not one.transport.is_closing():
                one.look(now)
        closing = [one for one in connections if one.transport.is_closing()]
        self.closing = {one: self.closing.get(one) or Outflow(one.transport, now) for one in closing}
        for one, outflow in self.closing.items():
            if outflow.stalled_s(now) >= CLOSE_S:
                one.transport.abort()


async def too_many(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer where no connection is left. The body is not waited for."""
    request = unread(scope)
    sentence = "There are too many connections just now. Try again in a moment."
    response = finished(request, errors.page(request, TooManyConnections.status, sentence, TooManyConnections))
    response.headers["Connection"] = "close"
    await api.send_response(response, send)


def allow_files(count: int) -> None:
    """Let this process open so many files. Raises SystemExit where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(
            f"MAX_CONNECTIONS is {settings.MAX_CONNECTIONS}, and this process may open {hard} files: set it to "
            f"{max(hard - FILES, 1)} at most, or raise the limit (ulimit -n)."
        )
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def listeners(host: str, port: int, *, is_shared: bool) -> list[socket.socket]:
    """A socket for each address of `host`, as asyncio's servers have them; of localhost both, so that no other program
    is found where a browser looks for us. `is_shared`: other processes bind the port too, and the system gives each
    connection to one of them. Raises SystemExit where web cannot listen there."""
    bound: list[socket.socket] = []
    missing = "no address"
    try:
        names = loopback.ADDRESSES if host == loopback.NAME else (host or None,)
        found = [
            one
            for name in names
            for one in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ]
        for family, kind, protocol, _, address in found:
            try:
                bound.append(listener(family, kind, protocol, address, is_shared=is_shared))
            except OSError as error:
                if error.errno not in loopback.NOT_HERE:
                    raise
                missing = str(error)
    except OSError as error:
        raise SystemExit(f"Web cannot listen on {host}, port {port}: {error}") from None
    if not bound:
        raise SystemExit(f"Web cannot listen on {host}, port {port}: {missing}")
    return bound


def listener(family: int, kind: int, protocol: int, address: Any, *, is_shared: bool) -> socket.socket:
    """Raises OSError."""
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:  # IPv4 has a socket of its own, where it is meant
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
    except OSError:
        one.close()
        raise
    return one


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m webapp.serving.web_server", description="Serve pages, sockets and the API."
    )
    parser.add_argument("--host", default=loopback.NAME)
    parser.add_argument("--port", type=int, default=settings.PORT)
    parser.add_argument("--timeout-graceful-shutdown", type=int, default=5, metavar="SECONDS")
    parser.add_argument("--shared", action="store_true", help="share the port with other processes that do so too")
    told = parser.parse_args()
    allow_files(settings.MAX_CONNECTIONS + FILES)
    config = uvicorn.Config(
        application,
        host=told.host,
        port=told.port,
        http=Connection,
        lifespan="off",
        access_log=False,  # a line of text for each request, written on the event loop; what fails is logged
        timeout_graceful_shutdown=told.timeout_graceful_shutdown,
    )
    server = Server(config)
    sockets = listeners(told.host, told.port, is_shared=told.shared)
    log.info("listening on %s", ", ".join(sorted({str(one.getsockname()[0]) for one in sockets})))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets)
    if not server.started:
        raise SystemExit(STARTUP_FAILURE)


if __name__ == "__main__":
    main()
