"""A person's word on hints and rewards: accept, edit, merge, reject, overturn, never learn."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from chat import turns
from chat.models import Turn
from core.errors import IllegalMove
from judge.hints import back_references, decisions, hint_words
from judge.hints.decisions import Change, NotPossible, Overtaken, Unwritten
from judge.hints.locking import Rows
from judge.models import Hint, Overruling, Ruling

STANDS = (Hint.Status.ACCEPTED, Hint.Status.EDITED, Hint.Status.MERGED)
"""What a turn learns from, if anything; at most one hint of a turn is in one of these."""


def accept(hint: Hint, *, by: User, seen: str = "", reason: str = "", bulk: uuid.UUID | None = None) -> Ruling:
    """Let its turn learn from this hint as it was proposed. Another one of the same turn is set aside."""

    def decide(rows: Rows) -> Change:
        locked = rows.hint
        if locked.status == Hint.Status.ACCEPTED and locked.decided_by_id is not None:
            if decisions.is_same(locked.decided_by, by):
                raise NotPossible(_("This hint is accepted already: you did it."))
            told = _("This hint is accepted already: %(who)s did it.")
            raise NotPossible(told % {"who": locked.decided_by or _("a policy")})
        if back := back_references.find_references(hint_words.guidance_in(locked.proposed)):
            raise NotPossible(f"{back_references.refusal(back)} {_('Edit it first.')}")
        return decisions.stand(rows, Hint.Status.ACCEPTED, text=locked.proposed)

    return decisions.ruled(hint, Ruling.Verb.ACCEPT, decide, by=by, seen=seen, reason=reason, bulk=bulk)


def edit(hint: Hint, text: str, *, by: User, seen: str = "", reason: str = "") -> Ruling:
    """Let its turn learn from this hint in the reviewer's words. Raises Unwritten for words that cannot be a hint."""
    text = text.strip()
    if fault := hint_words.unfit(text):
        raise Unwritten(_("That cannot be a hint: %(why)s.") % {"why": fault})
    if back := back_references.find_references(hint_words.guidance_in(text)):
        raise Unwritten(back_references.refusal(back))
    if text == hint.proposed:
        return accept(hint, by=by, seen=seen, reason=reason)

    def decide(rows: Rows) -> Change:
        if rows.hint.status == Hint.Status.EDITED and rows.hint.text == text:
            raise NotPossible(_("These are the words that stand already."))
        return decisions.stand(rows, Hint.Status.EDITED, text=text)

    return decisions.ruled(hint, Ruling.Verb.EDIT, decide, by=by, seen=seen, reason=reason)


def merge(hint: Hint, into: Hint, *, by: User, seen: str = "", reason: str = "") -> Ruling:
    """Let its turn learn with the words of `into`, which says the same and is the same person's.

    What was merged into this hint goes along. A hint that waits may be merged into: then both wait for it.
    """

    def decide(rows: Rows) -> Change:
        locked, other = rows.hint, rows.into
        assert other is not None  # it was named
        if other.pk == locked.pk:
            raise NotPossible(_("A hint cannot be merged into itself."))
        if rows.turns[locked.turn_id].session.user_id != rows.turns[other.turn_id].session.user_id:
            raise NotPossible(
                _("These are hints of two people: what one asks for is not taught for the other's replies.")
            )
        if other.status == Hint.Status.REJECTED:
            raise NotPossible(_("The hint to merge into was rejected: accept or edit that one first."))
        if locked.status == Hint.Status.MERGED and locked.merged_into_id == other.pk:
            raise NotPossible(_("It is merged into that hint already."))
        change = decisions.stand(rows, Hint.Status.MERGED, text=locked.proposed, merged_into=other)
        for one in rows.merged:
            if one.pk != other.pk:
                change.to(one, {"status": Hint.Status.MERGED, "merged_into_id": other.pk})
        return change

    return decisions.ruled(hint, Ruling.Verb.MERGE, decide, into=into, by=by, seen=seen, reason=reason)


def reject(hint: Hint, *, by: User, seen: str = "", reason: str = "", bulk: uuid.UUID | None = None) -> Ruling:
    """Never learn from this hint, nor what was merged into it with its words; a reward that stands stays."""

    def decide(rows: Rows) -> Change:
        if rows.hint.status == Hint.Status.REJECTED and rows.hint.decided_by_id is not None:
            if decisions.is_same(rows.hint.decided_by, by):
                raise NotPossible(_("This hint is rejected already: you did it."))
            told = _("This hint is rejected already: %(who)s did it.")
            raise NotPossible(told % {"who": rows.hint.decided_by or _("a policy")})
        change = Change()
        change.to(
            rows.hint, {"status": Hint.Status.REJECTED, "merged_into_id": None, "waits_because": ""}, decides=True
        )
        return change

    return decisions.ruled(hint, Ruling.Verb.REJECT, decide, by=by, seen=seen, reason=reason, bulk=bulk)


def never_learn(
    turn: Turn, *, by: User, reason: str = "", hint: Hint | None = None, bulk: uuid.UUID | None = None
) -> Ruling:
    """Take a turn out of learning for good: what waits is taken back, its hints leave the queue.

    `hint` is the one that the person looked at who said so. What was learned before stays learned.
    """
    with transaction.atomic():
        locked = turns.locked(turn)
        if not locked.learns:
            raise NotPossible(_("This turn is off the record already."))
        decisions.set_learning(locked, False)
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
        raise Unwritten(_("A reward is -1, 0 or 1, or none at all."))
    if not reason.strip():
        raise Unwritten(_("Say in a few words why, so that others can learn from it."))
    with transaction.atomic():
        locked = turns.locked(turn)
        decisions.check_seen(locked, seen, by)
        before = decisions.reward_of(locked)
        Overruling.objects.update_or_create(
            turn=locked, defaults={"reward": reward, "reason": reason.strip(), "by": by, "at": timezone.now()}
        )
        decisions.take_back(locked)
        turns.reopen(locked)
        after = {"reward": reward, "reward_from": "reviewer", "overruling": decisions.overruling_of(locked)}
        return Ruling.objects.create(
            verb=Ruling.Verb.OVERTURN, by=by, turn=locked, before=before, after=after, reason=reason.strip()
        )


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
                raise NotPossible(_("“%(verb)s” is decided one hint at a time.") % {"verb": _(verb)})
            elif hint.turn_id in met:  # a turn learns from one hint, and is taken out of learning once
                if verb == Ruling.Verb.ACCEPT:
                    refused.append(_refused(hint, _("another hint of its turn was accepted just now.")))
            elif verb == Ruling.Verb.ACCEPT:
                decided.append(accept(hint, by=by, seen=shown, reason=reason, bulk=together))
                met.add(hint.turn_id)
            else:
                decided.append(never_learn(hint.turn, by=by, reason=reason, hint=hint, bulk=together))
                met.add(hint.turn_id)
        except (Overtaken, IllegalMove, turns.TurnUnfinished) as error:
            refused.append(_refused(hint, str(error)))
        except NotPossible as error:
            if verb not in (Ruling.Verb.ACCEPT, Ruling.Verb.REJECT, Ruling.Verb.NEVER_LEARN):
                raise
            refused.append(_refused(hint, str(error)))
        except Hint.DoesNotExist:
            refused.append(_("A hint was deleted meanwhile, with its chat."))
    return decided, refused


def _refused(hint: Hint, why: str) -> str:
    return _("Hint %(hint)s on %(turn)s: %(why)s") % {"hint": hint.pk, "turn": hint.turn_id, "why": why}


def taught(hint: Hint) -> str:
    """The words its turn learns with: its own, or those of the hint it was merged into; empty where none stand."""
    if hint.status == Hint.Status.MERGED:
        other = hint.merged_into
        return other.text if other is not None and other.is_accepted else ""
    return hint.text if hint.is_accepted else ""
