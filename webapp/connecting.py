"""Word what to paste into a client so that it talks to this Talkback: for the page, for `make up` and for tests."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

PLACEHOLDER = "YOUR_API_KEY"
"""Stands for a key whose secret is no longer known: it was shown when it was made, and only then."""

ROOMY = 24_000
"""Tokens of window from which OpenClaw fits as it comes: its own prompt is 10 to 13 thousand, and a reply needs room.
At less the agent is told to bring less along."""


@dataclass(frozen=True)
class Place:
    """Where a client is to go, and what it finds there."""

    address: str
    """As the person reaches it, without a path: http://localhost:8000"""
    key: str = PLACEHOLDER
    model: str = "talkback"
    window: int = 8192
    """Tokens that prompt and reply may have together."""
    reasons: bool = False
    """Whether the model thinks before it speaks, in reasoning_content."""

    @property
    def base_url(self) -> str:
        return f"{self.address.rstrip('/')}/v1"

    @property
    def longest_reply(self) -> int:
        """Tokens, generous: a reply that is cut at its length teaches only what a person writes in its place."""
        return max(1, min(4096, self.window // 4))

    @property
    def is_small(self) -> bool:
        return self.window < ROOMY


@dataclass(frozen=True)
class Block:
    """One thing to paste."""

    name: str
    title: str
    where: str
    """Where it goes, in words."""
    text: str


def blocks(place: Place) -> list[Block]:
    return [
        Block("openclaw", "OpenClaw", _("Into ~/.openclaw/openclaw.json"), json.dumps(openclaw(place), indent=2)),
        Block("environment", _("Environment"), _("In the shell that starts an OpenAI client"), environment(place)),
        Block("curl", "curl", _("In any shell"), curl(place)),
        Block("python", "Python", _("After pip install openai"), python(place)),
        Block("javascript", "JavaScript", _("After npm install openai"), javascript(place)),
        Block("anthropic", "Anthropic", _("In the shell that starts an Anthropic client"), anthropic(place)),
    ]


def openclaw(place: Place) -> dict[str, Any]:
    """openclaw.json. For a small window the agent brings two tools and neither skills nor workspace files along."""
    model = {
        "id": place.model,
        "name": place.model,
        "reasoning": place.reasons,
        "contextWindow": place.window,
        "maxTokens": place.longest_reply,
    }
    provider = {"baseUrl": place.base_url, "apiKey": place.key, "api": "openai-completions", "models": [model]}
    defaults: dict[str, Any] = {"model": {"primary": f"talkback/{place.model}"}}
    config: dict[str, Any] = {
        "models": {"mode": "replace", "providers": {"talkback": provider}},
        "agents": {"defaults": defaults},
    }
    if place.is_small:
        defaults |= {"skipBootstrap": True, "contextInjection": "never", "skills": []}
        defaults["compaction"] = {"memoryFlush": {"enabled": False}}  # it would come after nearly every reply
        config["tools"] = {"allow": ["read", "exec"], "toolSearch": False}
    return config


def environment(place: Place) -> str:
    return exports(OPENAI_BASE_URL=place.base_url, OPENAI_API_KEY=place.key)


def anthropic(place: Place) -> str:
    """The client adds /v1/messages by itself."""
    return exports(
        ANTHROPIC_BASE_URL=place.address.rstrip("/"), ANTHROPIC_API_KEY=place.key, ANTHROPIC_MODEL=place.model
    )


def exports(**values: str) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def curl(place: Place) -> str:
    body = json.dumps({"model": place.model, "messages": [{"role": "user", "content": "Hello!"}]})
    words = [f"Authorization: Bearer {place.key}", "Content-Type: application/json"]
    headers = " ".join(f"-H {shlex.quote(word)}" for word in words)
    return f"curl {shlex.quote(place.base_url)}/chat/completions {headers} \\\n  -d {shlex.quote(body)}"


def python(place: Place) -> str:
    url, key, model = (json.dumps(value) for value in (place.base_url, place.key, place.model))
    return f"""\
from openai import OpenAI

client = OpenAI(base_url={url}, api_key={key})
reply = client.chat.completions.create(model={model}, messages=[{{"role": "user", "content": "Hello!"}}])
print(reply.choices[0].message.content)"""


def javascript(place: Place) -> str:
    url, key, model = (json.dumps(value) for value in (place.base_url, place.key, place.model))
    return f"""\
import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {url}, apiKey: {key} }});
const reply = await client.chat.completions.create({{
  model: {model},
  messages: [{{ role: "user", content: "Hello!" }}],
}});
console.log(reply.choices[0].message.content);"""
