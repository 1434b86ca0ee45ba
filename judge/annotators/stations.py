"""What a reviewer finds at a desk beside its items: what reviewers look at, what they go by, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import CharField, DateTimeField, F, IntegerField, Subquery, TextField, Value
from django.db.models.functions import Coalesce

from judge.hints import undoing
from judge.models import Claim, DeskRules


@dataclass(frozen=True)
class Station:
    """One desk as it is for one reviewer."""

    claims: list[Claim]
    """As `claims.of_desk` has them."""
    guidelines: str
    """Markdown; empty where none were set."""
    last: str
    """The verb of this reviewer's newest decision that could be taken back (`undoing.last`); empty: there is none."""


def read(desk: str, by: User) -> Station:
    """This desk for this reviewer. One query: a row is the reviewer's, and each other one a claim."""
    guidelines = DeskRules.objects.filter(desk=desk).values("guidelines")[:1]
    last = undoing.standing(by).values("verb")[:1]
    own = User.objects.filter(pk=by.pk).values_list(
        Value(None, IntegerField()),
        Value("", CharField()),
        Value(None, DateTimeField()),
        F("pk"),
        F("username"),
        Coalesce(Subquery(guidelines), Value(""), output_field=TextField()),
        Coalesce(Subquery(last), Value(""), output_field=TextField()),
    )
    nothing = Value("", TextField())
    claims = Claim.objects.filter(desk=desk).values_list(
        F("pk"), F("item"), F("until"), F("by"), F("by__username"), nothing, nothing
    )
    rows = list(claims.union(own, all=True))
    told = next((row[5:] for row in rows if row[0] is None), ("", ""))
    found = [
        Claim(pk=pk, desk=desk, item=item, until=until, by=User(pk=who, username=name))
        for pk, item, until, who, name, *_ in rows
        if pk is not None
    ]
    return Station(found, *told)
