"""Format the log, and keep sign-in links out of it."""

from __future__ import annotations

import logging
import re

from core.visible import visible

LINK = re.compile(r"(/(?:enter|join|reset)/)[^\s?#'\"]+")
"""The path of a link that signs in, invites or sets a password: a reader of the log could use it while it is good."""


class Line(logging.Formatter):
    """A record without sign-in links, and with marks for what a terminal obeys. Only its first line begins at the left:
    text with a line feed in it cannot pass for the next record."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(LINK.sub(r"\1…", super().format(record))).replace("\n", "\n  ")


class WithoutLinks(logging.Filter):
    """The same for loggers that have a format of their own: lets every record pass, without its sign-in links."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(LINK.sub(r"\1…", arg) if isinstance(arg, str) else arg for arg in record.args)
        return True


class WithoutTraceback(logging.Filter):
    """Lets every record pass, and takes the traceback off those of a refused request: it is an answer of ours (a page
    for others, a name that this server does not go by, a form that is out of date), and no fault in the code."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
        return True
