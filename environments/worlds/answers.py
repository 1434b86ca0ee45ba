"""Say whether an answer is the right one: as text, as a number, or as mathematics. Exact, and never by a model."""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import sys
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal

from environments.errors import Unplayable
from environments.sandboxes.commands import run_bounded
from environments.sandboxes.sandbox import MIB

Check = Literal["math", "strings"]
"""math: equal as mathematics; strings: equal as DAPO's text, which is what its reward looks at."""

LONGEST = 1000
"""Characters of an answer that is read; a longer one is wrong."""
CHECK_S = 20.0
CHECK_MEMORY = 1024 * MIB
NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:/\d+)?")

CHILD = """
import json, sys
from math_verify import LatexExtractionConfig, parse, verify
gold, said = (parse("$" + one + "$", [LatexExtractionConfig()], parsing_timeout=None) for one in json.load(sys.stdin))
print("right" if gold and said and verify(gold, said, timeout_seconds=None) else "wrong")
"""
"""LaTeX alone is parsed: math-verify evaluates what it takes for Python's own expressions."""

CHANGED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text")),
    *((",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}")),
)
REMOVED = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", "\\ldots", "sue", "points"),
    *("feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students"),
    *("childrentickets", "multiples", "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3"),
    *("\\text{\n}", "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots"),
)
REWRITTEN = (
    (r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$"),
    (r"(\\text\{)(.*?)(\})", r"\2"),
    (r"(\\textbf\{)(.*?)(\})", r"\2"),
    (r"(\\overline\{)(.*?)(\})", r"\2"),
    (r"(\\boxed\{)(.*)(\})", r"\2"),
    (r"(frac)([^{])(.)", r"frac{\2}{\3}"),
    (r"(sqrt)([^{])", r"sqrt{\2}"),
)


def require(check: Check) -> None:
    """Raises Unplayable where what this check needs is not installed."""
    if check == "math" and importlib.util.find_spec("math_verify") is None:
        raise Unplayable("Answers are compared by math-verify: `python3 -m installation install worlds`.")


def is_right(gold: str, said: str, check: Check = "math") -> bool:
    """Whether `said` is `gold`. Never raises on what a model may have written; what cannot be compared in CHECK_S
    seconds is wrong.

    >>> is_right("34", " 34.0 "), is_right("1/2", "0.5"), is_right("34", "35"), is_right("34", "34.0", "strings")
    (True, True, False, False)
    """
    if len(said) > LONGEST:
        return False
    if check == "strings":
        return normalised(said) == normalised(gold)
    if squeezed(said) == squeezed(gold):
        return True
    numbers = number(gold), number(said)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return _is_equal_as_mathematics(gold, said)


def squeezed(text: str) -> str:
    r"""Without blanks, and without the marks of mathematics around it.

    >>> squeezed(r"$\boxed{ 1 2 }$")
    '12'
    """
    bare = re.sub(r"\s+", "", text).strip("$")
    return bare[7:-1] if bare.startswith("\\boxed{") and bare.endswith("}") else bare


def number(text: str) -> Fraction | None:
    """What a plain number says: digits with commas, a point, or one stroke; None for anything else.

    >>> number("1,024"), number("-0.50"), number("3/4"), number("1/0"), number("two"), number("")
    (Fraction(1024, 1), Fraction(-1, 2), Fraction(3, 4), None, None, None)
    """
    bare = squeezed(text)
    if not bare.isascii() or not re.search(r"\d", bare) or not NUMBER.fullmatch(bare):
        return None
    top, _, bottom = bare.replace(",", "").partition("/")
    try:
        return Fraction(Decimal(top)) / (int(bottom) if bottom else 1)
    except (InvalidOperation, ZeroDivisionError, ValueError):
        return None


def normalised(text: str) -> str:
    r"""An answer as DAPO's reward compares it (arXiv 2503.14476; the rules are those of Minerva, 2206.14858, app. D).

    >>> normalised(r"x = \frac12 \text{ dollars}"), normalised("1,024 km"), normalised(r"$\boxed{34}$")
    ('\\frac{1}{2}', '1024', '34')
    """
    text = text.split("=")[-1]
    for old, new in CHANGED:
        text = text.replace(old, new)
    for word in REMOVED:
        text = text.replace(word, "")
    for pattern, by in REWRITTEN:
        text = re.sub(pattern, by, text)
    text = text.replace("$", "")
    return (text.replace(",", "") if text.replace(",", "").isdigit() else text).strip()


def _is_equal_as_mathematics(gold: str, said: str) -> bool:
    """Ask math-verify, in a process of its own: what a model wrote can keep a parser busy for ever."""
    asked = json.dumps([one.replace("$", "").strip() for one in (gold, said)]).encode()
    command = [sys.executable, "-I", "-c", CHILD]
    result = run_bounded(command, timeout_s=CHECK_S, most_output=64, env={}, stdin=asked, limit=_limit)
    return result.status == 0 and result.out.strip() == b"right"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (CHECK_MEMORY, CHECK_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(CHECK_S), int(CHECK_S)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
