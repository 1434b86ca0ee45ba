"""Read which settings there are, what each is for and what it is by default, from the code that reads them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from core.parsing import parse
from core.told import FOR_A_START, KEPT

SOURCE = Path(__file__).parents[2] / "settings.py"
HEADING = re.compile(r"# ([A-Z][^.(;]*)")
OF_A_START = "What a start reads, or one process"


@dataclass(frozen=True)
class Setting:
    """One setting, as docs/reference/settings.md lists it."""

    name: str
    default: str
    """Empty where there is none, or where it is worked out from something else."""
    meaning: str
    group: str
    is_kept: bool
    """A start remembers it from the one before."""


def known() -> tuple[Setting, ...]:
    """Every setting, in the order of the code: what Django reads, then what only a start does.

    Raises LookupError where a setting has no docstring, or one that a start remembers stands nowhere."""
    found = {one.name: one for one in _read_by_django()}
    for name, (default, meaning) in FOR_A_START.items():
        found[name] = Setting(name, default, meaning, OF_A_START, name in KEPT)
    if missing := set(KEPT) - set(found):
        raise LookupError(f"Nothing says what these settings are: {', '.join(sorted(missing))}.")
    return tuple(found.values())


def _read_by_django() -> Iterator[Setting]:
    """Each `NAME = … env("NAME", default) …` of webapp/settings.py, under the comment that heads its part."""
    body, headings = _code()
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
        for call in calls:
            first = call.args[0] if call.args else None
            if isinstance(first, ast.Constant) and first.value == name:
                if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                    raise LookupError(f"webapp/settings.py: {name} has no docstring.")
                group = headings[max(line for line in headings if line < node.lineno)]
                default = _default_of(call, is_flag=isinstance(node.value, ast.Compare))
                yield Setting(name, default, " ".join(str(after.value.value).split()), group, name in KEPT)


@cache
def _code() -> tuple[list[ast.stmt], dict[int, str]]:
    """What webapp/settings.py does, and its headings by their line."""
    text = SOURCE.read_text(encoding="utf-8")
    return parse(text).body, dict(_headings(text))


def _headings(text: str) -> Iterator[tuple[int, str]]:
    """The number of each line that is a comment after an empty one, and the first words of that comment."""
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not before.strip() and (heading := HEADING.match(line)):
            yield number, heading[1].strip()
        before = line


def _default_of(call: ast.Call, *, is_flag: bool) -> str:
    """What an `env("NAME", default)` falls back to; empty where that is worked out from something else."""
    if len(call.args) < 2:
        return "0" if is_flag else ""
    source = compile(ast.Expression(call.args[1]), "default", "eval")
    try:
        return str(eval(source, {"DATA_DIR": PurePosixPath("DATA_DIR"), "str": str}))  # noqa: S307  # our own source
    except NameError:
        return ""
