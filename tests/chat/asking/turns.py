"""Turns that begin and end without an engine."""

from __future__ import annotations

from chat import asking
from chat.models import Turn
from chat.replying import replies
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.conftest import assistant, user

HI = [user("Hi")]
COUNTED = {"x-stainless-retry-count": "1"}


def begin(key, messages=HI, body=b"hi", n=1, **about):
    headers = about.pop("headers", {})
    about.setdefault("session_id", "s1")
    asked = Ask(messages, Sampling(), Checkpoint.live(), n=n, body=body, headers=headers, **about)
    made = asking.open_turns(key, asked)
    return made if n > 1 else made[0]


def ended(turn, text="Hello.", reason="stop"):
    whole = reason in ("stop", "length", "tool_calls")
    status = Turn.Status.SERVED if whole else Turn.Status.CLOSED
    replies.finish(
        turn, status, {"text": text, "finish_reason": reason, "response_ids": [1], "error": "" if whole else "x"}
    )
    return Turn.objects.get(pk=turn.pk)


def more(text, words="And now?"):
    return [*HI, assistant(text), user(words)]


def side(key, messages, body=b"side"):
    return begin(key, messages, body, turn_type="side")
