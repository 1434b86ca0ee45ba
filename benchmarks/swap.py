"""Hot swaps under load: a live engine, streams that never pause, and weights that change under them.

    python -m benchmarks.swap [--json] [--model DIR] [--swaps 20] [--streams 4]

Streams go through the chat's own reply path, swaps through promotion's, both against the embedded engine in a
process of its own. Printed are the requests that failed, the replies with tokens of more than one checkpoint (each
reply is scored again under the weights that signed it), the seconds from approval to the first token of the new
weights and from a roll back to the first token of the old ones, and the 99th percentile of the gap between two
tokens of a stream while a swap is under way and otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "var" / "models" / "smollm2-135m-instruct"
TOPICS = ("rain", "bees", "bridges", "bread", "tides", "clocks", "salt", "owls", "glass", "maps", "steam", "moss")
AFTERWARDS_S = 1.0
"""How long after a swap a gap still counts as its own."""


@dataclass
class Seen:
    """What the streams went through."""

    failures: list[str] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """(when it ended, its length), in seconds."""
    swaps: list[tuple[float, float]] = field(default_factory=list)
    warm: asyncio.Event = field(default_factory=asyncio.Event)
    """As many replies have ended as there are streams."""

    def split_gaps(self) -> tuple[list[float], list[float]]:
        """Gaps that touch a swap, and the others."""
        during, usual = [], []
        for end, length in self.gaps:
            touched = any(begin <= end and end - length <= over + AFTERWARDS_S for begin, over in self.swaps)
            (during if touched else usual).append(length)
        return during, usual


def make_adapters(model: Path, folder: Path, count: int) -> list[dict[str, Any]]:
    """Random adapters, each with the learner's word on a fixed probe: weights that differ as trained ones would."""
    import torch

    from chat.rendering import Renderer
    from gpu_workers.learner import Learner, LoraShape

    torch.set_num_threads(1)
    renderer = Renderer.for_model(model)
    prompt_ids = renderer.prompt_ids([{"role": "user", "content": "What is a rainbow?"}])
    response_ids = renderer.encode("A rainbow is sunlight, bent and mirrored by many drops of rain at once.")
    learner = Learner(model, lora=LoraShape(rank=16, alpha=32))
    base = learner.score(prompt_ids, response_ids)  # B is 0: the base itself
    made = []
    for number in range(1, count + 1):
        torch.manual_seed(number)
        for name, parameter in learner.trainable():
            if "lora_B" in name:
                parameter.data.normal_(0, 0.01)
        learner.save(folder / str(number))
        probe = {
            "prompt_ids": prompt_ids,
            "response_ids": response_ids,
            "logprobs": learner.score(prompt_ids, response_ids),
            "base_logprobs": base,
            "dtype": str(learner.dtype).removeprefix("torch."),
        }
        made.append({"number": number, "path": str(folder / str(number)), "probe": probe})
    return made


async def talk(stream: int, streams: int, user: Any, engine: Any, seen: Seen, over: asyncio.Event, tokens: int) -> None:
    """One person who never stops asking."""
    from asgiref.sync import sync_to_async

    from chat import replies, turns
    from chat.models import Session
    from gpu_workers.types import Sampling

    sampling = Sampling(max_new_tokens=tokens, temperature=1.0, ignore_eos=True)
    asked = 0
    while not over.is_set():
        asked += 1
        said = [{"role": "user", "content": f"{stream}.{asked}: tell me about {TOPICS[(stream + asked) % 12]}."}]
        session = await Session.objects.acreate(user=user)
        last: float | None = None
        try:
            turn = await sync_to_async(turns.open_turn)(session, said, sampling=sampling)
            async with aclosing(replies.reply(turn, engine)) as deltas:
                async for delta in deltas:
                    if delta.ids:
                        now = time.perf_counter()
                        if last is not None:
                            seen.gaps.append((now, now - last))
                        last = now
        except Exception as failure:  # whatever it is, a person would have seen it
            seen.failures.append(f"{type(failure).__name__}: {failure}")
            continue
        await turn.arefresh_from_db()
        if turn.status != "served" or len(turn.response_ids) != tokens:
            seen.failures.append(f"{turn.status}, {len(turn.response_ids)} tokens: {turn.error}")
        seen.replies.append(turn)
        if len(seen.replies) >= streams:
            seen.warm.set()


async def first_token_s(began: float, number: int, user: Any, engine: Any) -> float:
    """Seconds since `began` until a new reply, by checkpoint `number`, shows its first token."""
    from asgiref.sync import sync_to_async

    from chat import replies, turns
    from chat.models import Session
    from gpu_workers.types import Sampling

    session = await Session.objects.acreate(user=user)
    said = [{"role": "user", "content": "Hello?"}]
    turn = await sync_to_async(turns.open_turn)(session, said, sampling=Sampling(max_new_tokens=2, ignore_eos=True))
    writer = await sync_to_async(lambda: turn.checkpoint.number)()
    if writer != number:
        raise RuntimeError(f"checkpoint {writer} answers instead of {number}")
    async with aclosing(replies.reply(turn, engine)) as deltas:
        async for delta in deltas:
            if delta.ids:
                return time.perf_counter() - began
    raise RuntimeError("the reply ended without a token")


async def measure(adapters: list[dict[str, Any]], streams: int, tokens: int, pause_s: float) -> dict[str, Any]:
    from asgiref.sync import sync_to_async
    from django.contrib.auth.models import User

    from gpu_workers import engines
    from training import promotion
    from training.models import Checkpoint

    user = await User.objects.acreate(username="bench")
    engine, seen, over = engines.policy(), Seen(), asyncio.Event()
    talking = [asyncio.create_task(talk(n, streams, user, engine, seen, over, tokens)) for n in range(streams)]
    await seen.warm.wait()
    seen.gaps.clear()
    await asyncio.sleep(4 * pause_s)

    forth, back = [], []
    for adapter in adapters:
        name = f"talkback-{adapter['number']}-{adapter['number']:08x}"
        candidate = await Checkpoint.objects.acreate(**adapter, adapter=name, status="passed")
        began = time.perf_counter()
        await sync_to_async(promotion.approve)(candidate, by=user)
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
        "token_gap_p99_s": {"during_swaps": centile(during), "usual": centile(usual)},
        "token_gap_median_s": {"during_swaps": statistics.median(during), "usual": statistics.median(usual)},
    }


def centile(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


async def count_mixed(replies: list[Any], engine: Any) -> tuple[int, float]:
    """Replies whose recorded log-probs are not those of the one checkpoint that signed them, and the largest gap.

    Each half of a reply is scored by itself, so that one that changed hands midway cannot hide behind its start.
    """
    from training import promotion
    from training.models import Checkpoint

    known = {checkpoint.pk: checkpoint async for checkpoint in Checkpoint.objects.all()}
    info = await engine.server_info()
    limit = {"float32": 0.01}.get(str(info.get("dtype")), 0.15)
    mixed, worst = 0, 0.0
    for turn in sorted(replies, key=lambda turn: turn.checkpoint_id):
        if not turn.response_ids:
            continue
        checkpoint = known[turn.checkpoint_id]
        if checkpoint.adapter not in (await engine.adapters()):
            await promotion.tidy(engine)  # the engine holds only so many: let go of the one before
            await promotion.ensure_loaded(checkpoint, engine)
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
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        figures = run(arguments, folder, port)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<28} {value}")
    if figures["failed"] or figures["mixed"]:
        raise SystemExit(1)


def run(arguments: argparse.Namespace, folder: Path, port: int) -> dict[str, Any]:
    """Everything in a folder of its own: a database, an engine, adapters."""
    model = Path(arguments.model)
    if arguments.model == "tiny":
        from tests.tiny import write_tiny_model

        model = write_tiny_model(folder / "model")
    from gpu_workers.processes import ONE_THREAD, EngineProcess, embedded_command

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
    adapters = make_adapters(model, folder / "checkpoints", arguments.swaps)
    command = embedded_command(str(model), port)
    with EngineProcess(command, f"http://127.0.0.1:{port}", folder / "engine.log", environment={**ONE_THREAD, **keys}):
        return asyncio.run(measure(adapters, arguments.streams, arguments.tokens, arguments.pause))


if __name__ == "__main__":
    main()
