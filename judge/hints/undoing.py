"""The way back from a person's word on hints and rewards."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from chat import turns
from chat.models import Turn
from judge.hints import acceptance, decisions, locking
from judge.hints.decisions import NotPossible, Overtaken
from judge.models import Acceptance, Hint, Overruling, Ruling

SHOWN = ("status", "text", "merged_into")
"""What of a hint's state an undo looks at: the rest says who put it there."""


def undo(ruling: Ruling, *, by: User) -> Ruling:
    """Put back exactly what stood before this ruling; before a whole bulk action, if it was a part of one.

    All of it or nothing: Overtaken says what another person did to it since. To undo an undo is to do it again, under
    its own verb. A turn that its person took off the record as well stays off: only the reviewer's no goes. Returns the
    ruling that took this one's place (of a bulk, the last of them).
    """
    parts = [ruling]
    if ruling.bulk is not None:
        parts = list(Ruling.objects.filter(bulk=ruling.bulk, undone_by=None)) or parts
    return decisions.again(lambda: _undone(parts, by))


def last(by: User) -> Ruling | None:
    """This person's newest decision on a hint or a reward that was not undone yet; None when there is none."""
    return standing(by).first()


def standing(by: User) -> QuerySet[Ruling]:
    """This person's decisions on hints and rewards that were not undone, the newest first."""
    made = Ruling.objects.filter(by=by, undone_by=None).exclude(verb__in=(Ruling.Verb.UNDO, Ruling.Verb.POLICY))
    return made.order_by("-pk")


def _undone(parts: Sequence[Ruling], by: User) -> Ruling:
    together = uuid.uuid4() if len(parts) > 1 else None
    with transaction.atomic():
        pks = [part.pk for part in parts]
        hint_pks = {pk for part in parts for pk in _hints_of(part)}
        locked_turns, hints_ = locking.lock_hints(hint_pks, {part.turn_id for part in parts if part.turn_id})
        parts = sorted(Ruling.objects.select_for_update(of=("self",)).filter(pk__in=pks).order_by("pk"), key=_newest)
        told = [_undo_one(part, locked_turns, hints_, by, together) for part in parts]
        return told[-1]


def _newest(ruling: Ruling) -> int:
    return -ruling.pk


def _hints_of(ruling: Ruling) -> set[int]:
    return {pk for pk in (ruling.hint_id, *map(int, ruling.after.get("others", {}))) if pk is not None}


def _undo_one(
    ruling: Ruling, locked_turns: dict[uuid.UUID, Turn], hints_: dict[int, Hint], by: User, together: uuid.UUID | None
) -> Ruling:
    if (since := Ruling.objects.select_related("by").filter(undoes=ruling).first()) is not None:
        if decisions.is_same(since.by, by):
            raise Overtaken(_("You undid that already: look at it again."))
        who = since.by or _("A policy")
        raise Overtaken(_("%(who)s undid that already: look at it again.") % {"who": who})
    if not ruling.before and not ruling.after:
        raise NotPossible(_("The chat that this decision was about was deleted: there is nothing to put back."))
    of_source = ruling.verb == Ruling.Verb.POLICY
    turn = locked_turns.get(ruling.turn_id) if ruling.turn_id else None
    if turn is None and not of_source:
        raise NotPossible(_("The chat that this decision was about was deleted: there is nothing to put back."))
    if of_source:
        _undo_policy(ruling, by)
    elif "overruling" in ruling.after:
        assert turn is not None
        _undo_overturning(ruling, turn, by)
    elif "learns" in ruling.after:
        assert turn is not None
        if turn.learns is not ruling.after["learns"]:
            raise Overtaken(decisions.overtaken(ruling, by))
        if not turn.withheld:  # its person said no as well: that one is theirs to take back
            decisions.set_learning(turn, ruling.before["learns"])
    else:
        _undo_decision(ruling, locked_turns, hints_, by)
    # To undo an undo is to do the thing again: it gets that thing's name, and can be undone like it.
    done_again = ruling.undoes.verb if ruling.verb == Ruling.Verb.UNDO and ruling.undoes is not None else None
    return Ruling.objects.create(
        verb=done_again or Ruling.Verb.UNDO,
        by=by,
        turn_id=ruling.turn_id,
        hint_id=ruling.hint_id,
        before=ruling.after,
        after=ruling.before,
        undoes=ruling,
        bulk=together,
    )


def _undo_decision(ruling: Ruling, locked_turns: dict[uuid.UUID, Turn], hints_: dict[int, Hint], by: User) -> None:
    after, before = dict(ruling.after), dict(ruling.before)
    others = {int(pk): one for pk, one in after.pop("others", {}).items()}
    stood = {int(pk): one for pk, one in before.pop("others", {}).items()}
    if ruling.hint_id is None:
        raise NotPossible(_("The hint that this decision was about was deleted: there is nothing to put back."))
    expected, wanted = others | {ruling.hint_id: after}, stood | {ruling.hint_id: before}
    for pk, then in expected.items():
        hint = hints_.get(pk)
        if hint is None or any(decisions.state(hint)[name] != then[name] for name in SHOWN):
            raise Overtaken(decisions.overtaken(ruling, by, hint))
    touched = {hints_[pk].turn_id for pk in expected}
    touched |= {one.turn_id for one in hints_.values() if one.merged_into_id == ruling.hint_id}
    for pk, then in wanted.items():
        decisions.become(
            hints_[pk],
            status=then["status"],
            text=then["text"],
            merged_into_id=then["merged_into"],
            waits_because=then["waits_because"],
            decided_by_id=_known(then["decided_by"]),
            decided_at=datetime.fromisoformat(then["decided_at"]) if then["decided_at"] else None,
        )
    touched |= {one.turn_id for one in hints_.values() if one.merged_into_id == ruling.hint_id}
    decisions.judge_again(locked_turns[pk] for pk in sorted(touched))


def _known(pk: int | None) -> int | None:
    """The person of this number, if there still is one."""
    return pk if pk is not None and User.objects.filter(pk=pk).exists() else None


def _undo_overturning(ruling: Ruling, turn: Turn, by: User) -> None:
    if decisions.overruling_of(turn) != ruling.after["overruling"]:
        raise Overtaken(decisions.overtaken(ruling, by))
    then = ruling.before["overruling"]
    if then is None:
        Overruling.objects.filter(turn=turn).delete()
    else:
        fields = {"reward": then["reward"], "reason": then["reason"], "by_id": _known(then["by"])}
        Overruling.objects.update_or_create(turn=turn, defaults=fields | {"at": timezone.now()})
    decisions.take_back(turn)
    turns.reopen(turn)


def _undo_policy(ruling: Ruling, by: User) -> None:
    source = ruling.after.get("source")
    if source not in Hint.Source.values:
        raise NotPossible(_("This is changed back where it was changed."))
    if acceptance.threshold(source) != ruling.after["above"]:
        raise Overtaken(
            _("The policy for %(source)s was changed again since: look at it before you change it back.")
            % {"source": _(source)}
        )
    Acceptance.objects.update_or_create(
        source=source, defaults={"above": ruling.before["above"], "changed_by": by, "changed_at": timezone.now()}
    )
