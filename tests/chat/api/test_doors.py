"""Doors of the API: none opens without a key, whatever its view forgets."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.utils import timezone
from ninja import NinjaAPI
from ninja.operation import Operation
from ninja.testing import TestAsyncClient

from chat import asking
from chat.api import access, aside
from chat.api_keys import ApiKey
from chat.models import Turn
from core import threads
from tests.chat.api.conftest import HI, change
from webapp import errors

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

DOORS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")


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
