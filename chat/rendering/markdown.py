"""Render a reply's Markdown as safe HTML: no scripts, no remote content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext, gettext_lazy
from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.token import Token

from chat.rendering.code_colours import coloured
from chat.rendering.mathematics import ATTRIBUTES as OF_MATHEMATICS
from chat.rendering.mathematics import TAGS as MATHEMATICS
from chat.rendering.mathematics import add_mathematics, mathml
from chat.rendering.sources import Places, places, word_tokens

parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False}).enable(["table", "strikethrough"])
add_mathematics(parser)

TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
    *("figure", "button", "span", *MATHEMATICS),
}
ATTRIBUTES = {
    **dict.fromkeys(MATHEMATICS, OF_MATHEMATICS),
    "a": {"href", "title"},
    "ol": {"start"},
    "code": {"class"},
    "figure": {"class"},
    "button": {"type", "class", "title", "aria-label", "data-copy-code"},
    "span": {"class"},
}

WORDS = {"span": {"data-at", "class"}, "mark": {"data-at", "class", "title"}}
"""What a reply's words stand in where each knows its place: elements and their attributes."""

MARKS = {1: ("good", gettext_lazy("Marked as good")), -1: ("bad", gettext_lazy("Marked as bad"))}


def render(text: str) -> SafeString:
    """HTML of a reply. Raw HTML in it shows as text; images, scripts and styles never come through."""
    return sanitise(parser.render(text))


def plain(text: str) -> str:
    """The words of Markdown, without its marks; all of it where nothing else is left.

    >>> plain("# A *title* with `code` and [a link](https://example.org)"), plain("What is 2*3*4?")
    ('A title with code and a link', 'What is 2*3*4?')
    """
    tokens = parser.parse(text)
    words = (_plain_line(one.children or []) if one.type == "inline" else one.content for one in tokens)
    return " ".join(" ".join(words).split()) or text


def _plain_line(tokens: Sequence[Token]) -> str:
    line = ""
    kept: list[str] = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type.endswith("break"):
            line += " "
        elif token.nesting > 0:  # within a word a star is a star
            is_within = line[-1:].isalnum() and following is not None and following.content[:1].isalnum()
            kept.append(token.markup if is_within else "")
            line += kept[-1]
        elif token.nesting < 0:
            line += kept.pop()
        else:
            line += token.content
    return line


def render_said(content: object) -> SafeString:
    """HTML of a person's message. What is more than words, pictures say, is shown as it was sent."""
    if not isinstance(content, str):
        return escape("" if content is None else str(content))
    return _render_kept(content, get_language())


@lru_cache(maxsize=512)
def _render_kept(text: str, language: str) -> SafeString:
    """A rendering is kept for each language: buttons and marks in it speak."""
    return render(text)


def render_marked(text: str, spans: tuple[tuple[int, ...], ...] = ()) -> SafeString:
    """The same, with every stretch of words in an element that says where it begins in `text` (`data-at`, counted in
    characters), and with marks drawn: `spans` are (start, end, 1 or -1). What stands nowhere in `text` as it is shown
    has no such element: a selection ends beside it.
    """
    return _render_marked_kept(text, spans, get_language())


@lru_cache(maxsize=512)
def _render_marked_kept(text: str, spans: tuple[tuple[int, ...], ...], language: str) -> SafeString:
    tokens = parser.parse(text)
    for token, at in zip(word_tokens(tokens), places(text, tokens, parser), strict=True):
        token.meta = {"at": at}
    signs = [0] * len(text)
    for start, end, sign in spans:
        signs[start:end] = [sign] * (min(end, len(text)) - start)
    return sanitise(parser.renderer.render(tokens, parser.options, {"signs": signs}), WORDS)


def pieces(content: str, at: Places, signs: Sequence[int], colours: Sequence[tuple[int, int, str]] = ()) -> str:
    """HTML of one token's words, cut wherever the next character stands elsewhere, is marked otherwise, or has another
    colour: `colours` are (start, end, CSS class) in `content`."""

    # What has no place takes part in a mark that surrounds it.
    around = zip(last_known(at), reversed(last_known(at[::-1])), strict=True)
    drawn = [
        signs[left] if left is not None and right is not None and signs[left] == signs[right] else 0
        for left, right in around
    ]
    offsets = [None if place is None else place - n for n, place in enumerate(at)]
    kinds = [""] * len(content)
    for start, end, kind in colours:
        kinds[start:end] = [kind] * (end - start)
    looks = list(zip(drawn, offsets, kinds, strict=True))
    html = []
    for (sign, offset, kind), run in groupby(range(len(content)), key=looks.__getitem__):
        held = list(run)
        words = escape(content[held[0] : held[-1] + 1])
        where = "" if offset is None else f' data-at="{held[0] + offset}"'
        if sign:
            name, title = MARKS[sign]
            html.append(f'<mark class="{f"{name} {kind}".strip()}" title="{escape(title)}"{where}>{words}</mark>')
        else:
            about = (f' class="{kind}"' if kind else "") + where
            html.append(f"<span{about}>{words}</span>" if about else words)
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
        nh3.clean(html, tags=TAGS | set(more), attributes={**ATTRIBUTES, **more}, url_schemes={"http", "https"})
    )


def _words(token: Token, env: Any, colours: Sequence[tuple[int, int, str]] = ()) -> str:
    """The token's words; each with its place where places are known."""
    at = token.meta.get("at")
    if at is None and not colours:
        return escape(token.content)
    at = at or (None,) * len(token.content)
    return pieces(token.content, at, env.get("signs", ()), colours)


def _text(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return _words(tokens[at], env)


def _code(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return f"<code>{_words(tokens[at], env)}</code>"


def _block(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    language, *_ = [*unescapeAll(token.info).split(maxsplit=1), ""]
    name = f' class="language-{escape(language)}"' if language else ""
    words = _words(token, env, coloured(token.content, language))
    say = escape(gettext("Copy this code"))
    copy = f'<button type="button" class="copy" data-copy-code="" title="{say}" aria-label="{say}"></button>'
    return f'<figure class="code">{copy}<pre><code{name}>{words}</code></pre></figure>\n'


def _mathematics(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    return mathml(tokens[at].content, tokens[at].type == "math_block")


for _kind, _rule in (
    *(("text", _text), ("code_inline", _code), ("code_block", _block), ("fence", _block)),
    *(("math_inline", _mathematics), ("math_block", _mathematics)),
):
    parser.add_render_rule(_kind, _rule)
