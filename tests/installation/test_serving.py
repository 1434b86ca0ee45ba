"""Which engine a profile starts, and what it is told."""

from __future__ import annotations

import pytest

from gpu_workers import leases, serving


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


def test_an_engine_lies_across_its_cards_and_leaves_room_where_it_shares_one(monkeypatch: pytest.MonkeyPatch):
    alone = serving.command("gpu", "/models/large", 30000, cards=2)
    assert alone[alone.index("--tensor-parallel-size") + 1] == "2"
    assert "--mem-fraction-static" not in alone

    monkeypatch.setenv("SGLANG_ARGS", "--mem-fraction-static 0.6")
    shared = serving.command("gpu", "/models/large", 30000, shares=True)
    assert shared[-4:] == ["--mem-fraction-static", "0.4", "--mem-fraction-static", "0.6"]  # the last word is yours
    assert "--tensor-parallel-size" not in shared


def test_a_judge_of_its_own_is_served_without_adapters(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUDGE_API_KEY", "judges")

    line = serving.command("judge", "/models/judge", 30001)

    assert line[:4] == ["sglang", "serve", "--model-path", "/models/judge"]
    assert line[line.index("--api-key") + 1] == "judges"
    assert "--enable-lora" not in line


def test_an_engine_whose_card_is_taken_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("sys.argv", ["serving", "gpu", "--model", "m", "--port", "1", "--cards", "0"])

    with leases.held(tmp_path / "leases", ["0"], "engine"), pytest.raises(SystemExit) as ended:
        serving.main()

    assert ended.value.code == 1
    assert "GPU 0 has engine already" in capsys.readouterr().err
