"""What the pages for newcomers say of the code is there: files, functions, rooms, and names that are still old."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from training.config import Recipe

ROOT = Path(__file__).parents[1]


@cache
def code() -> str:
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", ":!tests"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return "\n".join((ROOT / path).read_text(encoding="utf-8") for path in tracked.stdout.splitlines())


def rows(page: str) -> list[list[str]]:
    """The cells of each row of a page's tables, headings left out."""
    text = (ROOT / page).read_text(encoding="utf-8")
    told = [line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| (?!\| )\S", line)]
    return [[cell.strip() for cell in row] for row in told if not set(row[0]) <= {"-", " "}]


def test_the_life_of_a_message_has_eight_steps_and_each_names_a_function_that_is_there():
    steps = [row for row in rows("docs/explanation/life-of-a-message.md") if row[0].isdigit()]
    assert [row[0] for row in steps] == list("12345678")
    for _, _, where, _ in steps:
        file, function = re.findall(r"`([^`]+)`", where)
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in named, f"{file} has no {function}"


def test_the_house_says_what_every_folder_is_for():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)/`", text[text.index("## Rooms") : text.index("## What follows what")]))
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {path.split("/")[0] for path in tracked.splitlines() if "/" in path and not path.startswith(".")}
    assert not folders - {"docs", "clients", "var"} - told


def entries() -> list[tuple[str, str]]:
    """Each entry of the glossary: its names, and all that is said of it."""
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^- \*\*([^*]+)\*\*: (.+)$", re.sub(r"\n {2}(?=\S)", " ", text), re.MULTILINE)


def test_the_glossary_is_read_whole():
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    assert len(entries()) == len(re.findall(r"^- ", text, re.MULTILINE)) > 0


@pytest.mark.parametrize(("names", "said"), entries(), ids=[names for names, _ in entries()])
def test_a_word_of_the_glossary_is_not_one_to_avoid_and_its_names_are_in_the_code(names, said):
    avoided = [word.strip() for found in re.findall(r"Not \*([^*]+)\*", said) for word in found.split(",")]
    assert not {name.strip() for name in names.split(",")} & set(avoided)
    for name in re.findall(r"`([^`]+)`", said):
        if (ROOT / name).exists():
            continue
        last = name if "=" in name else name.split(".")[-1]
        assert re.search(rf"\b{re.escape(last)}\b", code()), f"{name} is nowhere in the code"


def test_the_first_lines_name_buttons_as_pages_do_and_the_one_that_starts_training_early():
    """A run starts by itself when a batch is full: who gave fewer lessons than that waits for a button."""
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("**Next:**")[0]
    named = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", first)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "templates").rglob("*.html"))
    assert all(f'{{% translate "{name}' in pages for name in named), named
    assert "a dozen lessons" in first
    assert Recipe().batch_size > 12
    assert "Learn now" in named
