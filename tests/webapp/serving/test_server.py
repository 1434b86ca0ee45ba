"""The web's own process, byte by byte: what is never finished ends, what takes long by right does not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn

from benchmarks.patience import Patience
from benchmarks.stack import ROOT, wait_for
from installation.diagnosis import free_port
from webapp.serving import web_server
from webapp.serving.web_server import BODY_BYTES, HEAD_BYTES

HEAD_S, BODY_S, MOST = 1.0, 1.0, 12
LOOK_S = 1.0
"""How often the server looks; a busy machine adds to it."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with short times. Its database has no tables: nothing here asks."""
    folder, port = tmp_path_factory.mktemp("web"), free_port()
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "ENV_FILE": os.devnull,
        "DATA_DIR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder}/empty.sqlite3",
        "SECRET_KEY": "only-for-tests",
        "REQUEST_HEAD_S": str(HEAD_S),
        "REQUEST_BODY_S": str(BODY_S),
    }
    with (folder / "web.log").open("wb") as log:
        command = [sys.executable, "-m", "webapp.serving.web_server", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for("web answers", lambda: httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200, 120)
        yield port
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in (folder / "web.log").read_text()


Connect = Callable[..., socket.socket]


@contextmanager
def connecting_to(port: int) -> Iterator[Connect]:
    """A function that connects, sends, and gives the socket; all are closed in the end."""
    with ExitStack() as all_of_them:

        def connect(said: bytes = b"") -> socket.socket:
            one = all_of_them.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            one.sendall(said)
            return one

        yield connect


@pytest.fixture
def connect(web: int) -> Iterator[Connect]:
    with connecting_to(web) as connect:
        yield connect


@pytest.fixture
def few(settings) -> Iterator[Connect]:
    """Likewise, to a server that takes as few connections and has all the time of the world."""
    settings.MAX_CONNECTIONS, settings.REQUEST_HEAD_S, settings.REQUEST_BODY_S = MOST, 60.0, 60.0
    listener = socket.create_server(("127.0.0.1", 0))
    served = web_server.Server(
        uvicorn.Config(web_server.application, http=web_server.Connection, log_level="warning", lifespan="off")
    )
    thread = threading.Thread(target=served.run, args=([listener],), daemon=True)
    thread.start()
    wait_for("it serves", lambda: served.started, 60)
    with connecting_to(listener.getsockname()[1]) as connect:
        yield connect
    served.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def rest_of(one: socket.socket) -> bytes:
    """All that comes until the server closes."""
    said = b""
    with suppress(ConnectionResetError):
        while part := one.recv(65536):
            said += part
    return said


def trickle(one: socket.socket, part: bytes, every_s: float, for_s: float) -> float:
    """Send the same again and again until the server closes. Seconds until then; at most `for_s`."""
    begun = time.monotonic()
    one.setblocking(False)
    while time.monotonic() - begun < for_s:
        with suppress(BlockingIOError):
            if one.recv(1, socket.MSG_PEEK) is not None:
                break
        with suppress(BrokenPipeError, ConnectionResetError):
            one.sendall(part)
        time.sleep(every_s)
    one.settimeout(20)
    return time.monotonic() - begun


POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "said", [b"GE", b"GET /healthz HTTP/1.1\r\nHost: local", b"GET / HTTP/1.1\r\nHost: localhost\r\n"]
)
def test_half_a_request_is_given_up(connect, said):
    begun = time.monotonic()
    answer = rest_of(connect(said))
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(b"\r\n\r\nThe request's headers took too long.")
    assert HEAD_S <= time.monotonic() - begun < HEAD_S + LOOK_S + 3


def test_a_connection_that_says_nothing_is_closed_without_a_word(connect):
    assert rest_of(connect()) == b""  # a browser connects ahead of need: an answer would be one to no question


def test_headers_that_come_drop_by_drop_are_given_up_all_the_same(connect):
    one = connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    assert trickle(one, b"X-More: 1\r\n", every_s=0.1, for_s=15) < HEAD_S + LOOK_S + 3
    assert b" 408 " in rest_of(one)


def test_headers_without_end_are_given_up_before_their_time(connect):
    one = connect(b"GET /healthz HTTP/1.1\r\n" + b"X-More: 12345\r\n" * (HEAD_BYTES // 10))
    assert b" 431 " in rest_of(one)


def test_sixty_half_open_connections_are_gone_soon(connect):
    half = [connect(b"GET / HTTP/1.1\r\nHost: loc") for _ in range(60)]
    begun = time.monotonic()
    for one in half:
        rest_of(one)
    assert time.monotonic() - begun < HEAD_S + LOOK_S + 4


@pytest.mark.parametrize("length", [b"Content-Length: 100000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_body_that_stops_is_given_up(connect, length):
    one = connect(POST + length + b"\r\n" + b"5\r\n{    ")
    begun = time.monotonic()
    answer = rest_of(one)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(b"The request's body took too long.")
    assert time.monotonic() - begun < BODY_S + LOOK_S + 3


def test_a_body_that_comes_drop_by_drop_is_given_up(connect):
    one = connect(POST + b"Content-Length: 100000\r\n\r\n")
    assert trickle(one, b" ", every_s=0.05, for_s=15) < BODY_S + LOOK_S + 3  # 20 bytes a second, of 32 KB
    assert b" 408 " in rest_of(one)


def test_a_long_body_that_goes_on_coming_is_answered(connect):
    parts = 20
    one = connect(POST + b"Content-Length: %d\r\n\r\n" % (parts * BODY_BYTES))
    begun = time.monotonic()
    for _ in range(parts):  # four times the least that is asked for
        one.sendall(b" " * BODY_BYTES)
        time.sleep(BODY_S / 4)
    assert time.monotonic() - begun > 4 * BODY_S
    assert one.recv(65536).startswith(b"HTTP/1.1 401 ")  # all of it was read: what is missing is a key


def test_a_body_that_goes_on_though_it_was_refused_is_not_read_for_ever(connect):
    one = connect(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    part = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    one.settimeout(20)
    begun = time.monotonic()
    with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        while time.monotonic() - begun < 20:
            one.sendall(part)
            time.sleep(0.02)
    assert time.monotonic() - begun < 12  # 8 MB until it is refused, and one REQUEST_BODY_S more


def test_a_connection_is_used_again_after_an_answer(connect):
    one = connect()
    for _ in range(3):
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b""
        while not said.endswith(b"\r\n\r\nok\n"):
            said += one.recv(65536)
        time.sleep(0.3)
    assert rest_of(one) == b""


def test_half_open_connections_give_way_to_requests(few):
    half = [few(b"GET / HTTP/1.1\r\nHost: loc") for _ in range(MOST)]
    one = few(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert rest_of(one).startswith(b"HTTP/1.1 200 ")
    closed, _, _ = select.select(half, [], [], 1)
    assert [rest_of(one) for one in closed] == [b""]  # one made room, and the others may go on


def test_where_all_connections_are_in_use_one_more_is_told_to_come_again(few, caplog, monkeypatch):
    monkeypatch.setattr(web_server.Connection, "quiet_until", 0.0)
    for _ in range(MOST):
        few(POST + b"Content-Length: 8000000\r\nExpect: 100-continue\r\n\r\n").recv(100)  # its body is waited for
    one = few(POST + b"Content-Length: 5\r\n\r\n")  # and this one's is not
    head, _, body = rest_of(one).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 2\r\n" in head.lower()
    assert json.loads(body)["error"]["code"] == "too_many_connections"

    page = rest_of(few(b"GET /login/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n"))
    assert page.startswith(b"HTTP/1.1 503 ")
    assert b"Try again in a moment." in page

    key = base64.b64encode(bytes(16))
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key
    handshake = b"GET /ws/console/ HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n" + upgrade + b"\r\n\r\n"
    assert rest_of(few(handshake)).startswith(b"HTTP/1.1 503 ")
    said = [line.getMessage() for line in caplog.records if line.name == "webapp.serving.web_server"]
    assert said == [f"All {MOST} connections that MAX_CONNECTIONS allows are in use."]  # once, of three


def test_a_limit_that_the_machine_does_not_allow_is_refused_with_a_sentence(tmp_path: Path):
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "ENV_FILE": os.devnull,
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": "only-for-tests",
    }
    command = f"ulimit -n 300; exec {sys.executable} -m webapp.serving.web_server --port {free_port()}"
    done = subprocess.run(["sh", "-c", command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "MAX_CONNECTIONS is 1000, and this process may open 300 files: set it to 44 at most" in done.stderr


@pytest.mark.parametrize("is_endless", [True, False])
async def test_a_reader_who_takes_nothing_of_a_page_for_long_is_let_go(monkeypatch, is_endless):
    """A stream's reader who stopped, and an answer after which the connection was to close."""
    monkeypatch.setattr(web_server, "STALL_S" if is_endless else "CLOSE_S", 0.5)
    over = asyncio.Event()

    async def application(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        leaving = asyncio.create_task(receive())
        for _ in range(10**6 if is_endless else 1):
            if not leaving.done():
                await send({"type": "http.response.body", "body": b" " * 2**24, "more_body": is_endless})
        await leaving
        over.set()

    listener = socket.create_server(("127.0.0.1", 0))
    served = web_server.Server(
        uvicorn.Config(application, http=web_server.Connection, log_level="warning", lifespan="off")
    )
    serving = asyncio.create_task(served.serve([listener]))
    try:
        with socket.create_connection(listener.getsockname()) as reader:
            reader.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(over.wait(), 15)
            patience = Patience(15)
            while served.server_state.connections:
                assert not patience.is_over
                await asyncio.sleep(0.05)
    finally:
        served.should_exit = True
        await serving


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_reader_who_is_slow_and_steady_gets_all_of_a_page(monkeypatch, is_open):
    """While it is being written, and after the connection was closed behind it."""
    monkeypatch.setattr(web_server, "STALL_S" if is_open else "CLOSE_S", 0.5)
    length = 2**24

    async def application(scope, receive, send):
        await receive()
        headers = [(b"connection", b"close"), (b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b" " * length, "more_body": is_open})
        if is_open:
            await send({"type": "http.response.body", "body": b""})

    def read(address: tuple[str, int]) -> tuple[int, float]:
        """Bytes of the body, and the seconds that they took."""
        taken, begun = -1, time.monotonic()
        with socket.create_connection(address, timeout=20) as reader, suppress(ConnectionResetError):
            reader.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            said = b""
            while b"\r\n\r\n" not in said:
                said += reader.recv(65536)
            taken = len(said.partition(b"\r\n\r\n")[2])
            while part := reader.recv(length // 64, socket.MSG_WAITALL):
                taken += len(part)
                time.sleep(0.06)  # 64 parts: four seconds, in which the server looks at least three times
        return taken, time.monotonic() - begun

    listener = socket.create_server(("127.0.0.1", 0))
    served = web_server.Server(
        uvicorn.Config(application, http=web_server.Connection, log_level="warning", lifespan="off")
    )
    serving = asyncio.create_task(served.serve([listener]))
    try:
        taken, took_s = await asyncio.to_thread(read, listener.getsockname())
        assert taken == length
        assert took_s > 3
    finally:
        served.should_exit = True
        await serving
