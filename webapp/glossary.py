"""Read the glossary of the docs: one source for its page in the product and for the "?" beside a term."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "glossary.md"

ENTRY = re.compile(r"^- \*\*(?P<names>[^*]+)\*\*: (?P<text>.+)$", re.MULTILINE)
FOR_WRITERS = re.compile(r"\s+(?:Not \*|Not\s+\*|Code:).*$")
"""Where an entry goes on about words that are not used, and names in the code: a page says what the thing is."""


@dataclass(frozen=True)
class Term:
    """One entry: its names, the first of which it is known by, and what it means as HTML."""

    names: tuple[str, ...]
    meaning: SafeString

    @property
    def title(self) -> str:
        return ", ".join(self.names)

    @property
    def slug(self) -> str:
        """Its place on the glossary's page."""
        return slugify(self.names[0])


@dataclass(frozen=True)
class Part:
    """A heading of the glossary with its entries."""

    title: str
    terms: tuple[Term, ...]


def read(text: str) -> list[Part]:
    """The parts of a page like docs/reference/glossary.md.

    >>> [part] = read("# Glossary\\n\\n## Judging\\n\\n- **poll, quorum**: the votes of one\\n  turn. Not *round*.\\n")
    >>> part.title, part.terms[0].names, part.terms[0].meaning
    ('Judging', ('poll', 'quorum'), 'the votes of one turn.')
    """
    markdown = MarkdownIt("commonmark", {"html": False})
    joined = re.sub(r"\n {2}(?=\S)", " ", text)
    parts = []
    for section in joined.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        terms = []
        for found in ENTRY.finditer(rest):
            meaning = FOR_WRITERS.sub("", found["text"])
            html = markdown.renderInline(meaning)
            names = tuple(name.strip() for name in found["names"].split(","))
            terms.append(Term(names, mark_safe(html)))  # noqa: S308 - our own page, and markdown-it writes no raw HTML
        parts.append(Part(title, tuple(terms)))
    return parts


@cache
def parts() -> list[Part]:
    """The glossary, as this installation's docs have it."""
    return read(PAGE.read_text(encoding="utf-8"))


@cache
def terms() -> dict[str, Term]:
    """Each entry by each of its names, in lower case."""
    return {name.lower(): term for part in parts() for term in part.terms for name in term.names}
