"""What an agent hands in: the files that it changed, less what would run beside the tests or in place of them."""

from __future__ import annotations

import configparser
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from environments.sandboxes.trees import HOOKS, Tree

TESTS = ("test_*.py", "*_test.py", "tests.py")
TEST_FOLDERS = ("test", "tests")
STARTED = (*HOOKS, "pytest.toml", ".pytest.toml", "*.egg-link", "entry_points.txt", "pyvenv.cfg")
SECTIONS = {"setup.cfg": "tool:pytest", "tox.ini": "pytest"}
MOST_NOTES = 20


@dataclass(frozen=True)
class Submission:
    """The base's files with the agent's changes; `notes` has a sentence for each change that is not taken."""

    files: Tree
    changed: tuple[str, ...]
    notes: tuple[str, ...]


def submit(base: Tree, after: Tree, hidden: Tree, kept: frozenset[str] = frozenset()) -> Submission:
    """Compare what lies in the agent's checkout with what it began with.

    `hidden` are the tests that will be put in place, `kept` files that are the base's whatever became of them. What is
    left out of `after` (a link, a pipe, too many files) is neither changed nor deleted.
    """
    left_out = set(after.left_out)
    files = dict(base.files)
    changed: list[str] = []
    notes = [f"{name}: no regular file." for name in after.left_out]
    for name in sorted({*base.files, *after.files}):
        new = after.files.get(name)
        if new == base.files.get(name) or (new is None and name in left_out):
            continue
        if reason := why_refused(name, base, after, hidden, kept):
            notes.append(f"{name}: {reason}")
            continue
        changed.append(name)
        if new is None:
            del files[name]
        else:
            files[name] = new
    tree = Tree({name: file for name, file in files.items() if not _is_below_a_file(name, files)})
    return Submission(tree, tuple(changed), tuple(notes[:MOST_NOTES]))


def _is_below_a_file(name: str, files: dict[str, Any]) -> bool:
    return any(str(parent) in files for parent in PurePosixPath(name).parents)


def why_refused(name: str, base: Tree, after: Tree, hidden: Tree, kept: frozenset[str] = frozenset()) -> str:
    """One sentence where a change to this path is not taken; empty where it is."""
    path = PurePosixPath(name)
    if any(part.lower().startswith(".git") for part in path.parts):
        return "git's own."
    if name in hidden.files or name in kept or any(fnmatchcase(path.name, pattern) for pattern in TESTS):
        return "a test."
    if any(part in TEST_FOLDERS for part in path.parts[:-1]):
        return "in a folder of tests."
    if any(fnmatchcase(path.name, pattern) for pattern in STARTED):
        return "Python or pytest would run it unasked."
    if _pytest_section(name, base) != _pytest_section(name, after):
        return "it changes how pytest runs."
    return ""


def _pytest_section(name: str, tree: Tree) -> Any:
    """What a file says to pytest; None for nothing, and text for what cannot be read."""
    kind = PurePosixPath(name).name
    if name not in tree.files or kind not in (*SECTIONS, "pyproject.toml"):
        return None
    try:
        text = tree.files[name].content.decode()
        if kind == "pyproject.toml":
            return tomllib.loads(text).get("tool", {}).get("pytest")
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        section = SECTIONS[kind]
        return dict(parser[section]) if parser.has_section(section) else None
    except (ValueError, configparser.Error, AttributeError):
        return "unreadable"
