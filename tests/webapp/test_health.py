"""Alive and ready, for machines."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from tests.disks import fill
from webapp import health, heartbeats


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No look of an earlier test serves this one."""
    monkeypatch.setattr(health, "_seen", (-health.FRESH_S, {}))
    monkeypatch.setattr(health, "_missing", frozenset())


def test_alive_needs_nothing(client, django_assert_num_queries, db):
    with django_assert_num_queries(0):
        assert client.get("/healthz").status_code == 200


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_ready_names_every_part(client, engine):
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["ready"] is True
    assert list(response.json()["checks"]) == [
        *("database", "disk", "redis", "engine", "judge worker", "learn worker"),
    ]
    assert all(check["ok"] for check in response.json()["checks"].values())


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_an_engine_that_is_away_is_named(client, engine):
    engine.goes_down()
    response = client.get("/readyz")
    assert response.status_code == 503
    checks = response.json()["checks"]
    assert [name for name, check in checks.items() if not check["ok"]] == ["engine"]
    assert "see the engine's log" in checks["engine"]["sentence"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_what_is_not_ready_is_logged_once_and_never_as_an_error(client, engine, workers, monkeypatch, caplog):
    monkeypatch.setattr(health, "FRESH_S", 0.0)

    def logged() -> list[tuple[str, str]]:
        told = [(line.levelname, line.getMessage().partition(":")[0]) for line in caplog.records if is_about(line)]
        caplog.clear()
        return told

    def is_about(line: logging.LogRecord) -> bool:
        return line.name == health.__name__ or line.name.startswith("django.request")

    caplog.set_level(logging.INFO)
    engine.goes_down()
    assert [client.get("/readyz").status_code for _ in range(3)] == [503] * 3
    assert logged() == [("WARNING", "not ready")]
    workers.silent("judge", 40)  # something else now
    assert [client.get("/readyz").status_code for _ in range(2)] == [503] * 2
    assert logged() == [("WARNING", "not ready")]
    workers.silent("judge", 0)
    engine.comes_back()
    assert [client.get("/readyz").status_code for _ in range(2)] == [200] * 2
    assert logged() == [("INFO", "ready")]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_worker_that_is_silent_is_named(client, engine, workers, monkeypatch):
    now = time.time()
    monkeypatch.setattr(heartbeats, "time", SimpleNamespace(time=lambda: now))  # busy machines let a second pass
    workers.silent("judge", 40)
    workers.never_heard("learn")
    checks = client.get("/readyz").json()["checks"]
    assert checks["judge worker"]["sentence"].startswith("No judge worker has been heard for 40 s")
    assert checks["learn worker"]["sentence"].startswith("No learn worker was ever heard")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_redis_away_is_named_and_the_rest_is_still_told(client, engine, workers):
    workers.away = True
    response = client.get("/readyz")
    assert response.status_code == 503
    checks = response.json()["checks"]
    assert [name for name, check in checks.items() if check["ok"]] == ["database", "disk", "engine"]
    assert checks["redis"]["sentence"].startswith("Redis does not answer")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_redis_that_keeps_nothing_is_named(client, engine, workers):
    workers.is_full = True
    checks = client.get("/readyz").json()["checks"]
    assert [name for name, check in checks.items() if check["ok"]] == ["database", "disk", "engine"]
    assert checks["redis"]["sentence"].startswith("Redis refuses to write (MISCONF Redis is configured to save")


@pytest.mark.small_disk
@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_disk_that_is_full_is_named_and_so_is_one_that_learning_must_leave(client, engine, settings, small_disk):
    settings.DATA_DIR = small_disk(8)
    filler = fill(settings.DATA_DIR)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["disk"]["sentence"].startswith("The disk of DATA_DIR is full")

    filler.unlink()
    settings.DISK_RESERVE_MB = 10
    health._seen = (-health.FRESH_S, {})
    # 8 MiB are all there is, and 10 are to be left.
    said = client.get("/readyz").json()["checks"]["disk"]["sentence"]
    assert said.startswith("The disk of DATA_DIR has 2 MiB less free than DISK_RESERVE_MB")

    settings.DISK_RESERVE_MB = 7
    health._seen = (-health.FRESH_S, {})
    assert client.get("/readyz").json()["checks"]["disk"]["ok"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_readiness_tells_no_secret(client, engine, settings):
    settings.ENGINE_API_KEY = settings.SECRET_KEY = "hush-hush"
    engine.goes_down()
    assert "hush" not in client.get("/readyz").content.decode()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_many_probes_at_once_cost_one_look(client, engine, workers):
    for _ in range(5):
        client.get("/readyz")
    assert workers.looks == 1


def test_a_heartbeat_is_heard_under_each_queue_it_serves(db, workers):
    workers.never_heard("judge")
    workers.silent("learn", 40)
    heartbeats.beat(["judge"])
    silences = heartbeats.silences()
    assert silences["judge"] < 1
    assert silences["learn"] == pytest.approx(40, abs=1)


def test_a_learner_at_work_is_heard_through_its_run(db, workers, make_run):
    workers.silent("learn", 40)
    run = make_run("running", heartbeat_at=timezone.now())
    assert heartbeats.silences()["learn"] == 0.0
    run.heartbeat_at = timezone.now() - timedelta(minutes=5)
    run.save()
    assert heartbeats.silences()["learn"] == pytest.approx(40, abs=1)


def test_a_heartbeat_survives_a_redis_that_is_away(workers):
    workers.away = True
    heartbeats.beat(["judge"])
    assert workers.looks == 1
