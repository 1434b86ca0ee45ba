"""Find the sentences of failures, and of messages, that people read and no translation reaches.

python -m tests.webapp.languages.bare_failures [FILE]...
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests.webapp.languages.bare_words import LETTERS, NAMES, Bare
from tests.webapp.languages.catalogues import ROOT, tracked

ROOMS = ("chat", "checkpoints", "evaluation", "gate", "privacy", "webapp")
MESSAGES = frozenset({"debug", "info", "success", "warning", "error"})
"""Functions of django.contrib.messages."""


def is_failure(name: str) -> bool:
    """Whether this calls a class, and none of Python's or Django's whose words are for logs and for commands."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() and last not in FOR_LOGS | FOR_PROGRAMS | FOR_ROWS


FOR_LOGS = frozenset({
    *("ValueError", "TypeError", "LookupError", "KeyError", "RuntimeError", "NotImplementedError", "AssertionError"),
    *("OSError", "SystemExit", "ImproperlyConfigured", "CommandError", "DoesNotExist", "Http404", "OAuth2Error"),
    *("Broken", "ModelUnreadable", "OffsetsLost", "EngineGarbled", "TemplateError"),
})  # fmt: skip
"""Faults of the program, of its settings and of its model: a page shows another sentence in their place, if any."""

FOR_PROGRAMS = frozenset({
    *("CompletionNotFound", "EncodingUnknown", "KeyInvalid", "ModelNotFound", "NameRefused", "NotOffered"),
    *("NothingSaid", "PreviousNotFound", "RateLimited", "ReplyBegun", "RequestInvalid", "RequestTooLarge"),
    *("ResponseNotFound", "SchemaRefused", "ScopeMissing", "SessionNotFound", "ToolMissing", "TurnUnfinished"),
})  # fmt: skip
"""Refusals under /v1 alone, which speaks English."""

FOR_ROWS = frozenset({"NotDelivered", "ServerFailed"})
"""What a row keeps, with the figures and names of its time, and a model may read."""


def words_of(node: ast.expr, known: dict[str, str]) -> str:
    """What an expression says by itself: a text, an f-string, or a name for one of them; nothing that is translated."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else " … " for part in node.values)
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.IfExp):
        return words_of(node.body, known) or words_of(node.orelse, known)
    if isinstance(node, ast.BinOp):
        return words_of(node.left, known) or words_of(node.right, known)
    return ""


def texts(tree: ast.Module) -> dict[str, str]:
    """The names that stand for a text in this file, and never for one that is translated."""
    found: dict[str, str] = {}
    translated: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    said = words_of(node.value, {})
                    found |= {target.id: said} if said else {}
                    translated |= set() if said else {target.id}
    return {name: said for name, said in found.items() if name not in translated}


def bare_failures(source: str, path: str = "") -> Iterator[Bare]:
    """What a file raises, or shows as a message, in English to every reader."""
    tree = ast.parse(source)
    known = texts(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and is_failure(ast.unparse(node.exc.func)):
            said = node.exc.args[:1]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) == "messages"
            and node.func.attr in MESSAGES
        ):
            said = node.args[1:2]
        else:
            continue
        for words in (words_of(one, known) for one in said):
            if any(word not in NAMES for word in LETTERS.findall(words)):
                yield Bare(path, node.lineno, words)


def files(names: list[str]) -> list[str]:
    """The files of rooms whose failures people see; what a command says is for its operator's shell."""
    listed = names or tracked(*(f"{room}/*.py" for room in ROOMS))
    return [path for path in listed if "/management/" not in path and (ROOT / path).exists()]


def all_bare(names: list[str]) -> list[Bare]:
    return [bare for path in files(names) for bare in bare_failures((ROOT / path).read_text("utf-8"), path)]


if __name__ == "__main__":
    left = all_bare(sys.argv[1:])
    print(*left, sep="\n")
    sys.exit(f"{len(left)} failures say words that no translation reaches." if left else 0)
