"""Ask a server whether it takes pictures."""

from __future__ import annotations

from time import monotonic

import httpx

KNOWN_S, SILENT_S = 30.0, 3.0
"""How long an answer counts, for a server may be started again with another model; and that none came."""

_known: dict[str, tuple[float, bool]] = {}
"""Until when it counts, by address."""


def sees(url: str, api_key: str = "") -> bool:
    """SGLang says it of its model; a server that says nothing of it, or does not answer, takes none."""
    until, said = _known.get(url, (0.0, False))
    if monotonic() < until:
        return said
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    lasts_s = KNOWN_S
    try:
        answer = httpx.get(f"{url}/model_info", headers=headers, timeout=2.0, trust_env=False)
        said = answer.status_code == 200 and answer.json().get("has_image_understanding") is True
    except (httpx.HTTPError, ValueError, AttributeError):
        said, lasts_s = False, SILENT_S
    _known[url] = (monotonic() + lasts_s, said)
    return said
