"""Find passwords: what is called one, and what stands between a name and @ in an address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from judge.samples.personal.findings import Finding, compile_pattern, match_findings
from judge.samples.personal.keys import looks_drawn
from judge.samples.personal.kinds import Wanted

NAMES = r"passwords?|passwd|passphrase|passwort|pwd|kennwort|contraseña|mot[ _]de[ _]passe"
NAMES_OF_TOKENS = (
    r"secret|secret[_-]?(?:access[_-]?)?key|api[_-]?key|api[_-]?token|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|"
    r"client[_-]?secret|private[_-]?key|encryption[_-]?key|signing[_-]?key|token|credentials?"
)
QUOTED = r"""(?:"([^"\n]{4,200})"|'([^'\n]{4,200})'|`([^`\n]{4,200})`)"""
BARE = r"""([^\s"'`,;<>(){}\[\]&]{4,200})"""
SPOKEN = rf"(?i)\b(?:{NAMES}|pass[ _]?code)\s+(?:is|was|ist|lautet|to)\s*:?\s+(?:{QUOTED}|{BARE})"
IN_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/?#\[\]@\"'<>]{0,128}:([^\s/?#\[\]@\"'<>]{1,256})@"

STANDS_FOR = compile_pattern(
    r"(?i)^(?:(?:[a-z]+[_ -])*(?:your|example|placeholder|required|optional|password|passwd|passphrase|token|api_?key|"
    r"changeme)(?:[_ -][a-z]+)*|none|null|nil|true|false|string|str|bytes|text|varchar|char|undefined|redacted|hidden|"
    r"input|prompt|env|self|x{3,}|[*.•…]{3,}|[<{%$\[].*|.*[$]\{.*)$"
)
"""What stands where a password would: the name of a variable, of a type, a placeholder."""

CODE = compile_pattern(r"^[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*[.:!?]*$")
A_NAME = compile_pattern(rf"(?i)(?:^|[._-])(?:{NAMES})[0-9]{{0,2}}$")
A_SECRET_NAME = compile_pattern(rf"(?i)(?:^|[._-])(?:{NAMES_OF_TOKENS})[0-9]{{0,2}}$")
A_NUMBER_OF = compile_pattern(
    r"(?i)(?:^|[^a-z])(?:max|min|num|total|count|limit)(?:imum)?(?:[._-]?[a-z]+)*[._-]?tokens?$"
)
"""What counts tokens is called like one."""


def find_passwords(text: str, wanted: Wanted) -> Iterator[Finding]:
    yield from match_findings(compile_pattern(IN_ADDRESS), text, "password", lambda value: not STANDS_FOR.search(value))
    for names, is_secret in ((NAMES, is_password), (NAMES_OF_TOKENS, is_token)):
        for match in compile_pattern(assigned(names)).finditer(text):
            named = match[0].partition("=")[0].partition(":")[0].strip(" \"'")
            if not A_NUMBER_OF.search(named) and (one := value_of(match, text, is_secret)):
                yield one
    for match in compile_pattern(SPOKEN).finditer(text):
        if one := value_of(match, text, is_password):
            yield one


def is_named_secret(name: object, value: object, wanted: Wanted) -> bool:
    """True for a member of an object whose name says that its value is a password, or a token that looks like one."""
    if not (isinstance(name, str) and isinstance(value, str) and value and "password" in wanted.kinds):
        return False
    if A_NAME.search(name):
        return is_password(value, False)
    return bool(A_SECRET_NAME.search(name)) and not A_NUMBER_OF.search(name) and is_token(value, False)


def assigned(names: str) -> str:
    """The pattern of a value that is given to one of these names, as code, settings and forms write it."""
    return (
        rf"""(?i)(?:^|[^A-Za-z0-9])[A-Za-z0-9_.-]{{0,40}}?(?:{names})[_-]?[0-9]{{0,2}}["']?"""
        rf"""\s{{0,3}}(?::=|=>|=|:)\s{{0,3}}(?:{QUOTED}|{BARE})"""
    )


def value_of(match: Any, text: str, is_secret: Callable[[str, bool], bool]) -> Finding | None:
    """The value that the match assigns: one of its three quoted groups, or the bare one after them."""
    for group in range(1, 5):
        start, end = match.span(group)
        if start < 0:
            continue
        is_bare = group == 4
        while is_bare and end > start and text[end - 1] in ".,:!?*":  # the sentence's
            end -= 1
        calls = is_bare and text[end : end + 1] in ("(", "[")
        if end - start >= 4 and not calls and is_secret(text[start:end], is_bare):
            return Finding(start, end, "password")
    return None


def is_password(value: str, is_bare: bool) -> bool:
    """What may be a real password: no placeholder, and without quotes no mere word of a sentence or of a program.

    >>> [is_password(value, True) for value in ("hunter2", "required", "form.password", "${PASSWORD}")]
    [True, False, False, False]
    """
    return not STANDS_FOR.search(value) and not (is_bare and CODE.search(value))


def is_token(value: str, is_bare: bool) -> bool:
    """Longer than a password, and drawn by chance: `token` and `secret` are common words.

    >>> is_token("4096", True), is_token("9f86d081884c7d659a2feaa0", True)
    (False, True)
    """
    return len(value) >= 12 and looks_drawn(value) and any(c.isalpha() for c in value) and is_password(value, is_bare)
