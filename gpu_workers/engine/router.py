"""The router is SGLang's own in front of several engines: a request goes through it to one of them."""

from __future__ import annotations

from gpu_workers.engine.engine_client import EngineClient


class Router(EngineClient):
    """Ask through SGLang's router. It cannot be asked what the server behind it serves: the stamp on each answer
    says it."""

    async def _instead(self, adapter: str | None) -> None:
        return None
