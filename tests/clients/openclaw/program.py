"""The real OpenClaw client as a program: its commands in one folder, one-shot or through its gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.patience import crowd
from benchmarks.stack import wait_for
from installation.diagnosis import free_port
from tests.clients.openclaw.install import COMMAND, node_folder

LIMIT_S = 240
"""A turn takes 8 to 20 s alone, of which the model's part is small; other tests may want the cores too."""


class OpenClaw:
    """One person's client. All that it keeps is under `home`; two runs may not share one."""

    def __init__(self, home: Path, configuration: dict[str, Any]) -> None:
        self.home = home
        self.gateway_port = free_port()
        node = node_folder()
        assert node is not None, "the client's Node is not there: make install"
        for folder in (home / "tmp", home / "state" / "workspace"):
            folder.mkdir(parents=True, exist_ok=True)
        self.workspace = home / "state" / "workspace"
        self.environment = {
            "PATH": f"{node / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "OPENCLAW_HOME": str(home),
            "OPENCLAW_STATE_DIR": str(home / "state"),
            "OPENCLAW_CONFIG_PATH": str(home / "openclaw.json"),
            **dict.fromkeys(("OPENCLAW_OFFLINE", "OPENCLAW_NO_AUTO_UPDATE"), "1"),
            **dict.fromkeys(("OPENCLAW_DISABLE_BONJOUR", "OPENCLAW_SKIP_CHANNELS"), "1"),
        }
        self.configure(configuration)

    def configure(self, configuration: dict[str, Any]) -> None:
        """Write openclaw.json: what a person pastes, and what keeps the program in its folder and off the network."""
        own = {
            "logging": {"file": str(self.home / "openclaw.log")},
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.gateway_port,
                "auth": {"mode": "token", "token": "of-a-test"},
            },
        }
        models = {**configuration.get("models", {}), "catalogRefresh": {"enabled": False}}
        (self.home / "openclaw.json").write_text(json.dumps({**own, **configuration, "models": models}, indent=2))

    def run(self, *arguments: str) -> str:
        """What a command prints; an AssertionError with all it said when it fails."""
        done = subprocess.run(
            [str(COMMAND), *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=LIMIT_S * crowd(),
        )
        assert done.returncode == 0, f"openclaw {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def says(self, text: str, *, session: str, local: bool = True) -> str:
        """What the agent answers to one message, as a person reads it."""
        place = ["--local"] if local else []
        printed = self.run("agent", *place, "--session-id", session, "--message", text, "--json")
        answer = json.loads(printed[printed.index("{") :])
        payloads = (answer.get("result") or answer)["payloads"]
        assert not any(payload.get("isError") for payload in payloads), printed
        return "\n".join(payload["text"] for payload in payloads if payload.get("text"))

    @contextmanager
    def gateway(self) -> Iterator[None]:
        """Its daemon, from ready to gone."""
        log = self.home / "gateway.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(COMMAND), "gateway", "run"],
                env=self.environment,
                cwd=self.home,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_for("the gateway is ready", lambda: "[gateway] ready" in log.read_text(errors="replace"), LIMIT_S)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
