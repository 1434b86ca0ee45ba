"""Engines are chosen by the settings: the only file of this room that knows Django."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from gpu_workers.engine import sight
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.openai_chat import OpenAIChat
from gpu_workers.engine.router import Router
from gpu_workers.engine.spare import Spare

if TYPE_CHECKING:
    from gpu_workers.tinker.service import Service


def policy() -> Engine:
    """Return the engine that serves the model being taught, or several that answer as one."""
    if settings.LEARNER == "tinker":
        return _tinker_engine(service(), settings.MODEL, Path(settings.DATA_DIR) / "tinker" / "held")
    if len(settings.ENGINE_URLS) > 1:
        return _fleet(tuple(settings.ENGINE_URLS), settings.ROUTER_URL, settings.ENGINE_FILL, *_manners())
    return _engine(settings.ENGINE_URL, *_manners(), settings.SPARE_ENGINE_URL, settings.MODEL)


def see() -> bool:
    """Tell whether the engines of the policy take pictures: SGLang says so of a model that sees, the embedded engine
    and Tinker take none. Asks every one of them, at most once in sight.KNOWN_S; call it in a thread."""
    if settings.LEARNER == "tinker":
        return False
    return all(sight.sees(url, settings.ENGINE_API_KEY) for url in settings.ENGINE_URLS or [settings.ENGINE_URL])


def addresses() -> list[str]:
    """List the address of every server that may answer: the engines, and the spare beside one."""
    if settings.LEARNER == "tinker":
        return [settings.TINKER_URL]
    if len(settings.ENGINE_URLS) > 1:
        return list(settings.ENGINE_URLS)
    return [url for url in (settings.ENGINE_URL, settings.SPARE_ENGINE_URL) if url]


def service() -> Service:
    """Return the account at Tinker, where LEARNER=tinker learns and answers. All it is asked leaves this machine."""
    return _service(settings.TINKER_MODEL, settings.TINKER_API_KEY, settings.TINKER_URL)


def at(url: str, api_key: str = "") -> Engine:
    """Return another engine of the same interface."""
    return _engine(url, api_key, api_key, settings.ENGINE_PRIORITIES)


def chat(url: str, model: str, api_key: str = "") -> OpenAIChat:
    """Return a model behind an OpenAI-compatible server."""
    return _chat(url, model, api_key)


def chat_sees(url: str, model: str, api_key: str = "") -> bool | None:
    """Tell whether that model takes pictures, as its server says; None where that does not answer. Asks at most once in
    sight.KNOWN_S; call it in a thread."""
    return sight.chat_sees(chat(url, model, api_key).url, model, api_key)


def _manners() -> tuple[str, str, bool]:
    """How the engines of the policy are spoken to: the keys, and whether they are told priorities."""
    return settings.ENGINE_API_KEY, settings.ENGINE_ADMIN_KEY, settings.ENGINE_PRIORITIES


@lru_cache
def _service(model: str, api_key: str, url: str) -> Service:
    from gpu_workers.tinker.service import Service

    return Service(model, api_key=api_key, url=url)


@lru_cache
def _tinker_engine(service: Service, model: str, names: Path) -> Engine:
    from gpu_workers.tinker.tinker_engine import TinkerEngine

    return TinkerEngine(service, model, names)


@lru_cache
def _engine(url: str, api_key: str, admin_key: str, priorities: bool, spare: str = "", base: str = "") -> Engine:
    """`base` is the folder of the model that `spare` was started with."""
    how: dict[str, Any] = {"api_key": api_key, "admin_key": admin_key, "priorities": priorities}
    return EngineClient(url, **how, spare=Spare(EngineClient(spare, **how), base) if spare else None)


@lru_cache
def _fleet(urls: tuple[str, ...], router: str, fill: int, api_key: str, admin_key: str, priorities: bool) -> Engine:
    engines = {url: _engine(url, api_key, admin_key, priorities) for url in urls}
    front = Router(router, api_key=api_key, priorities=priorities) if router else None
    return Fleet(engines, router=front, fill=fill)


@lru_cache
def _chat(url: str, model: str, api_key: str) -> OpenAIChat:
    return OpenAIChat(url, model=model, api_key=api_key)
