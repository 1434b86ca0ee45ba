"""A harness's one way out leads to /v1 alone, with its own episode's key, whatever it sends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from environments.worlds.harness import FULL
from environments.worlds.harnesses.door import Door, _read_head, _Unheard
from environments.worlds.width import Width
from tests.environments.worlds.harnesses.conftest import ASK, python

POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.bubblewrap
@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_another_key_or_place_does_not_pass(plays, engine):
    program = """
import socket, urllib.error
def status(path):
    try: return urllib.request.urlopen("http://127.0.0.1:8317" + path).status
    except urllib.error.HTTPError as error: return error.code
assert [status(path) for path in ("/healthz", "/console/", "/v1/../console/", "/v1//x", "/v1/%2e%2e/x")] == [404] * 5
assert status("/v1/models") == 200
try: socket.create_connection(("8.8.8.8", 53), 2)
except OSError: pass
else: raise SystemExit("there is a network")
os.environ["OPENAI_API_KEY"] = "sk-of-another"
ask([user("Hi")], **{"X-Api-Key": "sk-of-another"})
"""
    (one,) = await plays(python(ASK + program))
    assert (one.exit_status, one.steps) == (0, 1), one.reason


class Full:
    """A Talkback whose window is full; its connection is given back long after the harness has read the answer."""

    @asynccontextmanager
    async def relay(self, *about):
        yield httpx.Response(400, json={"error": {"code": FULL}})
        await asyncio.Event().wait()


async def test_of_a_harness_that_hangs_up_on_an_error_it_is_known_all_the_same():
    door = Door(Full(), Width(1).room())
    async with door.port() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST + b"Content-Length: 2\r\n\r\n{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        await asyncio.wait(door._answering, timeout=30)
        assert door.is_full


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://elsewhere/v1/models HTTP/1.1\r\n\r\n",
        b"PUT /v1/models HTTP/1.1\r\n\r\n",
        b"CONNECT elsewhere:443 HTTP/1.1\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999\r\n\r\n",
        POST + b"X-One: a\r\n folded\r\n\r\n",
        POST + b"X-One: a\nX-Two: b\r\n\r\n",
    ],
)
def test_what_is_no_plain_request_is_refused(head):
    with pytest.raises(_Unheard):
        _read_head(head)


def test_a_harness_chooses_no_key_and_no_host():
    head = (
        POST
        + b"Authorization: Bearer x\r\nX-API-Key: x\r\nCookie: a=b\r\nX-Turn-Type: side\r\nContent-Length: 7\r\n\r\n"
    )
    assert _read_head(head) == ("POST", "/chat/completions", {"x-turn-type": "side"}, 7)
