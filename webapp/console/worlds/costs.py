"""Say in words what an attempt cost, as its player counted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.templatetags.console import figure, spaced

WORDS: Mapping[str, Callable[[int], str]] = {
    "tokens": lambda n: ngettext("%(n)s token", "%(n)s tokens", n),
    "prompt_tokens": lambda n: ngettext("%(n)s token read", "%(n)s tokens read", n),
    "completion_tokens": lambda n: ngettext("%(n)s token written", "%(n)s tokens written", n),
    "seconds": lambda n: ngettext("%(n)s second", "%(n)s seconds", n),
    "steps": lambda n: ngettext("%(n)s reply", "%(n)s replies", n),
    "invalid": lambda n: ngettext("%(n)s reply without a valid call", "%(n)s replies without a valid call", n),
    "exit_status": lambda n: _("exit status %(n)s"),
}
"""What our own players count (environments.worlds.player). Another's may count more, under names of its own."""


def in_words(cost: Mapping[str, float]) -> list[str]:
    """Each figure with what it counts.

    >>> in_words({"prompt_tokens": 812, "seconds": 4.5, "invalid": 1, "wheel_turns": 3})
    ['812 tokens read', '4.5 seconds', '1 reply without a valid call', '3 wheel turns']
    """
    said = []
    for name, value in cost.items():
        words = WORDS.get(name)
        several = 1 if value == 1 else 2  # 0.5 seconds, as 2 seconds
        said.append(words(several) % {"n": figure(value)} if words else f"{figure(value)} {spaced(name)}")
    return said
