"""Find the words that name no actor ("nobody", "somebody" …) in code, pages and docs; fail where there is one.

python .ci/words.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = re.compile(r"\b(nobody|somebody|whoever|anybody|no[ -]one)\b", re.IGNORECASE)
WHERE = ("*.py", "templates/*.html", "static/*.js", "docs/*.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
RIGHT = {
    ".ci/words.py": "",  # they are named here
    "CONTRIBUTING.md": "Name the actor",
    "tests/postgres.py": "nobody",  # the account of that name
}
"""Lines in which the words are right, by a part of them."""


def lines(path: str) -> list[str]:
    text = Path(path).read_text(encoding="utf-8")
    if path == "CHANGELOG.md":  # what was released is not reworded
        text = "\n## ".join(text.split("\n## ")[:2])
    return text.split("\n")


def found() -> Iterator[str]:
    tracked = subprocess.run(["git", "ls-files", "-z", *WHERE], capture_output=True, text=True, check=True)
    for path in filter(None, tracked.stdout.split("\0")):
        for number, line in enumerate(lines(path) if Path(path).exists() else (), 1):
            if path not in RIGHT or RIGHT[path] not in line:
                for word in WORDS.findall(line):
                    yield f"{path}:{number}: {word}: {line.strip()[:100]}"


if __name__ == "__main__":
    if left := list(found()):
        print(*left, sep="\n")
        sys.exit(f"{len(left)} words that name no actor: say who does it instead.")
