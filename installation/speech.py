"""What is said to a person, and how long things take."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from core.visible import visible
from installation.places import LOGS, ROOT


class Trouble(Exception):
    """What is wrong and what to do about it, in one sentence."""


def say(text: str = "") -> None:
    print(visible(text), flush=True)


class Progress:
    """One line for a step that takes a while: its name, the seconds so far, and what it is doing now."""

    def __init__(self, step: str) -> None:
        self.step, self.started, self.shown_at, self.told = step, time.monotonic(), 0.0, ""

    @property
    def elapsed_s(self) -> int:
        return round(time.monotonic() - self.started)

    def show(self, now_doing: str = "") -> None:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            now_doing = visible(now_doing, one_line=True)
            print("\r\033[K" + f"  {self.step}  {self.elapsed_s} s  {now_doing}"[:width], end="", flush=True)
        elif time.monotonic() - self.shown_at > (5 if now_doing != self.told else 30):
            self.shown_at, self.told = time.monotonic(), now_doing
            say(f"  {self.step}  {self.elapsed_s} s  {now_doing}".rstrip())

    def done(self, outcome: str = "") -> None:
        print("\r\033[K" if sys.stdout.isatty() else "", end="")
        say(f"  {self.step}: {outcome or 'done'} ({self.elapsed_s} s)")


def run(step: str, command: list[str | Path], environment: dict[str, str] | None = None) -> str:
    """Run one long command with progress and return what it printed; its output is kept in DATA_DIR/log/setup.log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    progress, record = Progress(step), LOGS / "setup.log"
    with record.open("ab") as log:
        log.write(f"\n$ {shlex.join(map(str, command))}\n".encode())
        log.flush()
        began = log.tell()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                progress.show(last_line(record, began))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    with record.open("rb") as log:
        log.seek(began)
        output = log.read().decode(errors="replace")
    if process.returncode:
        progress.done("failed")
        raise Trouble(f"{step} failed: {reason_in(output)} (all of it is in {record})")
    progress.done()
    return output


def last_line(record: Path, since: int) -> str:
    with record.open("rb") as log:
        log.seek(max(since, record.stat().st_size - 4000))
        lines = [line.strip() for line in log.read().decode(errors="replace").split("\n")]
    return next((line[:90] for line in reversed(lines) if line and "WARNING" not in line), "")


def reason_in(output: str) -> str:
    """The line of a failed command's output that names the reason best."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No space left on device" in line for line in lines):
        return "the disk is full: free some space and run the same command again"
    if any("Failed to establish a new connection" in line or "Name or service not known" in line for line in lines):
        return "the package source could not be reached: check the network, then run the same command again"
    errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("CommandError: ")[:300]


def tail(file: Path, lines: int) -> str:
    text = file.read_text(errors="replace") if file.exists() else ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:]) or "it said nothing"
