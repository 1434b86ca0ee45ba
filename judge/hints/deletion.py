"""What becomes of other hints when one is deleted, with its chat."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from contextlib import suppress

from django.db import transaction
from django.utils.translation import gettext

from chat import turns
from chat.models import Session, Turn
from judge.hints import decisions
from judge.hints.decisions import ROUNDS, Overtaken
from judge.hints.locking import Grown
from judge.models import Hint


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
    raise Overtaken(
        gettext("Others are deciding about hints of this chat at this moment. Nothing was changed: try again.")
    )


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
        decisions.judge_again([turn])
    quoting = Hint.objects.filter(turn__session__user=hint.turn.session.user_id).exclude(conflicts=[])
    for other in quoting.only("conflicts"):
        left = [one for one in other.conflicts if one.get("hint") != hint.pk]
        if left != other.conflicts:
            Hint.objects.filter(pk=other.pk).update(conflicts=left)
