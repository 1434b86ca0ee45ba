"""Guesses of keys: an address that sends many waits."""

from __future__ import annotations

import logging
from time import monotonic

import httpx
import pytest
from asgiref.sync import sync_to_async

from chat import key_guesses
from chat.api import access
from chat.api_keys import ApiKey
from tests.chat.api.conftest import refusal
from webapp.asgi import application

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


async def guess(secret: str, place: str = "203.0.113.7") -> httpx.Response:
    """One request with this key, from an address."""
    transport = httpx.ASGITransport(application, client=(place, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get("/v1/models", headers={"Authorization": f"Bearer {secret}"})


async def test_an_address_that_guesses_keys_waits_and_known_keys_of_it_do_not(key, ben, caplog, monkeypatch):
    now = monotonic()
    monkeypatch.setattr(key_guesses, "monotonic", lambda: now)  # on a busy machine seconds pass between two guesses
    assert (await guess(key.secret)).status_code == 200
    with caplog.at_level(logging.INFO, "chat.key_guesses"):
        guessed = [(await guess(f"tb-guess-{number}")).status_code for number in range(30)]
    assert guessed == [401] * 20 + [429] * 10  # twenty are free
    status, code, message = await refusal(last := await guess("tb-another"))
    assert (status, code) == (429, "rate_limit_exceeded")
    assert "Many unknown API keys came from your address: wait 10 s." in message
    assert last.headers["Retry-After"] == "10"

    assert (await guess(key.secret)).status_code == 200
    assert (await guess("tb-guess-1", place="192.0.2.1")).status_code == 401
    _, fresh = await sync_to_async(ApiKey.objects.issue)(ben, "fresh")
    assert (await guess(fresh)).status_code == 429  # or a right guess would get in
    said = [record.getMessage() for record in caplog.records if record.name == "chat.key_guesses"]
    assert said == ["an unknown API key from 203.0.113.7"] * 19 + [
        "an unknown API key from 203.0.113.7: the next is looked at in 10 s"
    ]


async def test_after_the_wait_the_next_key_is_looked_at(key, monkeypatch):
    now = monotonic()
    for number in range(20):
        await guess(f"tb-guess-{number}")
    assert (await guess(key.secret)).status_code == 429
    monkeypatch.setattr(key_guesses, "monotonic", lambda: now + 60)
    assert (await guess(key.secret)).status_code == 200


async def test_a_client_that_keeps_sending_one_wrong_key_locks_nothing(key):
    assert {(await guess("sk-of-another-server")).status_code for _ in range(60)} == {401}
    assert (await guess(key.secret)).status_code == 200


async def test_the_sites_own_requests_pass_whatever_their_address_guessed(key):
    for number in range(25):
        await guess(f"tb-guess-{number}")
    assert (await guess(access.issue_pass(key))).status_code == 200
