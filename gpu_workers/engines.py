"""Who answers, as the settings say: the only file of this room that knows Django."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from django.conf import settings

from gpu_workers.engine import Engine
from gpu_workers.fleet import Fleet, Router
from gpu_workers.openai_chat import OpenAIChat
from gpu_workers.spare import Spare

if TYPE_CHECKING:
    from gpu_workers.tinker.service import Service


def policy() -> Engine:
    """The engine that serves the model being taught, or several that answer as one."""
    if settings.LEARNER == "tinker":
        return _tinker_engine(service(), settings.MODEL, Path(settings.DATA_DIR) / "tinker" / "held")
    if len(settings.ENGINE_URLS) > 1:
        keys = settings.ENGINE_API_KEY, settings.ENGINE_ADMIN_KEY
        return _fleet(tuple(settings.ENGINE_URLS), settings.ROUTER_URL, settings.ENGINE_FILL, *keys)
    spare, base = settings.SPARE_ENGINE_URL, settings.MODEL
    return _engine(settings.ENGINE_URL, settings.ENGINE_API_KEY, settings.ENGINE_ADMIN_KEY, spare, base)


def addresses() -> list[str]:
    """Where every server is that may answer: the engines, and the spare beside one."""
    if settings.LEARNER == "tinker":
        return [settings.TINKER_URL]
    if len(settings.ENGINE_URLS) > 1:
        return list(settings.ENGINE_URLS)
    return [url for url in (settings.ENGINE_URL, settings.SPARE_ENGINE_URL) if url]


def service() -> Service:
    """The account at Tinker: where LEARNER=tinker learns and answers. Everything it is asked leaves this machine."""
    return _service(settings.TINKER_MODEL, settings.TINKER_API_KEY, settings.TINKER_URL)


def at(url: str, api_key: str = "") -> Engine:
    """Another engine of the same interface."""
    return _engine(url, api_key, api_key)


def chat(url: str, model: str, api_key: str = "") -> OpenAIChat:
    """A model behind an OpenAI-compatible server."""
    return _chat(url, model, api_key)


@lru_cache
def _service(model: str, api_key: str, url: str) -> Service:
    from gpu_workers.tinker.service import Service

    return Service(model, api_key=api_key, url=url)


@lru_cache
def _tinker_engine(service: Service, model: str, held: Path) -> Engine:
    from gpu_workers.tinker.engine import TinkerEngine

    return cast(Engine, TinkerEngine(service, model, held))  # the same calls, as far as they exist there


@lru_cache
def _engine(url: str, api_key: str, admin_key: str, spare: str = "", base: str = "") -> Engine:
    """`base` is the folder of the model that `spare` was started with."""
    second = Spare(Engine(spare, api_key=api_key, admin_key=admin_key), base) if spare else None
    return Engine(url, api_key=api_key, admin_key=admin_key, spare=second)


@lru_cache
def _fleet(urls: tuple[str, ...], router: str, fill: int, api_key: str, admin_key: str) -> Engine:
    engines = {url: _engine(url, api_key, admin_key) for url in urls}
    return cast(Engine, Fleet(engines, router=Router(router, api_key=api_key) if router else None, fill=fill))


@lru_cache
def _chat(url: str, model: str, api_key: str) -> OpenAIChat:
    return OpenAIChat(url, model=model, api_key=api_key)
