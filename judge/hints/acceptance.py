"""Which hints are accepted without a person: a policy a source, and who changed it."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from judge.hints.decisions import Unwritten
from judge.models import Acceptance, Hint, Ruling

DEFAULTS: dict[str, float | None] = {Hint.Source.PERSON: 0.0, Hint.Source.SAID: 0.9}
"""From which confidence on a hint of this source is accepted without a person; a source that is not named always waits:
its words are a judge's. Those of the person's next message are their own, where judges are sure enough that it asks for
a change (`Measure.least_own`)."""


def accept_from(source: str, above: float | None, *, by: User) -> Ruling:
    """From now on accept hints of this source from this confidence on without a person; None: they always wait.

    What waits already goes on waiting: a policy decides once, when a hint is proposed.
    """
    if source not in Hint.Source.values:
        raise Unwritten(
            _("“%(source)s” is no source of hints. There are: %(sources)s.")
            % {"source": source, "sources": ", ".join(Hint.Source.values)}
        )
    if above is not None and not 0 <= above <= 1:
        raise Unwritten(_("A confidence lies between 0 and 1."))
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
