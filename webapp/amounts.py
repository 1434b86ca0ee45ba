"""Say lengths of time and numbers of things, as short as can be."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext


def span(seconds: float) -> str:
    """A length of time, as short as can be said.

    >>> span(40), span(200), span(7300), span(200000)
    ('40 s', '3 min', '2 h', '2 days')
    """
    if seconds < 90:
        return _("%(n)s s") % {"n": round(max(0, seconds))}
    if seconds < 90 * 60:
        return _("%(n)s min") % {"n": round(seconds / 60)}
    if seconds < 36 * 3600:
        return _("%(n)s h") % {"n": round(seconds / 3600)}
    days = round(seconds / 86400)
    return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "sample"), counted(13, "sample"), counted(2, "reply")
    ('1 sample', '13 samples', '2 replies')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
