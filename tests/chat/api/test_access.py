"""Keys at the door: what they open, how long, how often, and what is said when they do not."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from time import monotonic
from uuid import uuid4

import httpx
import pytest
import redis
from asgiref.sync import sync_to_async
from django.core import signing
from django.http import HttpRequest
from django.utils import timezone
from ninja import NinjaAPI
from ninja.operation import Operation
from ninja.testing import TestAsyncClient

from accounts.models import Role
from accounts.roles import give
from benchmarks.patience import Patience
from chat import asking, key_guesses, limits
from chat.api import access, aside
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.spendings import Spending
from checkpoints.models import Checkpoint
from core import threads
from installation.diagnosis import free_port
from tests.chat.conftest import open_turn, reply_to, user
from webapp import errors
from webapp.asgi import application

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = {"messages": [user("Say hello")], "max_tokens": 4}


@pytest.fixture
def knock(async_client, key, engine):
    """Ask for a reply with these headers; with the key's own where none are given."""

    async def knock(path="/v1/chat/completions", **headers):
        headers = headers or {"Authorization": f"Bearer {key.secret}"}
        if path == "/v1/models":
            return await async_client.get(path, headers=headers)
        return await async_client.post(path, json.dumps(HI), content_type="application/json", headers=headers)

    return knock


async def change(key: ApiKey, **fields) -> None:
    await ApiKey.objects.filter(pk=key.pk).aupdate(**fields)


async def refusal(answer) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


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


DOORS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    "body",
    ["{", "{}", json.dumps(HI | {"input": "Hi"}), json.dumps({"messages": ["x" * 300_000]})],
    ids=["no JSON", "empty", "good", "large"],
)
async def test_a_stranger_without_a_key_hears_nothing_else(async_client, path, body):
    for headers in ({}, {"Authorization": "Bearer tb-nonsense"}):
        answer = await async_client.post(path, body, content_type="application/json", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert not await Turn.objects.aexists()


def forgetful() -> NinjaAPI:
    """An API whose views never ask whose request it is."""
    api = NinjaAPI(urls_namespace=f"forgetful-{uuid4()}")
    router = aside.Router(auth=access.Bearer())
    reached: list[str] = []

    def open_turns(request: HttpRequest) -> list[Turn]:
        reached.append("open")
        return []

    @router.post("/opens")
    @aside.opens(open_turns)
    async def opens(request: HttpRequest) -> dict[str, str]:
        reached.append("view")
        return {}

    @router.post("/plain")
    async def plain(request: HttpRequest) -> dict[str, str]:
        reached.append("view")
        return {}

    api.add_router("", router)
    errors.connect(api)
    api.reached = reached
    return api


def bound(api: NinjaAPI) -> list[Operation]:
    """Every operation of an API, as it is called."""
    views = [view for router in api._get_bound_routers() for view in router.path_operations.values()]
    return [operation for view in views for operation in view.operations]


@pytest.mark.parametrize("path", ["/opens", "/plain"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer tb-nonsense"}])
async def test_a_view_that_forgets_the_key_lets_no_request_in(key, path, headers):
    api = forgetful()
    answer = await TestAsyncClient(api).post(path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert api.reached == []

    answer = await TestAsyncClient(api).post(path, headers={"Authorization": f"Bearer {key.secret}"})
    assert answer.status_code == 200
    assert api.reached[-1] == "view"
    assert (await ApiKey.objects.aget()).used_at is not None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
async def test_the_key_is_let_in_and_turns_are_opened_in_one_go_to_the_database(
    async_client, key, engine, monkeypatch, path
):
    goes: list[list[str]] = []
    call, let_in, open_turns = threads.call, access.Bearer.let_in, asking.open_turns

    def noted(name: str, work):
        return lambda *args: goes[-1].append(name) or work(*args)

    monkeypatch.setattr(threads, "call", lambda work: goes.append([]) or call(work))
    monkeypatch.setattr(access.Bearer, "let_in", noted("key", let_in))
    monkeypatch.setattr(asking, "open_turns", noted("turns", open_turns))
    headers = {"Authorization": f"Bearer {key.secret}"}
    answer = await async_client.post(path, json.dumps(HI | {"input": "Hi"}), "application/json", headers=headers)

    assert answer.status_code == 200
    assert goes[0] == ["key", "turns"]
    assert not any(goes[1:])


def test_every_operation_of_the_api_has_a_door():
    from webapp.api import api

    assert len(bound(api)) >= 10
    assert {tuple(map(type, operation.auth_callbacks)) for operation in bound(api)} == {(access.Bearer,)}


async def test_an_operation_that_opens_turns_without_a_bearer_is_closed():
    api = forgetful()
    for operation in bound(api):
        operation.auth_callbacks = [lambda request: True]
    answer = await TestAsyncClient(api).post("/opens")
    assert answer.status_code == 500
    assert api.reached == []


@pytest.mark.parametrize("path", DOORS)
async def test_each_door_looks_at_what_the_key_is_for(async_client, key, engine, path):
    await change(key, scopes=["feedback"])
    headers = {"Authorization": f"Bearer {key.secret}"}
    answer = await async_client.post(path, json.dumps(HI | {"input": "Hi"}), "application/json", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")


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


def test_the_doors_declare_a_bearers_key_in_the_schema():
    from webapp.api import api

    schema = api.get_openapi_schema()
    assert {"type": "http", "scheme": "bearer"} in schema["components"]["securitySchemes"].values()
    assert schema["paths"]["/v1/chat/completions"]["post"]["security"]


async def test_the_door_costs_one_query_and_notes_the_last_use_once_a_minute(key, rf, django_assert_num_queries):
    door, request = access.Bearer(), rf.get("/", headers={"Authorization": f"Bearer {key.secret}"})
    let_in = sync_to_async(door.let_in)
    await let_in(request, key.secret)
    used = (await ApiKey.objects.aget(pk=key.pk)).used_at
    assert timezone.now() - used < timedelta(seconds=10)

    def again():
        with django_assert_num_queries(1):
            door.let_in(request, key.secret)

    await sync_to_async(again)()
    assert (await ApiKey.objects.aget(pk=key.pk)).used_at == used
    await change(key, used_at=used - timedelta(seconds=61))
    await let_in(request, key.secret)
    assert (await ApiKey.objects.aget(pk=key.pk)).used_at > used


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


# ---------- how often ----------


@pytest.fixture
def counting(store, settings, monkeypatch):
    settings.REDIS_URL = store
    monkeypatch.setattr(limits, "_away_until", float("-inf"))
    monkeypatch.setattr(limits, "PATIENCE_S", 20.0)  # or a slow moment would let everybody in
    limits.script.cache_clear()


async def test_requests_a_minute_are_counted_and_the_next_one_says_when(knock, key, counting):
    await change(key, requests_per_minute=2)
    assert [(await knock()).status_code for _ in range(2)] == [200, 200]
    answer = await knock()
    status, code, message = await refusal(answer)
    assert (status, code) == (429, "rate_limit_exceeded")
    assert "2 requests a minute" in message
    assert 1 <= int(answer["Retry-After"]) <= 30
    assert (answer["x-ratelimit-limit-requests"], answer["x-ratelimit-remaining-requests"]) == ("2", "0")
    assert await Turn.objects.acount() == 2


async def test_the_bucket_fills_again_by_itself(key, counting, store):
    key.requests_per_minute = 60  # one a second
    with redis.Redis.from_url(store) as client:
        client.set(f"talkback:rate:{key.digest[:32]}", time.time() + 60)  # as if all had just been sent
    with pytest.raises(limits.RateLimited) as limited:
        limits.check_rate(key)
    assert 0 < limited.value.retry_after_s <= 1
    patience = Patience(10)
    while True:
        try:
            limits.check_rate(key)
            break
        except limits.RateLimited:
            assert not patience.is_over, "it never fills"


async def test_keys_are_counted_apart(key, ben, counting):
    other, _ = await sync_to_async(ApiKey.objects.issue)(ben, "other", requests_per_minute=1)
    key.requests_per_minute = 1
    limits.check_rate(key)
    limits.check_rate(other)
    with pytest.raises(limits.RateLimited):
        limits.check_rate(key)


async def test_of_many_at_once_no_more_get_in_than_may(key, counting):
    from concurrent.futures import ThreadPoolExecutor

    key.requests_per_minute = 10

    def gets_in(_: int) -> bool:
        try:
            limits.check_rate(key)
        except limits.RateLimited:
            return False
        return True

    with ThreadPoolExecutor(16) as many:
        assert sum(many.map(gets_in, range(40))) == 10


async def test_while_redis_is_away_everybody_gets_in_and_it_is_said_once(knock, key, settings, monkeypatch, caplog):
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr(limits, "_away_until", float("-inf"))
    monkeypatch.setattr(limits, "PAUSE_S", 0.0)  # asked again each time
    await change(key, requests_per_minute=1)
    with caplog.at_level(logging.WARNING, "chat.limits"):
        assert [(await knock()).status_code for _ in range(3)] == [200, 200, 200]
    assert len([line for line in caplog.records if line.name == "chat.limits"]) == 1


async def test_a_key_without_limits_asks_no_store(key, monkeypatch, django_assert_num_queries):
    def asked(*args):
        raise AssertionError("Redis was asked")

    monkeypatch.setattr(limits, "take_from_bucket", asked)

    def check():
        with django_assert_num_queries(0):
            limits.check_rate(key)
            limits.check_spending(key)

    await sync_to_async(check)()


# ---------- guessing ----------


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


async def test_tokens_a_day_are_prompt_and_reply_and_end_at_midnight(knock, key, engine):
    await change(key, tokens_per_day=10)
    engine.says("Hello, captain.")
    assert (await knock()).status_code == 200
    turn = await Turn.objects.aget()
    spent = await Spending.objects.aget(key=key)
    assert spent.tokens == len(turn.prompt_ids) + len(turn.response_ids) >= 10
    assert spent.day == timezone.now().date()

    answer = await knock()

    status, code, message = await refusal(answer)
    assert (status, code) == (429, "rate_limit_exceeded")
    assert "10 tokens a day" in message
    assert 0 < int(answer["Retry-After"]) <= 24 * 3600
    assert (await knock("/v1/models")).status_code in (200, 429)
    await Spending.objects.aupdate(day=spent.day - timedelta(days=1))
    assert (await knock()).status_code == 200


async def test_a_reply_that_was_stopped_counts_what_it_took(key, session, engine):
    await change(key, tokens_per_day=10**6)
    session.key = key
    await session.asave()
    turn = await open_turn(session, [user("Say hello")])
    done = await reply_to(turn, engine)
    assert (await Spending.objects.aget(key=key)).tokens == len(done.prompt_ids) + len(done.response_ids)


async def test_several_choices_count_their_prompt_once(async_client, key, engine):
    await change(key, tokens_per_day=10**6)
    headers = {"Authorization": f"Bearer {key.secret}"}
    body = json.dumps(HI | {"n": 3})
    answer = await async_client.post("/v1/chat/completions", body, content_type="application/json", headers=headers)
    assert len(answer.json()["choices"]) == 3
    assert (await Spending.objects.aget(key=key)).tokens == answer.json()["usage"]["total_tokens"]


async def test_tokens_are_not_counted_for_a_key_without_a_limit(knock):
    assert (await knock()).status_code == 200
    assert not await Spending.objects.aexists()
