"""Ask a server whether it takes pictures."""

from __future__ import annotations

from time import monotonic

import httpx

KNOWN_S = 30.0
"""How long an answer counts: a server may be started again with another model."""

_known: dict[str, tuple[float, bool]] = {}


def sees(url: str, api_key: str = "") -> bool:
    """SGLang says it of its model; a server that says nothing of it, or does not answer, takes none."""
    at, said = _known.get(url, (0.0, False))
    if at and monotonic() - at < KNOWN_S:
        return said
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        answer = httpx.get(f"{url}/model_info", headers=headers, timeout=2.0, trust_env=False)
        said = answer.status_code == 200 and answer.json().get("has_image_understanding") is True
    except (httpx.HTTPError, ValueError, AttributeError):
        return False  # it is asked again at once: it may be starting
    _known[url] = (monotonic(), said)
    return said
