"""What the application adds to an engine that is asked directly: time, lost throughput, memory.

    python -m benchmarks.api [--parts first long throughput leaving streams growth slow] [--json]

A scripted engine (benchmarks.scripted) emits 50 tokens a second a stream; the web process runs as `make up` starts
it, on a fresh SQLite database and a real Redis; this process reads. Engine and web are asked side by side in one run,
by the same readers with the same token ids. A reader sends what a stock client sends: no session header, the whole
history. Processor time is the web process's own, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.readers import Answer, Failed, Reader
from benchmarks.scripted_stack import ENDLESS, ScriptedStack, scripted_stack
from benchmarks.talks import Talk, words
from core import pipes
from gpu_workers.servers.processes import ONE_THREAD

ROOT = Path(__file__).parents[1]
PARTS = ("first", "long", "throughput", "leaving", "streams", "growth", "slow")
PACE = 50.0
REPLY = 100
"""Tokens of a reply where the time to its first one is measured: two seconds."""
SPREAD_S = 2.0


class Bench:
    """The two ways of asking, over one stack."""

    def __init__(self, running: ScriptedStack) -> None:
        from tokenizers import Tokenizer

        from chat.rendering.renderer import Renderer

        self.stack = running
        self.renderer = Renderer.for_model(running.model)
        tokenizer = Tokenizer.from_file(str(running.model / "tokenizer.json"))
        self.said_ids = tokenizer.encode(words(900, 0), add_special_tokens=False).ids
        self.decode = tokenizer.decode
        self.key = running.key

    def said(self, tokens: int) -> str:
        """The engine's reply when it is cut at so many tokens."""
        return str(self.decode(self.said_ids[:tokens]))

    def reader(self, through: bool, **options: Any) -> Reader:
        port = self.stack.port if through else self.stack.engine_port
        key = self.key if through else "key"
        return Reader("127.0.0.1", port, headers=f"authorization: Bearer {key}\r\n", **options)

    def request(self, through: bool, messages: list[dict[str, str]], tokens: int) -> tuple[str, bytes]:
        if through:
            body: dict[str, Any] = {"model": "talkback", "messages": messages, "stream": True, "max_tokens": tokens}
            return "/v1/chat/completions", json.dumps(body | {"stream_options": {"include_usage": True}}).encode()
        ids = self.renderer.prompt_ids(messages)
        params = {"max_new_tokens": tokens, "temperature": 0.7}
        body = {"input_ids": ids, "sampling_params": params, "return_logprob": True, "stream": True}
        return "/generate", json.dumps(body).encode()

    async def converse(
        self, through: bool, streams: int, turns: int, tokens: int, history: int, *, base: int = 0
    ) -> list[list[Answer]]:
        """Each stream's answers, turn by turn. Streams begin at random within SPREAD_S, so that they are spread as
        those of people are; each asks again as soon as it was answered."""
        talks = [Talk(base + number, history, self.said(tokens)) for number in range(streams)]
        asked = [[self.request(through, talk.next(), tokens) for _ in range(turns)] for talk in talks]
        draw = random.Random(streams)

        async def one(requests: list[tuple[str, bytes]]) -> list[Answer]:
            reader = self.reader(through)
            await asyncio.sleep(draw.random() * min(SPREAD_S, tokens / self.stack.pace) if self.stack.pace else 0)
            answers = [await reader.ask(*request) for request in requests]
            reader.leave()
            return answers

        gc.freeze()  # what was prepared is not looked through while the clock runs
        return list(await asyncio.gather(*(one(requests) for requests in asked)))


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def worst(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Cost:
    """Processor time of the processes while something is measured."""

    def __init__(self, running: ScriptedStack) -> None:
        self._running = running

    def __enter__(self) -> Cost:
        self._before = self._now()
        return self

    def __exit__(self, *error: object) -> None:
        now = self._now()
        self.seconds = {name: now[name] - self._before[name] for name in now}
        wall = self.seconds.pop("wall")
        self.cores = {name: round(spent / wall, 2) for name, spent in self.seconds.items()}

    def _now(self) -> dict[str, float]:
        spent = {name: self._running.cpu_s(name) for name in ("web", "engine", "redis")}
        return spent | {"reader": time.process_time(), "wall": time.perf_counter()}


def first_tokens(bench: Bench, streams: int, turns: int, history: int, base: int) -> dict[str, Any]:
    """Time to the first token, direct and through; the first turn of each stream apart, as nothing of it is known.
    `kept` is the share of the engine's tokens a second that come through, over all turns."""
    found: dict[str, Any] = {"streams": streams, "history_tokens": history, "turns": turns}
    rates = {}
    for name, through in (("direct", False), ("through", True)):
        with Cost(bench.stack) as cost:
            answers = asyncio.run(bench.converse(through, streams, turns, REPLY, history, base=base))
        first, later = [one[0].first_s for one in answers], [a.first_s for one in answers for a in one[1:]]
        rates[name] = rate([answer for one in answers for answer in one])
        found[name] = {
            "p50_ms": round(1e3 * middle(later), 2),
            "p95_ms": round(1e3 * worst(later, 0.95), 2),
            "first_turn_p50_ms": round(1e3 * middle(first), 2),
            "cores": cost.cores,
        }
        if through:
            found["web_cpu_ms_a_turn"] = round(1e3 * cost.seconds["web"] / (streams * turns), 2)
    found["added_p50_ms"] = round(found["through"]["p50_ms"] - found["direct"]["p50_ms"], 2)
    found["kept"] = round(rates["through"] / rates["direct"], 4)
    return found


def rate(answers: Sequence[Answer]) -> float:
    """Tokens a second of all these answers together."""
    return sum(a.tokens for a in answers) / (max(a.end or 0 for a in answers) - min(a.began for a in answers))


def throughput(bench: Bench, streams: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Tokens a second of all streams together, in turns: direct, through, direct, ..."""
    rates: dict[str, list[float]] = {"direct": [], "through": []}
    gaps: dict[str, list[float]] = {"direct": [], "through": []}
    for n in range(rounds):
        for name, through in (("direct", False), ("through", True)):
            with Cost(bench.stack) as cost:
                answers = asyncio.run(bench.converse(through, streams, 1, tokens, 0, base=50_000 + 1000 * n))
            flat = [answer for one in answers for answer in one]
            rates[name].append(rate(flat))
            gaps[name] += [a.longest_gap for a in flat]
    return {
        "streams": streams,
        "tokens": tokens,
        "rounds": rounds,
        "direct_tokens_s": round(middle(rates["direct"]), 1),
        "through_tokens_s": round(middle(rates["through"]), 1),
        "kept": round(middle([t / d for t, d in zip(rates["through"], rates["direct"], strict=True)]), 4),
        "longest_gap_ms": {name: round(1e3 * middle(values), 1) for name, values in gaps.items()},
        "web_cpu_us_a_token": round(1e6 * cost.seconds["web"] / (streams * tokens), 1),
        "cores": cost.cores,
    }


def leaving(bench: Bench, trials: int, beside: int) -> dict[str, Any]:
    """Milliseconds from a reader's leaving to the engine's stop, each trial in mid-stream, beside other streams."""

    async def trial(number: int) -> tuple[str, float]:
        reader = bench.reader(True)
        messages = [{"role": "user", "content": f"Leaver {number}: " + words(20, number)}]
        await reader.begin(*bench.request(True, messages, 800))
        await reader.first()
        await asyncio.sleep(0.05 + 0.2 * random.Random(number).random())
        left = time.time()
        reader.leave()
        return f"Leaver {number}:", left

    async def all_trials() -> list[float]:
        crowd = [bench.reader(True) for _ in range(beside)]
        for n, reader in enumerate(crowd):
            messages = [{"role": "user", "content": f"Crowd {n}: " + words(20, n)}]
            await reader.begin(*bench.request(True, messages, 1500))
        left: list[tuple[str, float]] = []
        for n in range(0, trials, 4):
            left += await asyncio.gather(*(trial(n + k) for k in range(4)))
        await asyncio.sleep(2)
        for reader in crowd:
            reader.leave()
        await asyncio.sleep(1)
        return [at for _, at in left]

    already = len(bench.stack.calls()["aborted"])
    left = sorted(asyncio.run(all_trials()))
    told = bench.stack.calls()
    stopped = sorted(one["at"] for one in told["aborted"][already:])
    # Both in order: with four trials a time the nth to leave need not be the nth to be stopped.
    took = [1e3 * (at - went) for went, at in zip(left, stopped, strict=False)]
    return {
        "trials": trials,
        "beside": beside,
        "stopped": len(stopped) - beside,
        "still_running": told["running"],
        "p50_ms": round(middle(took), 1),
        "worst_ms": round(max(took), 1),
    }


def streams_at_once(bench: Bench, count: int) -> dict[str, Any]:
    """Memory of the web process while so many streams are open, and the tokens they get."""

    async def open_them() -> tuple[int, list[Answer]]:
        readers = [bench.reader(True) for _ in range(count)]
        begun = []
        for n, reader in enumerate(readers):
            messages = [{"role": "user", "content": f"One of many, {n}: " + words(20, n)}]
            begun.append(await reader.begin(*bench.request(True, messages, 400)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*(reader.first() for reader in readers))
        held = bench.stack.memory()
        answers = await asyncio.gather(*(reader.end() for reader in readers), return_exceptions=True)
        return held, [answer for answer in answers if isinstance(answer, Answer)]

    before = bench.stack.memory()
    began, cpu = time.perf_counter(), bench.stack.cpu_s("web")
    held, answers = asyncio.run(open_them())
    wall = time.perf_counter() - began
    return {
        "streams": count,
        "answered": len(answers),
        "kib_a_stream": round((held - before) / count / 1024, 1),
        "before_mib": round(before / 2**20, 1),
        "held_mib": round(held / 2**20, 1),
        "tokens_s_a_stream": round(middle([a.tokens / ((a.end or 0) - (a.first or 0)) for a in answers]), 1),
        "web_cores": round((bench.stack.cpu_s("web") - cpu) / wall, 2),
    }


def growth(bench: Bench, turns: int, sessions: int) -> dict[str, Any]:
    """Memory of the web process over many turns in sessions that are never closed."""
    marks = []
    quarter = turns // 4 // sessions
    talks = [Talk(90_000 + number, 0, bench.said(8)) for number in range(sessions)]

    async def some() -> None:
        async def one(talk: Talk) -> None:
            reader = bench.reader(True)
            for _ in range(quarter):
                await reader.ask(*bench.request(True, talk.next(), 8))
            reader.leave()

        await asyncio.gather(*(one(talk) for talk in talks))

    for _ in range(4):
        asyncio.run(some())
        marks.append(bench.stack.memory())
    return {
        "turns": quarter * 4 * sessions,
        "sessions": sessions,
        "mib_at_each_quarter": [round(mark / 2**20, 1) for mark in marks],
        "kib_a_turn_after_the_first_quarter": round((marks[3] - marks[0]) / 1024 / (quarter * 3 * sessions), 2),
    }


def slow_readers(bench: Bench, count: int, tokens: int) -> dict[str, Any]:
    """Memory of the web process while readers take nothing of long replies that come as fast as they can."""

    async def hold() -> tuple[int, int, int]:
        readers = [bench.reader(True, receive_buffer=65536) for _ in range(count)]
        for n, reader in enumerate(readers):
            messages = [{"role": "user", "content": f"Slow reader {n}: " + words(20, n)}]
            await reader.begin(*bench.request(True, messages, tokens))
            await reader.first()
            reader.pause()
        await asyncio.sleep(3)
        early = bench.stack.memory()
        await asyncio.sleep(5)
        late = bench.stack.memory()
        running = bench.stack.calls()["running"]
        for reader in readers:
            reader.leave()
        return early, late, running

    before = bench.stack.memory()
    early, late, running = asyncio.run(hold())
    return {
        "readers": count,
        "tokens": tokens,
        "kib_a_reader": round((early - before) / count / 1024, 1),
        "grew_kib_a_reader_in_5_s": round((late - early) / count / 1024, 1),
        "engine_still_held_back": running,
    }


def measure(model: Path, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"model": model.name, "pace": PACE, "load_average": round(os.getloadavg()[0], 1)}
    found["web_processes"] = options.processes
    with scripted_stack(model, pace=PACE, processes=options.processes) as running:
        bench = Bench(running)
        asyncio.run(bench.converse(True, 4, 2, 8, 0, base=99_000))  # everything was imported and opened once
        asyncio.run(bench.converse(False, 4, 2, 8, 0, base=99_000))
        if "first" in options.parts:
            found["first_short"] = first_tokens(bench, options.streams, options.turns, 0, 1000)
            found["first_12k"] = first_tokens(bench, options.streams, options.turns, 12_000, 2000)
        if "long" in options.parts:
            found["long_64_x_12k"] = first_tokens(bench, 64, options.turns, 12_000, 4000)
        if "throughput" in options.parts:
            found["throughput"] = throughput(bench, 64, 400, options.rounds)
        if "leaving" in options.parts:
            found["leaving"] = leaving(bench, options.trials, 16)
        if "streams" in options.parts:
            found["streams"] = streams_at_once(bench, 200)
        if "growth" in options.parts:
            found["growth"] = growth(bench, 2000, 20)
        if options.log:
            shutil.copy(running.data_dir / "web.log", options.log)
    if "slow" in options.parts:
        with scripted_stack(model, pace=0) as running:
            found["slow"] = slow_readers(Bench(running), 20, ENDLESS)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.api", description=(__doc__ or "").splitlines()[0])
    data = Path(os.environ.get("DATA_DIR") or ROOT / "var")
    parser.add_argument("--model", default=os.environ.get("MODEL") or str(data / "models" / "smollm2-135m-instruct"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--processes", type=int, default=1, help="of the web")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--log", help="where to keep the web process's output")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    try:
        found = measure(Path(options.model), options)
    except Failed as failed:
        print(f"an answer was not what it should be: {failed}", file=sys.stderr)
        return 1
    print(json.dumps(found) if options.json else json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    os.environ.update(ONE_THREAD)
    sys.exit(main())
