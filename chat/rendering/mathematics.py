"""Read LaTeX between dollars or brackets in Markdown, and draw it as MathML, which browsers show without scripts."""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from xml.etree.ElementTree import Element

from django.utils.html import escape
from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from chat.rendering.sources import PRIVATE, is_letter

# What is between two signs holds neither of them: from each sign the search ends at the next, so it is linear.
INLINE = {
    "$$": (re.compile(r"\$\$((?:[^$\\]|\\.){1,4000}+)\$\$", re.DOTALL), True),
    "$": (re.compile(r"\$((?:[^$\\\s]|\\.)(?:[^$\\]|\\.){0,999}+)(?<!\s)\$", re.DOTALL), False),
    r"\(": (re.compile(r"\\\(((?:[^\\]|\\[^()]){1,4000}+)\\\)"), False),
    r"\[": (re.compile(r"\\\[((?:[^\\]|\\[^\[\]]){1,4000}+)\\\]"), True),
}
"""For each opening sign what it begins, and whether that stands on a line of its own."""

DEEPEST = 40
"""Braces and environments within each other that are still drawn."""

DEFINES = re.compile(
    r"\\(?:\w*def|let|(?:re)?newcommand|providecommand|newenvironment|DeclareMathOperator)(?![a-zA-Z])"
)
"""Commands that name others, by which a short line can grow without end."""

TAGS = {
    *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "merror"),
    *("mpadded", "mphantom", "msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts"),
    *("mprescripts", "none", "mtable", "mtr", "mtd", "menclose"),
}

ATTRIBUTES = {
    *("display", "displaystyle", "scriptlevel", "mathvariant", "mathsize", "mathcolor", "stretchy", "fence", "form"),
    *("separator", "symmetric", "accent", "accentunder", "movablelimits", "largeop", "linethickness", "minsize"),
    *("maxsize", "lspace", "rspace", "width", "height", "depth", "voffset", "columnalign", "rowalign"),
    *("columnspacing", "rowspacing", "columnlines", "rowlines", "notation"),
}

VALUE = re.compile(r"(?!.*(?<![.\d])\d{3})[\w.+%# -]{1,80}", re.ASCII)
"""Words, and lengths below 100 of any unit: nothing is pushed off the page or drawn over it."""


def add_mathematics(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("escape", "mathematics", _inline)
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "mathematics", _block, interrupts)


def _opening(text: str, at: int) -> str:
    return next((sign for sign in INLINE if text.startswith(sign, at)), "")


def _inline(state: StateInline, silent: bool) -> bool:
    opening = _opening(state.src, state.pos)
    if not opening:
        return False
    pattern, is_block = INLINE[opening]
    found = pattern.match(state.src, state.pos, state.posMax)
    # A price is no formula: US$5, $5 or $6, $5/$6.
    if found is None or (
        opening == "$" and (_is_letter(state.src, state.pos - 1) or _is_letter(state.src, found.end()))
    ):
        return False
    if not silent:
        token = state.push("math_block" if is_block else "math_inline", "", 0)
        token.content, token.markup = found[1], opening
    state.pos = found.end()
    return True


def _is_letter(text: str, at: int) -> bool:
    # `sources` reads a text twice, and the second time each letter and digit stands for its place.
    return 0 <= at < len(text) and (is_letter(text[at]) or ord(text[at]) >= PRIVATE)


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    if state.is_code_block(first):
        return False
    begins = state.bMarks[first] + state.tShift[first]
    opening = _opening(state.src, begins)
    found = INLINE[opening][0].match(state.src, begins) if opening in ("$$", r"\[") else None
    if found is None:
        return False
    end = first
    while end < last and state.eMarks[end] < found.end():
        end += 1
    within = range(first + 1, min(end + 1, last))
    if end == last or any(state.isEmpty(line) or state.sCount[line] < state.blkIndent for line in within):
        return False  # a blank line, or the end of what it stands in, ends it
    text = state.getLines(first, end + 1, state.blkIndent, False).strip()
    found = INLINE[opening][0].fullmatch(text)  # without what a quotation puts before each line
    if found is None:
        return False  # the line goes on behind it: a sentence with a formula in it
    if not silent:
        state.line = end + 1
        token = state.push("math_block", "", 0)
        token.block, token.map = True, [first, state.line]
        token.content, token.markup = found[1], opening
    return True


@lru_cache(maxsize=2048)
def mathml(latex: str, is_block: bool) -> str:
    """MathML of one formula; the formula as code where it cannot be drawn. Markup in it is text, links and styles
    are left out."""
    if DEFINES.search(latex) or deepest(latex) > DEEPEST:
        return f"<code>{escape(latex.strip())}</code>"
    try:
        element = Converter(display="block" if is_block else "inline").convert_to_element(latex.strip())
        return drawn(element)
    except Exception:  # it raises errors of many kinds for what is not LaTeX
        return f"<code>{escape(latex.strip())}</code>"


def deepest(latex: str) -> int:
    r"""How many braces and environments are open at once, at most.

    >>> deepest(r"\frac{1}{\sqrt{2}}"), deepest("{" * 50)
    (2, 50)
    """
    depth = most = 0
    for sign in re.findall(r"\\(?:begin|left|end|right)(?![a-zA-Z])|\\.|[{}^_]", latex, re.DOTALL):
        depth += 1 if sign in ("{", r"\begin", r"\left") else -1 if sign in ("}", r"\end", r"\right") else 0
        most = max(most, depth)
    return most


def drawn(element: Element) -> str:
    """The element as HTML. Its text is escaped: the converter's own serialiser lets tags in \\text through."""
    if element.tag not in TAGS:
        raise ValueError(f"no element of MathML that we show: {element.tag}")
    attributes = "".join(
        f' {name}="{value}"' for name, value in element.items() if name in ATTRIBUTES and VALUE.fullmatch(value)
    )
    inside = "".join(drawn(child) for child in element)
    return f"<{element.tag}{attributes}>{escape(unescape(element.text or ''))}{inside}</{element.tag}>"
