"""Keys at the door: what they open, how long, and what is said when they do not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core import signing
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from chat.api import access
from chat.api_keys import ApiKey
from chat.models import Turn
from checkpoints.models import Checkpoint
from tests.chat.api.conftest import HI, change, refusal

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


async def test_a_key_opens_the_door_in_either_header(knock, key):
    assert (await knock(Authorization=f"Bearer {key.secret}")).status_code == 200
    assert (await knock(Authorization=f"bearer  {key.secret} ")).status_code == 200
    assert (await knock(**{"x-api-key": key.secret})).status_code == 200


@pytest.mark.parametrize("headers", [{"X-Nothing": "1"}, {"Authorization": "Bearer "}, {"Authorization": "Basic abc"}])
async def test_without_a_key_the_answer_says_how_to_send_one(knock, headers):
    status, code, message = await refusal(await knock(**headers))
    assert (status, code) == (401, "invalid_api_key")
    assert "Authorization: Bearer KEY" in message


async def test_an_unknown_key_is_told_where_keys_are_made(knock):
    status, code, message = await refusal(await knock(Authorization="Bearer tb-nonsense"))
    assert (status, code) == (401, "invalid_api_key")
    assert "/connect/" in message


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models"])
@pytest.mark.parametrize(
    "foreign", ["", "Bearer", "Bearer ", "Bearer sk-of-another-service", "Basic dXNlcjpwYXNz", "Token x"]
)
async def test_a_good_key_counts_beside_an_authorization_that_is_empty_or_foreign(knock, key, path, foreign):
    assert (await knock(path, **{"Authorization": foreign, "x-api-key": key.secret})).status_code == 200
    if foreign.startswith("Bearer "):
        assert (
            await knock(path, **{"Authorization": f"Bearer {key.secret}", "x-api-key": "sk-other"})
        ).status_code == 200


async def test_of_two_keys_the_open_one_counts_and_two_bad_ones_open_nothing(knock, key, ben):
    closed, secret = await sync_to_async(ApiKey.objects.issue)(ben, "old")
    await sync_to_async(closed.revoke)()
    assert (await knock(**{"Authorization": f"Bearer {secret}", "x-api-key": key.secret})).status_code == 200

    status, code, message = await refusal(await knock(**{"Authorization": f"Bearer {secret}", "x-api-key": "tb-none"}))
    assert (status, code) == (401, "invalid_api_key")
    assert message.startswith("This API key was revoked on ")
    assert (await refusal(await knock(**{"Authorization": "Bearer tb-no", "x-api-key": "tb-none"})))[0] == 401


async def test_revoking_holds_from_the_next_request_on(knock, key):
    assert (await knock()).status_code == 200
    await sync_to_async(key.revoke)()
    status, code, message = await refusal(await knock())
    assert (status, code) == (401, "invalid_api_key")
    assert message.startswith("This API key was revoked on ")


async def test_an_expired_key_says_when_it_expired(knock, key):
    await change(key, expires_at=datetime(2025, 3, 4, 5, 6, tzinfo=UTC))
    _, code, message = await refusal(await knock())
    assert code == "invalid_api_key"
    assert message.startswith("This API key expired on 4 March 2025, 05:06 UTC.")
    await change(key, expires_at=timezone.now() + timedelta(minutes=1))
    assert (await knock()).status_code == 200


async def test_a_closed_account_closes_its_keys(knock, ana):
    ana.is_active = False
    await ana.asave()
    assert "account" in (await refusal(await knock()))[2]


async def test_a_key_without_the_scope_is_refused_and_told_what_it_has(knock, key):
    await change(key, scopes=["feedback"])
    status, code, message = await refusal(await knock())
    assert (status, code) == (403, "insufficient_scope")
    assert "is for feedback, and this needs chat" in message


async def test_admin_needs_both_the_scope_and_an_owner_who_runs_this(key, ana, rf):
    door = access.Bearer("admin")
    request = rf.get("/", headers={"Authorization": f"Bearer {key.secret}"})
    with pytest.raises(access.ScopeMissing, match="needs admin"):
        await door(request)
    await change(key, scopes=["chat", "admin"])
    with pytest.raises(access.ScopeMissing, match="is no administrator here"):
        await door(request)
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    assert (await door(request)).pk == key.pk


async def test_a_door_for_every_open_key_asks_for_no_scope(key, rf):
    await change(key, scopes=[])
    request = rf.get("/", headers={"Authorization": f"Bearer {key.secret}"})
    assert (await access.Bearer(None)(request)).pk == key.pk


async def test_a_key_that_only_serves_opens_turns_that_never_teach(knock, key):
    await change(key, learns=False)
    assert (await knock()).status_code == 200
    turn = await Turn.objects.select_related("session").aget()
    assert not turn.learns
    assert not turn.is_trainable


async def test_a_pinned_key_is_answered_by_its_checkpoint_and_no_other(async_client, key, engine):
    base = await Checkpoint.objects.aget(number=0)
    await sync_to_async(base.move)("retired")
    live = await Checkpoint.objects.acreate(number=3, status="live", parent=base)
    other = await Checkpoint.objects.acreate(number=4, status="retired", parent=base)
    await change(key, checkpoint=base)
    headers = {"Authorization": f"Bearer {key.secret}"}

    async def ask(model):
        body = json.dumps(HI | {"model": model})
        return await async_client.post("/v1/chat/completions", body, content_type="application/json", headers=headers)

    for name in ("talkback", "talkback@0", "talkback@base", ""):
        assert (await ask(name)).json()["model"] == "talkback@0"
    for name in (str(live), str(other)):
        status, code, message = await refusal(await ask(name))
        assert (status, code) == (404, "model_not_found")
        assert "answered by talkback@0 alone" in message
    listed = (await async_client.get("/v1/models", headers=headers)).json()["data"]
    assert {model["root"] for model in listed} == {"talkback@0"}


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", "invalid_request"), (json.dumps(HI | {"model": "gpt-5"}).encode(), "model_not_found")],
)
async def test_what_was_refused_is_remembered_with_the_key(site, key, body, code):
    headers = {"Authorization": f"Bearer {key.secret}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=site, headers=headers, timeout=60) as client:
        assert 400 <= (await client.post("/v1/chat/completions", content=body)).status_code < 500
    key = await ApiKey.objects.aget(pk=key.pk)
    assert key.refusal_code == code
    assert key.refusal
    assert timezone.now() - key.refused_at < timedelta(seconds=30)


async def test_a_key_that_is_refused_at_the_door_remembers_it_too(site, key):
    await change(key, scopes=["feedback"])
    async with httpx.AsyncClient(base_url=site, headers={"x-api-key": key.secret}, timeout=60) as client:
        assert (await client.post("/v1/messages", json={})).status_code == 403
    assert "needs chat" in (await ApiKey.objects.aget(pk=key.pk)).refusal


async def test_a_pass_opens_the_doors_as_its_key_for_a_short_while(knock, key, monkeypatch):
    ticket = access.issue_pass(key)
    assert (await knock(Authorization=f"Bearer {ticket}")).status_code == 200
    assert (await knock(Authorization=f"Bearer {ticket}x")).status_code == 401
    monkeypatch.setattr(access, "PASS_S", -1)
    assert (await knock(Authorization=f"Bearer {ticket}")).status_code == 401


async def test_a_pass_opens_no_more_than_its_key(knock, key):
    ticket = access.issue_pass(key)
    await sync_to_async(key.revoke)()
    assert (await knock(Authorization=f"Bearer {ticket}")).status_code == 401
    forged = access.PASS + signing.dumps(key.pk, key="another secret", salt=access.PASS)
    assert (await knock(Authorization=f"Bearer {forged}")).status_code == 401


@pytest.mark.parametrize("lost", ["key", "account"])
async def test_a_stream_that_began_is_finished_though_its_key_or_account_was_closed_and_the_next_request_is_refused(
    site, engine, ana, key, lost
):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=2)
    headers = {"Authorization": f"Bearer {key.secret}"}
    body = HI | {"stream": True, "max_tokens": 64}
    async with (
        httpx.AsyncClient(base_url=site, headers=headers, timeout=60) as client,
        client.stream("POST", "/v1/chat/completions", json=body) as stream,
    ):
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith("data: ")
        if lost == "key":
            await sync_to_async(key.revoke)()
        else:
            ana.is_active = False
            await ana.asave()
        refused = await client.get("/v1/models")
        engine.release()
        rest = [json.loads(line[6:]) async for line in lines if line.startswith("data: {")]
    assert refused.status_code == 401
    assert rest[-1]["choices"][0]["finish_reason"] == "stop"
