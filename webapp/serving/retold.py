"""Say in the reader's language what a row keeps in English: a finding of the gate, a proof, what the guard saw.

Rows are read by programs, receipts and people of all languages, so they keep one. What the application itself wrote is
known by its sentence, whatever numbers stand in it, and is translated; a person's own words stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from django.utils.translation import get_language, gettext

from checkpoints import checksums, guard_rule, loading, proofs, rulings
from gate import agent_pairs, agent_part, findings, meter
from training.agents import alarms
from training.provenance import cleaning, retention, taints

SAYS = (
    *(findings.SAYS, meter.SAYS, agent_pairs.SAYS, agent_part.SAYS, alarms.SAYS),
    *(checksums.SAYS, loading.SAYS, proofs.SAYS, guard_rule.SAYS, rulings.SAYS),
    *(taints.SAYS, cleaning.SAYS, retention.SAYS),
)

VALUE = re.compile(r"%\((\w+)\)s")
WITHIN = r"(?:(?![.!?]\s).)+?"
"""A value: it reaches into no other sentence."""

NEXT = re.compile(r"(?<=[.:!?])\s+")


def retold(text: str) -> str:
    """These sentences in the reader's language; a sentence that is not known stays."""
    return text if (get_language() or "en") == "en" else " ".join(_retold(text))


def _retold(text: str) -> Iterator[str]:
    rest = text.strip()
    while rest:
        found = [(match, sentence) for pattern, sentence in patterns() if (match := pattern.match(rest))]
        if found:  # the shortest: a sentence that begins with a number must not swallow the one before it
            match, sentence = min(found, key=lambda one: one[0].end())
            yield gettext(sentence) % {name: gettext(value) for name, value in match.groupdict().items()}
            rest = rest[match.end() :].lstrip()
        else:
            known, *more = NEXT.split(rest, maxsplit=1)
            yield known
            rest = more[0] if more else ""


@cache
def patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Each sentence with what finds it in a text, whatever its values; none of it is in any one language's words."""
    return tuple((_pattern(sentence), sentence) for says in SAYS for sentence in says.values())


def _pattern(sentence: str) -> re.Pattern[str]:
    """
    >>> _pattern("%(now)s of it (live %(live)s).").match("3% of it (live 2%). More.").groupdict()
    {'now': '3%', 'live': '2%'}
    """
    parts, seen = VALUE.split(sentence), set[str]()
    for at in range(1, len(parts), 2):
        parts[at], name = (f"(?P={parts[at]})" if parts[at] in seen else f"(?P<{parts[at]}>{WITHIN})"), parts[at]
        seen.add(name)
    parts[::2] = [re.escape(part.replace("%%", "%")) for part in parts[::2]]
    return re.compile("".join(parts) + r"(?=\s|$)", re.DOTALL)
