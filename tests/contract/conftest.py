"""The engines that are held to one contract: ours, and the real SGLang where its environment is set up. One at a time,
or two behind one fleet, with SGLang's real router before them or without."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.stack import wait_for
from benchmarks.tiny import write_tiny_adapter, write_tiny_model
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import LORA_TARGETS, ONE_THREAD, EngineProcess, embedded_command, router_command
from installation.diagnosis import free_port
from tests.conftest import ROOT
from tests.contract.reference import Reference
from tests.left_out import leave_out

SGLANG = ROOT / ".venvs" / "sglang" / "bin" / "python"


@dataclass(frozen=True)
class Server:
    """A live server under test. `kind` is embedded or sglang; `model` is the folder it was started with."""

    kind: str
    url: str
    model: Path
    api_key: str = "key"
    admin_key: str = "admin"

    def engine(self) -> Engine:
        return EngineClient(self.url, api_key=self.api_key, admin_key=self.admin_key, timeout_s=60)


class Servers:
    """The servers of one kind in this run: started as tests need them, and kept for the tests that follow. SGLang is
    slow to start, and never more than two of them fit beside the rest."""

    def __init__(self, kind: str, model: Path, logs: Path) -> None:
        self._kind, self._model, self._logs = kind, model, logs
        self._processes: dict[Server, EngineProcess] = {}

    def take(self, count: int) -> list[Server]:
        """So many that run."""
        while len(self._processes) < count:
            port = free_port()
            server = Server(self._kind, f"http://127.0.0.1:{port}", self._model)
            self._processes[server] = self._process(server.url, port)
        servers = list(self._processes)[:count]
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.start, servers))
        return servers

    def start(self, server: Server) -> None:
        """Have it run, where it does not: on its first weights, and without adapters."""
        if not self._processes[server].is_alive():
            self._processes[server].start()

    def kill(self, server: Server) -> None:
        self._processes[server].kill()

    def log(self, server: Server) -> str:
        return self._processes[server].log.read_text(errors="replace")

    def stop(self) -> None:
        for process in self._processes.values():
            process.stop()

    def _process(self, url: str, port: int) -> EngineProcess:
        if self._kind == "sglang":
            command = sglang_cpu_command(self._model, port)
            more = {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
        else:
            command = embedded_command(str(self._model), port, more=("--dtype", "float32"))
            more = {"ENGINE_API_KEY": Server.api_key, "ENGINE_ADMIN_KEY": Server.admin_key}
        log = self._logs / f"{self._kind}-{port}.log"
        # Two at once on two busy cores have needed more than five minutes.
        return EngineProcess(command, url, log, environment=ONE_THREAD | more, ready_within_s=1200.0)


@pytest.fixture(scope="session", params=["embedded", pytest.param("sglang", marks=pytest.mark.sglang)])
def server(request: pytest.FixtureRequest, tiny_model: Path) -> Server:
    if request.param == "embedded":
        return Server("embedded", request.getfixturevalue("embedded_engine").url, tiny_model)
    server: Server = request.getfixturevalue("sglang_server")
    return server


@pytest.fixture(scope="session")
def sglang_server(tiny_model: Path, request: pytest.FixtureRequest) -> Server:
    """The real SGLang, on the CPU."""
    if url := os.environ.get("SGLANG_URL"):  # one that runs already, launched as below
        return Server("sglang", url, tiny_model)
    servers: Servers = request.getfixturevalue("sglang_servers")
    return servers.take(1)[0]


@pytest.fixture(scope="session")
def sglang_servers(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """As many of them as a test takes."""
    if not SGLANG.exists():
        leave_out("sglang")
    servers = Servers("sglang", tiny_model, tmp_path_factory.mktemp("sglang"))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def embedded_servers(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers("embedded", tiny_model, tmp_path_factory.mktemp("embedded"))
    yield servers
    servers.stop()


@contextmanager
def running_router(servers: Sequence[Server], log: Path) -> Iterator[str]:
    """SGLang's own router before these servers: its address."""
    if not list(SGLANG.parents[1].glob("lib/python3*/site-packages/sglang_router")):
        leave_out("sglang")
    port = free_port()
    command = [str(SGLANG), *router_command([server.url for server in servers], port, free_port())[1:]]
    with EngineProcess(command, f"http://127.0.0.1:{port}", log, ready_path="/readiness") as process:

        def sees_all() -> bool:
            answer = httpx.get(f"{process.url}/readiness", timeout=5, trust_env=False).json()
            return bool(answer["healthy_workers"] == len(servers))

        wait_for("the router sees every server", sees_all)
        yield process.url


async def emptied(server: Server) -> None:
    """Have it serve its first weights, without adapters, to the next test."""
    engine = server.engine()
    try:
        await engine.resume()
        if (await engine.info())["weight_version"] != "base":
            await engine.update_weights(str(server.model), version="base")
        for name in await engine.adapters():
            await engine.unload_adapter(name)
    finally:
        await engine.aclose()


def sglang_cpu_command(model: Path, port: int) -> list[str]:
    """The real SGLang on a CPU without AMX: plain PyTorch kernels, everything else as on a GPU."""
    return [
        *(str(SGLANG), "-m", "sglang.launch_server", "--model-path", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--api-key", "key", "--admin-api-key", "admin"),
        *("--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native", "--skip-server-warmup"),
        *("--mem-fraction-static", "0.3", "--max-total-tokens", "20000", "--max-running-requests", "8"),
        *("--enable-lora", "--lora-backend", "torch_native", "--max-lora-rank", "64"),
        *("--lora-target-modules", *LORA_TARGETS, "--max-loras-per-batch", "8", "--max-loaded-loras", "16"),
        *("--enable-metrics", "--enable-cache-report", "--enable-priority-scheduling"),
        *("--default-priority-value", "0", "--weight-version", "base"),
        *("--incremental-streaming-output", "--constrained-json-disable-any-whitespace"),
    ]


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Engine]:
    """The one client; the server is left running, on its first weights, without adapters."""
    engine = server.engine()
    yield engine
    await engine.aclose()
    await emptied(server)


@pytest.fixture
async def wire(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Raw HTTP with the plain key, for shapes that the client hides."""
    headers = {"Authorization": f"Bearer {server.api_key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(scope="session")
def reference(tiny_model: Path) -> Reference:
    """The same model in transformers and PEFT: what the numbers should be."""
    return Reference(tiny_model)


@pytest.fixture(scope="session")
def adapter_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("adapters")
    return {name: write_tiny_adapter(root / name, seed=n, rank=4 * (n + 1)) for n, name in enumerate("ab")}


@pytest.fixture
async def adapters(client: Engine, adapter_folders: dict[str, Path]) -> dict[str, Path]:
    """Adapters a and b, loaded."""
    for name, folder in adapter_folders.items():
        await client.load_adapter(name, str(folder))
    return adapter_folders


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture with other weights."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "other", seed=7)


def generate_body(ids: list[int], **params: Any) -> dict[str, Any]:
    return {"input_ids": ids, "sampling_params": {"max_new_tokens": 4, "temperature": 0, **params}}
