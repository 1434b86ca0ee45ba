"""Rows that a decision on a hint concerns, locked for it alone; in the one order that everybody keeps: sessions, turns,
hints, each by number."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q

from chat import sessions, turns
from chat.models import Turn
from judge.models import Hint


@dataclass
class Rows:
    """What a decision is about, locked."""

    hint: Hint
    others: list[Hint]
    """Of the same turn."""
    merged: list[Hint]
    """Of any turn: those that learn with its words."""
    turns: dict[uuid.UUID, Turn]
    into: Hint | None = None


class Grown(Exception):
    """The decision concerns rows that it has not locked: it is begun again."""


def locked(hint: Hint, into: Hint | None = None) -> Rows:
    """All rows that a decision on `hint` concerns, for this transaction alone; in the order that everybody keeps."""
    named_ = [hint.pk] if into is None else [hint.pk, into.pk]
    locked_turns, hints_ = lock_hints(named_)
    first = hints_.get(hint.pk)
    if first is None:
        raise Hint.DoesNotExist(f"Hint {hint.pk} was deleted.")
    target = None
    if into is not None:
        target = hints_.get(into.pk)
        if target is None:
            raise Hint.DoesNotExist(f"Hint {into.pk} was deleted.")
        if target.status == Hint.Status.MERGED and target.merged_into_id is not None:
            target = hints_.get(target.merged_into_id)  # one step is enough: nothing is merged into what is merged
            if target is None:
                raise Grown
    return Rows(
        hint=first,
        others=[one for one in hints_.values() if one.turn_id == first.turn_id and one.pk != first.pk],
        merged=[one for one in hints_.values() if one.merged_into_id == first.pk],
        turns=locked_turns,
        into=target,
    )


def lock_hints(pks: Collection[int], also: Collection[uuid.UUID] = ()) -> tuple[dict[uuid.UUID, Turn], dict[int, Hint]]:
    """These hints, those of the same turns, those merged into them and those they are merged into, with their turns;
    and the turns in `also`.

    Raises Grown when others were added between looking and locking.
    """
    wanted = _concerned(pks)
    locked_turns = _lock_turns({turn_id for _, turn_id in wanted} | set(also))
    rows = Hint.objects.select_related("decided_by").filter(pk__in=[pk for pk, _ in wanted]).order_by("pk")
    locked = {one.pk: one for one in rows.select_for_update(of=("self",))}
    if _concerned(pks) - wanted:
        raise Grown
    for one in locked.values():
        one.turn = locked_turns[one.turn_id]
    return locked_turns, locked


def _concerned(pks: Collection[int]) -> set[tuple[int, uuid.UUID]]:
    own = Q(pk__in=pks) | Q(turn__hints__in=pks)
    linked = Q(merged_into__in=pks) | Q(merged__in=pks)
    return set(Hint.objects.filter(own | linked).order_by().values_list("pk", "turn_id").distinct())


def _lock_turns(pks: Collection[uuid.UUID]) -> dict[uuid.UUID, Turn]:
    """These turns and their sessions, all sessions first, each kind by number."""
    of = dict(Turn.objects.filter(pk__in=pks).order_by().values_list("pk", "session_id"))
    locked_sessions = {pk: sessions.locked(pk) for pk in sorted(set(of.values()))}
    return {pk: turns.locked(Turn(pk=pk, session_id=of[pk]), locked_sessions[of[pk]]) for pk in sorted(of)}
