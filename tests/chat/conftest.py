"""People who chat, their keys, and the rooms' doors with a scripted engine behind them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import AsyncClient

from benchmarks.patience import Patience
from benchmarks.stack import ROOT
from chat import asking, turns
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import replies
from chat.requests import Ask, Message, PageSession
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling


@pytest.fixture(autouse=True)
def small_and_quick(settings, tiny_model, monkeypatch):
    settings.MODEL = str(tiny_model)
    settings.MODEL_NAME = "talkback"
    monkeypatch.setattr(replies, "BEAT_S", 0.05)
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana", password="secret")


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben", password="secret")


@pytest.fixture
def key(ana) -> ApiKey:
    key, key.secret = ApiKey.objects.issue(ana, "laptop")  # type: ignore[attr-defined]
    return key


@pytest.fixture
def session(ana) -> Session:
    return Session.objects.create(user=ana)


@pytest.fixture
def page(ana, async_client: AsyncClient) -> AsyncClient:
    """Ana's browser."""
    async_client.force_login(ana)
    return async_client


@pytest.fixture
def htmx() -> dict[str, str]:
    """The header by which a page's own requests are known."""
    return {"HX-Request": "true"}


@pytest.fixture
def site(transactional_db, engine) -> Iterator[str]:
    """The application itself behind a real socket, answered by the scripted engine."""
    from webapp.asgi import application
    from webapp.serving.web_server import Connection, Server

    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(application, http=Connection, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    ready = threading.Event()
    startup = server.startup

    async def started(*args, **kwargs):
        await startup(*args, **kwargs)
        ready.set()

    server.startup = started  # type: ignore[method-assign]
    thread.start()
    assert ready.wait(120)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    engine.release()
    server.should_exit = server.force_exit = True
    thread.join(120)
    assert not thread.is_alive()


HOLDS = """
import signal, django
django.setup()
from chat.replying import writers
print(writers.name(), flush=True)
signal.alarm(600)
signal.pause()
"""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


class Other:
    """Another web process of this installation, as far as its hold on replies goes."""

    def __init__(self, data_dir) -> None:
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "webapp.settings", "DATA_DIR": str(data_dir)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDS],
            env=environment | {"ENV_FILE": os.devnull},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()

    async def takes(self, turn: Turn) -> None:
        """Have this process be the one that writes the reply."""
        await Turn.objects.filter(pk=turn.pk).aupdate(writer=self.name)

    def dies(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def other(data_dir, settings) -> Iterator[Other]:
    settings.DATA_DIR = data_dir
    other = Other(data_dir)
    assert len(other.name) == 32
    yield other
    other.dies()


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def reply_to(turn: Turn, engine) -> Turn:
    """Have the engine answer, to the end. The turn as it then is."""
    async for _ in replies.reply(turn, engine):
        pass
    return await Turn.objects.select_related("session", "checkpoint").aget(pk=turn.pk)


async def until(claim: Callable[[], Awaitable[bool]], what: str, within_s: float = 30.0) -> None:
    """Wait for a condition, looked at often and never for longer than `within_s` (Patience's)."""
    patience = Patience(within_s)
    while not await claim():
        assert not patience.is_over, f"waited {within_s} s for: {what}"
        await asyncio.sleep(0.01)


def ask_in(
    session: Session,
    messages: Sequence[Message],
    *,
    follows: Turn | None = None,
    sampling: Sampling | None = None,
    checkpoint: Checkpoint | None = None,
    completion_id: str = "",
) -> Turn:
    """The turn that a page opens when its person asks this in the session."""
    sampling = sampling or Sampling(max_new_tokens=turns.MAX_NEW_TOKENS)
    checkpoint = checkpoint or Checkpoint.for_user(session.user_id)
    page = PageSession(session.user, session, follows, completion_id)
    (turn,) = asking.open_turns(page, Ask(messages, sampling, checkpoint, protocol=""))
    return turn


open_turn = sync_to_async(ask_in)
