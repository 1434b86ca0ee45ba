"""A line's policy, changed on record: who, when, from what to what and why."""

from __future__ import annotations

import json
from collections.abc import Mapping

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from checkpoints import line_policies
from checkpoints.models import Line
from judge.hints.decisions import NotPossible, Overtaken
from judge.models import Ruling


def give(line: Line, fields: Mapping[str, object], *, by: User, reason: str = "", seen: str | None = None) -> Ruling:
    """Have this policy hold in this line from now on.

    `seen` is the `mark` of the policy that the person decided on. Raises Overtaken when another one holds by now,
    NotPossible for a change that is none, PolicyInvalid for a policy that cannot be used: nothing is changed then.
    """
    with transaction.atomic():
        locked = Line.objects.select_for_update().get(pk=line.pk)
        if locked.retired_at is not None:
            raise NotPossible(_("“%(line)s” is retired: nothing is approved there any more.") % {"line": locked})
        if seen is not None and seen != mark(locked):
            raise Overtaken(
                _("The policy of “%(line)s” was changed meanwhile: look at it before you change it.") % {"line": locked}
            )
        before, after = locked.policy, line_policies.changed(line_policies.read(fields))
        if after == before:
            raise NotPossible(_("That policy holds in “%(line)s” already.") % {"line": locked})
        locked.policy = after
        locked.save(update_fields=["policy"])
        ruling = Ruling.objects.create(
            verb=Ruling.Verb.POLICY,
            before={"line": locked.name, "policy": before},
            after={"line": locked.name, "policy": after},
            by=by,
            reason=reason.strip(),
        )
    line.policy = after
    return ruling


def history(line: Line) -> QuerySet[Ruling]:
    """What was decided about this line's policy, newest first."""
    return Ruling.objects.filter(after__line=line.name, after__has_key="policy").select_related("by").order_by("-pk")


def mark(line: Line) -> str:
    """What holds, for a form that wants to know whether it still does."""
    return json.dumps(line.policy, sort_keys=True)
