"""Tests that need what this machine lacks are left out, and the last lines of the run say which and what brings them.

A test says what it needs by a marker. Nothing is left out in silence, and a missing thing is never a failure: what a
test skips for another reason is counted under that reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from django.db import connection

from environments.sandboxes.bubblewrap import hierarchies
from installation.diagnosis import bubblewrap, chromium, postgres_programs
from installation.places import DEFAULT_MODEL, ROOT
from tests.clients.javascript.install import installed as javascript_installed
from tests.clients.javascript.install import node as javascript_node
from tests.clients.mini_swe_agent.install import installed as mini_swe_agent_installed
from tests.clients.openclaw.install import installed, node_folder


class Need(NamedTuple):
    thing: str
    is_met: Callable[[], bool]
    brings: str
    """The one command that would bring it."""


def browser_is_there() -> bool:
    return chromium() is not None and importlib.util.find_spec("playwright") is not None


def miniwob_is_there() -> bool:
    return browser_is_there() and importlib.util.find_spec("miniwob") is not None


def postgres_is_there() -> bool:
    return postgres_programs() is not None and importlib.util.find_spec("psycopg") is not None


def sglang_is_there() -> bool:
    return bool(os.environ.get("SGLANG_URL")) or (ROOT / ".venvs" / "sglang" / "bin" / "python").exists()


def javascript_is_there() -> bool:
    return javascript_node() is not None and javascript_installed()


def packages_are_there(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def trl_is_there() -> bool:
    return packages_are_there("trl", "datasets", "pyarrow")


def quantizing_is_there() -> bool:
    return packages_are_there("bitsandbytes", "accelerate")


def tinker_is_there() -> bool:
    return packages_are_there("tinker")


def loopback_has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as one:
            one.bind(("::1", 0))
    except OSError:  # the kernel knows no such family, or the interface no such address
        return False
    return True


def is_root() -> bool:
    return os.geteuid() == 0


def disks_can_be_mounted() -> bool:
    with tempfile.TemporaryDirectory(prefix="talkback-mount-") as place:
        tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True)
        return tried.returncode == 0 and not subprocess.run(["umount", place], check=True).returncode


def openclaw_is_there() -> bool:
    return node_folder() is not None and installed()


def bubblewrap_works() -> bool:
    program = bubblewrap()
    tried = program and subprocess.run([program, "--ro-bind", "/", "/", "--unshare-all", "true"], capture_output=True)
    return bool(tried) and tried.returncode == 0


def memory_is_bounded_for_groups() -> bool:
    return bool(hierarchies().parents.get("memory"))


NEEDS = {
    "browser": Need("a Chromium", browser_is_there, "sudo apt-get install chromium"),
    "miniwob": Need("MiniWoB's pages", miniwob_is_there, ".venv/bin/pip install --no-deps miniwob==1.1.0"),
    "bubblewrap": Need("bubblewrap", bubblewrap_works, "sudo apt-get install bubblewrap"),
    "javascript": Need(
        "the official JavaScript clients", javascript_is_there, ".venv/bin/python tests/clients/javascript/install.py"
    ),
    "openclaw": Need("the real OpenClaw client", openclaw_is_there, "make test-openclaw"),
    "postgres": Need("PostgreSQL's server programs", postgres_is_there, "sudo apt-get install postgresql"),
    "real_model": Need("the real small model", (DEFAULT_MODEL / "manifest.json").exists, "make model"),
    "trl": Need("TRL and the datasets library", trl_is_there, ".venv/bin/pip install -e '.[dev,datasets]'"),
    "sglang": Need("the real SGLang", sglang_is_there, "make test-sglang"),
    "mini_swe_agent": Need(
        "mini-swe-agent", mini_swe_agent_installed, ".venv/bin/python tests/clients/mini_swe_agent/install.py"
    ),
    "node": Need("the wheel's Node", lambda: javascript_node() is not None, "make install"),
    "quantized": Need("bitsandbytes and accelerate", quantizing_is_there, ".venv/bin/pip install -e '.[quantized]'"),
    "tinker": Need("the package `tinker`", tinker_is_there, ".venv/bin/pip install -e '.[tinker]'"),
    "ipv6": Need(
        "a kernel with IPv6 on the loopback", loopback_has_ipv6, "sudo sysctl net.ipv6.conf.lo.disable_ipv6=0"
    ),
    "root": Need("root", is_root, "sudo make test"),
    "small_disk": Need("to mount a small disk", disks_can_be_mounted, "sudo make test"),
    "memory_group": Need("a control group for memory", memory_is_bounded_for_groups, "sudo make test"),
}


ELSEWHERE = {
    "lab": ("of the laboratory", "make test-all"),
    "openclaw": ("that run the real OpenClaw client", "make test-openclaw"),
    "processes": ("that start and kill real processes", "make test-all"),
    "repeats": ("that repeat a claim over more cases", "make test-all"),
    "quarantined": ("that are known to fail at times", "make test-all"),
    "sglang": ("against the real SGLang", "make test-sglang"),
}
"""Tests that a run may leave to another command by choice."""
ONE_DATABASE = {"postgresql": "postgres", "sqlite": "rooms"}
"""The part of a run that has what the marker `database` gives to one vendor alone."""
OTHER_DATABASE = {
    "postgres": ("of what PostgreSQL alone does", ".venv/bin/python -m tests.postgres"),
    "rooms": ("of what SQLite alone does", "make test"),
}
"""The same by part, as ELSEWHERE."""
Names = dict[str, set[str]]
"""Node ids of tests, by what they need or by the marker for which they were left to another command."""
left_to: Names = {}


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in ELSEWHERE:
            if found := item.get_closest_marker(marker):
                reason = f": {found.args[0]}" if marker == "quarantined" else ""
                left_to.setdefault(marker, set()).add(item.nodeid + reason)


@pytest.hookimpl(trylast=True)  # of what was selected alone: the rest is no matter of the database
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = [{mark.name for mark in item.iter_markers()} for item in items]
    wanted = set().union(*marks) & NEEDS.keys()  # to look for a thing may start a program
    lacking = {marker for marker in wanted if not NEEDS[marker].is_met()}
    for item, its in zip(items, marks, strict=True):
        for marker in lacking & its:
            item.add_marker(pytest.mark.skip(reason=reason_for(marker)))
    leave_to_their_database(config, items)


def reason_for(marker: str) -> str:
    return f"left out: needs {NEEDS[marker].thing}"


def leave_out(marker: str) -> NoReturn:
    """From within a test or a fixture: the thing is seen to be lacking only here."""
    pytest.skip(reason_for(marker))


def leave_to_their_database(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect each test that is marked for a database and meets another."""
    others: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("database")
        if marker is not None and marker.args[0] != connection.vendor:
            left_to.setdefault(ONE_DATABASE[marker.args[0]], set()).add(item.nodeid)
            others.append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist has ended: it alone knows what it did not select."""
    for marker, names in getattr(node, "workeroutput", {}).get("left_to", {}).items():
        left_to.setdefault(marker, set()).update(names)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    yield
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_to"] = {marker: sorted(names) for marker, names in left_to.items()}
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    lacking: Names = {}
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        named = [need.thing for need in NEEDS.values() if reason.endswith(f"left out: needs {need.thing}")]
        for thing in named or [reason.removeprefix("Skipped: ")]:
            lacking.setdefault(thing, set()).add(report.nodeid)
    if summary := os.environ.get("TESTS_SUMMARY"):  # tests.run says it, once for all parts
        failed = [report.nodeid for state in ("failed", "error") for report in reporter.stats.get(state, [])]
        outcome = {"lacking": lacking, "left_to": left_to, "failed": list(dict.fromkeys(failed))}
        Path(summary).write_text(json.dumps(outcome, default=sorted), "utf-8")
    else:
        for line in lines(lacking, left_to):
            reporter.write_line(line)


def lines(lacking: Names, left_to: Names) -> Iterator[str]:
    """Say what was left out and what brings it, and name each test that is quarantined."""
    for need in NEEDS.values():
        if names := lacking.get(need.thing):
            yield f"Left out: {len(names)} that need {need.thing}. `{need.brings}` brings them."
    things = {need.thing for need in NEEDS.values()}
    for reason, names in lacking.items():
        if reason not in things:
            yield f"Left out: {len(names)}, since {reason}"
    for part, (tests, command) in (ELSEWHERE | OTHER_DATABASE).items():
        if names := left_to.get(part):
            yield f"Left to another command: {len(names)} {tests}. `{command}` runs them."
    yield from (f"  {name}" for name in sorted(left_to.get("quarantined", ())))
    if not postgres_is_there():
        yield f"Left out: the same tests on PostgreSQL. `{NEEDS['postgres'].brings}` brings them."
