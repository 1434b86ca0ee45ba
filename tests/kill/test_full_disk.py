"""A disk that fills up under the whole of Talkback, logs and all: told everywhere, and nothing dies of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from benchmarks.stack import running_stack, wait_for
from tests.disks import fill
from tests.kill.conftest import RECIPE, Talk

pytestmark = [pytest.mark.processes, pytest.mark.small_disk, pytest.mark.timeout(600)]


def test_a_full_disk_is_told_and_all_goes_on_once_there_is_room(small_disk: Callable[[int], Path], tiny_model: Path):
    disk = small_disk(96)
    with running_stack(disk, tiny_model, RECIPE, CALIBRATION_VOTES="0", DISK_RESERVE_MB="16") as stack:
        key = stack.manage("create_key", "--name", "disk").strip().splitlines()[-1]
        talk = Talk(stack, key)
        assert talk.ask("Hello?")["choices"][0]["finish_reason"] == "stop"
        processes = {name: process.pid for name, process in stack.running.items()}

        def checks() -> dict[str, bool]:
            said = httpx.get(f"{stack.url}/readyz", timeout=20).json()["checks"]
            return {name: check["ok"] for name, check in said.items()}

        nearly = fill(disk, leaving_mib=10)  # less than the reserve, and enough to chat
        wait_for("ready says so", lambda: not checks()["disk"], 30)
        assert talk.ask("Hello again?")["choices"][0]["finish_reason"] == "stop"

        fill(disk)
        for door, body in (
            ("/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
            ("/responses", {"input": "Hi"}),
            ("/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        ):
            refused = talk.http.post(door, json=body)
            assert refused.status_code == 507, refused.text
            assert refused.json()["error"]["code"] == "disk_full"
            assert refused.headers["Retry-After"] == "30"
        assert talk.http.get("/models").status_code == 200
        wait_for("ready says so", lambda: not checks()["disk"] and not checks()["database"], 30)
        said = httpx.get(f"{stack.url}/readyz", timeout=20)
        assert said.status_code == 503
        assert "disk is full: make room there" in said.json()["checks"]["database"]["sentence"]

        nearly.unlink()
        wait_for("all is ready again", stack.ready, 120)
        assert talk.ask("Are you back?")["choices"][0]["finish_reason"] == "stop"
        assert {name: process.pid for name, process in stack.running.items() if process.poll() is None} == processes
