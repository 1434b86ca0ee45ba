"""How the console says things."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone

from chat import clients
from chat.models import Turn
from judge.models import Judgement
from training.models import Run, Sample
from webapp.console.board import counted as say_counted
from webapp.console.board import span

register = template.Library()

TONES = {
    "answering": "active", "served": "", "observed": "active", "judged": "good", "closed": "",
    "ready": "good", "claimed": "active", "trained": "good", "stale": "warn",
    "queued": "active", "running": "active", "finished": "good", "failed": "bad",
    "candidate": "active", "passed": "active", "approved": "active", "live": "good", "retired": "", "rejected": "bad",
    "working": "active", "you": "active", "stuck": "bad", "waiting": "", "idle": "",
}  # fmt: skip


@register.filter
def ago(moment: datetime | None) -> str:
    """How long ago, shortly: "3 min"."""
    return span((timezone.now() - moment).total_seconds()) if moment else ""


@register.filter
def seconds(value: float | None) -> str:
    """A length of time in seconds, shortly: "3 min"."""
    return span(value) if value else ""


@register.filter
def tone(state: str) -> str:
    """The tone of a state's chip."""
    return TONES.get(state, "")


@register.filter
def said(turn: Turn) -> str:
    """What the reply answers: the last message of the request, as text."""
    for message in reversed(turn.messages or []):
        if text := text_of(message):
            return text
    return ""


@register.filter
def said_bare(turn: Turn) -> str:
    """What the reply answers, without what a client put around and after it."""
    rules = clients.of(turn.client)
    for message in reversed(turn.messages or []):
        text = text_of(message)
        if message.get("role") == "user":
            text = "" if rules.is_internal(text) else rules.words(text) or text
        if text:
            return text
    return ""


@register.filter
def rule_name(rule: str) -> str:
    """A rule without its client: "openclaw/title" is "title"."""
    return rule.partition("/")[2]


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


@register.filter
def message_text(message: dict[str, Any]) -> str:
    return text_of(message)


@register.filter
def signed(value: float | None) -> str:
    """With its sign, and a real minus: "+1", "0", "−0.5"."""
    if not value:
        return "" if value is None else "0"
    return f"{value:+g}".replace("-", "−")


@register.filter
def figure(value: object) -> str:
    """A number to four digits; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.4g}".replace("-", "−")


@register.filter
def counted(number: int, noun: str) -> str:
    """ "3 samples", "1 sample"."""
    return say_counted(number, noun)


@register.filter
def spaced(name: str) -> str:
    """A field's name as words."""
    return name.replace("_", " ")


@register.filter
def verdict(turn: Turn) -> Judgement | None:
    """Its judgement, if there is one."""
    return getattr(turn, "judgement", None)


@register.filter
def sign(sample: Sample) -> str:
    """One character for what a sample teaches."""
    if sample.has_teacher:
        return "✎"
    return "+" if sample.reward > 0 else "−"


@register.filter
def teaches(sample: Sample) -> str:
    """What a sample teaches, in words."""
    liked = {1: "liked", 0: "", -1: "disliked"}[(sample.reward > 0) - (sample.reward < 0)]
    return " and ".join(filter(None, (liked, "a hint" if sample.has_teacher else ""))) or "nothing"


@register.filter
def is_moving(run: Run) -> bool:
    """Queued or running: the page looks again by itself."""
    return run.status in (Run.Status.QUEUED, Run.Status.RUNNING)
