"""A reply as a page may show it: Markdown to HTML that holds nothing but text's own markup."""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False}).enable(["table", "strikethrough"])

TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}


def render(text: str) -> SafeString:
    """HTML of a reply. Raw HTML in it shows as text; images, scripts and styles never come through."""
    # Clean by construction (html off), and cleaned once more: a parser's slip must not become a script.
    return mark_safe(nh3.clean(parser.render(text), tags=TAGS, attributes=ATTRIBUTES, url_schemes={"http", "https"}))  # noqa: S308
