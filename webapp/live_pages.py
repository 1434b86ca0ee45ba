"""What is on a page moves by itself: rows that move push fragments to each open page."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db.models import Model, Q

from chat.models import Turn, group_of
from chat.session_sockets import EVERYONE
from checkpoints.models import Checkpoint
from core.prepared import Prepared
from core.states import moved
from training.models import Run, Sample

log = logging.getLogger(__name__)

BOARD = "console"
"""The channel layer's name for everyone who watches the operator's board."""

WHOLE = (Turn.Status.ANSWERING, Turn.Status.SERVED, Turn.Status.CLOSED)
"""States in which the turn itself looks different, and not its chip alone."""


Event = tuple[str, dict[str, Any]]
_gathered: ContextVar[list[Event] | None] = ContextVar("gathered", default=None)


def follow(sender: type[Model], pk: Any, status: str, **kwargs: object) -> None:
    """Tell the pages whose turns this row speaks of. A page that is not told shows it when it is next loaded."""
    gathered = _gathered.get()
    try:
        found = list(events(sender, pk, status))
        if gathered is not None:
            gathered += found
        else:
            async_to_sync(send)(found)
    except Exception as error:  # however Redis is away: the row has moved, and that must stand
        log.warning("no page hears that %s %s is %s: %s", sender.__name__, pk, status, error)


@contextmanager
def together(say: Callable[[Sequence[Event]], None] | None = None) -> Iterator[None]:
    """Tell of all moves within this at its end, each thing once; by `say` where the caller has a way of its own."""
    gathered: list[Event] = []
    token = _gathered.set(gathered)
    try:
        yield
    finally:
        _gathered.reset(token)
    once = [event for n, event in enumerate(gathered) if event not in gathered[n + 1 :]]
    try:
        (say or async_to_sync(send))(once)
    except Exception as error:
        log.warning("no page hears of %d moves: %s", len(once), error)


async def send(events: Sequence[Event]) -> None:
    layer = get_channel_layer()
    for group, event in events:
        await layer.group_send(group, event)


def events(sender: type[Model], pk: Any, status: str) -> Iterable[Event]:
    """Group and event for the board, where every move shows, and for each session that this one shows in."""
    yield BOARD, {"type": "board.changed"}
    if sender is Checkpoint and status in (Checkpoint.Status.LIVE, Checkpoint.Status.RETIRED):
        yield EVERYONE, {"type": "live.changed"}
    if sender is Turn:
        for turn in PLACED.ask(UUID(str(pk))):
            event = {"type": "turn.changed", "turn": str(pk), "status": status}
            chips = {"type": "chips.changed", "turns": [str(pk)]}
            yield group_of(turn.session_id), event if status in WHOLE else chips
        return
    turns: dict[UUID, list[str]] = defaultdict(list)
    for session_pk, turn_pk in touched(sender, pk, status).values_list("session", "pk").distinct():
        turns[session_pk].append(str(turn_pk))
    for session_pk, pks in turns.items():
        yield group_of(session_pk), {"type": "chips.changed", "turns": pks}


PLACED: Prepared[Turn] = Prepared(lambda pk: Turn.objects.filter(pk=pk).only("session_id").order_by())


def touched(sender: type[Model], pk: Any, status: str) -> Any:
    """The turns whose chip this move of another row changes."""
    turns = Turn.objects.order_by()
    if sender is Sample:
        if status == Sample.Status.READY:  # the batch grew, and every chip in it counts one more
            return turns.filter(judgement__sample__status=Sample.Status.READY)
        return turns.filter(judgement__sample=pk)
    if sender is Run:
        return turns.filter(Q(judgement__sample__run=pk) | Q(judgement__sample__passed_by=pk))
    if sender is Checkpoint:
        return turns.filter(judgement__sample__run__checkpoint=pk)
    return turns.none()


def connect() -> None:
    """Listen to `core.states.moved`."""
    moved.connect(follow, dispatch_uid="live")
