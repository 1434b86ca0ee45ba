"""An operator sees each engine, what it holds and what ails it, and has it repaired."""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from pathlib import Path
from typing import cast

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.urls import get_resolver

from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.servers import keeper
from gpu_workers.types import Sampling
from judge.votes import judges
from tests.doubles.fake_engine import FakeEngine
from tests.gpu_workers.engine.test_silence import Server, client_of
from webapp.console import engine_pages

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> list[FakeEngine]:
    """Two engines that answer as one."""
    fakes = [FakeEngine(tiny_model), FakeEngine(tiny_model)]
    for number, fake in enumerate(fakes, 1):
        fake.url = f"http://user:s3cret@gpu-{number}.internal:30000"
    fleet = Fleet({fake.url: cast(Engine, fake) for fake in fakes})
    monkeypatch.setattr(engines, "policy", lambda: fleet)
    return fakes


@pytest.fixture
def live(db) -> Checkpoint:
    kind, status = Checkpoint.Kind.LORA, Checkpoint.Status.LIVE
    Checkpoint.objects.filter(number=0).update(status=Checkpoint.Status.RETIRED)
    return Checkpoint.objects.create(number=1, kind=kind, status=status, adapter="talkback-1-x", path="checkpoints/1")


def test_one_engine_is_shown_with_what_it_holds(console, engine: FakeEngine, live: Checkpoint) -> None:
    engine.loaded[live.adapter] = str(live.folder)
    engine.loaded["judge-3b"] = "/j"

    page = console.get("/console/engines/").content.decode()

    assert "The engine answers." in page
    assert ">engine.fake.internal<" in page
    assert '<a class="badge" href="/console/checkpoints/1/">talkback@1</a>' in page
    assert '<span class="badge">judge-3b</span>' in page
    assert "ENGINE_COUNT starts more of them" in page


def test_of_several_the_one_that_is_down_and_the_one_that_lacks_something_are_named(
    console, pair: list[FakeEngine], live: Checkpoint
) -> None:
    pair[0].goes_down()

    page = console.get("/console/engines/").content.decode()

    assert "1 of 2 engines answer." in page
    assert "The engine does not answer (scripted)." in page
    assert page.count("<dt>lacks</dt>") == 1
    assert "gpu-2.internal:30000" in page
    assert "s3cret" not in page


def test_repair_now_loads_what_is_missing(console, pair: list[FakeEngine], live: Checkpoint) -> None:
    pair[0].loaded[live.adapter] = str(live.folder)

    answer = console.post("/console/engines/repair/", follow=True).content.decode()

    assert pair[1].loaded == {live.adapter: str(live.folder)}
    assert "Loaded again: talkback-1-x." in answer


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("look", [lambda: judges.sights(judges.panel()), engine_pages.read, engine_pages.repaired])
async def test_a_reply_streams_on_while_a_page_asks_the_engine(look, settings, tiny_model, tmp_path, monkeypatch):
    settings.MODEL, settings.DATA_DIR, settings.JUDGES = str(tiny_model), tmp_path, '[{"kind": "base"}]'
    server = Server()
    server.hangs_at = "event"

    def ask() -> None:
        with suppress(TalkbackError):  # this server has nothing to repair
            look()

    async with client_of(server) as client:
        monkeypatch.setattr(engines, "policy", lambda: client)
        async with aclosing(client.stream([1], Sampling(max_new_tokens=4))) as stream:
            await anext(stream)
            await sync_to_async(ask)()  # as the server has a page made: in a thread that knows its event loop
            server.goes_on.set()
            rest = [said async for said in stream]
    assert rest


def test_the_last_words_of_an_engine_that_ended_are_there_to_be_read(
    console, engine: FakeEngine, settings, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path
    engine.url = "http://127.0.0.1:30000"
    engine.goes_down()
    record = keeper.record_of(tmp_path, 30000)
    record.parent.mkdir()
    record.write_text(json.dumps({"state": "starting", "ends": 2, "last_words": ["CUDA out of <memory>"]}))

    page = console.get("/console/engines/").content.decode()

    assert "No engine answers: replies wait until one does." in page
    assert "It is starting." in page
    assert "CUDA out of &lt;memory&gt;" in page


def test_the_same_is_said_in_a_terminal(pair: list[FakeEngine], live: Checkpoint, capsys) -> None:
    pair[0].loaded[live.adapter] = str(live.folder)
    call_command("engines")
    told = capsys.readouterr().out
    assert "Engine 1 (gpu-1.internal:30000): up" in told
    assert "  holds talkback-1-x" in told
    assert "  lacks talkback@1: manage.py engines --repair" in told

    call_command("engines", "--repair")
    assert "lacks" not in capsys.readouterr().out


def test_only_staff_come_in(client, talker, engine: FakeEngine) -> None:
    client.force_login(talker)
    assert client.get("/console/engines/").status_code == 403
    assert client.post("/console/engines/repair/").status_code == 403


def test_no_address_of_ours_leads_to_an_engines_admin_routes(client, engine: FakeEngine) -> None:
    """What changes an engine is reached by the engine's own address and its admin key alone."""
    routes = (
        *("load_lora_adapter", "unload_lora_adapter", "update_weights_from_disk", "update_weights_from_tensor"),
        *("update_weight_version", "pause_generation", "continue_generation", "flush_cache", "abort_request"),
        *("generate", "server_info", "get_server_info", "init_weights_update_group", "release_memory_occupation"),
    )
    for route in routes:
        for prefix in ("", "v1/", "engine/", "api/"):
            assert client.post(f"/{prefix}{route}", {}).status_code in (403, 404, 405), f"/{prefix}{route}"
    assert engine.calls == []
    assert engine.admin == []
    names = {str(name) for name in get_resolver().reverse_dict}
    assert not [name for name in names if any(route in name for route in routes[:-5])]
