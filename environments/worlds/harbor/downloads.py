"""Find commands of shell scripts that need the network: a score must not hang on what they fetch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from environments.sandboxes.trees import Tree

START = r"(?:^|[;&|({`]|\$\()\s*(?:(?:then|do|else|if|while|until|sudo|exec|env|time|!|\w+=\S*)\s+)*"
"""Where a command may begin, with what may stand before its name."""
COMMANDS = re.compile(
    START + r"(?P<what>(?:/usr/bin/|/bin/)?(?:"
    r"curl|wget|uvx|pipx|npx"
    r"|uv\s+(?:pip|run|tool|sync|add)|(?:python3?(?:\.\d+)?\s+-m\s+)?pip3?(?:\.\d+)?\s+(?:install|download)"
    r"|apt(?:-get)?\s+(?:-\S+\s+)*(?:update|install|upgrade)|apk\s+add|(?:dnf|yum)\s+install"
    r"|(?:npm|yarn|pnpm)\s+(?:install|i|ci|add)|conda\s+(?:install|create)|gem\s+install|cargo\s+install|go\s+(?:get|install)"
    r"|git\s+(?:clone|pull|fetch)\s+(?:\S+\s+)*(?:https?://|git@|ssh://)\S+"
    r"))(?=\s|$|;)",
    re.MULTILINE,
)
LOCAL = re.compile(r"(?:https?://|file://)?(?:localhost|127\.0\.0\.1|\[::1\])|file://")


def what_downloads(script: str) -> str | None:
    """The first command of a script that needs the network. What is asked of this host itself needs none.

    >>> what_downloads("cd /app && pip install x"), what_downloads("curl -s localhost:80"), what_downloads("echo wget")
    ('pip install', None, None)
    """
    return next((what for _, what in _found(script)), None)


def _found(script: str) -> Iterator[tuple[int, str]]:
    joined = re.sub(r"\\\n", " \f", script)  # a line that goes on is one command; the form feed keeps the count
    for number, line in enumerate(joined.split("\n")):
        if line.lstrip().startswith("#"):
            continue
        for found in COMMANDS.finditer(line):
            what = " ".join(found["what"].split())
            if what in ("curl", "wget") and LOCAL.search(line):
                continue
            yield 1 + number + joined[: _start(joined, number)].count("\f"), what


def _start(text: str, number: int) -> int:
    return sum(len(line) + 1 for line in text.split("\n")[:number])


def downloading_line(tests: Tree) -> str | None:
    """The file, line and command of the first download among a verifier's shell scripts."""
    for name, file in sorted(tests.files.items()):
        if name.endswith(".sh"):
            for number, what in _found(file.content.decode(errors="replace")):
                return f"{name}:{number}: {what}"
    return None
