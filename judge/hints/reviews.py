"""A person's word on hints and rewards: accept, edit, merge, reject, overturn, never learn; and the way back.

Each change locks the same rows in the same order (sessions, turns, hints, each by number), looks whether
they still are what the page showed, changes them, and writes one Ruling with what stood before and what stands after.
What was made of the turn and not yet learned is taken back at once, and the turn is judged again on the votes it has.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chat import turns
from chat.models import Session, Turn
from core.errors import IllegalMove, TalkbackError
from judge.hints import hint_words, locking, wish_words
from judge.hints.locking import Grown, Rows
from judge.models import Acceptance, Hint, Judgement, Overruling, Ruling
from judge.samples import sample_rows

DEFAULTS: dict[str, float | None] = {Hint.Source.PERSON: 0.0, Hint.Source.SAID: 0.9}
"""From which confidence on a hint of this source is accepted without a person; a source that is not named always waits:
its words are a judge's. Those of the person's next message are their own, where judges are sure enough that it asks for
a change (`Measure.least_own`)."""

ROUNDS = 5
"""How often a decision is begun again because another one has just changed which rows it concerns."""

STANDS = (Hint.Status.ACCEPTED, Hint.Status.EDITED, Hint.Status.MERGED)
"""What a turn learns from, if anything; at most one hint of a turn is in one of these."""

DID = {
    Ruling.Verb.ACCEPT: "accepted this hint",
    Ruling.Verb.EDIT: "edited this hint",
    Ruling.Verb.MERGE: "merged this hint into another",
    Ruling.Verb.REJECT: "rejected this hint",
    Ruling.Verb.NEVER_LEARN: "took this turn out of learning",
    Ruling.Verb.OVERTURN: "overturned this reward",
    Ruling.Verb.UNDO: "undid what was decided here",
    Ruling.Verb.POLICY: "changed this policy",
}


class Overtaken(TalkbackError):
    """Another person decided meanwhile: this decision spoke of what no longer stands, and changed nothing."""

    code, status = "overtaken", 409


class NotPossible(TalkbackError):
    """This decision makes no sense for what it was asked of; nothing was changed."""

    code, status = "not_possible", 409


class Unwritten(TalkbackError):
    """A decision lacks its words, or has some that could not be a hint."""

    code, status, param = "invalid_text", 422, "text"


# The verbs


def accept(hint: Hint, *, by: User, seen: str = "", reason: str = "", bulk: uuid.UUID | None = None) -> Ruling:
    """Let its turn learn from this hint as it was proposed. Another one of the same turn is set aside."""

    def decide(rows: Rows) -> Change:
        locked = rows.hint
        if locked.status == Hint.Status.ACCEPTED and locked.decided_by_id is not None:
            raise NotPossible(f"This hint is accepted already: {named(locked.decided_by, by)} did it.")
        if back := wish_words.find_references(hint_words.guidance_in(locked.proposed)):
            raise NotPossible(f"{wish_words.refusal(back)} Edit it first.")
        return stand(rows, Hint.Status.ACCEPTED, text=locked.proposed)

    return _ruled(hint, Ruling.Verb.ACCEPT, decide, by=by, seen=seen, reason=reason, bulk=bulk)


def edit(hint: Hint, text: str, *, by: User, seen: str = "", reason: str = "") -> Ruling:
    """Let its turn learn from this hint in the reviewer's words. Raises Unwritten for words that cannot be a hint."""
    text = text.strip()
    if fault := hint_words.unfit(text):
        raise Unwritten(f"That cannot be a hint: {fault}.")
    if back := wish_words.find_references(hint_words.guidance_in(text)):
        raise Unwritten(wish_words.refusal(back))
    if text == hint.proposed:
        return accept(hint, by=by, seen=seen, reason=reason)

    def decide(rows: Rows) -> Change:
        if rows.hint.status == Hint.Status.EDITED and rows.hint.text == text:
            raise NotPossible("These are the words that stand already.")
        return stand(rows, Hint.Status.EDITED, text=text)

    return _ruled(hint, Ruling.Verb.EDIT, decide, by=by, seen=seen, reason=reason)


def merge(hint: Hint, into: Hint, *, by: User, seen: str = "", reason: str = "") -> Ruling:
    """Let its turn learn with the words of `into`, which says the same and is the same person's.

    What was merged into this hint goes along. A hint that waits may be merged into: then both wait for it.
    """

    def decide(rows: Rows) -> Change:
        locked, other = rows.hint, rows.into
        assert other is not None  # it was named
        if other.pk == locked.pk:
            raise NotPossible("A hint cannot be merged into itself.")
        if rows.turns[locked.turn_id].session.user_id != rows.turns[other.turn_id].session.user_id:
            raise NotPossible("These are hints of two people: what one asks for is not taught for the other's replies.")
        if other.status == Hint.Status.REJECTED:
            raise NotPossible("The hint to merge into was rejected: accept or edit that one first.")
        if locked.status == Hint.Status.MERGED and locked.merged_into_id == other.pk:
            raise NotPossible("It is merged into that hint already.")
        change = stand(rows, Hint.Status.MERGED, text=locked.proposed, merged_into=other)
        for one in rows.merged:
            if one.pk != other.pk:
                change.to(one, {"status": Hint.Status.MERGED, "merged_into_id": other.pk})
        return change

    return _ruled(hint, Ruling.Verb.MERGE, decide, into=into, by=by, seen=seen, reason=reason)


def reject(hint: Hint, *, by: User, seen: str = "", reason: str = "", bulk: uuid.UUID | None = None) -> Ruling:
    """Never learn from this hint, nor what was merged into it with its words; a reward that stands stays."""

    def decide(rows: Rows) -> Change:
        if rows.hint.status == Hint.Status.REJECTED and rows.hint.decided_by_id is not None:
            raise NotPossible(f"This hint is rejected already: {named(rows.hint.decided_by, by)} did it.")
        change = Change()
        change.to(
            rows.hint, {"status": Hint.Status.REJECTED, "merged_into_id": None, "waits_because": ""}, decides=True
        )
        return change

    return _ruled(hint, Ruling.Verb.REJECT, decide, by=by, seen=seen, reason=reason, bulk=bulk)


def never_learn(
    turn: Turn, *, by: User, reason: str = "", hint: Hint | None = None, bulk: uuid.UUID | None = None
) -> Ruling:
    """Take a turn out of learning for good: what waits is taken back, its hints leave the queue.

    `hint` is the one that the person looked at who said so. What was learned before stays learned.
    """
    with transaction.atomic():
        locked = turns.locked(turn)
        if not locked.learns:
            raise NotPossible("This turn is off the record already.")
        _learns(locked, False)
        return Ruling.objects.create(
            verb=Ruling.Verb.NEVER_LEARN,
            by=by,
            turn=locked,
            hint=hint,
            before={"learns": True},
            after={"learns": False},
            reason=reason,
            bulk=bulk,
        )


def overturn(turn: Turn, reward: int | None, *, by: User, reason: str, seen: str = "") -> Ruling:
    """Let `reward` (-1, 0, 1; None: no reward at all) stand in place of what thumb, test, rule or votes came to.

    `reason` is asked for: the next reviewer learns from it, and so does the author of the judge's prompts.
    """
    if reward not in (-1, 0, 1, None):
        raise Unwritten("A reward is -1, 0 or 1, or none at all.")
    if not reason.strip():
        raise Unwritten("Say in a few words why, so that others can learn from it.")
    with transaction.atomic():
        locked = turns.locked(turn)
        _check_seen(locked, seen, by)
        before = _of_reward(locked)
        Overruling.objects.update_or_create(
            turn=locked, defaults={"reward": reward, "reason": reason.strip(), "by": by, "at": timezone.now()}
        )
        _take_back(locked)
        turns.reopen(locked)
        after = {"reward": reward, "reward_from": "reviewer", "overruling": _overruling(locked)}
        return Ruling.objects.create(
            verb=Ruling.Verb.OVERTURN, by=by, turn=locked, before=before, after=after, reason=reason.strip()
        )


def undo(ruling: Ruling, *, by: User) -> Ruling:
    """Put back exactly what stood before this ruling; before a whole bulk action, if it was a part of one.

    All of it or nothing: Overtaken says what another person did to it since. To undo an undo is to do it again, under
    its own verb. A turn that its person took off the record as well stays off: only the reviewer's no goes. Returns the
    ruling that took this one's place (of a bulk, the last of them).
    """
    parts = [ruling]
    if ruling.bulk is not None:
        parts = list(Ruling.objects.filter(bulk=ruling.bulk, undone_by=None)) or parts
    return _again(lambda: _undone(parts, by))


def last(by: User) -> Ruling | None:
    """This person's newest decision on a hint or a reward that was not undone yet; None when there is none."""
    made = Ruling.objects.filter(by=by, undone_by=None).exclude(verb__in=(Ruling.Verb.UNDO, Ruling.Verb.POLICY))
    return made.order_by("-pk").first()


def bulk(
    verb: str, chosen: Iterable[Hint], *, by: User, reason: str = "", seen: Mapping[int, str] | None = None
) -> tuple[list[Ruling], list[str]]:
    """Accept, reject or never learn from many hints: the rulings, which are undone together, and a sentence for each
    hint that could not be decided so. Each is decided by itself, so one that fails keeps no other back. `seen` has what
    the page showed of each, by its number.

    Raises NotPossible for a verb that needs to look at each.
    """
    together, decided, refused, met = uuid.uuid4(), [], [], set()
    for hint in chosen:
        shown = (seen or {}).get(hint.pk, "")
        try:
            if verb == Ruling.Verb.REJECT:
                decided.append(reject(hint, by=by, seen=shown, reason=reason, bulk=together))
            elif verb not in (Ruling.Verb.ACCEPT, Ruling.Verb.NEVER_LEARN):
                raise NotPossible(f"“{verb}” is decided one hint at a time.")
            elif hint.turn_id in met:  # a turn learns from one hint, and is taken out of learning once
                if verb == Ruling.Verb.ACCEPT:
                    refused.append(f"{str(hint).capitalize()}: another hint of its turn was accepted just now.")
            elif verb == Ruling.Verb.ACCEPT:
                decided.append(accept(hint, by=by, seen=shown, reason=reason, bulk=together))
                met.add(hint.turn_id)
            else:
                decided.append(never_learn(hint.turn, by=by, reason=reason, hint=hint, bulk=together))
                met.add(hint.turn_id)
        except (Overtaken, IllegalMove, turns.TurnUnfinished) as error:
            refused.append(f"{str(hint).capitalize()}: {error}")
        except NotPossible as error:
            if verb not in (Ruling.Verb.ACCEPT, Ruling.Verb.REJECT, Ruling.Verb.NEVER_LEARN):
                raise
            refused.append(f"{str(hint).capitalize()}: {error}")
        except Hint.DoesNotExist:
            refused.append("A hint was deleted meanwhile, with its chat.")
    return decided, refused


def accept_from(source: str, above: float | None, *, by: User) -> Ruling:
    """From now on accept hints of this source from this confidence on without a person; None: they always wait.

    What waits already goes on waiting: a policy decides once, when a hint is proposed.
    """
    if source not in Hint.Source.values:
        raise Unwritten(f"“{source}” is no source of hints. There are: {', '.join(Hint.Source.values)}.")
    if above is not None and not 0 <= above <= 1:
        raise Unwritten("A confidence lies between 0 and 1.")
    with transaction.atomic():
        before = threshold(source)
        Acceptance.objects.update_or_create(
            source=source, defaults={"above": above, "changed_by": by, "changed_at": timezone.now()}
        )
        return Ruling.objects.create(
            verb=Ruling.Verb.POLICY,
            by=by,
            before={"source": source, "above": before},
            after={"source": source, "above": above},
        )


def threshold(source: str) -> float | None:
    """The least confidence with which a hint of this source is accepted without a person; None: it always waits."""
    row = Acceptance.objects.filter(source=source).first()
    return row.above if row is not None else DEFAULTS.get(source)


def passes(source: str, confidence: float | None) -> bool:
    """True when the policy accepts a hint of this source that is so sure; compared at two digits, as people write it.

    Two votes of three are 0.67.
    """
    least = threshold(source)
    return least is not None and round(confidence or 0.0, 2) >= round(least, 2)


def lock_sessions(pks: Collection[uuid.UUID]) -> None:
    """Lock these sessions, and those of other turns that learn with their hints' words, by number.

    Call it inside a transaction, before any turn is locked, where hints of these sessions are to be deleted. A
    session that is gone needs no lock. Raises Overtaken while others go on merging hints into them.
    """
    for _ in range(ROUNDS):
        # Begun again, it lets go of what it holds: a hint that was merged since then may have a lower number.
        with suppress(Grown), transaction.atomic():
            wanted = _with_followers(pks)
            list(Session.objects.select_for_update().filter(pk__in=wanted).order_by("pk").values_list("pk"))
            if _with_followers(pks) - wanted:
                raise Grown
            return
    raise Overtaken("Others are deciding about hints of this chat at this moment. Nothing was changed: try again.")


def _with_followers(pks: Collection[uuid.UUID]) -> set[uuid.UUID]:
    following = Hint.objects.filter(merged_into__turn__session__in=pks).order_by()
    return {*pks, *following.values_list("turn__session", flat=True)}


def forget(hint: Hint) -> None:
    """This hint is about to be deleted: nothing that stays goes on saying or teaching its words.

    What was merged into it stands, or waits, by itself again, and its turns are judged anew. Call it inside a
    transaction; where that has locked a turn already, after `lock_sessions`.
    """
    own = hint.turn.session_id
    of_others = Hint.objects.filter(merged_into__turn__session=own).exclude(turn=hint.turn_id)
    lock_sessions([own])
    for pk, turn_pk in of_others.filter(merged_into=hint).order_by("turn__session", "pk").values_list("pk", "turn"):
        turn = turns.locked(Turn.objects.only("session").get(pk=turn_pk))
        follower = Hint.objects.select_for_update().get(pk=pk)
        alone = {Hint.Status.WAITING: Hint.Status.WAITING, Hint.Status.REJECTED: Hint.Status.REJECTED}
        follower.move(alone.get(Hint.Status(hint.status), Hint.Status.ACCEPTED), merged_into=None)
        _judge_again([turn])
    quoting = Hint.objects.filter(turn__session__user=hint.turn.session.user_id).exclude(conflicts=[])
    for other in quoting.only("conflicts"):
        left = [one for one in other.conflicts if one.get("hint") != hint.pk]
        if left != other.conflicts:
            Hint.objects.filter(pk=other.pk).update(conflicts=left)


# What stands


def standing(row: Hint | Turn) -> str:
    """A short digest of what a page shows of this hint, or of this turn's reward: 12 hex digits.

    A decision that is handed it changes nothing when the row is no longer the same.
    """
    if isinstance(row, Hint):
        shown: list[Any] = [row.pk, row.status, row.text, row.merged_into_id, row.turn.learns]
    else:
        of = _of_reward(row)
        shown = [str(row.pk), row.learns, of["reward"], of["reward_from"], of["overruling"]]
    return hashlib.sha256(json.dumps(shown).encode("utf-8", "replace")).hexdigest()[:12]


def taught(hint: Hint) -> str:
    """The words its turn learns with: its own, or those of the hint it was merged into; empty where none stand."""
    if hint.status == Hint.Status.MERGED:
        other = hint.merged_into
        return other.text if other is not None and other.is_accepted else ""
    return hint.text if hint.is_accepted else ""


def named(person: User | None, to: User | None = None) -> str:
    """Who it was, as told to `to`."""
    if person is None:
        return "a policy"
    return "you" if to is not None and person.pk == to.pk else str(person)


# Inside


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


SET_ASIDE = "Another hint of its turn was chosen."


def _ruled(
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
            _check_seen(rows.hint, seen, by)
            change = decide(rows)
            now = timezone.now()
            before = {one.pk: state(one) for one, _, _ in change.steps}
            for one, fields, decides in change.steps:
                stamps: dict[str, Any] = {"decided_by_id": by.pk if by else None, "decided_at": now} if decides else {}
                _become(one, **fields, **stamps)
            after = {one.pk: state(one) for one, _, _ in change.steps}
            _judge_again(rows.turns[pk] for pk in sorted({one.turn_id for one in (rows.hint, *rows.merged)}))
            return Ruling.objects.create(
                verb=verb,
                by=by,
                turn=rows.turns[rows.hint.turn_id],
                hint=rows.hint,
                before=_record(rows.hint, before),
                after=_record(rows.hint, after),
                reason=reason,
                bulk=bulk,
            )

    return _again(once)


def _again(act: Callable[[], Ruling]) -> Ruling:
    for _ in range(ROUNDS):
        with suppress(Grown):
            return act()
    raise Overtaken("Others are deciding about the same hints at this moment. Nothing was changed: try again.")


def _become(hint: Hint, *, status: str | None = None, **fields: Any) -> None:
    """Set these fields; a state that changes is a move."""
    if status is not None and status != hint.status:
        hint.move(status, **fields)
        return
    if not Hint.objects.filter(pk=hint.pk, status=hint.status).update(**fields):
        raise IllegalMove(f"hint {hint.pk} is no longer {hint.status}: nothing was changed.")
    for name, value in fields.items():
        setattr(hint, name, value)
    hint.announce()


SHOWN = ("status", "text", "merged_into")
"""What of a hint's state an undo looks at: the rest says who put it there."""


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


def _record(hint: Hint, states: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The hint's own state, and under `others` those of hints that changed along with it, by number."""
    rest = {str(pk): one for pk, one in states.items() if pk != hint.pk}
    return states[hint.pk] | ({"others": rest} if rest else {})


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
        raise Overtaken(f"{_first_upper(named(since.by, by))} undid that already: look at it again.")
    if not ruling.before and not ruling.after:
        raise NotPossible("The chat that this decision was about was deleted: there is nothing to put back.")
    of_source = ruling.verb == Ruling.Verb.POLICY
    turn = locked_turns.get(ruling.turn_id) if ruling.turn_id else None
    if turn is None and not of_source:
        raise NotPossible("The chat that this decision was about was deleted: there is nothing to put back.")
    if of_source:
        _undo_policy(ruling, by)
    elif "overruling" in ruling.after:
        assert turn is not None
        _undo_overturning(ruling, turn, by)
    elif "learns" in ruling.after:
        assert turn is not None
        if turn.learns is not ruling.after["learns"]:
            raise Overtaken(_overtaken(ruling, by))
        if not turn.withheld:  # its person said no as well: that one is theirs to take back
            _learns(turn, ruling.before["learns"])
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
        raise NotPossible("The hint that this decision was about was deleted: there is nothing to put back.")
    expected, wanted = others | {ruling.hint_id: after}, stood | {ruling.hint_id: before}
    for pk, then in expected.items():
        hint = hints_.get(pk)
        if hint is None or any(state(hint)[name] != then[name] for name in SHOWN):
            raise Overtaken(_overtaken(ruling, by, hint))
    touched = {hints_[pk].turn_id for pk in expected}
    touched |= {one.turn_id for one in hints_.values() if one.merged_into_id == ruling.hint_id}
    for pk, then in wanted.items():
        _become(
            hints_[pk],
            status=then["status"],
            text=then["text"],
            merged_into_id=then["merged_into"],
            waits_because=then["waits_because"],
            decided_by_id=_known(then["decided_by"]),
            decided_at=datetime.fromisoformat(then["decided_at"]) if then["decided_at"] else None,
        )
    touched |= {one.turn_id for one in hints_.values() if one.merged_into_id == ruling.hint_id}
    _judge_again(locked_turns[pk] for pk in sorted(touched))


def _known(pk: int | None) -> int | None:
    """The person of this number, if there still is one."""
    return pk if pk is not None and User.objects.filter(pk=pk).exists() else None


def _undo_overturning(ruling: Ruling, turn: Turn, by: User) -> None:
    if _overruling(turn) != ruling.after["overruling"]:
        raise Overtaken(_overtaken(ruling, by))
    then = ruling.before["overruling"]
    if then is None:
        Overruling.objects.filter(turn=turn).delete()
    else:
        fields = {"reward": then["reward"], "reason": then["reason"], "by_id": _known(then["by"])}
        Overruling.objects.update_or_create(turn=turn, defaults=fields | {"at": timezone.now()})
    _take_back(turn)
    turns.reopen(turn)


def _undo_policy(ruling: Ruling, by: User) -> None:
    source = ruling.after.get("source")
    if source not in Hint.Source.values:
        raise NotPossible("This is changed back where it was changed.")
    if threshold(source) != ruling.after["above"]:
        raise Overtaken(f"The policy for {source} was changed again since: look at it before you change it back.")
    Acceptance.objects.update_or_create(
        source=source, defaults={"above": ruling.before["above"], "changed_by": by, "changed_at": timezone.now()}
    )


def _of_reward(turn: Turn) -> dict[str, Any]:
    """The reward that stands, and a reviewer's word on it."""
    judged = Judgement.objects.filter(turn=turn).values("reward", "reward_from").first()
    return {"reward": None, "reward_from": ""} | (judged or {}) | {"overruling": _overruling(turn)}


def _overruling(turn: Turn) -> dict[str, Any] | None:
    row = Overruling.objects.filter(turn=turn).first()
    return None if row is None else {"reward": row.reward, "reason": row.reason, "by": row.by_id}


def _learns(turn: Turn, learns: bool) -> None:
    """Put a turn out of learning, or back; what waits goes at once, and the verdict says why."""
    if turn.status == Turn.Status.ANSWERING:
        raise turns.TurnUnfinished("This reply is still being written: wait for its end.")
    if turn.status == Turn.Status.JUDGED:
        turn.move(Turn.Status.OBSERVED, learns=learns, observed_at=timezone.now())
    else:
        Turn.objects.filter(pk=turn.pk).update(learns=learns, observed_at=timezone.now())
        turn.learns = learns
        turn.announce()
    _take_back(turn)


def _judge_again(touched: Iterable[Turn]) -> None:
    for turn in touched:
        _take_back(turn)
        turns.reopen(turn)


def _take_back(turn: Turn) -> None:
    """What was made of the verdict and is not being learned goes now: the next batch must not find it."""
    judgement = Judgement.objects.select_related("sample", "learned").filter(turn=turn).first()
    if judgement is not None and judgement.sample is not None:
        with suppress(IllegalMove):  # a run has just claimed it: the verdict is looked at again when that has ended
            sample_rows.entered(judgement, None)
            judgement.save(update_fields=["sample", "learned"])


def _check_seen(row: Hint | Turn, seen: str, by: User | None) -> None:
    if not seen or standing(row) == seen:
        return
    if isinstance(row, Hint):
        ruling = Ruling.objects.select_related("by").filter(hint=row).order_by("-pk").first()
    else:
        ruling = Ruling.objects.select_related("by").filter(turn=row, hint=None).order_by("-pk").first()
    raise Overtaken(_overtaken(ruling, by, row if isinstance(row, Hint) else None))


def _overtaken(ruling: Ruling | None, by: User | None, hint: Hint | None = None) -> str:
    """Who did what since."""
    if hint is not None:
        ruling = Ruling.objects.select_related("by").filter(hint=hint).order_by("-pk").first() or ruling
    elif ruling is not None and ruling.turn_id is not None:
        of_turn = Ruling.objects.select_related("by").filter(turn=ruling.turn_id)
        ruling = of_turn.order_by("-pk").first() or ruling
    if ruling is None:
        return "This was judged again meanwhile, and is no longer what the page shows. Nothing was changed: look again."
    who, did = _first_upper(named(ruling.by, by)), DID[Ruling.Verb(ruling.verb)]
    return f"{who} {did} at {ruling.at:%H:%M} UTC. Nothing was changed: look again."


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:] if text in ("you", "a policy") else text
