"""The private Talkback of a run of evidence, as far as it can be had without starting one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.evidence.stack import Stack


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
