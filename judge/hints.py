"""What a hint may be, and where it goes. The one place that words a hint to the teacher. Pure.

The benchmark that chose the default recipe uses these very functions, so what was measured is what runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

Message = Mapping[str, Any]

GUIDANCE = "(Guidance: {hint})"
"""How the teacher is told what the person wants. A label, so that it does not read as a second question."""

WANTED = "The reply that is wanted: {rewrite}"
"""How the teacher is shown the answer that a person wrote instead."""

SHORTEST = 10
"""Characters. Anything shorter ("Yes.", "Be good") says nothing a teacher could follow."""

LONGEST = 600
"""Characters of a hint from votes: one to three sentences. A person's own words are never cut."""

ALIKE = 0.8
"""A hint that is this much the reply itself (or lies in it) gives nothing but the answer back."""


def worded(guidance: str = "", rewrite: str = "") -> str:
    """The hint that a person's correction is: guidance word for word, a rewrite as the wanted reply; or both.

    >>> worded(guidance="Use fewer words.")
    'Use fewer words.'
    """
    parts = [guidance.strip(), WANTED.format(rewrite=rewrite.strip()) if rewrite.strip() else ""]
    return "\n".join(part for part in parts if part)


def is_rewrite(hint: str) -> bool:
    """True for a hint that shows one wanted reply, and so says nothing of other prompts.

    >>> is_rewrite(worded(rewrite="Paris.")), is_rewrite("Name the city only.")
    (True, False)
    """
    return WANTED.partition("{")[0] in hint


def placed(messages: Sequence[Message], hint: str, said: Collection[int] | None = None) -> list[dict[str, Any]]:
    """The served messages with the hint in them; the originals are left as they were.

    In a tool loop (the prompt ended with tool results) it comes after those results, as a message of its own.
    Otherwise it stands at the end of the last user message. `said` are the places of the messages that count, where
    a client put notes of its own among them (chat.clients.said); left out: all.

    >>> placed([{"role": "user", "content": "Why?"}], "Be brief.")[-1]["content"]
    'Why?\\n\\n(Guidance: Be brief.)'
    >>> [m["role"] for m in placed([{"role": "user", "content": "ls"}, {"role": "tool", "content": "a b"}], "Sort it.")]
    ['user', 'tool', 'user']
    """
    if not hint.strip():
        raise ValueError("an empty hint has no place in a prompt")
    guidance = GUIDANCE.format(hint=hint)
    copies = [dict(message) for message in messages]
    counting = sorted(range(len(copies)) if said is None else said)
    last_user = max((n for n in counting if copies[n]["role"] == "user"), default=None)
    if last_user is None or copies[counting[-1]]["role"] == "tool":
        after = counting[-1] + 1 if counting else len(copies)
        return [*copies[:after], {"role": "user", "content": guidance}, *copies[after:]]
    content = copies[last_user].get("content")
    copies[last_user]["content"] = (
        [*content, {"type": "text", "text": guidance}]
        if isinstance(content, list)
        else f"{content or ''}\n\n{guidance}".lstrip()
    )
    return copies


def fault(hint: str, reply: str) -> str:
    """Why this voted hint is of no use, in a few words; empty when it may stand.

    >>> fault("Be nice", "…"), fault("The answer is 4.", "The answer is 4."), fault("Show the working first.", "4")
    ('shorter than 10 characters', 'it only repeats the reply', '')
    """
    if len(hint) < SHORTEST:
        return f"shorter than {SHORTEST} characters"
    if len(hint) > LONGEST:
        return f"longer than {LONGEST} characters"
    said, given = _plain(hint), _plain(reply)
    if not said:
        return "no words in it"
    if said in given or SequenceMatcher(None, said, given, autojunk=False).ratio() >= ALIKE:
        return "it only repeats the reply"
    return ""


def gain(old: Sequence[float], taught: Sequence[float], reward: int | None) -> float:
    """How much a hint changes what the teacher thinks of the reply, in nats a token, in the direction wanted.

    After a good reply the hint should raise it, after a bad one lower it; when nobody knows, any change counts.

    >>> gain([-1.0, -2.0], [-2.0, -4.0], reward=-1)
    1.5
    """
    changes = [new - before for before, new in zip(old, taught, strict=True)]
    if not changes:
        raise ValueError("a reply without tokens has no gain")
    if not reward:
        return sum(map(abs, changes)) / len(changes)
    return reward * sum(changes) / len(changes)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
