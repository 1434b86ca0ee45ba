"""Texts that would sway a judge, wherever they stand."""

from __future__ import annotations

from judge.votes.evidence import Evidence


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("|")]


def everywhere(text: str, role: str = "user") -> Evidence:
    """The same text wherever a person can put one."""
    return Evidence(
        (("user", text), ("assistant", text), ("tool", text), ("user", text)),
        text,
        ((role, text), (role, text)),
        guidance=text,
        rewrite=text,
        reasons=(text, text),
        tested=-1,
        exit_codes=(1,),
        output=text,
    )
