"""Render a reply's Markdown as safe HTML: no scripts, no remote content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.token import Token

from chat.rendering.sources import Places, places, word_tokens

parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False}).enable(["table", "strikethrough"])

TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}

WORDS = {"span": {"data-at"}, "mark": {"data-at", "class", "title"}}
"""What a reply's words stand in where each knows its place: elements and their attributes."""

MARKS = {1: ("good", "Marked as good"), -1: ("bad", "Marked as bad")}


def render(text: str) -> SafeString:
    """HTML of a reply. Raw HTML in it shows as text; images, scripts and styles never come through."""
    return sanitise(parser.render(text))


@lru_cache(maxsize=512)
def render_marked(text: str, spans: tuple[tuple[int, int, int], ...] = ()) -> SafeString:
    """The same, with every stretch of words in an element that says where it begins in `text` (`data-at`, counted in
    characters), and with marks drawn: `spans` are (start, end, 1 or -1). What stands nowhere in `text` as it is shown
    has no such element: a selection ends beside it.
    """
    tokens = parser.parse(text)
    for token, at in zip(word_tokens(tokens), places(text, tokens, parser), strict=True):
        token.meta = {"at": at}
    signs = [0] * len(text)
    for start, end, sign in spans:
        signs[start:end] = [sign] * (min(end, len(text)) - start)
    return sanitise(placing.renderer.render(tokens, placing.options, {"signs": signs}), WORDS)


def pieces(content: str, at: Places, signs: Sequence[int]) -> str:
    """HTML of one token's words, cut wherever the next character stands elsewhere or is marked otherwise."""

    # What has no place takes part in a mark that surrounds it.
    around = zip(last_known(at), reversed(last_known(at[::-1])), strict=True)
    drawn = [
        signs[left] if left is not None and right is not None and signs[left] == signs[right] else 0
        for left, right in around
    ]
    offsets = [None if place is None else place - n for n, place in enumerate(at)]
    looks = list(zip(drawn, offsets, strict=True))
    html = []
    for (sign, offset), run in groupby(range(len(content)), key=looks.__getitem__):
        held = list(run)
        words = escape(content[held[0] : held[-1] + 1])
        where = "" if offset is None else f' data-at="{held[0] + offset}"'
        if sign:
            name, title = MARKS[sign]
            html.append(f'<mark class="{name}" title="{title}"{where}>{words}</mark>')
        else:
            html.append(f"<span{where}>{words}</span>" if where else words)
    return "".join(html)


def last_known(at: Places) -> list[int | None]:
    """For each place itself, or where it is not known the nearest that is before it.

    >>> last_known((None, 4, None, None, 9))
    [None, 4, 4, 4, 9]
    """
    found: list[int | None] = []
    for place in at:
        found.append(found[-1] if place is None and found else place)
    return found


def shown_text(text: str, start: int, end: int) -> str:
    """The characters that `render_marked` shows of `start` to `end`, one behind the other.

    >>> shown_text("It is **very** nice", 3, 14)
    'is very'
    """
    found: list[str] = []
    tokens = parser.parse(text)
    for token, at in zip(word_tokens(tokens), places(text, tokens, parser), strict=True):
        found += [c for c, place in zip(token.content, at, strict=True) if place is not None and start <= place < end]
    return "".join(found)


def sanitise(html: str, more: dict[str, set[str]] | None = None) -> SafeString:
    # Clean by construction (html off), and cleaned once more: a parser's slip must not become a script.
    more = more or {}
    return mark_safe(  # noqa: S308
        nh3.clean(html, tags=TAGS | set(more), attributes=ATTRIBUTES | more, url_schemes={"http", "https"})
    )


def _words(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return pieces(tokens[at].content, tokens[at].meta["at"], env["signs"])


def _code(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return f"<code>{_words(self, tokens, at, options, env)}</code>"


def _block(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    language = unescapeAll(tokens[at].info).split(maxsplit=1)
    name = f' class="language-{escape(language[0])}"' if language else ""
    return f"<pre><code{name}>{_words(self, tokens, at, options, env)}</code></pre>\n"


placing = MarkdownIt("commonmark", {"html": False, "breaks": True})
for _kind, _rule in (("text", _words), ("code_inline", _code), ("code_block", _block), ("fence", _block)):
    placing.add_render_rule(_kind, _rule)
