"""Ask a server whether it takes pictures."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx

KNOWN_S, SILENT_S = 30.0, 3.0
"""How long an answer counts, for a server may be started again with another model; and that none came."""

ASKED_S = 2.0
"""How long a server may be silent when it is asked."""

_known: dict[str, tuple[float, bool | None]] = {}
"""Until when it counts, by address, and of a chat server by model."""


def sees(url: str, api_key: str = "") -> bool:
    """SGLang says it of its model; a server that says nothing of it, or does not answer, takes none."""
    return _remember(url, lambda: _has_understanding(url, api_key)) is True


def chat_sees(url: str, model: str, api_key: str = "") -> bool | None:
    """The same of a model behind an OpenAI-compatible server, whose `url` ends in /v1: its entry in /models may list
    what it takes as `input_modalities`, and SGLang says it as ever. None where the server does not answer."""

    def ask() -> bool:
        modalities = _modalities(_get(f"{url}/models", api_key), model)
        return _has_understanding(url.removesuffix("/v1"), api_key) if modalities is None else "image" in modalities

    return _remember(f"{url} {model}", ask)


def _remember(key: str, ask: Callable[[], bool]) -> bool | None:
    """None where no answer came, or none that can be read."""
    until, said = _known.get(key, (0.0, None))
    if monotonic() < until:
        return said
    lasts_s = KNOWN_S
    try:
        said = ask()
    except (httpx.HTTPError, ValueError, AttributeError, TypeError):
        said, lasts_s = None, SILENT_S
    _known[key] = (monotonic() + lasts_s, said)
    return said


def _has_understanding(url: str, api_key: str) -> bool:
    said = _get(f"{url}/model_info", api_key)
    return said is not None and said.get("has_image_understanding") is True


def _modalities(said: Any, model: str) -> list[Any] | None:
    """What the model of this name takes; None where the list does not say."""
    entries = said.get("data") if said is not None else None
    entry: dict[str, Any] = next((one for one in entries or () if one.get("id") == model), {})
    found = entry.get("input_modalities") or (entry.get("architecture") or {}).get("input_modalities")
    return found if isinstance(found, list) else None


def _get(url: str, api_key: str) -> Any:
    """The JSON at this address; None where the server has nothing there."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    answer = httpx.get(url, headers=headers, timeout=ASKED_S, trust_env=False)
    return answer.json() if answer.status_code == 200 else None
