"""Reports tell an operator how each engine is: asked now, with short patience, and without keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.stamps import weights_in
from gpu_workers.errors import EngineRefused, EngineUnavailable
from gpu_workers.servers import keeper

PATIENCE_S = 3.0
"""How long one engine may take to say how it is."""


@dataclass(frozen=True)
class Report:
    """The state of one engine. Figures are None where it does not say."""

    name: str
    host: str
    """Address without what may stand in it besides: names of users, and keys."""
    is_up: bool
    is_ready: bool
    adapters: Sequence[str] = ()
    weights: str = ""
    """Full weights by name; empty for the base."""
    version: str = ""
    model: str = ""
    running: int | None = None
    queued: int | None = None
    tokens_a_second: float | None = None
    cache_used: float | None = None
    """Share of the room for keys and values that is taken."""
    fault: str = ""
    ends: int = 0
    """How often it ended by itself since it was started here."""
    last_words: Sequence[str] = field(default=(), repr=False)

    @property
    def state(self) -> str:
        return "down" if not self.is_up else "up" if self.is_ready else "paused"

    @property
    def last_said(self) -> str:
        return "\n".join(self.last_words)


async def reports(engine: Engine | Fleet, data_dir: Path) -> list[Report]:
    """Report on every engine behind this one, whether it answers or not, in the order of the settings."""
    if isinstance(engine, Fleet):
        pairs = [(str(worker), worker.fault, one) for worker, one in engine.everyone()]
    else:
        pairs = [("Engine", "", engine)]
    return list(await asyncio.gather(*(_report(name, fault, one, data_dir) for name, fault, one in pairs)))


async def _report(name: str, fault: str, engine: Engine, data_dir: Path) -> Report:
    parts = urlsplit(engine.url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    is_here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    kept = keeper.read(data_dir, parts.port) if is_here and parts.port else {}
    words = [str(line) for line in kept.get("last_words", ())] if kept.get("ends") else []
    ends = int(kept.get("ends", 0))
    try:
        async with asyncio.timeout(PATIENCE_S):
            loaded, info, counters, is_ready = await asyncio.gather(
                engine.adapters(), engine.info(), engine.metrics(), engine.ready()
            )
    except (EngineUnavailable, EngineRefused, TimeoutError) as failure:
        why = str(failure) or f"It did not answer within {PATIENCE_S:.0f} s."
        if kept.get("state") == "starting":
            why = "It is starting."
        return Report(name, host, False, False, fault=why, ends=ends, last_words=words)
    version = str(info.get("weight_version", ""))
    return Report(
        name=name,
        host=host,
        is_up=True,
        is_ready=is_ready,
        adapters=sorted(loaded),
        weights=weights_in(version),
        version=version,
        model=Path(str(info.get("model_path", ""))).name,
        running=_whole(counters.get("num_running_reqs")),
        queued=_whole(counters.get("num_queue_reqs")),
        tokens_a_second=counters.get("gen_throughput"),
        cache_used=counters.get("token_usage"),
        fault=fault,
        ends=ends,
        last_words=words,
    )


def _whole(figure: float | None) -> int | None:
    return None if figure is None else int(figure)
