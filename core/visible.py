r"""Show control characters as marks: what a terminal obeys, what turns text around, and what hides in it.

Text of users, clients and tools passes through `visible` on its way to a terminal, a log or a reviewer's page. Names
are refused instead (`name_fault`): two that look alike must be one.
"""

from __future__ import annotations

import json
import re

HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls; the tab and the line feed are text
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, embeddings, overrides and isolates
    "\xad\u034f\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # no width; the joiners spell words
    "\u180b-\u180f\ufe00-\ufe0e"  # selectors of a letter's form; U+FE0F makes emoji
    "\u17b4\u17b5\U0001d173-\U0001d17a"  # vowels and marks of music that have no form
    "\u115f\u1160\u3164\uffa0"  # fillers: letters to a program, nothing to a reader
    "\u2028\u2029"  # ends of lines for some readers
    "\ud800-\udfff"  # halves of pairs: bytes that were no UTF-8
    "\U000e0000-\U000e0fff"  # tags and selectors, which can spell a whole message
    "]|\r(?!\n)"  # a return alone writes over the line
)
ENDS = re.compile("[\t\n\r]")


def mark(character: str) -> str:
    r"""What stands for a character that is not seen: its picture, or its number.

    >>> mark("\x1b"), mark("\x7f"), mark("\u202e")
    ('␛', '␡', '⟨U+202E⟩')
    """
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def visible(text: str, *, one_line: bool = False) -> str:
    r"""The text with a mark for each character that is not seen; all others stay. `one_line`: also for a tab and for
    the end of a line, which could pass for the next row of a table.

    >>> visible("\x1b[2Jgone\x07\n\u202etxt.exe\r\n")
    '␛[2Jgone␇\n⟨U+202E⟩txt.exe\r\n'
    >>> visible("two\nlines", one_line=True)
    'two␊lines'
    """
    shown = HIDDEN.sub(lambda found: mark(found[0]), text)
    return ENDS.sub(lambda found: mark(found[0]), shown) if one_line else shown


def escape_hidden(written: str) -> str:
    r"""JSON in which a terminal finds nothing to obey: what is not seen stands in it as an escape.

    >>> print(escape_hidden('"a\u202eb\U000e0041"'))
    "a\u202eb\udb40\udc41"
    """
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", written)


def name_fault(name: str) -> str:
    r"""Why a name is refused, in a sentence; empty where each of its characters is seen.

    >>> name_fault("laptop"), name_fault("lap\x1btop")
    ('', 'A name holds only characters that are seen, and this one holds ␛ (U+001B): leave it out.')
    """
    found = HIDDEN.search(name) or ENDS.search(name)
    if found is None:
        return ""
    shown, number = mark(found[0]), f"U+{ord(found[0]):04X}"
    held = f"{shown} ({number})" if number not in shown else number
    return f"A name holds only characters that are seen, and this one holds {held}: leave it out."
