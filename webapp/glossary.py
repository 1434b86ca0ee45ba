"""Read the glossary of the docs: one source for its page in the product and for the "?" beside a term.

It is kept in English; each heading, title and meaning is a message, which is translated where it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.utils.translation import gettext
from markdown_it import MarkdownIt

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "glossary.md"

ENTRY = re.compile(r"^- \*\*(?P<names>[^*]+)\*\*: (?P<text>.+)$", re.MULTILINE)
FOR_WRITERS = re.compile(r"\s+(?:Not \*|Not\s+\*|Code:).*$")
"""Where an entry goes on about words that are not used, and names in the code: a page says what the thing is."""


@dataclass(frozen=True)
class Term:
    """One entry: its names, the first of which it is known by, and what it means in Markdown."""

    names: tuple[str, ...]
    text: str

    @property
    def title(self) -> str:
        """All its names, in the reader's language."""
        return gettext(", ".join(self.names))

    @property
    def meaning(self) -> SafeString:
        """What it means, in the reader's language, as HTML."""
        return html(gettext(self.text))

    def called(self, name: str) -> str:
        """One of its names, in the reader's language; all of them where a translation has more or fewer.

        >>> Term(("poll", "quorum"), "").called("Quorum")
        'Quorum'
        """
        at = [one.lower() for one in self.names].index(name.lower())
        told = self.title.split(", ")
        if len(told) != len(self.names):
            return self.title
        return name if told[at] == self.names[at] else told[at]

    @property
    def slug(self) -> str:
        """Its place on the glossary's page."""
        return slugify(self.names[0])


@dataclass(frozen=True)
class Part:
    """A heading of the glossary with its entries."""

    heading: str
    terms: tuple[Term, ...]

    @property
    def title(self) -> str:
        """The heading, in the reader's language."""
        return gettext(self.heading)


def read(text: str) -> list[Part]:
    """The parts of a page like docs/reference/glossary.md.

    >>> [part] = read("# Glossary\\n\\n## Judging\\n\\n- **poll, quorum**: the votes of one\\n  turn. Not *round*.\\n")
    >>> part.title, part.terms[0].names, part.terms[0].meaning
    ('Judging', ('poll', 'quorum'), 'the votes of one turn.')
    """
    joined = re.sub(r"\n {2}(?=\S)", " ", text)
    parts = []
    for section in joined.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        terms = []
        for found in ENTRY.finditer(rest):
            meaning = FOR_WRITERS.sub("", found["text"])
            names = tuple(name.strip() for name in found["names"].split(","))
            terms.append(Term(names, meaning))
        parts.append(Part(title, tuple(terms)))
    return parts


@lru_cache(maxsize=1024)
def html(text: str) -> SafeString:
    """One line of Markdown."""
    written = MarkdownIt("commonmark", {"html": False}).renderInline(text)
    return mark_safe(written)  # noqa: S308 - our own page and catalogues, and markdown-it writes no raw HTML


@cache
def parts() -> list[Part]:
    """The glossary, as this installation's docs have it."""
    return read(PAGE.read_text(encoding="utf-8"))


@cache
def terms() -> dict[str, Term]:
    """Each entry by each of its names, in lower case."""
    return {name.lower(): term for part in parts() for term in part.terms for name in term.names}


def messages() -> Iterator[str]:
    """All that is translated: each part's heading, each entry's title and its meaning in Markdown."""
    for part in parts():
        yield part.heading
        for term in part.terms:
            yield ", ".join(term.names)
            yield term.text
