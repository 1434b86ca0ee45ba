"""Find e-mail addresses."""

from __future__ import annotations

from collections.abc import Iterator

from judge.samples.personal.findings import Finding, compile_pattern
from judge.samples.personal.kinds import Wanted

EMAIL = compile_pattern(
    r"[\p{L}0-9_%+][\p{L}0-9._%+'-]{0,63}@(?:[\p{L}0-9](?:[\p{L}0-9-]{0,61}[\p{L}0-9])?\.)+(\p{L}{2,24}|xn--[a-z0-9-]{2,59})"
)
IN_ADDRESS_YET = compile_pattern(r"://[^\s/@]*$")
FILES = (
    *("png", "jpg", "jpeg", "gif", "svg", "webp", "ico"),
    *("js", "ts", "css", "py", "json"),
    *("service", "timer", "target"),
)
"""What ends the name of a file or a unit: icon@2x.png, getty@tty1.service."""


def find_emails(text: str, wanted: Wanted) -> Iterator[Finding]:
    for match in EMAIL.finditer(text):
        start, end = match.span()
        # git@host:path, a place to copy to; name:password@host, of which host is no secret
        path = text[end : end + 1] == ":" and text[end + 1 : end + 2].strip() != ""
        named = IN_ADDRESS_YET.search(text[max(0, start - 200) : start])
        if not named and match[1].casefold() not in FILES and not (path and match[0].startswith("git@")):
            yield Finding(start, end, "email")
