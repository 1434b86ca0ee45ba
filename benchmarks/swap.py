"""Hot swaps under load: a live engine, streams that never pause, and weights that change under them.

    python -m benchmarks.swap [--json] [--model DIR] [--swaps 20] [--streams 4] [--full]

Streams go through the chat's own reply path, swaps through promotion's, both against the embedded engine in a
process of its own. Printed are the requests that failed, the replies with tokens of more than one checkpoint (each
reply is scored again under the weights that signed it), the seconds from approval to the first token of the new
weights and from a roll back to the first token of the old ones, and the 99th percentile of the gap between two
tokens of a stream while a swap is under way and otherwise, with the ratio of the two.

Then the engine is killed and started again: seconds until it is ready, until what is live is loaded and proven, and
until a person is answered. With --full every weight is exchanged under the same streams, and back. Last come the
requests a second with the adapters of 1, 2 and 8 checkpoints at once, each beside the bare engine in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.swap_streams import Seen, first_token_s, talk
from benchmarks.swap_weights import make_adapters, make_full
from core import pipes
from installation.diagnosis import free_port

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "var" / "models" / "smollm2-135m-instruct"
BESIDE = (1, 2, 8)
"""How many adapters are asked at once, beside the bare engine."""


async def measure(
    adapters: list[dict[str, Any]],
    full: dict[str, Any] | None,
    process: Any,
    swaps: int,
    streams: int,
    tokens: int,
    pause_s: float,
) -> dict[str, Any]:
    """So many of the `adapters` go live one after the other, and `full` after them; `process` is the engine's."""
    from asgiref.sync import sync_to_async
    from django.contrib.auth.models import User

    from checkpoints import promotion
    from checkpoints.models import Checkpoint
    from gpu_workers import engines

    user = await User.objects.acreate(username="bench")
    engine, seen, over = engines.policy(), Seen(), asyncio.Event()
    talking = [asyncio.create_task(talk(n, streams, user, engine, seen, over, tokens)) for n in range(streams)]
    await seen.warm.wait()
    seen.gaps.clear()
    await asyncio.sleep(4 * pause_s)

    forth, back = [], []
    for adapter in adapters[:swaps]:
        name = f"talkback-{adapter['number']}-{adapter['number']:08x}"
        candidate = await Checkpoint.objects.acreate(**adapter, adapter=name, status="passed")
        began = time.perf_counter()
        await sync_to_async(candidate.decide)(Checkpoint.Status.APPROVED, by=user)
        await promotion.promote(candidate, by=user)
        seen.swaps.append((began, time.perf_counter()))
        forth.append(await first_token_s(began, candidate.number, user, engine))
        await asyncio.sleep(pause_s)
    newest = await sync_to_async(Checkpoint.live)()
    for _ in range(5):  # back to the one before, which is warm, and forth again
        began = time.perf_counter()
        target = await promotion.roll_back(by=user)
        seen.swaps.append((began, time.perf_counter()))
        back.append(await first_token_s(began, target.number, user, engine))
        await promotion.roll_back(to=newest, by=user)
        seen.swaps.append((time.perf_counter(), time.perf_counter()))
    began = time.perf_counter()
    await promotion.roll_back(to=await Checkpoint.objects.aget(number=1), by=user)  # long unloaded: cold
    cold_s = await first_token_s(began, 1, user, engine)
    over.set()
    await asyncio.gather(*talking)

    mixed, apart = await count_mixed(seen.replies, engine)
    during, usual = (sorted(gaps) for gaps in seen.split_gaps())
    restart = await time_restart(process, user, engine)
    exchange = await time_exchange(full, user, engine, streams, tokens) if full else {}
    return {
        "swaps": len(forth),
        "streams": streams,
        "replies": len(seen.replies),
        "failed": len(seen.failures),
        "failures": seen.failures[:5],
        "mixed": mixed,
        "scored_apart_max": apart,
        "approval_to_first_token_s": {"median": statistics.median(forth), "worst": max(forth)},
        "roll_back_to_first_token_s": {"median": statistics.median(back), "worst": max(back), "cold": cold_s},
        "token_gap_p99_s": {
            "during_swaps": centile(during),
            "usual": centile(usual),
            "ratio": centile(during) / centile(usual),
        },
        "token_gap_median_s": {"during_swaps": statistics.median(during), "usual": statistics.median(usual)},
        "restart_s": restart,
        "full_weights": exchange,
        "beside": await rate_adapters(adapters, engine),
    }


async def time_restart(process: Any, user: Any, engine: Any) -> dict[str, float]:
    """Kill the engine, start it again, have it hold what it held, and ask it something."""
    from asgiref.sync import sync_to_async

    from checkpoints import repairs
    from checkpoints.models import Checkpoint

    live = await sync_to_async(Checkpoint.live)()
    await asyncio.to_thread(process.stop)
    began = time.perf_counter()
    await asyncio.to_thread(process.start)
    ready = time.perf_counter()
    await repairs.repair()
    repaired = time.perf_counter()
    answered_s = await first_token_s(repaired, live.number, user, engine)
    return {"ready": ready - began, "repaired": repaired - ready, "to_first_token": answered_s}


async def time_exchange(
    full: dict[str, Any], user: Any, engine: Any, streams: int, tokens: int
) -> dict[str, float | int | list[str]]:
    """Full weights go live under streams, and the way back; each reply is scored while what signed it is served."""
    from asgiref.sync import sync_to_async

    from checkpoints import promotion
    from checkpoints.models import Checkpoint

    await promotion.roll_back(to=await Checkpoint.objects.aget(number=0), by=user)
    seen, over = Seen(), asyncio.Event()
    talking = [asyncio.create_task(talk(n, streams, user, engine, seen, over, tokens)) for n in range(streams)]
    await seen.warm.wait()
    candidate = await Checkpoint.objects.acreate(**full, status="passed")
    began = time.perf_counter()
    await sync_to_async(candidate.decide)(Checkpoint.Status.APPROVED, by=user)
    await promotion.promote(candidate, by=user)
    forth = await first_token_s(began, candidate.number, user, engine)
    asked = len(seen.replies)
    while len(seen.replies) < asked + 2 * streams:  # replies by the new weights, and those that waited for them
        await asyncio.sleep(0.1)
    over.set()
    await asyncio.gather(*talking)
    of_full = [turn for turn in seen.replies if turn.checkpoint_id == candidate.pk]
    mixed, apart = await count_mixed(of_full, engine)
    began = time.perf_counter()
    await promotion.roll_back(to=await Checkpoint.objects.aget(number=0), by=user)
    back = await first_token_s(began, 0, user, engine)
    of_base = [turn for turn in seen.replies if turn.checkpoint_id != candidate.pk]
    others, farther = await count_mixed(of_base, engine)
    return {
        "approval_to_first_token_s": forth,
        "roll_back_to_first_token_s": back,
        "replies": len(seen.replies),
        "by_new_weights": len(of_full),
        "failed": len(seen.failures),
        "failures": seen.failures[:5],
        "mixed": mixed + others,
        "scored_apart_max": max(apart, farther),
    }


async def rate_adapters(adapters: list[dict[str, Any]], engine: Any) -> dict[str, Any]:
    """Requests a second with several adapters at once, as a share of the bare engine's in the same round."""
    from gpu_workers.types import Sampling

    sampling, prompt = Sampling(max_new_tokens=24, ignore_eos=True), adapters[0]["probe"]["prompt_ids"]
    for name in await engine.adapters():
        await engine.unload_adapter(name)
    names = [f"beside-{adapter['number']}" for adapter in adapters[: max(BESIDE)]]
    for name, adapter in zip(names, adapters, strict=False):
        await engine.load_adapter(name, adapter["path"])

    async def rate(names: Sequence[str | None]) -> float:
        """Requests a second of 16 that are asked at once."""
        began = time.perf_counter()
        asked = (engine.generate([*prompt, n], sampling, adapter=names[n % len(names)]) for n in range(16))
        await asyncio.gather(*asked)
        return 16 / (time.perf_counter() - began)

    shares: dict[int, list[float]] = {count: [] for count in BESIDE}
    bare = []
    for _ in range(3):
        for count in BESIDE:
            bare.append(await rate([None]))
            shares[count].append(await rate(names[:count]) / bare[-1])
    return {
        "bare_requests_per_s": statistics.median(bare),
        "share_of_bare": {str(count): statistics.median(found) for count, found in shares.items()},
    }


def centile(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


async def count_mixed(replies: list[Any], engine: Any) -> tuple[int, float]:
    """Replies whose recorded log-probs are not those of the one checkpoint that signed them, and the largest gap.

    Each half of a reply is scored by itself, so that one that changed hands midway cannot hide behind its start.
    """
    from checkpoints import loading
    from checkpoints.models import Checkpoint

    known = {checkpoint.pk: checkpoint async for checkpoint in Checkpoint.objects.all()}
    info = await engine.server_info()
    limit = {"float32": 0.01}.get(str(info.get("dtype")), 0.15)
    mixed, worst = 0, 0.0
    for turn in sorted(replies, key=lambda turn: turn.checkpoint_id):
        if not turn.response_ids:
            continue
        checkpoint = known[turn.checkpoint_id]
        if checkpoint.adapter not in (await engine.adapters()):
            await loading.tidy(engine)  # the engine holds only so many: let go of the one before
            await loading.ensure_loaded(checkpoint, engine)
        scored = await engine.score(turn.prompt_ids, turn.response_ids, adapter=checkpoint.adapter or None)
        apart = [abs(a - b) for a, b in zip(scored.logprobs, turn.logprobs, strict=True)]
        half = len(apart) // 2
        gap = max(statistics.fmean(part) for part in (apart[:half], apart[half:]))
        worst = max(worst, gap)
        mixed += gap > limit
    return mixed, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(MODEL), help='a model folder, or "tiny" for the one of the tests')
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48, help="length of each streamed reply")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two swaps")
    parser.add_argument("--full", action="store_true", help="exchange every weight as well")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        figures = run(arguments, folder, free_port())
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<28} {value}")
    if any(part.get("failed") or part.get("mixed") for part in (figures, figures["full_weights"])):
        raise SystemExit(1)


def run(arguments: argparse.Namespace, folder: Path, port: int) -> dict[str, Any]:
    """Everything in a folder of its own: a database, an engine, adapters."""
    model = Path(arguments.model)
    if arguments.model == "tiny":
        from benchmarks.tiny import write_tiny_model

        model = write_tiny_model(folder / "model")
    from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command

    keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    os.environ.update(
        {
            **keys,
            **ONE_THREAD,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENV_FILE": os.devnull,
            "DATA_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder}/talkback.sqlite3",
            "MODEL": str(model),
            "ENGINE_URL": f"http://127.0.0.1:{port}",
        }
    )
    import django

    django.setup()
    from django.core.management import call_command

    from core.states import moved

    for listener in ("pipeline", "live"):  # no workers and no pages here: only chat, promotion and the engine
        moved.disconnect(dispatch_uid=listener)
    call_command("migrate", verbosity=0)
    adapters = make_adapters(model, folder / "checkpoints", max(arguments.swaps, *BESIDE))
    full = make_full(model, folder / "checkpoints", len(adapters) + 1) if arguments.full else None
    command = embedded_command(str(model), port)
    log, environment = folder / "engine.log", {**ONE_THREAD, **keys}
    with EngineProcess(command, f"http://127.0.0.1:{port}", log, environment=environment) as process:
        shape = arguments.swaps, arguments.streams, arguments.tokens, arguments.pause
        return asyncio.run(measure(adapters, full, process, *shape))


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
