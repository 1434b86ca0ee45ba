"""What clients send around their requests, at the real door: paths, encodings, origins, versions of HTTP, numbers."""

from __future__ import annotations

import asyncio
import doctest
import gzip
import json
import re
import zlib
from typing import Any

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured

from chat.models import Turn
from tests.chat.conftest import user
from webapp.serving import paths
from webapp.settings_readers import origins

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = {"messages": [user("Say hello")], "max_tokens": 8}
DOORS = {
    "/v1/chat/completions": HI,
    "/v1/responses": {"input": "Say hello", "max_output_tokens": 16},
    "/v1/messages": HI,
}


@pytest.fixture
def send(site, key, engine):
    """A request to the site with the key; without, where `secret` is None."""

    async def send(
        path: str, body: Any = None, method: str = "", secret: str | None = key.secret, **headers: str
    ) -> httpx.Response:
        headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        if content is not None:
            headers.setdefault("Content-Type", "application/json")
        async with httpx.AsyncClient(timeout=30) as client:
            method = method or ("GET" if content is None else "POST")
            return await client.request(method, site + path, content=content, headers=headers)

    return send


def sentence(answer: httpx.Response) -> str:
    assert answer.headers["Content-Type"].startswith("application/json"), answer.text[:100]
    return str(answer.json()["error"]["message"])


# ---------- paths ----------


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions/", "//v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions//"]
)
async def test_slashes_too_many_lead_to_the_same_door(send, path):
    assert (await send(path, HI)).json()["object"] == "chat.completion"


async def test_slashes_too_many_are_taken_away_from_what_is_read_too(send):
    assert (await send("/v1/models/")).json()["object"] == "list"
    assert (await send("/v1/models/talkback@0/")).json()["id"] == "talkback@0"
    assert (await send("/v1/docs/", secret=None, Accept="text/html")).status_code == 200


async def test_a_sessions_own_name_keeps_its_slashes(send):
    name = "agent:main//desk/"
    assert (await send("/v1/chat/completions", HI | {"session_id": name})).status_code == 200
    assert (await send("/v1/sessions/agent:main%2F%2Fdesk%2F/close", {})).json()["name"] == name


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1/chat/completions", "has /v1 before /v1: set the client's base URL to http://127.0.0.1:PORT/v1."),
        ("/v1/v1/messages", "has /v1 before /v1: set the client's base URL to http://127.0.0.1:PORT."),
        ("/api/v1/responses", "has /api before /v1: set the client's base URL to http://127.0.0.1:PORT/v1."),
        ("/chat/completions", "lacks /v1: set the client's base URL to http://127.0.0.1:PORT/v1."),
        ("/chat/completions/", "lacks /v1: set the client's base URL to http://127.0.0.1:PORT/v1."),
        ("/responses", "lacks /v1: set the client's base URL to http://127.0.0.1:PORT/v1."),
        ("/messages", "lacks /v1: set the client's base URL to http://127.0.0.1:PORT."),
        (
            "/v1/completions",
            "bare prompt at /v1/completions: send messages to http://127.0.0.1:PORT/v1/chat/completions.",
        ),
        ("/v1/embeddings", "this model chats, and makes no embeddings"),
        (
            "/v1/nothing/at/all",
            "The base URL is http://127.0.0.1:PORT/v1; below it are POST chat/completions, responses",
        ),
        ("/v1", "There is nothing at /v1. The base URL is http://127.0.0.1:PORT/v1"),
        ("/v1/", "There is nothing at /v1. The base URL is http://127.0.0.1:PORT/v1"),
        ("/api/chat", "below it are POST chat/completions"),
    ],
)
async def test_a_path_that_leads_nowhere_says_what_to_do(send, site, path, words):
    answer = await send(path, HI)
    assert answer.status_code == 404
    assert words.replace("PORT", site.rpartition(":")[2]) in sentence(answer)
    assert answer.json()["error"].get("code", "not_found") == "not_found"
    assert answer.json().get("type") == ("error" if path.endswith("messages") else None)
    assert not await Turn.objects.aexists()


@pytest.mark.parametrize("path", ["/models", "/v1/v1/models", "/nowhere", "/v1", "/v1/", "/v1/nothing"])
async def test_a_lost_program_reads_json_when_it_only_asks_too(send, path):
    assert (await send(path)).status_code == 404
    assert sentence(await send(path))
    if path != "/nowhere":
        assert sentence(await send(path, secret=None))  # as curl asks


async def test_a_lost_browser_reads_a_page(send):
    answer = await send("/models", secret=None, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert answer.status_code == 404
    assert "<!doctype html>" in answer.text


def test_the_functions_do_what_their_docstrings_say():
    assert doctest.testmod(paths).failed == 0


# ---------- bodies that are packed ----------


def raw_deflate(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(plain) + packer.flush()


PACKED = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "Deflate": raw_deflate}


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("coding", PACKED)
async def test_a_packed_body_is_read_as_if_it_were_plain(send, path, coding):
    packed = PACKED[coding](json.dumps(DOORS[path]).encode())
    answer = await send(path, packed, **{"Content-Encoding": coding})
    assert answer.status_code == 200, answer.text
    assert (await Turn.objects.aget()).messages == [user("Say hello")]


async def test_a_body_of_several_gzip_members_is_read_whole(send):
    plain = json.dumps(HI).encode()
    packed = gzip.compress(plain[:20]) + gzip.compress(plain[20:])
    assert (await send("/v1/chat/completions", packed, **{"Content-Encoding": "gzip"})).status_code == 200


@pytest.mark.parametrize("coding", ["", "identity"])
async def test_a_coding_that_changes_nothing_is_taken(send, coding):
    assert (await send("/v1/chat/completions", HI, **{"Content-Encoding": coding})).status_code == 200


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "gzip, identity, deflate"])
async def test_another_coding_is_refused_by_name(send, coding):
    answer = await send("/v1/chat/completions", b"\x1b\x03", **{"Content-Encoding": coding})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
    assert sentence(answer) == f"Content-Encoding {coding} is not read here: send it plain, or as gzip or deflate."
    assert answer.headers["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("sent", ["plain", "cut", "longer"])
async def test_a_body_that_is_not_what_its_coding_says_is_told_so(send, coding, sent):
    plain = json.dumps(HI).encode()
    packed = PACKED[coding](plain)
    body = {"plain": plain, "cut": packed[:-6], "longer": packed + b"and more"}[sent]
    answer = await send("/v1/chat/completions", body, **{"Content-Encoding": coding})
    assert answer.status_code == 400
    assert sentence(answer) == f"The body is not {coding}, as its Content-Encoding says."


async def test_what_is_small_and_grows_beyond_the_bound_is_too_large(send):
    bomb = gzip.compress(b'{"messages": "' + b"x" * (64 * 2**20) + b'"}')
    assert len(bomb) < 100_000
    answer = await send("/v1/chat/completions", bomb, **{"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("path", DOORS)
async def test_a_plain_request_of_megabytes_is_named_too_large_as_well(send, path):
    answer = await send(path, b'{"messages": "' + b"x" * 9_000_000 + b'"}')
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert error.get("code", error["type"]) == "request_too_large"


async def test_a_host_that_this_server_does_not_go_by_is_named(send):
    answer = await send("/v1/models", Host="elsewhere.example")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_host")


# ---------- lengths and versions ----------


async def spoken(site: str, request: str) -> tuple[str, bytes]:
    """What a socket hears: the head, and all that comes until the server closes."""
    host, port = site.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.encode())
    await writer.drain()
    heard = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    head, _, body = heard.partition(b"\r\n\r\n")
    return head.decode().lower(), body


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/nothing", "/v1/openapi.json"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_every_json_answer_says_its_length(site, key, path, version):
    head, body = await spoken(
        site,
        f"GET {path} HTTP/{version}\r\nHost: 127.0.0.1\r\nx-api-key: {key.secret}\r\nConnection: close\r\n\r\n",
    )
    assert "transfer-encoding" not in head
    assert f"content-length: {len(body)}" in head
    assert json.loads(body)


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("streams", [False, True])
async def test_http_1_0_is_sent_no_chunks(site, key, engine, path, streams):
    engine.says("Hello, captain.")
    body = json.dumps(DOORS[path] | {"stream": streams})
    head, heard = await spoken(
        site,
        f"POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nx-api-key: {key.secret}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}",
    )
    assert head.startswith("http/1.1 200")
    assert "transfer-encoding" not in head
    assert "connection: close" in head
    assert b"captain" in heard
    if streams:
        assert "content-length" not in head
        lines = heard.decode().split("\n")
        assert all(re.match(r"(data|event): |$", line) for line in lines), lines
        assert heard.endswith(b"\n\n")
    else:
        assert f"content-length: {len(heard)}" in head


async def test_http_1_1_streams_in_chunks_as_ever(site, key, engine):
    body = json.dumps(HI | {"stream": True})
    head, heard = await spoken(
        site,
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {key.secret}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}",
    )
    assert "transfer-encoding: chunked" in head
    assert heard.endswith(b"0\r\n\r\n")


# ---------- what a request goes by ----------


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("streams", [False, True])
async def test_every_answer_has_a_request_id(send, path, streams):
    answers = [await send(path, DOORS[path] | {"stream": streams}) for _ in range(2)]
    answers += [await send(path, b"{"), await send(path, HI, secret="tb-nonsense"), await send(path)]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 401, 405]
    numbers = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(numbers)) == len(numbers)
    assert all(re.fullmatch("req_[0-9a-f]{32}", number) for number in numbers)
    assert [answer.headers["request-id"] for answer in answers] == numbers
    if path == "/v1/messages":
        assert [answer.json()["request_id"] for answer in answers[2:]] == numbers[2:]


async def test_a_clients_own_request_id_is_said_back_where_it_is_harmless(send):
    assert (await send("/v1/models", **{"X-Request-Id": "trace-7.a:b"})).headers["x-request-id"] == "trace-7.a:b"
    for odd in ("a b", "x" * 200, "<script>"):
        assert (await send("/v1/models", **{"X-Request-Id": odd})).headers["x-request-id"].startswith("req_")


# ---------- pages of other origins ----------

ELSEWHERE = "http://localhost:5173"
ASKS = {
    "Origin": ELSEWHERE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}


async def test_by_default_no_page_of_another_origin_is_let_in(send):
    answer = await send("/v1/chat/completions", method="OPTIONS", secret=None, **ASKS)
    assert answer.status_code == 405
    answer = await send("/v1/models", Origin=ELSEWHERE)
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("named", [(ELSEWHERE, "https://app.example.org"), ("*",)])
async def test_pages_of_origins_that_are_named_may_ask_and_read(send, settings, named):
    settings.CORS_ORIGINS = named
    asked = await send("/v1/chat/completions", method="OPTIONS", secret=None, **ASKS)
    assert asked.status_code == 204
    assert asked.headers["Access-Control-Allow-Origin"] == ELSEWHERE
    assert "POST" in asked.headers["Access-Control-Allow-Methods"]
    assert asked.headers["Access-Control-Allow-Headers"] == ASKS["Access-Control-Request-Headers"]
    assert asked.headers["Vary"] == "Origin"

    for answer in (
        await send("/v1/chat/completions", HI, Origin=ELSEWHERE),
        await send("/v1/chat/completions", HI | {"stream": True}, Origin=ELSEWHERE),
        await send("/v1/chat/completions", b"{", Origin=ELSEWHERE),
        await send("/v1/models", Origin=ELSEWHERE, secret=None),
        await send("/v1/nothing", Origin=ELSEWHERE),
        await send("/v1/chat/completions", b"", Origin=ELSEWHERE, **{"Content-Encoding": "br"}),
    ):
        assert answer.headers["Access-Control-Allow-Origin"] == ELSEWHERE
        assert "x-request-id" in answer.headers["Access-Control-Expose-Headers"]
        assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_a_page_of_an_origin_that_is_not_named_may_not(send, settings):
    settings.CORS_ORIGINS = ("https://app.example.org",)
    for origin in (ELSEWHERE, "https://app.example.org.evil.example", "null", "https://app.example.org:8443"):
        assert (await send("/v1/models", method="OPTIONS", secret=None, **ASKS | {"Origin": origin})).status_code == 405
        answer = await send("/v1/models", Origin=origin)
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Vary"] == "Origin"


def test_the_setting_takes_origins_and_nothing_else():
    assert origins("") == ()
    assert origins("https://a.example, http://localhost:5173") == ("https://a.example", "http://localhost:5173")
    assert origins("*") == ("*",)
    for wrong in ("a.example", "https://a.example/", "https://a.example/app", "localhost:5173"):
        with pytest.raises(ImproperlyConfigured, match="CORS_ORIGINS"):
            origins(wrong)
