"""What the door of episodes is told, and what it answers."""

from __future__ import annotations

SOLVED = {"status": "solved", "outcome": 1.0, "checks": {"total": True, "share": 0.5}, "cost": {"tokens": 120}}


def code(answer) -> tuple[int, str]:
    status, said = answer
    return status, said["error"]["code"]
