"""Tasks in SWE-bench's form: read a line of JSON, or a folder of our own, and lay out its files.

A line of SWE-bench, SWE-Gym or SWE-rebench has `patch`, which mends. SWE-smith's has no base commit, and its `patch`
makes the bug. NeMo-Gym's has the same keys within `responses_create_params.metadata`, and `instance_dict` as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.errors import Unplayable
from environments.sandboxes.trees import Tree, read_folder
from environments.worlds.base import Split, split_of
from environments.worlds.repo.mirrors import find_mirror, patched, read_commit

ALIASES = {
    "patch": ("patch", "golden_patch", "gold_patch"),
    "problem_statement": ("problem_statement", "instruction", "issue"),
    "base_commit": ("base_commit", "environment_setup_commit"),
    "test_patch": ("test_patch",),
    "FAIL_TO_PASS": ("FAIL_TO_PASS", "fail_to_pass"),
    "PASS_TO_PASS": ("PASS_TO_PASS", "pass_to_pass"),
}


@dataclass(frozen=True)
class Layout:
    """The files of a task. `hidden` are those that its tests bring or change; the agent has them not."""

    base: Tree
    gold: Tree
    """The base, mended, without the hidden tests."""
    hidden: Tree
    gone: tuple[str, ...] = ()
    """Tests that the hidden ones delete."""


@dataclass(frozen=True)
class Instance:
    """One task. `lay_out` reads its files, which may take a second."""

    id: str
    split: Split
    statement: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    row: Mapping[str, Any]
    source: Path
    """The folder of mirrors, or our own task's folder."""
    is_own: bool = False

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.fail_to_pass, *self.pass_to_pass)

    def lay_out(self) -> Layout:
        """Raises Unplayable for a mirror, a commit or a patch that is not there or does not fit."""
        return _own_layout(self.source) if self.is_own else _mirrored(self)


def _own_layout(folder: Path) -> Layout:
    base = read_folder(folder / "repo").without(("*.pyc",))
    return Layout(base, read_folder(folder / "gold").over(base), read_folder(folder / "hidden").without(("*.pyc",)))


def _mirrored(task: Instance) -> Layout:
    repo = str(task.row["repo"])
    patch, test_patch = str(task.row["patch"]), str(task.row.get("test_patch") or "")
    if not task.row.get("base_commit"):
        # SWE-smith: owner__name.commit; the whole repository is given, and the patch breaks it
        name, _, commit = repo.rpartition("/")[2].rpartition(".")
        gold = read_commit(find_mirror(task.source, name.replace("__", "/", 1)), commit)
        base = patched(gold, patch, f"{task.id}: patch")
        tests = {test.partition("::")[0] for test in task.tests}
        return Layout(base, gold, Tree({name: file for name, file in gold.files.items() if name in tests}))
    base = read_commit(find_mirror(task.source, repo), str(task.row["base_commit"]))
    tested = patched(base, test_patch, f"{task.id}: test_patch")
    hidden = {name: file for name, file in tested.files.items() if base.files.get(name) != file}
    gone = tuple(name for name in base.files if name not in tested.files)
    return Layout(base, patched(base, patch, f"{task.id}: patch"), Tree(hidden), gone)


def read_own(folder: Path) -> list[Instance]:
    """Read our own tasks: folders `train` and `heldout` of task folders."""
    return [
        _instance(json.loads(file.read_text()) | {"split": file.parent.parent.name}, file.parent, str(file), True)
        for file in sorted(folder.glob("*/*/task.json"))
    ]


def read_lines(file: Path, mirrors: Path) -> Iterator[Instance | str]:
    """Read a JSONL file: each line's task, or the sentence that says why it is none. Raises OSError."""
    seen: set[str] = set()
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = _instance(flat(json.loads(line)), mirrors, f"{file}:{number}", False)
            except (ValueError, RecursionError):
                yield f"{file}:{number}: no JSON object."
                continue
            except Unplayable as error:
                yield str(error)
                continue
            yield f"{file}:{number}: {found.id} is there twice." if found.id in seen else found
            seen.add(found.id)


def flat(said: Any) -> dict[str, Any]:
    """A line's keys under SWE-bench's names. Raises ValueError.

    >>> flat({"metadata": {"instance_id": "a", "instance_dict": '{"golden_patch": "p"}'}})
    {'instance_id': 'a', 'patch': 'p'}
    """
    if not isinstance(said, dict):
        raise ValueError("no JSON object")
    found: dict[str, Any] = {}
    for part in (said, (said.get("responses_create_params") or {}), said.get("instance")):
        for inner in (part, (part or {}).get("metadata")):
            if isinstance(inner, dict):
                found |= {key: value for key, value in inner.items() if not isinstance(value, dict)}
    if text := found.pop("instance_dict", None):
        found |= json.loads(text)
    row: dict[str, Any] = {key: found[key] for key in ("instance_id", "repo", "split") if key in found}
    for key, names in ALIASES.items():
        if name := next((name for name in names if found.get(name) is not None), None):
            row[key] = found[name]
    return row


def _instance(row: Mapping[str, Any], source: Path, where: str, is_own: bool) -> Instance:
    needed = ("instance_id", "problem_statement", "FAIL_TO_PASS", *(() if is_own else ("repo", "patch")))
    if missing := [key for key in needed if not row.get(key)]:
        raise Unplayable(f"{where}: it has no {', '.join(missing)}.")
    split = row.get("split")
    name = str(row["instance_id"])
    return Instance(
        id=name,
        split=split if split in ("train", "heldout") else split_of(name),
        statement=str(row["problem_statement"]),
        fail_to_pass=_tests(row["FAIL_TO_PASS"], where),
        pass_to_pass=_tests(row.get("PASS_TO_PASS") or [], where),
        row=row,
        source=source,
        is_own=is_own,
    )


def _tests(said: Any, where: str) -> tuple[str, ...]:
    """Names of tests, as a list or as a list in text. pytest's alone: a path to a .py file, and what is in it."""
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            said = said.split("\n")
    tests = tuple(dict.fromkeys(str(each) for each in said))
    if odd := next((each for each in tests if not each.partition("::")[0].endswith(".py")), None):
        raise Unplayable(f"{where}: unscorable: {odd!r:.100} is no test that pytest knows (FILE.py::NAME).")
    return tests
