"""Tests that no honest work can pass are made of several repositories at a time."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

from environments.sandboxes.trees import File, Tree
from environments.worlds.repo.impossible import make_impossible

TESTS = b"def test_sum():\n" + 300 * b"    assert (1 + 2) == 3\n"
MEGABYTE = bytes(2**20)


class Left:
    """Left to the collector of garbage, which lets another thread go on in the middle of what this one does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        hashlib.sha256(MEGABYTE)


def test_two_threads_at_once_get_what_one_gets():
    tree = Tree({"test_sum.py": File(TESTS, 0o644)})

    def lines(_: int) -> int:
        for _ in range(20):
            Left()
        return make_impossible(tree, ("test_sum.py",)).files["test_sum.py"].content.count(b"\n")

    with ThreadPoolExecutor(2) as threads:
        assert len(set(threads.map(lines, range(12)))) == 1
