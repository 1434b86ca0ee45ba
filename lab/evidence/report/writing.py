"""From what was written down to the report: one page for people, and the same as JSON."""

from __future__ import annotations

import json
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from environments.errors import Unplayable
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.machine import cores
from lab.evidence.report.page import report

PACKAGES = ("talkback", "torch", "transformers", "peft")


def write(out: Path, journal: Journal, rows: Journal) -> tuple[Path, Path]:
    """OUT/report.html and OUT/report.json of what is there, each whole or not at all. Raises Unplayable."""
    row = journal.last("plan")
    if row is None:
        raise Unplayable(f"{out} holds no run: name it with --out, or start one.")
    found, page = report(row["plan"] | made_here(journal), list(rows), journal.under("round/"), said=said(journal))
    written = []
    for name, text in (("report.html", page), ("report.json", json.dumps(found, indent=1, ensure_ascii=False))):
        draft = out / f".{name}"
        draft.write_text(text, encoding="utf-8")
        written.append(draft.replace(out / name))
    return written[0], written[1]


def said(journal: Journal) -> dict[str, list[str]]:
    """Every reply of an arm's sessions, and all that it was shown, by "arm/seed": what it may have learned by heart, or
    repeat."""
    found: dict[str, list[str]] = {}
    for row in journal.under("reply/"):
        _, arm, seed, *_ = row["key"].split("/")
        found.setdefault(f"{arm}/{seed}", []).append(row["completion"]["text"])
    for row in journal.under("shots/"):
        written = [one["content"] for one in row["messages"] if one["role"] == "assistant"]
        found.setdefault(f"{row['arm']}/{row['seed']}", []).extend(written)
    return found


def made_here(journal: Journal) -> dict[str, Any]:
    """How it was made: with which versions, on what machine, in how many minutes, and what used them."""
    spent = journal.under("spent/")
    cpu = Counter[str]()
    for row in spent:
        cpu.update(row["cpu_s"])
    return {
        "versions": versions(),
        "machine": machine(),
        "minutes": round(sum(row["seconds"] for row in spent) / 60, 1),
        "cpu_minutes": {name: round(seconds / 60, 1) for name, seconds in cpu.items()},
    }


def versions() -> dict[str, str]:
    """Of Python, of what learns and answers, and the commit where there is one."""
    found = {"python": platform.python_version()} | dict(_installed(PACKAGES))
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found | ({"commit": asked.stdout.strip()} if asked.returncode == 0 else {})


def machine() -> str:
    """The machine in a few words: its processor, cores and system."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {cores()} cores, {platform.system()}"


def _installed(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
