"""What of all that was said goes into a dataset: what a person or a command asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime, time, timedelta
from typing import Any, Self

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from checkpoints.models import SHARED, Line, Member
from core.errors import TalkbackError
from evaluation.datasets.columns import FORMATS, KINDS, SHAPES
from feedback.models import Feedback
from judge.models import Judgement
from training.models import Sample

STATES = {
    "lessons": gettext_noop("learned, or ready to be learned"),
    "learned": gettext_noop("learned"),
    "ready": gettext_noop("ready to be learned"),
    "any": gettext_noop("everything that was judged"),
}

LEARNED = Q(status=Sample.Status.TRAINED, drop_reason="")
READY = Q(status__in=(Sample.Status.READY, Sample.Status.CLAIMED), drop_reason="")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": tuple(KINDS),
    "shape": SHAPES,
    "format": FORMATS,
    "state": tuple(STATES),
}


class ExportRefused(TalkbackError):
    """This dataset cannot be exported as it was asked for."""

    code, status = "export_refused", 422


@dataclass(frozen=True)
class Filters:
    """Which rows, in which columns, in which file."""

    kind: str = "sft"
    shape: str = "prompt"
    format: str = "jsonl"
    state: str = "lessons"
    since: str = ""
    """The first day, as YYYY-MM-DD; empty: from the beginning."""
    until: str = ""
    """The last day, itself included."""
    line: str = SHARED
    """Of the people who teach this line: what they give to a line of their own is exported for that line alone."""
    person: str = ""
    """Whose conversations, by user name."""
    explicit: bool = False
    """Only what a person or a test said, without judges and rules."""
    licence: str = ""
    """A note that goes into the manifest and beside each row."""

    @classmethod
    def read(cls, sent: Mapping[str, Any]) -> Self:
        """As a form, a command or a stored row says it. Raises ExportRefused with a sentence for what is no choice."""
        said: dict[str, Any] = {}
        for field in fields(cls):
            value = sent.get(field.name, field.default)
            if field.name == "explicit":
                said[field.name] = value in (True, "1", "on", "true")
                continue
            value = str(value or field.default).replace("\x00", "").strip()[:200]
            if value not in CHOICES.get(field.name, (value,)):
                choices = ", ".join(CHOICES[field.name])
                refused = _("“%(value)s” is no %(name)s: choose one of %(choices)s.")
                raise ExportRefused(refused % {"value": value, "name": field.name, "choices": choices})
            said[field.name] = value
        if said["kind"] != "sft":
            said["shape"] = "prompt"
        for name in ("since", "until"):
            _day(said[name])
        if said["line"] != SHARED and not Line.objects.filter(name=said["line"]).exists():
            unknown = _("No line is called “%(line)s”: the page Lines names those there are.")
            raise ExportRefused(unknown % {"line": said["line"]})
        return cls(**said)

    def asked(self) -> dict[str, Any]:
        """As it is stored, and as the manifest says it."""
        return asdict(self)

    def over(self, turns: QuerySet[Turn], at: str = "created_at") -> QuerySet[Turn]:
        """Those of these turns that the filters ask for, by time, line, person and what became of them."""
        return turns.filter(self.of_people("session__user"), self.within(at), self.became())

    def within(self, at: str) -> Q:
        """By the moment `at`, from the first day to the end of the last one."""
        chosen = Q()
        if self.since:
            chosen &= Q(**{f"{at}__gte": _day(self.since)})
        if self.until:
            chosen &= Q(**{f"{at}__lt": _day(self.until) + timedelta(days=1)})
        return chosen

    def of_people(self, user: str) -> Q:
        """By whose it is; `user` is the path to the person."""
        chosen = Q()
        if self.person:
            chosen &= Q(**{f"{user}__username": self.person})
        if self.line == SHARED:
            alone = Member.objects.exclude(line=SHARED).filter(pools=False).values("user")
            chosen &= ~Q(**{f"{user}__in": alone})
        else:
            chosen &= Q(**{f"{user}__in": Member.objects.filter(line=self.line).values("user")})
        return chosen

    def became(self) -> Q:
        """By what became of a turn: a lesson that was learned, one that waits, or whatever was said of it."""
        learned = _made_into(LEARNED, by=("sample", "learned"))
        ready = _made_into(READY, by=("sample",))
        said = Q(pk__in=Feedback.objects.standing().order_by().values("turn"))
        return {
            "learned": learned,
            "ready": ready,
            "lessons": learned | ready,
            "any": learned | ready | said | Q(overruling__isnull=False),
        }[self.state]


def _made_into(state: Q, by: Sequence[str]) -> Q:
    """Turns of which there is a sample in this state: the sample names its turn, or, an old one, its verdict does by
    these names. Each way is asked once for all turns: asked for a turn, it is looked for among all samples."""
    samples = Sample.objects.filter(state).order_by()
    turns, old = Q(pk__in=samples.exclude(origin=None).values("origin")), samples.filter(origin=None).values("pk")
    for name in by:
        turns |= Q(pk__in=Judgement.objects.filter(**{f"{name}__in": old}).order_by().values("turn"))
    return turns


def _day(text: str) -> datetime:
    """The beginning of this day; of no day, now. Raises ExportRefused."""
    try:
        day = date.fromisoformat(text) if text else timezone.localdate()
    except ValueError as error:
        said = _("“%(text)s” is no day: write it as 2026-11-29.") % {"text": text}
        raise ExportRefused(said) from error
    return timezone.make_aware(datetime.combine(day, time.min))
