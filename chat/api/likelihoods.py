"""Write log-probs of a reply's tokens as OpenAI spells them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from chat.rendering.renderer import Renderer
from chat.replying.deltas import ReplyDelta


def likelihoods(renderer: Renderer, spoken: ReplyDelta) -> list[dict[str, Any]]:
    """One entry for each token that stands for text; log-probs are the engine's own, as sampled."""
    entries = []
    for place, (id, logprob) in enumerate(zip(spoken.ids, spoken.logprobs, strict=True)):
        if not token(renderer, id):
            continue  # a control token says nothing
        others = spoken.top[place] if spoken.top else ()
        top = [entry(renderer, other, likely) for other, likely in others]
        entries.append(entry(renderer, id, logprob) | {"top_logprobs": top})
    return entries


def entry(renderer: Renderer, id: int, logprob: float) -> dict[str, Any]:
    """`bytes` is null for a token that is a part of a character: its text shows a sign instead."""
    text = token(renderer, id)
    return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


@lru_cache(maxsize=4096)
def token(renderer: Renderer, id: int) -> str:
    """The text of one token inside a text: written twice, for some tokenizers drop the blank at a beginning."""
    return renderer.decode([id, id])[len(renderer.decode([id])) :]
