"""What a judge reads of one turn: the request, the reply, and what came back. Quoted so that it stays evidence.

Everything that a person, a tool or the model wrote is quoted: each of its lines begins with `| `, and the few
spellings that mean something to a judge or to an engine (a boxed score, a hint marker, a control token) are
rewritten. Titles are the only lines without the bar, so no quoted text can end its quotation, and a judge that
parrots what it reads forges nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chat import clients
from chat.models import Turn
from feedback.models import Feedback
from judge import hints

BAR = "| "

REQUEST_LIMIT = 1200
"""Characters of the last request that are shown; its beginning and its end are kept."""
REPLY_LIMIT = 1600
NEXT_LIMIT = 1200
MOST_RESULTS = 8
"""How many parallel tool results are shown; they share NEXT_LIMIT."""
CONTEXT_LIMIT = 300
"""Characters of each earlier message."""
CONTEXT_MESSAGES = 4
"""How many messages before the last request are shown: enough for "make it shorter" to have an object."""

SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"boxed(\s*)\{", re.IGNORECASE), r"boxed\1("),  # a score
    (re.compile(r"\[(?=\s*[/|A-Za-z_])"), "("),  # [HINT_START], [INST], [/INST], [|user|]
    (re.compile(r"<(?!\s|=)"), "‹"),  # <|im_end|>, </s>, <start_of_turn>, <｜User｜>
)


@dataclass(frozen=True)
class Evidence:
    """Next state and feedback together. A thumb is not shown to a judge: it decides, and then it is the yardstick.
    Nor is it to be guessed: who scores is shown `unswayed` evidence."""

    request: tuple[tuple[str, str], ...]
    """(role, text) of the last messages before the reply."""
    reply: str
    next_state: tuple[tuple[str, str], ...] = ()
    thumb: int | None = None
    guidance: str = ""
    rewrite: str = ""
    reasons: tuple[str, ...] = ()
    """The tags beside a thumb down. They may word a hint, and never are one."""
    tested: int | None = None
    """What tests of the reply came to: 1 passed, -1 failed."""
    exit_codes: tuple[int, ...] = ()
    output: str = ""
    """What the failed tests wrote; text of a tool, like any other."""

    @property
    def next_role(self) -> str:
        """Whose next state it is: tool, user, or person (only feedback came); empty when nothing came back that a
        judge could read. A test that failed with something to say is a tool's."""
        roles = {role for role, _ in self.next_state}
        if "tool" in roles:
            return "tool"
        if roles:
            return "user"
        if self.correction or self.reasons:
            return "person"
        return "tool" if self.output else ""

    @property
    def has_tool_text(self) -> bool:
        """True when a judge reads something that a tool wrote: it may word what the judge says, whoever spoke last."""
        return bool(self.output) or any(role == "tool" for role, _ in (*self.next_state, *self.request))

    @property
    def reward(self) -> int | None:
        """What is decided without a judge. The order: a person's thumb, then a test's verdict, then votes."""
        return self.thumb if self.thumb is not None else self.tested

    @property
    def reward_from(self) -> str:
        """Who decided it: thumb | test, or nobody yet."""
        return "thumb" if self.thumb is not None else "test" if self.tested is not None else ""

    @property
    def unswayed(self) -> Evidence:
        """Without what was said because of a thumb down: the vote is to be measured against that thumb."""
        return replace(self, reasons=())

    @property
    def correction(self) -> str:
        """The hint that a person gave, or nothing."""
        return hints.worded(self.guidance, self.rewrite)

    @property
    def text(self) -> str:
        """The evidence as the judge reads it."""
        parts = []
        for role, text in self.request[:-1]:
            parts += [f"Earlier, {role}:", quoted(text, CONTEXT_LIMIT)]
        for role, text in self.request[-1:]:
            parts += [f"The request, {role}:", quoted(text, REQUEST_LIMIT)]
        parts += ["The reply:", quoted(self.reply, REPLY_LIMIT)]
        for role, text in self.next_state:  # parallel tool results share the room
            parts += [f"What came back, {role}:", quoted(text, NEXT_LIMIT // len(self.next_state))]
        if self.tested is not None:
            said = "passed" if self.tested > 0 else "failed"
            codes = ", ".join(str(code) for code in self.exit_codes)
            parts += [f"A test of the reply {said}{f' (exit code {codes})' if codes else ''}."]
        if self.output:
            parts += ["What the test wrote:", quoted(self.output, NEXT_LIMIT)]
        if self.reasons:
            parts += ["Why the person does not like the reply:", quoted(", ".join(self.reasons), NEXT_LIMIT)]
        if self.guidance:
            parts += ["What the person says of the reply (next time, do this):", quoted(self.guidance, NEXT_LIMIT)]
        if self.rewrite:
            parts += ["What the person says the reply should have been:", quoted(self.rewrite, NEXT_LIMIT)]
        return "\n".join(parts)

    @property
    def digest(self) -> str:
        """16 hex digits that change whenever the text does: votes on other evidence do not count."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:16]


def of(turn: Turn) -> Evidence:
    """The evidence that stands for this turn now."""
    standing = list(Feedback.objects.standing().filter(turn=turn))
    tests = [f for f in standing if f.kind == Feedback.Kind.VERDICT]
    disliked = [f for f in standing if f.kind == Feedback.Kind.THUMB and f.value < 0]
    return Evidence(
        request=tuple(asked(clients.stripped(turn.messages, turn.client))),
        reply=text_of({"content": turn.text, "tool_calls": turn.message.get("tool_calls")}),
        next_state=tuple(spoken(clients.stripped(turn.next_state, turn.client))[:MOST_RESULTS]),
        thumb=sign_of(f.value for f in standing if f.kind == Feedback.Kind.THUMB),
        guidance="\n".join(f.text for f in standing if f.kind == Feedback.Kind.GUIDANCE),
        rewrite=next((f.text for f in reversed(standing) if f.kind == Feedback.Kind.REWRITE), ""),
        reasons=tuple(dict.fromkeys(tag for f in disliked for tag in f.tags)),
        tested=sign_of(f.value for f in tests),
        exit_codes=tuple(f.exit_code for f in tests if f.exit_code is not None),
        output="\n".join(f.text for f in tests if f.value < 0 and f.text),
    )


def sign_of(values: Iterable[int]) -> int | None:
    """The reward that thumbs or tests decide: that of most of them; None without any, or when they balance."""
    total = sum(values)
    return (total > 0) - (total < 0) or None


def asked(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The last message before the reply and what leads up to it; however long a tool loop, what the person wanted.

    >>> loop = [{"role": "user", "content": "Sort it."}] + [{"role": "tool", "content": "ok"}] * 9
    >>> [role for role, _ in asked(loop)]
    ['user', 'tool', 'tool', 'tool', 'tool']
    """
    said = spoken(messages)
    shown = said[-CONTEXT_MESSAGES - 1 :]
    if all(role != "user" for role, _ in shown):
        wanted = [one for one in said if one[0] == "user"][-1:]
        shown = [*wanted, *shown[len(wanted) :]]
    return shown


def spoken(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(role, text) of messages, tool calls readable, system prompts left out."""
    return [
        (str(message.get("role", "user")), text_of(message))
        for message in messages
        if message.get("role") not in ("system", "developer")
    ]


def text_of(message: Mapping[str, Any]) -> str:
    """A message as text: its words, and each tool call as `calls name(arguments)`."""
    content = message.get("content")
    if isinstance(content, list):
        words = "\n".join(
            str(part.get("text", "")) if part.get("type") == "text" else f"({part.get('type', 'part')})"
            for part in content
            if isinstance(part, Mapping)
        )
    else:
        words = str(content or "")
    calls = []
    for call in message.get("tool_calls") or []:
        function = call.get("function") or {}
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        calls.append(f"calls {function.get('name', 'a tool')}({arguments})")
    return "\n".join(part for part in (words, *calls) if part)


def quoted(text: str, limit: int) -> str:
    """`text` as evidence: at most about `limit` characters, every line behind a bar, nothing in it that acts.

    >>> print(quoted("Fine.\\n\\\\boxed{1} <|im_end|> [HINT_START]", 100))
    | Fine.
    | \\boxed(1} ‹|im_end|> (HINT_START]
    """
    visible = "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in shortened(text, limit))
    for pattern, instead in SPELLINGS:
        visible = pattern.sub(instead, visible)
    lines = visible.replace("\u2028", "\n").replace("\u2029", "\n").split("\n")
    return "\n".join(BAR + line for line in lines)


def shortened(text: str, limit: int) -> str:
    """The beginning and the end of `text`, two thirds and one third, with a note of what is missing between.

    >>> shortened("abcdefghi", 6)
    'abcd (3 characters left out) hi'
    """
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]} ({len(text) - limit} characters left out) {text[len(text) - tail :]}"
