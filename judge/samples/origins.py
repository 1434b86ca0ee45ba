"""Find the samples that were made of turns."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from judge.models import Judgement
from training.models import Sample


def made_of(turns: Any) -> Q:
    """Of samples: they were made of these turns, rows or keys of them. Each of the three ways to them is asked for by
    itself: where one query has them beside one another, a database reads all samples that there are, with all
    verdicts."""
    verdicts = Judgement.objects.filter(turn__in=turns).order_by()
    own = Sample.objects.filter(origin__in=turns).order_by().values("pk")
    return Q(pk__in=own.union(*(verdicts.exclude(**{name: None}).values(name) for name in ("sample", "learned"))))
