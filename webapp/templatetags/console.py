"""Format what the console's templates show, and find what stands on each of its pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.conf import settings
from django.template import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from accounts.roles import may
from chat import clients
from chat.models import Turn
from checkpoints import promotion
from checkpoints.models import Checkpoint, Taint
from judge.models import Judgement
from judge.votes import naming, precedence
from training import outside
from training.batches import IMPORT, Filling
from training.models import Run, Sample
from training.provenance import retention, taints
from webapp.amounts import span
from webapp.console import deed_words, notice_pages

register = template.Library()

TONES = {
    "answering": "active", "served": "", "observed": "active", "judged": "good", "closed": "",
    "ready": "good", "claimed": "active", "trained": "good", "stale": "warn",
    "queued": "active", "running": "active", "finished": "good", "failed": "bad",
    "candidate": "active", "passed": "active", "approved": "active", "live": "good", "retired": "", "rejected": "bad",
    "working": "active", "you": "active", "stuck": "bad", "waiting": "", "idle": "",
}  # fmt: skip


@register.filter
def with_code(sentence: str) -> SafeString:
    """What stands between backticks in a sentence of ours, as code."""
    parts = enumerate(sentence.split("`"))
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if at % 2 else part,) for at, part in parts)
    )


@register.filter
def ago(moment: datetime | None) -> str:
    """How long ago, shortly: "3 min"."""
    return span((timezone.now() - moment).total_seconds()) if moment else ""


@register.filter
def how_long_ago(moment: datetime | None) -> str:
    """How long ago, as part of a sentence: "3 min ago"."""
    return _("%(span)s ago") % {"span": ago(moment)} if moment else ""


@register.inclusion_tag("training/_next_training.html")
def next_training(batch: Filling, form: str = "") -> dict[str, str]:
    """The sentence that says when training starts. `form` is the id of the form that starts it, for a reader who may:
    "now" is its button then."""
    before, now, after = batch.parts
    return {"before": before, "now": now, "after": after, "why": batch.why_it_waits, "form": form}


@register.filter
def seconds(value: float | None) -> str:
    """A length of time in seconds, shortly: "3 min"."""
    return span(value) if value else ""


@register.filter
def tone(state: str) -> str:
    """The tone of a state's chip."""
    return TONES.get(state, "")


TURN_STATES = {
    "answering": gettext_lazy("being written"),
    "served": gettext_lazy("no feedback yet"),
    "observed": gettext_lazy("being judged"),
    "judged": gettext_lazy("judged"),
    "closed": pgettext_lazy("turn", "closed"),
}


@register.filter
def turn_state(status: str) -> str:
    """A turn's state as a person reads it."""
    return str(TURN_STATES[status])


WORDS = {
    "up": pgettext_lazy("engine", "up"),
    "paused": pgettext_lazy("engine", "paused"),
    "down": pgettext_lazy("engine", "down"),
    "info": pgettext_lazy("notice", "info"),
    "warning": pgettext_lazy("notice", "warning"),
    "error": pgettext_lazy("notice", "error"),
    "waiting": pgettext_lazy("message", "waiting"),
    "sending": pgettext_lazy("message", "sending"),
    "sent": pgettext_lazy("message", "sent"),
    "failed": pgettext_lazy("message", "failed"),
    "grey": pgettext_lazy("light", "grey"),
    "amber": pgettext_lazy("light", "amber"),
    "green": pgettext_lazy("light", "green"),
}
"""Of an engine, a notice, a webhook's message and a key's light: their states as people read them."""


@register.filter
def in_words(state: str) -> str:
    return str(WORDS.get(state, state))


@register.filter
def verb_in_words(verb: str) -> str:
    """What was done, as the audit log's page names it."""
    return deed_words.of(verb)


@register.filter
def about_in_words(about: str) -> str:
    """What a decision was about, as the audit log's page names it."""
    return deed_words.subject(about)


@register.simple_tag(takes_context=True)
def runs_in_words(context: Context, runs: Sequence[Run]) -> SafeString:
    """These runs by number, each a link where the reader may see it: "run 3 and run 4"."""
    names = [_("run %(number)s") % {"number": run.pk} for run in runs]
    if may(context["user"], "worlds"):
        there = (reverse("console:run", args=[run.pk]) for run in runs)
        names = [format_html('<a href="{}">{}</a>', url, name) for url, name in zip(there, names, strict=True)]
    return format_html_join(format_html(" {} ", _("and")), "{}", ((name,) for name in names))


@register.filter
def level_tone(level: str) -> str:
    """The tone of a notice."""
    return {"info": "active", "warning": "warn", "error": "bad"}.get(level, "")


OFF_RECORD = gettext_lazy("(off the record)")
"""In the console, in place of words that are their person's alone to read."""


@register.filter
def off_record(turn: Turn) -> bool:
    return not (turn.learns and turn.session.learns)


@register.filter
def replied(turn: Turn) -> str:
    """What the model said, or why it failed."""
    return str(OFF_RECORD) if off_record(turn) else turn.error or turn.text


@register.filter
def said(turn: Turn) -> str:
    """What the reply answers: the last message of the request, as text."""
    if off_record(turn):
        return str(OFF_RECORD)
    for message in reversed(turn.messages or []):
        if text := text_of(message):
            return text
    return ""


@register.filter
def said_bare(turn: Turn) -> str:
    """What the reply answers, without what a client put around and after it."""
    if off_record(turn):
        return str(OFF_RECORD)
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
def signed_shortly(value: float | None) -> str:
    """With its sign and two digits after the point: "+0.71"."""
    return "" if value is None else f"{value:+.2f}".replace("-", "−")


@register.filter
def figure(value: object) -> str:
    """A number to four digits; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.4g}".replace("-", "−")


@register.filter
def named(task: str, names: Mapping[str, str]) -> str:
    """A task by its name for people, where it has one beside its id."""
    return names.get(task, task)


@register.filter
def spaced(name: str) -> str:
    """A field's name as words."""
    return name.replace("_", " ")


@register.filter
def beside_reward(reward_from: str) -> str:
    """Whose word a reward is, and whose outranks it."""
    source = precedence.of_reward(reward_from)
    return _(source.beside if source else precedence.RULE)


@register.filter
def beside_hint(hint_from: str) -> str:
    """Whose word a hint is, and whose outranks it."""
    source = precedence.of_hint(hint_from)
    return _(source.beside if source else precedence.RULE)


@register.filter
def reward_source(reward_from: str) -> str:
    """Who decided a reward, in words."""
    source = precedence.of_reward(reward_from)
    return _(source.words) if source else reward_from


@register.filter
def verdict(turn: Turn) -> Judgement | None:
    """Its judgement, if there is one."""
    return getattr(turn, "judgement", None)


@register.filter
def sign(sample: Sample) -> str:
    """One character for what a sample teaches."""
    if sample.step is not None:
        return "▸"
    if sample.has_teacher or is_imported(sample):
        return "✎"
    if sample.rewards:
        return "±"
    return "+" if sample.reward > 0 else "−"


@register.filter
def is_imported(sample: Sample) -> bool:
    """Whether it is an example of a file, and of no conversation."""
    return sample.person.startswith(IMPORT)


@register.filter
def teaches(sample: Sample) -> str:
    """What a sample teaches, in words."""
    if sample.step is not None:
        return step_taught(sample)
    if is_imported(sample):
        return _("an example of a file")
    hinted = sample.has_teacher
    if sample.rewards:
        return _("marked words and a hint") if hinted else _("marked words")
    if sample.reward > 0:
        return _("liked and a hint") if hinted else _("liked")
    if sample.reward < 0:
        return _("disliked and a hint") if hinted else _("disliked")
    return _("a hint") if hinted else _("nothing")


def step_taught(sample: Sample) -> str:
    told = {"number": (sample.step or 0) + 1, "why": _(sample.left_out) if sample.left_out else ""}
    if sample.advantage is None:
        if sample.left_out:
            return _("step %(number)s of an attempt, not learned: %(why)s") % told
        return _("step %(number)s of an attempt") % told
    told["worth"] = signed(round(sample.advantage, 2))
    if sample.left_out:
        return _("step %(number)s of an attempt, worth %(worth)s, not learned: %(why)s") % told
    return _("step %(number)s of an attempt, worth %(worth)s") % told


@register.filter
def told(sample: Sample) -> str:
    """What a sample teaches in a few signs: "+1", "−1 ✎", "✎", "±" where words of it were marked."""
    reward = "±" if sample.rewards else signed(sample.reward) if sample.reward else ""
    return " ".join(filter(None, (reward, "✎" if sample.has_teacher else "", "✍" if sample.rewrite_ids else ""))) or "0"


@register.filter
def mebibytes(value: float) -> str:
    """Memory or disk, shortly: "40 MiB", "1.5 GiB"."""
    return f"{value:.0f} MiB" if value < 1000 else f"{value / 1024:.1f} GiB"


@register.filter
def knob(value: object) -> str:
    """A knob's value as the recipe's JSON has it."""
    return json.dumps(value)


@register.filter
def is_moving(run: Run) -> bool:
    """Queued or running: the page looks again by itself."""
    return run.status in (Run.Status.QUEUED, Run.Status.RUNNING)


@register.filter
def answer_of(answer: str, question: str) -> str:
    """What one of a judge's answers says, in words for a table of probabilities."""
    if question == "hint":
        return {"1": _("asks for a change"), "-1": _("asks for none")}.get(answer, answer)
    return {"1": "+1", "-1": "−1", "new": _("another subject")}.get(answer, answer)


@register.simple_tag(takes_context=True)
def noticed(context: Context) -> dict[str, Any]:
    """What is still unread, and the candidates that wait; the board's headline names those itself."""
    request = context["request"]
    match = request.resolver_match
    names_waiting = match is None or match.view_name != "console:board"
    return notice_pages.banner(names_waiting=names_waiting, known=getattr(request, "standing", None))


@register.simple_tag(takes_context=True)
def way_back(context: Context) -> promotion.Answering | None:
    """Who answers in the shared line, and what a step back goes to; None where there is nothing to go back to. What it
    asked for stays with the request, for what else the page shows of it; a page that knows it leaves it there."""
    request = context["request"]
    if not hasattr(request, "standing"):
        request.standing = promotion.Answering.read()
    return request.standing if request.standing.previous else None


@register.simple_tag
def text_leaves_for() -> str:
    """The host that everything is sent to; empty where this machine learns and answers itself."""
    return naming.host_of(settings.TINKER_URL) if outside.is_outside() else ""


@register.simple_tag
def taken_back(checkpoint: Checkpoint | None) -> Taint | None:
    """What of these weights' learning was taken back; None where nothing was. Asked for where the checkpoint does not
    know it (CheckpointQuerySet.with_taints)."""
    if checkpoint is None or not hasattr(checkpoint, "taken_back"):
        return taints.of(checkpoint)
    return None if checkpoint.taken_back is None else Taint(checkpoint=checkpoint, samples=checkpoint.taken_back)


@register.filter
def size(number: float) -> str:
    """Bytes, for people: "1.5 GiB"."""
    return retention.size(number)
