"""What takes long by right is left alone, however short the times for what a client is to send."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import httpx
import pytest
import websockets
from asgiref.sync import sync_to_async

from tests.chat.conftest import user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

LONG_S = 2.5
"""Longer than either time by far, and than a look at the connections takes to come round."""


@pytest.fixture(autouse=True)
def short_times(settings):
    settings.REQUEST_HEAD_S = settings.REQUEST_BODY_S = 0.4


def asked(key, **more) -> bytes:
    """A request for a reply, as bytes."""
    body = json.dumps({"messages": [user("Say hello")], "max_tokens": 64, **more}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key.secret}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_reply_that_is_long_in_coming_comes(site, engine, key, is_stream):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=2)
    body = {"messages": [user("Say hello")], "max_tokens": 64, "stream": is_stream}
    headers = {"Authorization": f"Bearer {key.secret}"}
    async with httpx.AsyncClient(base_url=site, headers=headers, timeout=60) as client:
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await asyncio.sleep(LONG_S)
        engine.release()
        answer = await asking
    assert answer.status_code == 200
    assert '"finish_reason":"stop"' in answer.text.replace(": ", ":")


@pytest.mark.parametrize(
    ("behind", "end"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: loc", b"The request's headers took too long."),  # half a request
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"ok\n"),  # it waits for its turn
    ],
)
async def test_the_next_request_does_not_end_the_stream_before_it(site, engine, key, behind, end):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=2)
    address = urlsplit(site)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(asked(key, stream=True) + behind)
    await asyncio.sleep(LONG_S)
    engine.release()
    said = await asyncio.wait_for(reader.read(), 20)
    assert b"data: [DONE]" in said
    assert said.endswith(end)
    writer.close()


@pytest.fixture(params=["127.0.0.1", "192.0.2.1"])
def proxy(request, monkeypatch) -> str:
    """The proxy that FORWARDED_ALLOW_IPS trusts; what comes in here is from 127.0.0.1."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", request.param)
    return str(request.param)


async def test_a_proxys_word_for_https_counts_where_the_settings_trust_it(proxy, site, session):
    address = f"{site.replace('http', 'ws', 1)}/ws/chat/{session.pk}/"
    origin = site.replace("http", "https", 1)
    asking = websockets.connect(address, origin=origin, additional_headers={"X-Forwarded-Proto": "https"})
    if proxy == "127.0.0.1":
        async with asking as tab:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await tab.recv()
        assert closed.value.rcvd.code == 4401  # it was opened, for a page of ours; it is no person's
    else:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await asking
        assert refused.value.response.status_code == 403


async def test_a_page_that_only_listens_is_kept(site, session, client, ana):
    await sync_to_async(client.force_login)(ana)
    (cookie,) = client.cookies.values()
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    address = f"{site.replace('http', 'ws', 1)}/ws/chat/{session.pk}/"
    async with websockets.connect(address, origin=site, additional_headers=headers) as tab:
        await asyncio.sleep(LONG_S)
        async with httpx.AsyncClient(base_url=site, cookies={cookie.key: cookie.value}, timeout=60) as browser:
            page = await browser.get(f"/chats/{session.pk}/")
            token = page.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
            form = {"text": "Say hello", "csrfmiddlewaretoken": token}
            form["message_id"] = page.text.split('name="message_id" value="')[1].split('"')[0]
            sent = await browser.post(f"/chats/{session.pk}/say/", data=form, headers={"Referer": f"{site}/"})
        assert sent.status_code in (200, 302), sent.text
        assert "Say hello" in await asyncio.wait_for(tab.recv(), 20)
