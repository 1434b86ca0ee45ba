"""The engines that are held to one contract: ours, and the real SGLang where its environment is set up."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_workers.engine import Engine
from gpu_workers.processes import LORA_TARGETS, ONE_THREAD, EngineProcess
from tests.conftest import ROOT, free_port
from tests.contract.reference import Reference
from tests.tiny import write_tiny_adapter, write_tiny_model

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
        return Engine(self.url, api_key=self.api_key, admin_key=self.admin_key, timeout_s=60)


@pytest.fixture(scope="session", params=["embedded", pytest.param("sglang", marks=pytest.mark.sglang)])
def server(request: pytest.FixtureRequest, tiny_model: Path) -> Server:
    if request.param == "embedded":
        return Server("embedded", request.getfixturevalue("embedded_engine").url, tiny_model)
    server: Server = request.getfixturevalue("sglang_server")
    return server


@pytest.fixture(scope="session")
def sglang_server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The real SGLang, on the CPU."""
    if url := os.environ.get("SGLANG_URL"):  # one that runs already, launched as below
        yield Server("sglang", url, tiny_model)
        return
    if not SGLANG.exists():
        pytest.skip("the real SGLang is not set up: run `make test-sglang`, or `python docker/sglang_cpu/install.py`")
    port = free_port()
    environment = {**ONE_THREAD, "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    log = tmp_path_factory.mktemp("sglang") / "sglang.log"
    with EngineProcess(sglang_cpu_command(tiny_model, port), f"http://127.0.0.1:{port}", log, environment=environment):
        yield Server("sglang", f"http://127.0.0.1:{port}", tiny_model)


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
    await engine.resume()
    if (await engine.info())["weight_version"] != "base":
        await engine.update_weights(str(server.model), version="base")
    for name in await engine.adapters():
        await engine.unload_adapter(name)
    await engine.aclose()


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
