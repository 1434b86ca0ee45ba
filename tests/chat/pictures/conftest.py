"""A model that sees, in its own files, behind SGLang's HTTP interface as the scripted engine speaks it."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer

from benchmarks.scripted.__main__ import parse
from benchmarks.scripted.connection import Connection
from benchmarks.scripted.engine import Engine
from gpu_workers import engines
from gpu_workers.engine import sight
from gpu_workers.engine.engine_client import EngineClient

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Qwen-VL's, shortened."""

SEEN = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="session")
def seeing_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model's tokenizer with a vision part in its config, a processor of pictures, a template that has them.
    28 pixels a token's side (14 × 2)."""
    folder = tmp_path_factory.mktemp("models") / "seeing"
    shutil.copytree(tiny_model, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    new = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in new])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"image_token_id": tokenizer.token_to_id(new[-1]), "vision_config": {"depth": 2}}
    config["max_position_embeddings"] = 8192
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"patch_size": 14, "merge_size": 2}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def sglang(seeing_model: Path, settings, tmp_path: Path) -> Iterator[Engine]:
    """The engine's server in this process, with all that it was asked, as `calls`."""
    options = parse(["--model", str(seeing_model), "--tokens-per-second", "0"])
    loop, box = asyncio.new_event_loop(), {}
    ready = threading.Event()

    async def begin() -> None:
        box["engine"] = engine = Engine(options)
        server = await loop.create_server(lambda: Connection(engine), "127.0.0.1", 0)
        box["port"] = server.sockets[0].getsockname()[1]
        ready.set()

    def run() -> None:
        loop.create_task(begin())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(120)
    settings.MODEL, settings.ENGINE_URLS = str(seeing_model), []
    settings.ENGINE_URL = f"http://127.0.0.1:{box['port']}"
    settings.DATA_DIR = tmp_path
    sight._known.clear()
    yield box["engine"]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)


@pytest.fixture
def answers(sglang: Engine, engine, settings, monkeypatch) -> Engine:
    """The same where a fixture has put the scripted engine of this process in its place."""
    client = EngineClient(settings.ENGINE_URL)
    monkeypatch.setattr(engines, "policy", lambda: client)
    return sglang


@pytest.fixture
def kept(tmp_path: Path):
    """The files of all pictures that are kept now, by name."""
    return lambda: sorted(file.name for file in (tmp_path / "pictures").glob("*/*"))
