"""Say why nothing that a person writes beside a reply will teach."""

from __future__ import annotations

from django.utils.translation import gettext as _

from chat.models import Turn
from chat.search import keeping
from judge.samples import sample_rows
from webapp.journeys.verdict_words import joined


def barred(turn: Turn, *, spent: str = "", is_erased: bool = False) -> str:
    """Why nothing that a person writes beside this reply will teach, for the box to say before it is written; empty
    where it may. `is_erased`: its person has asked that all that is theirs be deleted."""
    if is_erased:
        return _("You asked to have everything deleted, this chat too. Nothing you write here will be taught.")
    key = turn.session.key
    if not turn.session.learns:
        return _("This chat is off the record: what you write here is kept with it, and will not be taught.")
    if not turn.learns and key is not None and not key.learns:
        return _(
            "This chat came through a key that is served only: what you write here is kept with it, and will not be "
            "taught."
        )
    if not turn.learns:
        return _("This message is off the record: what you write here is kept with it, and will not be taught.")
    if turn.kind == keeping.IMPORTED:
        return _("Another model wrote this reply: what you write here is kept with it, and will not be taught.")
    if turn.line != Turn.Line.MAIN:
        return _("A side request never teaches: what you write here is kept with it, and will not be taught.")
    if sample_rows.is_held_out(turn):
        return _(
            "This question belongs to the exam of candidates: what you write here is kept with it, and will not be "
            "taught."
        )
    return joined(spent, _("What you write is kept.")) if spent else ""
