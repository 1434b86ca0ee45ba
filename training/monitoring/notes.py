"""Keep what people write of a run and the tags by which they find it again, with who wrote and when."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from core.errors import TalkbackError
from training.models import Run, RunNote, RunTag

LONGEST_NOTE = 2000
"""Characters."""

LONGEST_TAG = 40
"""Characters."""

MOST_TAGS = 12
"""Of one run."""


class NoteInvalid(TalkbackError):
    """A note or a tag is too long, or there are too many tags."""

    code, status = "note_invalid", 422


class NoteOvertaken(TalkbackError):
    """Another person changed the note since it was read."""

    code, status = "note_overtaken", 409


def mark(run: Run) -> str:
    """What stands, for a form that wants to know whether it still does."""
    note = RunNote.objects.filter(run=run).first()
    return note.at.isoformat() if note else ""


@transaction.atomic
def write(run: Run, text: str, tags: Sequence[str], *, by: User, seen: str | None = None) -> None:
    """Have this note and these tags stand at a run; an empty text removes the note, and a tag that stood keeps its
    author. `seen` is the `mark` of what the person read. Raises NoteInvalid and NoteOvertaken, with nothing changed."""
    text, wanted = text.replace("\x00", "").strip(), list(dict.fromkeys(tags))
    if len(text) > LONGEST_NOTE:
        said = _("A note may have at most %(most)s characters; this one has %(has)s.")
        raise NoteInvalid(said % {"most": LONGEST_NOTE, "has": len(text)})
    if any(len(tag) > LONGEST_TAG for tag in wanted):
        raise NoteInvalid(_("A tag may have at most %(most)s characters.") % {"most": LONGEST_TAG})
    if len(wanted) > MOST_TAGS:
        said = _("A run may have at most %(most)s tags; these are %(are)s.")
        raise NoteInvalid(said % {"most": MOST_TAGS, "are": len(wanted)})
    Run.objects.select_for_update().get(pk=run.pk)
    if seen is not None and seen != mark(run):
        raise NoteOvertaken(_("Another person changed this note meanwhile: reload the page and add yours to theirs."))
    note = RunNote.objects.filter(run=run).first()
    if not text:
        RunNote.objects.filter(run=run).delete()
    elif note is None or note.text != text:
        RunNote.objects.update_or_create(run=run, defaults={"text": text, "by": by, "at": timezone.now()})
    standing = set(RunTag.objects.filter(run=run).values_list("name", flat=True))
    RunTag.objects.filter(run=run, name__in=standing - set(wanted)).delete()
    RunTag.objects.bulk_create(RunTag(run=run, name=name, by=by) for name in wanted if name not in standing)


def tags_in(text: str) -> list[str]:
    """The tags in what a person typed, with commas between, each once.

    >>> tags_in(" short replies, baseline ,,baseline")
    ['short replies', 'baseline']
    """
    parts = (" ".join(part.replace("\x00", "").split()) for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def found(runs: QuerySet[Run], *, tag: str = "", words: str = "") -> QuerySet[Run]:
    """Those of the runs that have the tag, and the words in their note, a tag, their number or why they failed."""
    if tag:
        runs = runs.filter(pk__in=RunTag.objects.filter(name=tag).values("run"))
    if words:
        tagged = RunTag.objects.filter(name__icontains=words).values("run")
        noted = RunNote.objects.filter(text__icontains=words).values("run")
        number = words.lower().removeprefix("run ").removeprefix((_("run %(n)s") % {"n": ""}).lower()).strip()
        is_it = Q(pk=int(number)) if number.isdecimal() and len(number) < 19 else Q()
        runs = runs.filter(Q(pk__in=tagged) | Q(pk__in=noted) | Q(error__icontains=words) | is_it)
    return runs


def most_used(number: int) -> list[str]:
    """The tags of most runs."""
    rows = RunTag.objects.order_by().values_list("name").annotate(runs=Count("pk")).order_by("-runs", "name")
    return [name for name, _runs in rows[:number]]
