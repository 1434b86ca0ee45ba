"""What a judge reads of one turn: the request, the reply, and what came back. Quoted so that it stays evidence
(`judge/votes/quoting.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chat import clients
from chat.models import Turn
from chat.tools import calls
from feedback import spans
from feedback.models import Feedback
from feedback.spans import Span
from judge.hints import hint_words, wish_words
from judge.votes import shown_pictures, visible_rules
from judge.votes.quoting import quoted
from judge.votes.shown_pictures import Shown

REQUEST_LIMIT = 1200
"""Characters of the last request that are shown; its beginning and its end are kept."""
REPLY_LIMIT = 1600
NEXT_LIMIT = 1200
MOST_RESULTS = 24
"""How many parallel tool results are shown; they share NEXT_LIMIT. Of more, how many they are is said."""
CONTEXT_LIMIT = 300
"""Characters of each earlier message."""
CONTEXT_MESSAGES = 4
"""How many messages before the last request are shown: enough for "make it shorter" to have an object."""
CONTEXT_FROM = 1 / 8
"""With less than this share of the bounds no earlier messages are shown at all."""
SHORTEST = 12
"""Characters that are left of any text, however little room there is."""

ROLES = ("user", "assistant", "tool", "environment")
"""Who speaks. A message of the role `user` whose `name` is `environment` comes from the world that an agent acts in,
whatever a client writes there for a name otherwise; `function` is an old word for `tool`."""

TRUST = ("web", "file", "tool", "test", "environment", "user", "said", "person")
"""Where words come from, the least trusted first: a hint is as good as the least of what its judge has read."""

WEB = re.compile(r"web|brows|fetch|http|url|crawl|scrap|search|wiki|rss|mail", re.IGNORECASE)
FILE = re.compile(r"read|file|cat|open|view|grep|glob|\bls\b|list|doc|pdf|edit|diff", re.IGNORECASE)

RUN = re.compile(
    r"exec(?!utive)|bash|shell|command|terminal|subprocess|interpreter|sandbox"
    r"|(?:^|[^a-z])(?:run|sh|zsh|cmd|i?python|process|script|make|tests?|pytest|npm|cargo)(?![a-z])",
    re.IGNORECASE,
)
"""Names of tools that run commands: only those end with an exit code."""


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
    """In the person's own words, as a judge reads them."""
    wish: str | None = None
    """What of the guidance is taught: how it holds for every reply. None: as judge.hints.wish_words words it."""
    unworded: str = ""
    """Guidance that waits until its person says how it holds for every reply; nothing of it is taught."""
    rewrite: str = ""
    reasons: tuple[str, ...] = ()
    """The tags beside a thumb down. They may word a hint, and never are one."""
    comments: tuple[str, ...] = ()
    """Anything else that was said beside a thumb down; the same holds of it."""
    marks: tuple[Span, ...] = ()
    """Words of the reply that people marked as good or bad, in characters of its text (judge.samples.marking)."""
    tested: int | None = None
    """What tests of the reply came to: 1 passed, -1 failed."""
    exit_codes: tuple[int, ...] = ()
    output: str = ""
    """What the failed tests wrote; text of a tool, like any other."""
    origins: frozenset[str] = frozenset()
    """What is known of where tool texts come from: web, file."""
    ran: tuple[bool | None, ...] = ()
    """Of each next state, whether a tool that runs commands gave it; None, or nothing at all: no more is known than
    `origins`."""
    pictures: tuple[Shown, ...] = ()
    """What a judge that sees is shown beside the words."""

    @property
    def next_role(self) -> str:
        """Whose next state it is: tool, environment, user, person (only feedback came), test (it failed and said
        something); empty when nothing came back that a judge could read."""
        roles = {role for role, _ in self.next_state}
        for role in ("tool", "environment", "test"):
            if role in roles:
                return role
        if roles:
            return "user"
        if self.has_opinion:
            return "person"
        return "test" if self.output else ""

    @property
    def has_opinion(self) -> bool:
        """True when a person said of the reply what a judge may read."""
        return bool(self.guidance or self.rewrite or self.reasons or self.comments or self.marks)

    @property
    def has_tool_text(self) -> bool:
        """True when a judge reads something that a tool wrote: it may word what the judge says, even if a person spoke
        last."""
        return bool(self.output) or any(role == "tool" for role, _ in (*self.next_state, *self.request))

    @property
    def command_results(self) -> tuple[str, ...]:
        """What came back of tools that run commands, as far as is known. An exit code elsewhere is only text."""
        known = zip(self.next_state, self.ran or (None,) * len(self.next_state), strict=True)
        ran = ((role, text) for (role, text), did in known if (not self.origins if did is None else did))
        return tuple(text for role, text in ran if role == "tool")

    @property
    def source(self) -> str:
        """Where the least trusted text that a judge reads here comes from, as in `judge.models.Hint.Source`. Never
        `person`: those are a person's own words for a hint, and no judge's."""
        read = {role for role, _ in (*self.request, *self.next_state)} & set(TRUST) | set(self.origins)
        if self.output:
            read.add("test")
        if self.pictures:  # what is written in one may be of any origin
            read.add("file")
        return next((source for source in TRUST if source in read), "user")

    @property
    def reward(self) -> int | None:
        """What is decided without a judge. The order (judge.votes.precedence): a person's thumb, their marks (of which
        sign there are more), then a test's verdict and the other visible rules (judge.votes.visible_rules), then
        votes."""
        if self.thumb is not None or self.marks:
            return self.thumb if self.thumb is not None else spans.sign_of(self.marks)
        ruled = visible_rules.decided(self)
        return ruled[1] if ruled else None

    @property
    def reward_from(self) -> str:
        """Who decided it: thumb | marks | test | rule, or empty: undecided."""
        if self.thumb is not None or self.marks:
            return "thumb" if self.thumb is not None else "marks"
        ruled = visible_rules.decided(self)
        return ruled[0].reward_from if ruled else ""

    @property
    def rule(self) -> str:
        """The visible rule that decided; empty where none did."""
        ruled = visible_rules.decided(self)
        return ruled[0].name if ruled and self.thumb is None and not self.marks else ""

    @property
    def unswayed(self) -> Evidence:
        """Without what was said because of a thumb down, and without marks: the vote is to be measured against them."""
        return replace(self, reasons=(), comments=(), marks=())

    @property
    def correction(self) -> str:
        """The hint that a person gave, or nothing."""
        wish = worded([(self.guidance, "")])[0] if self.wish is None else self.wish
        return hint_words.worded(wish, self.rewrite)

    @property
    def text(self) -> str:
        """The evidence as the judge reads it, in its usual bounds."""
        return self.shown()

    def shown(self, share: float = 1.0) -> str:
        """The same in `share` of those bounds: larger windows show more, and what does not fit a window is shortened,
        each text to its beginning and its end; with little room fewer results are shown, and then no earlier messages.
        """
        return "\n".join(line for lines in self.lines(share) for line in lines)

    def lines(self, share: float = 1.0) -> tuple[list[str], list[str], list[str]]:
        """The same by what it is of: the request, the reply and what came back, and what else is known of the reply."""

        def said(text: str, limit: int) -> str:
            return quoted(text, max(int(limit * share), SHORTEST))

        before: list[str] = []
        for role, text in self.request[:-1] if share >= CONTEXT_FROM else ():
            before += [f"Earlier, {role}:", said(text, CONTEXT_LIMIT)]
        for role, text in self.request[-1:]:
            before += [f"The request, {role}:", said(text, REQUEST_LIMIT)]
        after = ["The reply:", said(self.reply, REPLY_LIMIT)]
        results = self.next_state[: max(int(MOST_RESULTS * min(share, 1.0)), 1)]  # parallel results share the room
        for role, text in results:
            after += [f"What came back, {role}:", said(text, NEXT_LIMIT // len(results))]
        if more := len(self.next_state) - len(results):
            after += [f"Of what came back {more} more are left out."]
        parts: list[str] = []
        if self.tested is not None:
            verdict = "passed" if self.tested > 0 else "failed"
            codes = ", ".join(str(code) for code in self.exit_codes)
            parts += [f"A test of the reply {verdict}{f' (exit code {codes})' if codes else ''}."]
        if self.output:
            parts += ["What the test wrote:", said(self.output, NEXT_LIMIT)]
        if self.reasons:
            parts += ["Why the person does not like the reply:", said(", ".join(self.reasons), NEXT_LIMIT)]
        if self.comments:
            parts += ["What else the person says of it:", said("\n".join(self.comments), NEXT_LIMIT)]
        for sign, says in ((-1, "does not like"), (1, "likes")):
            if words := spans.quote(self.reply, self.marks, sign):
                parts += [f"Words of the reply that the person {says}:", said("\n".join(words), NEXT_LIMIT)]
        if self.guidance:
            parts += ["What the person says of the reply (next time, do this):", said(self.guidance, NEXT_LIMIT)]
        if self.rewrite:
            parts += ["What the person says the reply should have been:", said(self.rewrite, NEXT_LIMIT)]
        return before, after, parts

    @property
    def digest(self) -> str:
        """16 hex digits that change whenever anything does that a judge may read: votes on other evidence do not
        count."""
        said = (self.request, self.reply, self.next_state, self.guidance, self.rewrite)
        # Votes on rows without them stand.
        later: tuple[object, ...] = (self.comments, self.marks) if self.comments or self.marks else ()
        later += tuple((one.digest, one.is_after) for one in self.pictures)
        read = (*said, self.reasons, self.tested, self.exit_codes, self.output, *later)
        return hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16]


def of(turn: Turn, standing: Sequence[Feedback] | None = None) -> Evidence:
    """The evidence that stands for this turn now; `standing` is its feedback, where the caller has read it already."""
    standing = list(Feedback.objects.standing().filter(turn=turn)) if standing is None else standing
    wish, unworded = worded([(f.text, f.wish) for f in standing if f.kind == Feedback.Kind.GUIDANCE])
    tests = [f for f in standing if f.kind == Feedback.Kind.VERDICT]
    disliked = [f for f in standing if f.kind == Feedback.Kind.THUMB and f.value < 0]
    before = clients.strip_messages(turn.messages, turn.client)
    after = clients.strip_messages(calls.answered_in(turn, turn.next_state), turn.client)
    return Evidence(
        request=tuple(asked(before)),
        reply=text_of({"content": turn.text, "tool_calls": turn.message.get("tool_calls")}),
        next_state=tuple(spoken(after)),
        thumb=sign_of(f.value for f in standing if f.kind == Feedback.Kind.THUMB),
        guidance="\n".join(f.text for f in standing if f.kind == Feedback.Kind.GUIDANCE),
        wish=wish,
        unworded=unworded,
        rewrite=next((f.text for f in reversed(standing) if f.kind == Feedback.Kind.REWRITE), ""),
        reasons=tuple(dict.fromkeys(tag for f in disliked for tag in f.tags)),
        comments=tuple(f.text for f in disliked if f.text),
        marks=tuple(spans.agree((f.spans for f in standing if f.kind == Feedback.Kind.MARKS), len(turn.text))),
        tested=sign_of(f.value for f in tests),
        exit_codes=tuple(f.exit_code for f in tests if f.exit_code is not None),
        output="\n".join(f.text for f in tests if f.value < 0 and f.text),
        origins=origins([*before, turn.message], [*shown_of(before), *after]),
        ran=ran([*before, turn.message], after),
        pictures=shown_pictures.of(turn, shown_of(before), after),
    )


def pictures_of(turn: Turn) -> tuple[Shown, ...]:
    """The pictures of a turn's evidence alone."""
    before = clients.strip_messages(turn.messages, turn.client)
    return shown_pictures.of(turn, shown_of(before), clients.strip_messages(turn.next_state, turn.client))


def worded(guidance: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Of guidance as (words, the person's own wording of the wish): what is taught, and the words that wait for one.

    >>> worded([("Use metres.", ""), ("Redo the second point.", "")])
    ('Use metres.', 'Redo the second point.')
    """
    taught, waiting = [], []
    for text, own in guidance:
        wish = wish_words.Wish(own, False) if own else wish_words.word_wish(text)
        if wish is not None:
            taught.append(wish.text)
        elif text.strip():
            waiting.append(text)
    return "\n".join(dict.fromkeys(taught)), "\n".join(waiting)


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
    return spoken(shown_of(messages))


def shown_of(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages that a judge is shown of the request."""
    said = [message for message in messages if message.get("role") not in ("system", "developer")]
    shown = said[-CONTEXT_MESSAGES - 1 :]
    if all(role_of(message) != "user" for message in shown):
        wanted = [message for message in said if role_of(message) == "user"][-1:]
        shown = [*wanted, *shown[len(wanted) :]]
    return shown


def spoken(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(role, text) of messages, tool calls readable, system prompts left out."""
    return [
        (role_of(message), text_of(message))
        for message in messages
        if message.get("role") not in ("system", "developer")
    ]


def role_of(message: Mapping[str, Any]) -> str:
    """Who speaks: one of ROLES.

    >>> role_of({"role": "user", "name": "environment"}), role_of({"role": "user", "name": "ana"})
    ('environment', 'user')
    """
    role = {"function": "tool"}.get(str(message.get("role", "user")), message.get("role", "user"))
    if role == "user" and message.get("name") == "environment":
        return "environment"
    return str(role) if role in ROLES else "user"


def origins(asked: Sequence[Mapping[str, Any]], read: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Which of `read` come from the web or from files. `asked` are the messages that may hold the calls."""
    return frozenset(origins_of(asked, read)) & {"web", "file"}


def ran(asked: Sequence[Mapping[str, Any]], read: Sequence[Mapping[str, Any]]) -> tuple[bool | None, ...]:
    """Of each of `spoken(read)`, whether a tool that runs commands gave it; None where the tool is unknown."""
    said = [message for message in read if message.get("role") not in ("system", "developer")]
    return tuple(origin == "command" if origin else None for origin in origins_of(asked, said))


def origins_of(asked: Sequence[Mapping[str, Any]], read: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where each text of a tool comes from, as the tool's name says or an address in what it was asked: web | file |
    command | tool (any other); empty where the tool has no name, or none spoke."""
    calls = {
        str(call.get("id")): (call.get("function") or {})
        for message in asked
        for call in message.get("tool_calls") or []
    }
    found = []
    for message in read:
        function = calls.get(str(message.get("tool_call_id")), {})
        name = str(function.get("name") or message.get("name") or "")
        if role_of(message) != "tool":
            found.append("")
        elif WEB.search(name) or re.search("https?://", str(function.get("arguments", ""))):
            found.append("web")
        elif FILE.search(name):
            found.append("file")
        else:
            found.append("command" if RUN.search(name) else name and "tool")
    return found


def text_of(message: Mapping[str, Any]) -> str:
    """A message as text: its words, a word for each picture, and each tool call as `calls name(arguments)`.

    >>> text_of({"content": "What is it?", "pictures": [{}, {}]})
    'What is it?\\n(picture)\\n(picture)'
    """
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
    pictures = ["(picture)"] * len(message.get("pictures") or ())
    return "\n".join(part for part in (words, *pictures, *calls) if part)
