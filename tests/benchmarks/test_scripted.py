"""The scripted engine as a process: the one client is content with it, and it does what the script says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from benchmarks.scripted.command import scripted_command
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.errors import AdapterMissing, EngineRefused, EngineUnavailable, KeyRefused
from gpu_workers.servers.processes import EngineProcess
from gpu_workers.types import Sampling
from installation.findings import free_port

SCRIPT = [
    {"to": "capital of France", "says": "Paris, über alles.", "times": None},
    {"to": "twice", "says": "once", "times": 1},
    {"to": "twice", "says": "and again", "times": 1},
    {"to": "fail", "says": "I ", "times": None, "finish_reason": "error"},
    {"to": "at length", "says": "word " * 400, "times": None},
]


@pytest.fixture(scope="module")
def process(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder, port = tmp_path_factory.mktemp("scripted"), free_port()
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in SCRIPT))
    more = ("--script", str(script), "--tokens-per-second", "100", "--context-length", "1024")
    keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    command = scripted_command(str(tiny_model), port, more=more)
    with EngineProcess(command, f"http://127.0.0.1:{port}", folder / "log", environment=keys) as process:
        yield process


@pytest.fixture
async def engine(process: EngineProcess) -> AsyncIterator[EngineClient]:
    engine = EngineClient(process.url, api_key="key", admin_key="admin", timeout_s=20)
    yield engine
    await engine.resume()
    for name in await engine.adapters():
        await engine.unload_adapter(name)
    await engine.aclose()


@pytest.fixture
def prompt(tiny_model: Path):
    tokenizer = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    return lambda text: tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n", add_special_tokens=False).ids


async def calls(process: EngineProcess) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.get(f"{process.url}/calls")).json()


async def test_a_whole_reply_and_a_streamed_one_are_the_scripts_words_in_the_models_tokens(engine, prompt, tiny_model):
    ids = prompt("What is the capital of France?")
    whole = await engine.generate(ids, Sampling(max_new_tokens=100))
    pieces = [piece async for piece in engine.stream(ids, Sampling(max_new_tokens=100))]

    tokenizer = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    wanted = [*tokenizer.encode("Paris, über alles.", add_special_tokens=False).ids, 2]
    assert (whole.text, list(whole.ids), whole.finish_reason) == ("Paris, über alles.", wanted, "stop")
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [one for piece in pieces for one in piece.ids] == wanted
    assert [one for piece in pieces for one in piece.logprobs] == pytest.approx(whole.logprobs)
    assert [piece.finish_reason for piece in pieces] == [None] * (len(pieces) - 1) + ["stop"]
    assert (whole.prompt_tokens, pieces[-1].prompt_tokens, whole.weight_version) == (len(ids), len(ids), "base")


async def test_a_line_answers_as_often_as_it_says_and_then_the_next(engine, prompt):
    says = [(await engine.generate(prompt("say it twice"), Sampling())).text for _ in range(3)]

    assert says == ["once", "and again", "I see."]


async def test_lengths_and_stop_strings_cut_the_words(engine, prompt):
    ids = prompt("What is the capital of France?")
    cut = await engine.generate(ids, Sampling(max_new_tokens=3))
    stopped = await engine.generate(ids, Sampling(max_new_tokens=99, stop=("alles",)))
    filled = await engine.generate(ids, Sampling(max_new_tokens=120, ignore_eos=True))

    assert (len(cut.ids), cut.finish_reason) == (3, "length")
    assert (stopped.text, stopped.finish_reason) == ("Paris, über ", "stop")
    assert (len(filled.ids), filled.finish_reason, filled.text[:24]) == (120, "length", "Paris, über alles.Paris,")


async def test_tokens_come_at_the_pace_that_was_asked_for(engine, prompt):
    began = time.monotonic()
    whole = await engine.generate(prompt("hm"), Sampling(max_new_tokens=50, ignore_eos=True))
    took = time.monotonic() - began
    began = time.monotonic()
    pieces = [piece async for piece in engine.stream(prompt("hm"), Sampling(max_new_tokens=50, ignore_eos=True))]
    streamed = time.monotonic() - began

    assert len(whole.ids) == sum(len(piece.ids) for piece in pieces) == 50
    assert len(pieces) > 1
    assert min(took, streamed) >= 0.49  # the first at once, 49 more at 100 a second


async def test_scores_and_refusals_are_what_the_client_expects(engine, prompt):
    ids = prompt("hm")
    score = await engine.score(ids, (5, 6, 7))

    assert score.ids == (5, 6, 7)
    assert score.logprobs[1:] == (await engine.score([*ids, 5], (6, 7))).logprobs
    with pytest.raises(AdapterMissing):
        await engine.generate(ids, Sampling(), adapter="gone")
    with pytest.raises(AdapterMissing):
        await anext(engine.stream(ids, Sampling(), adapter="gone"))
    with pytest.raises(EngineRefused, match="context length of 1024"):
        await engine.generate(ids, Sampling(max_new_tokens=1020))
    with pytest.raises(EngineUnavailable, match="script says so"):
        _ = [piece async for piece in engine.stream(prompt("fail"), Sampling())]
    with pytest.raises(KeyRefused):
        await EngineClient(engine.url, api_key="wrong").generate(ids, Sampling())


async def test_a_schema_and_an_adapter_are_accepted(engine, prompt, process):
    await engine.load_adapter("talkback-1", "/adapters/1")
    other = await engine.generate(prompt("hm"), Sampling(), adapter="talkback-1")
    base = await engine.generate(prompt("hm"), Sampling())
    body = {"input_ids": prompt("hm"), "sampling_params": {"json_schema": "{}"}, "return_logprob": True}
    async with httpx.AsyncClient(headers={"Authorization": "Bearer key"}, trust_env=False) as http:
        answer = await http.post(f"{process.url}/generate", json=body | {"top_logprobs_num": 2})

    assert await engine.adapters() == {"talkback-1": "/adapters/1"}
    assert other.ids == base.ids
    assert other.logprobs != base.logprobs
    meta = answer.json()["meta_info"]
    assert [len(row) for row in meta["output_top_logprobs"]] == [2] * meta["completion_tokens"]


async def test_a_reader_that_leaves_is_an_abort_with_its_time(engine, prompt, process):
    async with aclosing(engine.stream(prompt("at length"), Sampling(max_new_tokens=500), request_id="left")) as pieces:
        await anext(pieces)
        assert (await calls(process))["running"] == 1
    left = time.time()
    async with asyncio.timeout(20):
        while not (aborted := [one for one in (await calls(process))["aborted"] if one["rid"] == "left"]):
            await asyncio.sleep(0.01)

    assert aborted[0]["at"] >= left
    assert 0 < aborted[0]["tokens"] < 500


async def test_what_was_asked_can_be_read(engine, prompt, process):
    before = (await calls(process))["asked"]
    await engine.generate(prompt("note this"), Sampling(seed=7), priority=10)
    told = await calls(process)

    assert told["asked"] == before + 1
    assert "note this" in told["prompts"][-1]
    assert told["calls"][-1]["sampling_params"]["sampling_seed"] == 7
    assert told["calls"][-1]["priority"] == 10
    assert (await engine.metrics())["num_running_reqs"] == 0


async def test_a_pause_holds_a_stream_until_it_is_taken_back(engine, prompt):
    async with aclosing(engine.stream(prompt("at length"), Sampling(max_new_tokens=100))) as pieces:
        await anext(pieces)
        await engine.pause("retract")
        assert not await engine.ready()
        rest = asyncio.ensure_future(_rest(pieces))
        done, _ = await asyncio.wait({rest}, timeout=1.5)  # 100 tokens would have been there after 1 s
        assert not done
        await engine.resume()
        assert (await rest)[-1].finish_reason == "length"


async def _rest(pieces):
    return [piece async for piece in pieces]


async def test_an_abort_by_id_ends_the_reply_with_what_it_has(engine, prompt):
    pieces = engine.stream(prompt("at length"), Sampling(max_new_tokens=500), request_id="ended")
    await anext(pieces)
    await engine.abort("ended")

    rest = [piece async for piece in pieces]
    assert rest[-1].finish_reason == "abort"
    assert len(rest) < 100


async def test_a_prompt_that_grows_was_cached_so_far(engine, prompt):
    long = prompt("a tale " * 200)
    first = await engine.generate(long, Sampling(max_new_tokens=1))
    again = await engine.generate([*long, *prompt("and on")], Sampling(max_new_tokens=1))

    assert first.cached_tokens < 64
    assert len(long) - 128 < again.cached_tokens <= len(long)


def test_it_imports_no_torch():
    code = "import sys, benchmarks.scripted.__main__; sys.exit('torch' in sys.modules or 'django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
