"""Which engine a profile starts, and what it is told."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_workers.servers import leases, serving


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_API_KEY", "plain")
    monkeypatch.setenv("ENGINE_ADMIN_KEY", "admin")
    monkeypatch.delenv("SGLANG", raising=False)
    for name in [name for name in os.environ if name.startswith("SGLANG_")]:
        monkeypatch.delenv(name)


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


def test_adapters_and_parsers_are_as_the_settings_say(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SGLANG_LORA_RANK", "16")
    monkeypatch.setenv("SGLANG_LORA_TARGETS", "q_proj, v_proj")
    monkeypatch.setenv("SGLANG_LORA_SLOTS", "4")
    monkeypatch.setenv("SGLANG_LORA_HELD", "8")
    monkeypatch.setenv("SGLANG_TOOL_PARSER", "hermes")

    line = serving.command("gpu", "/models/large", 30000)

    told = dict(pairwise(line))
    assert (told["--max-lora-rank"], told["--max-loras-per-batch"], told["--max-loaded-loras"]) == ("16", "4", "8")
    assert line[line.index("--lora-target-modules") + 1 :][:3] == ["q_proj", "v_proj", "--max-loras-per-batch"]
    assert told["--tool-call-parser"] == "hermes"
    assert "--reasoning-parser" not in line

    monkeypatch.setenv("SGLANG_LORA_HELD", "2")  # 4 slots are the base and 3 adapters
    with pytest.raises(ValueError, match="do not go together"):
        serving.command("gpu", "/models/large", 30000)
    monkeypatch.setenv("SGLANG_LORA_HELD", "many")
    with pytest.raises(ValueError, match="SGLANG_LORA_HELD is 'many'"):
        serving.command("gpu", "/models/large", 30000)


@pytest.mark.parametrize(
    ("kind", "template", "tools", "reasoning"),
    [
        ("qwen3", "… </think> …", "qwen25", "qwen3"),
        ("qwen3", "no thoughts", "qwen25", None),  # else its whole answer would be a thought
        ("llama", "<|python_tag|>", "llama3", None),
        ("llama", "SmolLM's", None, None),
        ("unheard_of", "</think>", None, None),
    ],
)
def test_parsers_follow_the_family_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, template: str, tools: str | None, reasoning: str | None
):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "chat_template.jinja").write_text(template)

    line = serving.command("gpu", str(tmp_path), 30000)

    said = [
        line[line.index(name) + 1] if name in line else None for name in ("--tool-call-parser", "--reasoning-parser")
    ]
    assert said == [tools, reasoning]
    monkeypatch.setenv("SGLANG_TOOL_PARSER", "none")
    assert "--tool-call-parser" not in serving.command("gpu", str(tmp_path), 30000)


@pytest.mark.parametrize("profile", ["embedded", "gpu", "judge"])
def test_every_engine_listens_on_this_machine_alone_and_keeps_its_admin_routes_for_a_key_of_their_own(
    monkeypatch: pytest.MonkeyPatch, profile: str
):
    monkeypatch.setenv("JUDGE_API_KEY", "judges")
    line = serving.command(profile, "/models/any", 30000)

    assert line[line.index("--host") + 1] == "127.0.0.1"
    if profile != "embedded":  # which takes it from ENGINE_ADMIN_KEY
        assert line[line.index("--admin-api-key") + 1] == "admin"
        assert line[line.index("--api-key") + 1] != "admin"


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

    with leases.lease(tmp_path / "leases", ["0"], "engine"), pytest.raises(SystemExit) as ended:
        serving.main()

    assert ended.value.code == 1
    assert "GPU 0 has engine already" in capsys.readouterr().err
