"""Which weights learned from something that its people took back since.

A sample that was learned and then taken back (its chat deleted, off the record, its feedback withdrawn) is TRAINED and
has a drop_reason. All else follows from that: a taint is a count over a checkpoint and what it came from, so it may be
taken at any time, twice, and anew by a sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop

from checkpoints import notices
from checkpoints.models import Checkpoint, Taint
from checkpoints.notice_rows import Notice
from training.models import Run, Sample

WITHDRAWN = gettext_noop("its feedback was withdrawn")
"""The mark, as drop_reason, of a sample that was learned with what its person took back. Its turn is still there."""

SAYS = {
    "one": gettext_noop("What was learned of a reply was taken back, and is in the weights of %(names)s."),
    "many": gettext_noop("What was learned of %(n)s replies was taken back, and is in the weights of %(names)s."),
    "then": gettext_noop("Unlearning learns the line again without it."),
    "wished": gettext_noop("%(who)s asks that %(checkpoint)s be learned again without what they took back."),
    "wished, then": gettext_noop("Unlearning does that."),
}
"""What notices say, kept in English (webapp.serving.retold)."""

TAKEN_BACK = Q(status=Sample.Status.TRAINED) & ~Q(drop_reason="")
"""What was learned and taken back since."""

LONGEST = 200
"""Characters of a taint's reason."""


@dataclass(frozen=True)
class Family:
    """All checkpoints with their parents, and what of each one's own run was taken back."""

    parents: dict[int, int | None]
    """By key, in the order of their numbers: a parent has the smaller one."""
    own: dict[int, Counter[str]]
    """Reasons, and how many samples each: of the checkpoint's own run, without its ancestors'."""

    @classmethod
    def read(cls) -> Family:
        rows = list(Checkpoint.objects.order_by("number").values_list("pk", "parent", "run", "run__again"))
        repeated = {again for _, _, _, again in rows if again is not None}
        marked = Sample.objects.filter(TAKEN_BACK, run__isnull=False).order_by()
        reasons: dict[int, Counter[str]] = {}
        for run, reason in marked.values_list("run", "drop_reason"):
            reasons.setdefault(run, Counter())[reason] += 1  # type: ignore[arg-type]
        of_repeated = dict(marked.filter(run__in=repeated).values_list("pk", "drop_reason")) if repeated else {}
        learned = dict(Run.objects.filter(again__isnull=False).values_list("pk", "learned")) if of_repeated else {}
        own = {}
        for pk, _, run, again in rows:
            if again is None:
                own[pk] = reasons.get(run, Counter())
            else:
                own[pk] = Counter(of_repeated[one] for one in learned.get(run, ()) if one in of_repeated)
        return cls({pk: parent for pk, parent, _, _ in rows}, own)

    def line(self, pk: int) -> list[int]:
        """A checkpoint and its ancestors, nearest first."""
        line, here = [], pk
        while here is not None:
            line.append(here)
            here = self.parents[here]  # type: ignore[assignment]
        return line

    def grown_from(self, roots: Collection[int]) -> list[int]:
        """These, and all that were trained on from there."""
        grown: dict[int, None] = {}
        for pk, parent in self.parents.items():
            if pk in roots or parent in grown:
                grown[pk] = None
        return list(grown)

    def taken_back(self, pk: int) -> Counter[str]:
        """Reasons, and how many samples each, of all that this checkpoint learned, its ancestors' included."""
        return sum((self.own[one] for one in self.line(pk)), Counter())


@transaction.atomic
def mark(samples: QuerySet[Sample]) -> list[Checkpoint]:
    """Some of these samples were taken back (their drop_reason says so): name at once whatever learned from them, and
    what was trained on from there. Returns those checkpoints, the newest first."""
    runs = set(samples.filter(status=Sample.Status.TRAINED).order_by().values_list("run", flat=True)) - {None}
    if not runs:
        return []
    found = learned_in(runs)
    look([one.pk for one in found])
    return found


def learned_in(runs: Collection[int | None]) -> list[Checkpoint]:
    """The checkpoints of these runs, of those that repeated them, and all that was trained on from there; the newest
    first."""
    roots = set(Checkpoint.objects.filter(Q(run__in=runs) | Q(run__again__in=runs)).values_list("pk", flat=True))
    if not roots:
        return []
    return list(Checkpoint.objects.filter(pk__in=Family.read().grown_from(roots)).order_by("-number"))


def tainted_by(origin: UUID) -> list[Checkpoint]:
    """Find the checkpoints, of any line, that learned what was taken back of this turn; the newest first."""
    learned = Sample.objects.filter(TAKEN_BACK, origin=origin).order_by()
    return learned_in(set(learned.values_list("run", flat=True)) - {None})


def learned_from(origins: QuerySet[Any, Any]) -> list[Checkpoint]:
    """The checkpoints that learned from these turns, and what was trained on from there; the newest first."""
    learned = Sample.objects.filter(origin__in=origins, status=Sample.Status.TRAINED).order_by()
    return learned_in(set(learned.values_list("run", flat=True)) - {None})


def to_be_replaced(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Which of these one would learn again: what answers now, else the newest that may."""
    may = [one for one in checkpoints if one.status != Checkpoint.Status.REJECTED]
    return next((one for one in may if one.status == Checkpoint.Status.LIVE), may[0] if may else None)


def withdraw(origin: UUID, spans: Iterable[tuple[datetime, datetime | None]]) -> list[Checkpoint]:
    """What was said of this turn is taken back; it had stood from, to each of these moments (None: until now). Mark
    what was made meanwhile and was learned, or is being learned. Returns the checkpoints that hold it still, the newest
    first."""
    made = Q(pk__in=[])
    for since, until in spans:
        made |= Q(created_at__gte=since) & (Q() if until is None else Q(created_at__lt=until))
    meanwhile = Sample.objects.filter(made, origin=origin, drop_reason="")
    pks = list(meanwhile.filter(status__in=(Sample.Status.CLAIMED, Sample.Status.TRAINED)).values_list("pk", flat=True))
    rows = Sample.objects.filter(pk__in=pks)
    rows.update(drop_reason=WITHDRAWN)
    return mark(rows)


def restore(samples: Iterable[Sample]) -> None:
    """What these were made of is said again, or would be learned without it too: they are not taken back after all."""
    pks = [one.pk for one in samples if one.drop_reason == WITHDRAWN]
    if pks:
        Sample.objects.filter(pk__in=pks).update(drop_reason="")
        mark(Sample.objects.filter(pk__in=pks))


@transaction.atomic
def look(checkpoints: Iterable[int] | None = None) -> list[Taint]:
    """Have these checkpoints, or all, say what of theirs was taken back. Returns the taints that are new or grew."""
    family = Family.read()
    wanted = list(family.parents if checkpoints is None else checkpoints)
    known = {one.checkpoint_id: one for one in Taint.objects.filter(checkpoint__in=wanted)}
    grown = []
    for pk in wanted:
        back, taint = family.taken_back(pk), known.get(pk)
        total, reason = back.total(), "; ".join(sorted(back))[:LONGEST]
        if taint is None and not total:
            continue
        if not total:
            Taint.objects.filter(checkpoint=pk).delete()
        elif taint is None or (taint.samples, taint.reason) != (total, reason):
            row, _ = Taint.objects.update_or_create(checkpoint_id=pk, defaults={"samples": total, "reason": reason})
            if taint is None or taint.samples < total:
                grown.append(row)
    if grown:
        lines = Checkpoint.objects.filter(pk__in=[one.checkpoint_id for one in grown]).values_list("line", flat=True)
        transaction.on_commit(partial(tell, set(lines)))
    return grown


def tell(lines: Collection[str]) -> None:
    """Let the operator know what of these lines answers, or may again, with something that was taken back."""
    standing = Taint.objects.filter(cleaned_by=None, checkpoint__line__in=lines)
    rows = standing.exclude(checkpoint__status=Checkpoint.Status.REJECTED)
    by_line: dict[str, list[Taint]] = {}
    for taint in rows.select_related("checkpoint__line").order_by("-checkpoint__number"):
        by_line.setdefault(taint.checkpoint.line.pk, []).append(taint)
    for name, told in by_line.items():
        most = max(told, key=lambda taint: taint.samples)
        names = ", ".join(str(one.checkpoint) for one in told[:5]) + (", …" if len(told) > 5 else "")
        said = SAYS["one" if most.samples == 1 else "many"] % {"n": most.samples, "names": names}
        notices.tell(
            f"taint {name}",
            f"{said} {SAYS['then']}",
            level=Notice.Level.WARNING,
            checkpoint=told[0].checkpoint,
        )


def of(checkpoint: Checkpoint | None) -> Taint | None:
    """What of its learning was taken back; None where nothing was."""
    return None if checkpoint is None else Taint.objects.filter(checkpoint=checkpoint).first()
