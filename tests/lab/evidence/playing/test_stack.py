"""The private Talkback of a run of evidence, as far as it can be had without starting one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.errors import StackFailed
from lab.evidence.playing import private_stack as stacks
from lab.evidence.playing.private_stack import LAST_YIELDS, YIELDS, Stack, side_by_side


@pytest.mark.asyncio
async def test_a_line_that_is_added_leaves_the_keys_of_the_others(tmp_path: Path) -> None:
    """A conversation belongs to its key: with another, the first half of a session would never hear of the second."""
    issued: list[str] = []

    def issue(file: Path) -> Iterator[str]:
        for line in file.read_text().splitlines():
            issued.append(json.loads(line)["name"])
            yield json.dumps({"line": issued[-1], "keys": {"talk": f"key {len(issued)}"}})

    class Managed(Stack):
        async def manage(self, *arguments: str, **more: Any) -> str:
            return "\n".join(issue(Path(arguments[-1])))

    first = {"base-1": {"talk": "key 1"}, "binary-1": {"talk": "key 2"}}
    names = [{"name": "base-1"}, {"name": "binary-1"}]

    assert await Managed(tmp_path, tmp_path).make_lines(names) == first
    assert await Managed(tmp_path, tmp_path).make_lines(names) == first
    assert await Managed(tmp_path, tmp_path).make_lines([*names, {"name": "opd-1"}]) == first | {
        "opd-1": {"talk": "key 3"}
    }
    assert issued == ["base-1", "binary-1", "opd-1"]


NICEST = 19
"""Linux knows no more."""


@pytest.mark.asyncio
async def test_engines_give_way_to_the_learner_and_to_whoever_carries_requests(tmp_path: Path) -> None:
    """Niceness is weighed between processes of one session (Linux groups them so), so they must share ours; and each
    has a process group of its own, or Ctrl-C would reach it before we stop it in our order."""

    class Waiting(Stack):
        @property
        def commands(self) -> dict[str, list[str]]:
            return {
                name: [sys.executable, "-c", "import signal; signal.pause()"]
                for name in ("engine", "engine2", "learn", "web")
            }

        def begin(self) -> dict[str, int]:
            (self.folder / "log").mkdir()
            self._environment = dict(os.environ)
            for name in self.commands:
                self._start(name)
            return {name: process.pid for name, process in self._running.items()}

    stack, own = Waiting(tmp_path, tmp_path), os.getpriority(os.PRIO_PROCESS, 0)
    try:
        pids = stack.begin()
        nice = {name: os.getpriority(os.PRIO_PROCESS, pid) - own for name, pid in pids.items()}
        first, last = (min(yields, NICEST - own) for yields in (YIELDS, LAST_YIELDS))
        assert nice == {"engine": first, "engine2": last, "learn": 0, "web": 0}
        assert {os.getsid(pid) for pid in pids.values()} == {os.getsid(0)}
        assert {os.getpgid(pid) for pid in pids.values()} == set(pids.values())
    finally:
        await stack.aclose()


@pytest.mark.asyncio
async def test_where_one_of_several_is_not_to_be_had_none_is_left_running(tmp_path: Path) -> None:
    running = set()

    class Started(Stack):
        async def __aenter__(self) -> Started:
            running.add(self.folder.name)
            if self.folder.name == "b":
                raise StackFailed("No port is free.")
            return self

        async def aclose(self) -> None:
            running.discard(self.folder.name)

    with pytest.raises(StackFailed, match="No port"):
        async with side_by_side([Started(tmp_path / name, tmp_path) for name in "abc"]):
            pytest.fail("it is not ready")
    assert not running


def test_several_have_an_equal_share_of_the_cores_and_an_engine_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "cores", lambda: 16)
    assert stacks.engines(5) == 3  # 16 // 5
    monkeypatch.setattr(stacks, "cores", lambda: 2)
    assert stacks.engines(5) == 1
