"""What a verdict costs: votes a question, prompt tokens computed and shared, and the wait for it.

    python -m benchmarks.judge [--json] [--model DIR] [--items 12] [--parts cost rate latency] [--judges base adapter]

cost: gold follow-ups, one at a time, with m = 1, 3 and 5 votes on both questions, against the embedded engine in a
process of its own, its cache emptied before each m and warmed by one verdict that is not counted. What m = 1 costs
three times over is what three judgements that share nothing but the fixed part of the prompt would cost.
rate: verdicts a second with m = 3 and several follow-ups under way.
latency: the whole of Talkback as processes; seconds from a next message to its verdict in the database.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core import pipes
from core.textfiles import read_lines

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "var" / "models" / "smollm2-135m-instruct"
GOLD = ROOT / "judge" / "gold.jsonl"


@dataclass(frozen=True)
class Cost:
    """The mean of one verdict with m votes on each question."""

    judge: str
    m: int
    seconds: float
    worst_s: float
    prompt_tokens: float
    computed_tokens: float
    """Prompt tokens that were not taken over from another vote, or from the verdict before."""
    written_tokens: float
    readable: float
    """Share of the votes that could be read."""
    times_m1: float = 0.0
    """How many times as long as with m = 1."""


@dataclass(frozen=True)
class Rate:
    judge: str
    at_once: int
    verdicts_a_second: float


def follow_ups(count: int) -> list[Any]:
    """Gold follow-ups of all roles in turn, as evidence."""
    from judge.calibration import items

    by_role: dict[str, list[Any]] = {}
    for number, line in enumerate(read_lines(GOLD), 1):
        entry = json.loads(line)
        entry["next_role"] = entry.pop("role", entry.get("next_role", "user"))
        by_role.setdefault(entry["next_role"], []).append(items.read(json.dumps(entry), number))
    turns = [role[n] for n in range(max(map(len, by_role.values()))) for role in by_role.values() if n < len(role)]
    return [item for item in turns if not item.seen.correction][:count]


async def one_cost(who: Any, m: int, found: list[Any], engine: Any) -> Cost:
    from judge.votes import polling

    await engine.flush()
    bench = polling.Bench((who,) * m, {who.name: 1.0})
    await polling.polled(bench, found[0].seen)
    took, ballots = [], []
    for item in found[1:]:
        start = time.perf_counter()
        cast = await polling.polled(bench, item.seen)
        took.append(time.perf_counter() - start)
        ballots += cast
    n = len(took)
    return Cost(
        judge=who.kind,
        m=m,
        seconds=statistics.mean(took),
        worst_s=max(took),
        prompt_tokens=sum(ballot.prompt_tokens for ballot in ballots) / n,
        computed_tokens=sum(ballot.prompt_tokens - ballot.cached_tokens for ballot in ballots) / n,
        written_tokens=sum(ballot.tokens for ballot in ballots) / n,
        readable=sum(ballot.score is not None for ballot in ballots) / len(ballots),
    )


async def one_rate(who: Any, at_once: int, found: list[Any], engine: Any) -> Rate:
    from judge.calibration import items
    from judge.votes import polling

    await engine.flush()
    bench = polling.Bench((who,) * 3, {who.name: 1.0})
    await polling.polled(bench, found[0].seen)
    start = time.perf_counter()
    verdicts = [verdict async for _, verdict in items.judged(bench, iter(found[1:]), at_once=at_once, by_rules=False)]
    return Rate(who.kind, at_once, len(verdicts) / (time.perf_counter() - start))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Costs and rates against an engine of our own."""
    from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
    from installation.diagnosis import free_port

    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENV_FILE": os.devnull,
            "DATA_DIR": folder,
            "MODEL": str(arguments.model),
            "ENGINE_URL": f"http://127.0.0.1:{port}",
        }
        import django

        django.setup()
        from gpu_workers import engines
        from judge.votes import judges

        found = follow_ups(arguments.items + 1)
        command = embedded_command(
            str(arguments.model), port, more=("--api-key", "", "--admin-api-key", "", "--max-running-requests", "16")
        )
        figures: dict[str, Any] = {"cost": [], "rate": []}
        with EngineProcess(command, f"http://127.0.0.1:{port}", Path(folder) / "log", environment=ONE_THREAD):

            async def run() -> None:
                engine = engines.policy()
                for kind in arguments.judges:
                    try:
                        who = judges.called(kind)
                    except judges.naming.JudgesInvalid as error:
                        print(f"{kind} is left out: {error}", file=sys.stderr)
                        continue
                    if "cost" in arguments.parts:
                        costs = [await one_cost(who, m, found, engine) for m in (1, 3, 5)]
                        figures["cost"] += [
                            asdict(cost) | {"times_m1": cost.seconds / costs[0].seconds} for cost in costs
                        ]
                    if "rate" in arguments.parts:
                        for at_once in (1, 2, 4):
                            figures["rate"].append(asdict(await one_rate(who, at_once, found, engine)))
                await engine.aclose()

            asyncio.run(run())
    return figures


def latency(model: Path, count: int) -> dict[str, float]:
    """Seconds from a next message to the verdict on the reply before it, through web, Redis, worker and engine."""
    import httpx

    from benchmarks.stack import running_stack, wait_for

    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder), model, {"batch_size": 10_000}) as stack:
        key = stack.manage("create_key", "--name", "bench").strip().splitlines()[-1]
        with httpx.Client(
            base_url=f"{stack.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=300
        ) as client:
            asked = itertools.count()
            while len(waits(stack.data_dir)) < count:
                said = [{"role": "user", "content": f"{next(asked)}: name a colour."}]
                body = {"messages": said, "max_tokens": 96, "seed": 1}
                first = client.post("/chat/completions", json=body).raise_for_status().json()
                if first["choices"][0]["finish_reason"] != "stop":
                    continue  # what was cut is never judged
                number = len(waits(stack.data_dir))
                said += [first["choices"][0]["message"], {"role": "user", "content": "No, say it in one word."}]
                client.post("/chat/completions", json=body | {"messages": said, "max_tokens": 1}).raise_for_status()
                wait_for("the verdict is there", lambda n=number: len(waits(stack.data_dir)) > n, 120, every_s=0.5)
        took = waits(stack.data_dir)
    return {"latency_median_s": statistics.median(took), "latency_worst_s": max(took), "follow_ups": len(took)}


def waits(data_dir: Path) -> list[float]:
    """Seconds from `observed_at` to `judged_at` of all verdicts that votes gave."""
    query = (
        "select t.observed_at, j.judged_at from judge_judgement j join chat_turn t on t.id = j.turn_id "
        "where exists (select 1 from judge_vote v where v.turn_id = t.id)"
    )
    with sqlite3.connect(f"file:{data_dir}/talkback.sqlite3?mode=ro", uri=True) as database:
        rows = database.execute(query).fetchall()
    return [(datetime.fromisoformat(judged) - datetime.fromisoformat(came)).total_seconds() for came, judged in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--items", type=int, default=12)
    parser.add_argument("--parts", nargs="+", default=("cost", "rate", "latency"), choices=("cost", "rate", "latency"))
    parser.add_argument("--judges", nargs="+", default=("base", "adapter"), choices=("base", "adapter"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    if {"cost", "rate"} & set(arguments.parts):
        figures |= measure(arguments)
    if "latency" in arguments.parts:
        figures |= latency(arguments.model, 8)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        for row in value if isinstance(value, list) else [{name: value}]:
            print(
                "  ".join(f"{key} {one:.2f}" if isinstance(one, float) else f"{key} {one}" for key, one in row.items())
            )


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
