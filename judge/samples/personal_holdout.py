"""The personal holdout keeps a share of each person's corrected turns from training. The gate asks candidates about
them.

Which turns may be kept is a hash of their number: it is settled before a person or a judge has read the turn, and is
the same in every process. That a turn is kept is written with its verdict (`Judgement.held_out`) and never changed:
what trained once is not kept, and what is kept never trains.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import zip_longest
from uuid import UUID

from django.db.models import Q, QuerySet

from chat.models import Turn
from checkpoints.models import SHARED, Member
from judge.models import Judgement
from judge.samples import pooling
from training.config import Recipe
from training.models import Sample

RESOLUTION = 2**64

AFTER = 12
"""A person's first corrections, this many, all teach: the first lessons are to show."""


def place(turn: UUID) -> float:
    """Where a turn stands between 0 and 1, whatever is said of it: those below the recipe's share are kept.

    >>> round(place(UUID(int=7)), 3)
    0.888
    """
    digest = hashlib.sha256(b"talkback holdout " + turn.bytes).digest()
    return int.from_bytes(digest[:8], "big") / RESOLUTION


def takes(turn: Turn, judgement: Judgement, recipe: Recipe) -> bool:
    """Whether this corrected turn is kept for examining. Call it with the turn's session locked, as a verdict is
    written: what its person corrected so far is counted then."""
    if judgement.held_out:
        return True
    if place(turn.pk) >= recipe.holdout or not _never_trained(turn):
        return False
    return corrections(turn).exclude(turn=turn).count() >= AFTER


def corrections(turn: Turn) -> QuerySet[Judgement]:
    """The verdicts on turns of the same person's that teach with words, or are kept for examining."""
    return Judgement.objects.filter(turn__session__user=turn.session.user_id).exclude(hint="")


def of(line: str, most: int) -> list[Judgement]:
    """What is kept of the people whom this line learns from, at most so many: everybody's newest, then their second
    newest, and so on."""
    kept = Judgement.objects.filter(held_out=True, turn__learns=True, turn__session__learns=True).exclude(hint="")
    private = Member.objects.exclude(line=SHARED)
    if line == SHARED:
        kept = kept.exclude(Q(turn__session__user__in=private.filter(pools=False).values("user")))
    else:
        kept = kept.filter(turn__session__user__in=private.filter(line=line).values("user"))
    by_person: dict[int, list[Judgement]] = defaultdict(list)
    for judgement in kept.select_related("turn__session").defer("teacher", "evidence").order_by("-judged_at", "-pk"):
        by_person[judgement.turn.session.user_id].append(judgement)
    rounds = zip_longest(*(by_person[person] for person in sorted(by_person)))
    return [judgement for one in rounds for judgement in one if judgement is not None][:most]


def _never_trained(turn: Turn) -> bool:
    """A run that is learning it just now counts: it may well end."""
    return not pooling.of(turn.pk).filter(status__in=(Sample.Status.TRAINED, Sample.Status.CLAIMED)).exists()
