"""Make a line of checkpoints on the one base."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _

from checkpoints.models import Checkpoint, Line
from core.errors import TalkbackError
from core.visible import name_fault


class LineRefused(TalkbackError):
    """This line cannot be made, or changed so."""

    code, status = "line_refused", 409


def make(title: str, *, name: str = "", start: Checkpoint | None = None) -> Line:
    """A new private line, that begins with the base, or with the shared line's live checkpoint. Raises LineRefused."""
    title = title.strip()
    name = slugify(name or title)[:40].strip("-")
    start = start or Checkpoint.objects.get(number=0)
    if not name:
        raise LineRefused(_("A line needs a name with letters or digits in it."))
    if fault := name_fault(title):
        raise LineRefused(fault)
    if len(title) > 80:
        raise LineRefused(_("A line's name has at most 80 characters."))
    if Checkpoint.live().kind == Checkpoint.Kind.FULL:
        raise LineRefused(
            _(
                "Full weights answer everybody, and a line's adapter has no base beside them: roll the shared line "
                "back to an adapter, or to the base, first."
            )
        )
    if start.number and start != Checkpoint.live():
        said = _("A line starts from the base, or from what is live in the shared one: %(checkpoint)s is neither.")
        raise LineRefused(said % {"checkpoint": start})
    try:
        with transaction.atomic():
            return Line.objects.create(name=name, title=title, start=start)
    except IntegrityError as error:
        said = _("There is, or was, a line called %(name)s: take another name.") % {"name": repr(name)}
        raise LineRefused(said) from error
