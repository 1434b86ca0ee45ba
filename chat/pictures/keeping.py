"""Keep pictures as files, one a digest in a folder of their conversation, for as long as a turn of it holds them."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import time
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop

from chat.models import Session, Turn
from chat.pictures.picture import Picture, PictureRefused, in_messages
from core import stores

SETTLED_S = 3600
"""A younger folder may be of a conversation that is being stored."""


def home() -> Path:
    return Path(settings.DATA_DIR) / "pictures"


def folder(session: UUID) -> Path:
    return home() / session.hex


@contextmanager
def kept(pictures: Mapping[str, Picture]) -> Iterator[Callable[[UUID], None]]:
    """Around the transaction that stores a turn: what it gives writes the pictures for a session that is locked in
    there. Where the transaction fails they are taken back."""
    sessions: list[UUID] = []

    def keep(session: UUID) -> None:
        sessions.append(session)
        write(session, pictures)

    try:
        yield keep
    except BaseException:
        for session in sessions if pictures else ():
            drop_unheld(session, pictures)
        raise


def write(session: UUID, pictures: Mapping[str, Picture]) -> None:
    """Write what is not there yet. Raises stores.DiskFull where there is no room."""
    if not pictures:
        return
    place = folder(session)
    place.mkdir(parents=True, exist_ok=True)
    if stores.free_bytes(place) - sum(len(one.data) for one in pictures.values()) < stores.LEAST_FREE:
        raise stores.DiskFull(stores.FULL)
    for digest, picture in pictures.items():
        if not (place / digest).exists():
            beside = place / f".{uuid4().hex}"
            beside.write_bytes(picture.data)
            beside.rename(place / digest)


def read(session: UUID, digest: str) -> bytes:
    """Raises PictureRefused where it is gone."""
    try:
        return (folder(session) / digest).read_bytes()
    except FileNotFoundError as error:
        raise PictureRefused(gettext_noop("A picture of this conversation is gone: send it again.")) from error


def data_urls(turn: Turn) -> list[str]:
    """The pictures of a turn's prompt in their order, as engines take them. Raises PictureRefused."""
    return [data_url(turn.session_id, one["digest"], one["type"]) for one in in_messages(turn.messages)]


def data_url(session: UUID, digest: str, kind: str) -> str:
    """A picture of this type as engines and servers take it. Raises PictureRefused where it is gone."""
    return f"data:{kind};base64,{base64.b64encode(read(session, digest)).decode()}"


def bytes_held() -> int:
    """What all pictures take of the disk."""
    total = 0
    for file in home().glob("*/*"):
        with suppress(FileNotFoundError):  # it was deleted meanwhile
            total += file.stat().st_size
    return total


def forget_session(sender: type[Session], instance: Session, **kwargs: Any) -> None:
    """A conversation was deleted: its pictures go with it."""
    transaction.on_commit(partial(shutil.rmtree, folder(instance.pk), ignore_errors=True))


def forget_turn(sender: type[Turn], instance: Turn, origin: Any = None, **kwargs: Any) -> None:
    """A turn was deleted: those of its pictures go that no other turn of its conversation holds. Where it went with its
    conversation, or its person, forget_session has them all go."""
    if instance.pictures and Turn in (type(origin), getattr(origin, "model", None)):
        digests = {one["digest"] for one in in_messages(instance.messages)}
        transaction.on_commit(partial(drop_unheld, instance.session_id, digests))


@transaction.atomic
def drop_unheld(session: UUID, digests: Collection[str]) -> None:
    """Delete the files of these pictures, but for those that a turn holds. The session's lock keeps a turn from
    taking one up meanwhile."""
    Session.objects.select_for_update().filter(pk=session).first()
    rows = Turn.objects.filter(session=session, pictures__gt=0).values_list("messages", flat=True)
    held = {one["digest"] for messages in rows for one in in_messages(messages)}
    for digest in {*digests} - held:
        (folder(session) / digest).unlink(missing_ok=True)
    with suppress(OSError):  # others are in it, or it is not there
        folder(session).rmdir()


def sweep() -> int:
    """Delete folders whose conversation is not there: a process died while it was stored, or deleted. Returns how many
    went."""
    before, gone = time() - SETTLED_S, 0
    for place in home().glob("*"):
        with suppress(FileNotFoundError, ValueError):  # deleted meanwhile, or an operator's own file
            session = UUID(hex=place.name)
            if place.stat().st_mtime < before and not Session.objects.filter(pk=session).exists():
                shutil.rmtree(place, ignore_errors=True)
                gone += 1
    return gone
