"""Find the words of templates that no translation reaches.

python -m tests.webapp.languages.bare_words [FOLDER or FILE under templates/]...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from django.template.base import Lexer, TokenType

TEMPLATES = Path(__file__).parents[3] / "templates"

LETTERS = re.compile(r"[^\W\d_]{2,}")
NOT_WORDS = frozenset({"script", "style", "code", "kbd", "pre", "samp"})
"""What stands in these is typed or read by machines, and is the same in all languages."""
SAID = frozenset({"title", "alt", "placeholder", "label", "aria-label", "aria-description", "aria-roledescription",
                  "aria-valuetext", "hx-confirm", "hx-prompt", "summary"})  # fmt: skip
"""Attributes that people read or hear."""
SAID_DATA = re.compile(r"data-(confirm|say|label|empty|done|undo|hint|words)$")
NAMES = frozenset({
    "Talkback", "OpenClaw", "OpenAI", "ChatGPT", "Open WebUI", "SGLang", "GitHub", "JSON", "JSONL", "CSV", "TSV", "API",
    "Markdown", "HTML", "Parquet", "LoRA", "GGUF", "KL", "SFT", "DPO", "KTO", "OPD", "TOTP", "UTC", "GB", "GiB", "MiB",
    "kB", "ms", "TRL", "MCP", "PRM", "curl", "Python", "JavaScript", "Docker", "Harbor", "OpenEnv", "SWE", "GUI", "ID",
    "id", "URL", "HTTP", "HTTPS", "SHA", "Ed25519", "TensorBoard", "bf16", "fp16", "FP8", "int4", "GPU", "CPU", "RAM",
})  # fmt: skip
"""Proper names, formats and units."""
PHRASES = re.compile(r"https?://\S+|Open WebUI|my-agent")
"""Names of several words, and examples of what is typed."""


class Bare(NamedTuple):
    """Words that a template writes by itself."""

    path: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}"


def without_translated(source: str) -> str:
    """The template with all that is translated, computed or commented taken out, line by line as before."""
    out, within = [], ""
    for token in Lexer(source).tokenize():
        name = token.contents.split()[0] if token.contents.split() else ""
        if token.token_type == TokenType.BLOCK:
            if name in {"blocktranslate", "blocktrans"}:
                within = f"end{name}"
            elif name in {within, "endverbatim"}:
                within = ""
            elif name in {"verbatim", "comment"}:
                within = f"end{name}"
            elif token.contents == "block body_class":
                within = "endblock"
        plain = token.token_type == TokenType.TEXT and not within
        raw = token.contents
        out.append(raw if plain else "\n" * raw.count("\n"))
    return "".join(out)


class Reader(HTMLParser):
    """Collects the text and the attributes that people read."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: list[tuple[int, str]] = []

    def note(self, words: str) -> None:
        left = [word for word in LETTERS.findall(PHRASES.sub("", words)) if word not in NAMES]
        if left:
            self.found.append((self.getpos()[0], " ".join(words.split())))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in NOT_WORDS:
            self.inside.append(tag)
        given = dict(attributes)
        for name, value in attributes:
            told = tag == "input" and name == "value" and given.get("type") in {"submit", "button", "reset"}
            if value and (name in SAID or SAID_DATA.match(name) or told):
                self.note(value)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag in NOT_WORDS:
            self.inside.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.note(data)


def bare_words(path: Path) -> Iterator[Bare]:
    """What a template says in English to every reader."""
    reader = Reader()
    reader.feed(without_translated(path.read_text("utf-8")))
    reader.close()
    for line, words in reader.found:
        yield Bare(str(path.relative_to(TEMPLATES.parent)), line, words)


def templates(names: list[str]) -> list[Path]:
    paths = [TEMPLATES.parent / name for name in names] or [TEMPLATES]
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.html")))]


if __name__ == "__main__":
    left = [found for path in templates(sys.argv[1:]) for found in bare_words(path)]
    print(*left, sep="\n")
    sys.exit(f"{len(left)} places say words that no translation reaches." if left else 0)
