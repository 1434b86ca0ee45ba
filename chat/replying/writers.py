"""Know which process writes a reply, and whether it lives.

Each process holds a lock on a file of its own, which the kernel lets go of the moment the process ends, kill -9
included. So a reply that lost its writer is free at once, and none is before.

Where the file is not on this machine, or could not be made, silence alone tells.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Literal

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from chat.search import keeping
from chat.tools.calls import ToolLease
from core.errors import IllegalMove

log = logging.getLogger(__name__)

SILENCE_S = 60.0
"""A reply whose writer may be on another machine, and has not been heard of for so long, has none."""

HUNG_S = 900.0
"""The same for a writer that lives on this machine: slow is not dead, but this is not slow any more."""

LOOKED_AT = ("status", "moved_at", "finish_reason", "writer", "asked")
"""What is read of a turn to know whether it has lost its writer."""

LEFT = gettext_noop("The server was stopped before it had written more. What stands here was kept: continue it again.")

_making = threading.Lock()
_own: dict[int, tuple[Path, IO[str]]] = {}
"""This process's locked file, by its number: a process that was forked has none yet."""


def name() -> str:
    """What this process goes by as a writer; empty where its file cannot be made, as on a full disk."""
    with _making:
        own = _own.get(os.getpid())
        if own is None or own[0].parent != _folder():
            try:
                own = _own[os.getpid()] = _make()
            except OSError as error:
                log.warning("a reply of this process is known to be lost by its silence alone: %s", error)
                return ""
        return own[0].name


def _make() -> tuple[Path, IO[str]]:
    """A file under its name once it is locked: no other sees it free while its process lives."""
    name = uuid.uuid4().hex
    _folder().mkdir(parents=True, exist_ok=True)
    draft, place = _folder() / f".{name}", _folder() / name
    file = draft.open("a")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    draft.rename(place)
    return place, file


def look(name: str) -> Literal["lives", "gone", "unknown"]:
    """Whether the process of this name lives."""
    if not name:
        return "unknown"
    try:
        with (_folder() / name).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: of two who look neither takes the other for it
    except BlockingIOError:
        return "lives"
    except OSError:
        return "unknown"
    return "gone"


def is_stranded(turn: Turn, silence_s: float = SILENCE_S, hung_s: float = HUNG_S) -> bool:
    """Whether a reply that is being written has lost its writer: at once where that is known to be gone, else after a
    silence, which is `hung_s` where it is known to live."""
    state = look(turn.writer)
    if state == "gone":
        return True
    silent = timezone.now() - turn.moved_at
    return silent > timedelta(seconds=hung_s if state == "lives" else silence_s)


def close_stranded(among: QuerySet[Turn] | None = None, *, silence_s: float = SILENCE_S, hung_s: float = HUNG_S) -> int:
    """Close replies whose writer is gone: a killed web process leaves them unfinished. Returns how many."""
    turns = Turn.objects.all() if among is None else among
    closed = 0
    for turn in turns.filter(status=Turn.Status.ANSWERING).order_by().only(*LOOKED_AT):
        if not is_stranded(turn, silence_s, hung_s):
            continue
        said = {"finish_reason": turn.finish_reason or "error"}
        if not turn.finish_reason:
            said["error"] = gettext_noop(
                "The server was stopped while it wrote this reply. Nothing else was lost: try again."
            )
        to = Turn.Status.CLOSED
        if turn.is_continued:  # what was said before the rest stands as it did
            to, said = Turn.Status.SERVED, {"finish_reason": "length", "error": LEFT}
        with suppress(IllegalMove), transaction.atomic():
            # Its writer was slow, and has just finished it; or it was closed, and a retry's process writes it now.
            if Turn.objects.select_for_update().filter(pk=turn.pk, writer=turn.writer).exists():
                turn.move(to, **said)
                keeping.keep_turn(turn, turn.session)
                closed += 1
    return closed


def clear() -> None:
    """Remove the files of processes that are gone, once no reply of theirs waits to be closed, nor tools to be run."""
    if not _folder().is_dir():
        return
    waited_for = set(Turn.objects.filter(status=Turn.Status.ANSWERING).order_by().values_list("writer", flat=True))
    waited_for |= set(ToolLease.objects.values_list("holder", flat=True))
    for file in _folder().iterdir():
        if file.name not in waited_for and look(file.name) == "gone":
            file.unlink(missing_ok=True)


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "writers"
