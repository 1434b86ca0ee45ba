"""Turns with pictures before and after the reply, and a judge that sees behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chat.models import Session, Turn
from chat.pictures import keeping
from chat.pictures.picture import read_picture
from gpu_workers.engine import sight
from judge.votes import naming
from judge.votes.chat_judge import ChatJudge
from tests.chat.pictures.samples import png
from tests.doubles.chat_server import ChatServer

BEFORE, AFTER = png(4, 3, shade=10), png(5, 3, shade=90)


@pytest.fixture(autouse=True)
def afresh(settings, tmp_path):
    """Nothing is known of servers, and pictures are kept here."""
    settings.DATA_DIR = tmp_path
    sight._known.clear()
    ChatJudge._boxes.clear()
    naming.listed.cache_clear()


@pytest.fixture
def seeing(server: ChatServer, settings) -> ChatServer:
    """The one judge is a model at this server, which says that it sees."""
    settings.JUDGE_URL, settings.JUDGE_MODEL = server.url, "wise-1"
    server.pages["/v1/models"] = {"data": [{"id": "wise-1", "input_modalities": ["text", "image"]}]}
    return server


def keep(session: Session, *pictures: bytes) -> list[dict[str, Any]]:
    """These pictures as a message holds them, their files where those of the conversation are."""
    read = [read_picture(one) for one in pictures]
    keeping.write(session.pk, {one.digest: one for one in read})
    return [one.kept(0) for one in read]


@pytest.fixture
def pictured(serve, person) -> Callable[..., Turn]:
    """A reply to a picture, and what its person said then with another."""

    def pictured(before: bytes = BEFORE, after: bytes = AFTER, **fields: Any) -> Turn:
        session = Session.objects.create(user=person)
        turn = serve("What is it?", "A cat.", session=session, **fields)
        messages = [{**turn.messages[0], "pictures": keep(session, before)}] if before else turn.messages
        back = {"role": "user", "content": "No, like this."} | ({"pictures": keep(session, after)} if after else {})
        Turn.objects.filter(pk=turn.pk).update(messages=messages, next_state=[back], pictures=int(bool(before)))
        return Turn.objects.select_related("session").get(pk=turn.pk)

    return pictured
