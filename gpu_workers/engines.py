"""Who answers, as the settings say: the only file of this room that knows Django."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from gpu_workers.engine import Engine
from gpu_workers.openai_chat import OpenAIChat


def policy() -> Engine:
    """The engine that serves the model being taught."""
    return _engine(settings.ENGINE_URL, settings.ENGINE_API_KEY, settings.ENGINE_ADMIN_KEY)


def judge() -> Engine | OpenAIChat:
    """Who judges: the policy's own engine, unless JUDGE_URL names an OpenAI-compatible server."""
    if not settings.JUDGE_URL:
        return policy()
    return _chat(settings.JUDGE_URL, settings.JUDGE_MODEL, settings.JUDGE_API_KEY)


@lru_cache
def _engine(url: str, api_key: str, admin_key: str) -> Engine:
    return Engine(url, api_key=api_key, admin_key=admin_key)


@lru_cache
def _chat(url: str, model: str, api_key: str) -> OpenAIChat:
    return OpenAIChat(url, model=model, api_key=api_key)
