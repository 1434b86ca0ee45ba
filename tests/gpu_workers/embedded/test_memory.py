"""How much the embedded engine may keep, by the machine's memory and by what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import memory
from gpu_workers.embedded.__main__ import LEFT_BEHIND, kept_bytes, parse

GIB = 2**30
CONVERSATION = GIB // 4


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 GiB, of which this process has one."""
    monkeypatch.setattr(memory, "machine_bytes", lambda: 32 * GIB)
    monkeypatch.setattr(memory, "resident_bytes", lambda: GIB)


@pytest.mark.parametrize(
    ("asked_mib", "kept"),
    [
        (0, GIB - LEFT_BEHIND),  # 32 / 16 - 1
        (3 * 1024, 2 * GIB - LEFT_BEHIND),  # 3 - 1
        (1024, CONVERSATION),  # nothing is left
        (512, CONVERSATION),
    ],
)
def test_what_is_kept_is_left_of_a_sixteenth_of_the_machine_or_of_what_is_asked(asked_mib: int, kept: int) -> None:
    assert kept_bytes(asked_mib, CONVERSATION) == kept


def test_the_setting_is_the_argument_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_MEMORY_MB", "700")
    assert parse(["--model", "m"]).memory == 700
    assert parse(["--model", "m", "--memory", "900"]).memory == 900
    monkeypatch.setenv("ENGINE_MEMORY_MB", "much")
    with pytest.raises(SystemExit):
        parse(["--model", "m"])


def test_a_containers_limit_counts_where_it_is_less_than_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real ones
    told = {"/sys/fs/cgroup/memory.max": "2147483648\n", "/proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\n"}

    def read_text(path: Path) -> str:
        if str(path) not in told:
            raise FileNotFoundError(path)
        return told[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert memory.machine_bytes() == 2 * GIB
    told["/sys/fs/cgroup/memory.max"] = "max\n"
    assert memory.machine_bytes() == 8 * GIB
    told.clear()
    assert memory.machine_bytes() == 4 * GIB
