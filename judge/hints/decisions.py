"""How a decision on hints or a reward is made: lock, look, change, record, and have the turns judged again.

Each change locks the same rows in the same order (sessions, turns, hints, each by number), looks whether
they still are what the page showed, changes them, and writes one Ruling with what stood before and what stands after.
What was made of the turn and not yet learned is taken back at once, and the turn is judged again on the votes it has.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from chat import turns
from chat.models import Turn
from core.errors import IllegalMove, TalkbackError
from judge.hints import locking
from judge.hints.locking import Grown, Rows
from judge.models import Hint, Judgement, Overruling, Ruling
from judge.samples import sample_rows

ROUNDS = 5
"""How often a decision is begun again because another one has just changed which rows it concerns."""


DID = {
    Ruling.Verb.ACCEPT: gettext_lazy("%(who)s accepted this hint at %(time)s UTC."),
    Ruling.Verb.EDIT: gettext_lazy("%(who)s edited this hint at %(time)s UTC."),
    Ruling.Verb.MERGE: gettext_lazy("%(who)s merged this hint into another at %(time)s UTC."),
    Ruling.Verb.REJECT: gettext_lazy("%(who)s rejected this hint at %(time)s UTC."),
    Ruling.Verb.NEVER_LEARN: gettext_lazy("%(who)s took this turn out of learning at %(time)s UTC."),
    Ruling.Verb.OVERTURN: gettext_lazy("%(who)s overturned this reward at %(time)s UTC."),
    Ruling.Verb.UNDO: gettext_lazy("%(who)s undid what was decided here at %(time)s UTC."),
    Ruling.Verb.POLICY: gettext_lazy("%(who)s changed this policy at %(time)s UTC."),
}

YOU_DID = {
    Ruling.Verb.ACCEPT: gettext_lazy("You accepted this hint at %(time)s UTC."),
    Ruling.Verb.EDIT: gettext_lazy("You edited this hint at %(time)s UTC."),
    Ruling.Verb.MERGE: gettext_lazy("You merged this hint into another at %(time)s UTC."),
    Ruling.Verb.REJECT: gettext_lazy("You rejected this hint at %(time)s UTC."),
    Ruling.Verb.NEVER_LEARN: gettext_lazy("You took this turn out of learning at %(time)s UTC."),
    Ruling.Verb.OVERTURN: gettext_lazy("You overturned this reward at %(time)s UTC."),
    Ruling.Verb.UNDO: gettext_lazy("You undid what was decided here at %(time)s UTC."),
    Ruling.Verb.POLICY: gettext_lazy("You changed this policy at %(time)s UTC."),
}
"""The same, told to the person who did it: many languages have another verb for it."""


class Overtaken(TalkbackError):
    """Another person decided meanwhile: this decision spoke of what no longer stands, and changed nothing."""

    code, status = "overtaken", 409


class NotPossible(TalkbackError):
    """This decision makes no sense for what it was asked of; nothing was changed."""

    code, status = "not_possible", 409


class Unwritten(TalkbackError):
    """A decision lacks its words, or has some that could not be a hint."""

    code, status, param = "invalid_text", 422, "text"


def standing(row: Hint | Turn, *, as_read: bool = False) -> str:
    """A short digest of what a page shows of this hint, or of this turn's reward: 12 hex digits. `as_read`: of the
    judgement and the overruling that the turn came with, as the page does; else of those that stand now.

    A decision that is handed it changes nothing when the row is no longer the same.
    """
    if isinstance(row, Hint):
        shown: list[Any] = [row.pk, row.status, row.text, row.merged_into_id, row.turn.learns]
    else:
        of = (_known_reward(row) if as_read else None) or reward_of(row)
        shown = [str(row.pk), row.learns, of["reward"], of["reward_from"], of["overruling"]]
    return hashlib.sha256(json.dumps(shown).encode("utf-8", "replace")).hexdigest()[:12]


def is_same(one: User | None, other: User | None) -> bool:
    return one is not None and other is not None and one.pk == other.pk


@dataclass
class Change:
    """Which hints become what: (hint, fields, whether this is the decision itself)."""

    steps: list[tuple[Hint, dict[str, Any], bool]] = field(default_factory=list)

    def to(self, hint: Hint, fields: dict[str, Any], *, decides: bool = False) -> None:
        self.steps.append((hint, fields, decides))


def stand(rows: Rows, status: Hint.Status, *, text: str, merged_into: Hint | None = None) -> Change:
    """Let this hint be the one its turn learns from; another that stood, or waited, is set aside."""
    change = Change()
    change.to(
        rows.hint,
        {
            "status": status,
            "text": text,
            "merged_into_id": merged_into.pk if merged_into else None,
            "waits_because": "",
        },
        decides=True,
    )
    for other in rows.others:
        if other.status != Hint.Status.REJECTED and (merged_into is None or other.pk != merged_into.pk):
            aside = {"status": Hint.Status.REJECTED, "merged_into_id": None, "waits_because": SET_ASIDE}
            change.to(other, aside, decides=True)
    return change


SET_ASIDE = gettext_noop("Another hint of its turn was chosen.")


def ruled(
    hint: Hint,
    verb: Ruling.Verb,
    decide: Callable[[Rows], Change],
    *,
    by: User | None,
    seen: str = "",
    reason: str = "",
    into: Hint | None = None,
    bulk: uuid.UUID | None = None,
) -> Ruling:
    """Lock, look, decide, write; begun again while others change what it concerns."""

    def once() -> Ruling:
        with transaction.atomic():
            rows = locking.locked(hint, into)
            check_seen(rows.hint, seen, by)
            change = decide(rows)
            now = timezone.now()
            before = {one.pk: state(one) for one, _, _ in change.steps}
            for one, fields, decides in change.steps:
                stamps: dict[str, Any] = {"decided_by_id": by.pk if by else None, "decided_at": now} if decides else {}
                become(one, **fields, **stamps)
            after = {one.pk: state(one) for one, _, _ in change.steps}
            judge_again(rows.turns[pk] for pk in sorted({one.turn_id for one in (rows.hint, *rows.merged)}))
            return Ruling.objects.create(
                verb=verb,
                by=by,
                turn=rows.turns[rows.hint.turn_id],
                hint=rows.hint,
                before=record(rows.hint, before),
                after=record(rows.hint, after),
                reason=reason,
                bulk=bulk,
            )

    return again(once)


def again(act: Callable[[], Ruling]) -> Ruling:
    for _ in range(ROUNDS):
        with suppress(Grown):
            return act()
    raise Overtaken(gettext("Others are deciding about the same hints at this moment. Nothing was changed: try again."))


def become(hint: Hint, *, status: str | None = None, **fields: Any) -> None:
    """Set these fields; a state that changes is a move."""
    if status is not None and status != hint.status:
        hint.move(status, **fields)
        return
    if not Hint.objects.filter(pk=hint.pk, status=hint.status).update(**fields):
        raise IllegalMove(
            gettext("hint %(hint)s is no longer %(status)s: nothing was changed.")
            % {"hint": hint.pk, "status": gettext(str(hint.status))}
        )
    for name, value in fields.items():
        setattr(hint, name, value)
    hint.announce()


def state(hint: Hint) -> dict[str, Any]:
    """A hint as far as decisions change it, as a ruling keeps it."""
    return {
        "status": str(hint.status),
        "text": hint.text,
        "merged_into": hint.merged_into_id,
        "waits_because": hint.waits_because,
        "decided_by": hint.decided_by_id,
        "decided_at": hint.decided_at.isoformat() if hint.decided_at else None,
    }


def record(hint: Hint, states: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The hint's own state, and under `others` those of hints that changed along with it, by number."""
    rest = {str(pk): one for pk, one in states.items() if pk != hint.pk}
    return states[hint.pk] | ({"others": rest} if rest else {})


def reward_of(turn: Turn) -> dict[str, Any]:
    """The reward that stands, and a reviewer's word on it."""
    judged = Judgement.objects.filter(turn=turn).values("reward", "reward_from").first()
    return {"reward": None, "reward_from": ""} | (judged or {}) | {"overruling": overruling_of(turn)}


def _known_reward(turn: Turn) -> dict[str, Any] | None:
    """`reward_of` a turn that came with its judgement and its overruling, as a page reads it; None of any other."""
    known = turn._state.fields_cache
    if not {"judgement", "overruling"} <= known.keys():
        return None
    judged, ruled = known["judgement"], known["overruling"]
    return {
        "reward": judged.reward if judged else None,
        "reward_from": judged.reward_from if judged else "",
        "overruling": _worded(ruled),
    }


def overruling_of(turn: Turn) -> dict[str, Any] | None:
    return _worded(Overruling.objects.filter(turn=turn).first())


def _worded(row: Overruling | None) -> dict[str, Any] | None:
    return None if row is None else {"reward": row.reward, "reason": row.reason, "by": row.by_id}


def set_learning(turn: Turn, learns: bool) -> None:
    """Put a turn out of learning, or back; what waits goes at once, and the verdict says why."""
    if turn.status == Turn.Status.ANSWERING:
        raise turns.TurnUnfinished(gettext("This reply is still being written: wait for its end."))
    if turn.status == Turn.Status.JUDGED:
        turn.move(Turn.Status.OBSERVED, learns=learns, observed_at=timezone.now())
    else:
        Turn.objects.filter(pk=turn.pk).update(learns=learns, observed_at=timezone.now())
        turn.learns = learns
        turn.announce()
    take_back(turn)


def judge_again(touched: Iterable[Turn]) -> None:
    for turn in touched:
        take_back(turn)
        turns.reopen(turn)


def take_back(turn: Turn) -> None:
    """What was made of the verdict and is not being learned goes now: the next batch must not find it."""
    judgement = Judgement.objects.select_related("sample", "learned").filter(turn=turn).first()
    if judgement is not None and judgement.sample is not None:
        with suppress(IllegalMove):  # a run has just claimed it: the verdict is looked at again when that has ended
            sample_rows.entered(judgement, None)
            judgement.save(update_fields=["sample", "learned"])


def check_seen(row: Hint | Turn, seen: str, by: User | None) -> None:
    if not seen or standing(row) == seen:
        return
    if isinstance(row, Hint):
        ruling = Ruling.objects.select_related("by").filter(hint=row).order_by("-pk").first()
    else:
        ruling = Ruling.objects.select_related("by").filter(turn=row, hint=None).order_by("-pk").first()
    raise Overtaken(overtaken(ruling, by, row if isinstance(row, Hint) else None))


def overtaken(ruling: Ruling | None, by: User | None, hint: Hint | None = None) -> str:
    """Who did what since."""
    if hint is not None:
        ruling = Ruling.objects.select_related("by").filter(hint=hint).order_by("-pk").first() or ruling
    elif ruling is not None and ruling.turn_id is not None:
        of_turn = Ruling.objects.select_related("by").filter(turn=ruling.turn_id)
        ruling = of_turn.order_by("-pk").first() or ruling
    if ruling is None:
        return gettext(
            "This was judged again meanwhile, and is no longer what the page shows. Nothing was changed: look again."
        )
    did = (YOU_DID if is_same(ruling.by, by) else DID)[Ruling.Verb(ruling.verb)]
    told = did % {"who": ruling.by or gettext("A policy"), "time": f"{ruling.at:%H:%M}"}
    return f"{told} {gettext('Nothing was changed: look again.')}"
