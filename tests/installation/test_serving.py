"""Which engine a profile starts, and what it is told."""

from __future__ import annotations

import pytest

from gpu_workers import serving


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_API_KEY", "plain")
    monkeypatch.setenv("ENGINE_ADMIN_KEY", "admin")
    monkeypatch.delenv("SGLANG", raising=False)
    monkeypatch.delenv("SGLANG_ARGS", raising=False)


def test_the_embedded_engine_takes_its_keys_from_the_environment():
    line = serving.command("embedded", "/models/small", 1234)

    assert line[1:7] == ["-m", "gpu_workers.embedded", "--model", "/models/small", "--host", "127.0.0.1"]
    assert not {"plain", "admin"} & set(line)


def test_sglang_is_the_program_that_was_named_with_what_it_was_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SGLANG", "/opt/sglang/bin/sglang")
    monkeypatch.setenv("SGLANG_ARGS", "--mem-fraction-static 0.5 --tool-call-parser 'qwen 25'")

    line = serving.command("gpu", "/models/large", 30000)

    assert line[:4] == ["/opt/sglang/bin/sglang", "serve", "--model-path", "/models/large"]
    assert line[-4:] == ["--mem-fraction-static", "0.5", "--tool-call-parser", "qwen 25"]
    assert line[line.index("--api-key") + 1] == "plain"
    assert line[line.index("--admin-api-key") + 1] == "admin"
    assert "--enable-lora" in line
    assert line[line.index("--port") + 1] == "30000"
