"""A turn as it may be learned from: without secrets and personal data, and in the very form that the learner takes.

Messages, tools and hints are cleaned as texts and rendered anew. The reply is cleaned as tokens: those that cover a
finding give way to the placeholder's, which are masked out, and every other one stays as it was sampled, so that
nothing is tokenised a second time. Log-probs are then asked for of these ids under this prompt
(judge.samples.teacher.read). What was measured when the turn was served belongs to other ids under another prompt: the
importance weights of a redacted reply are those of the redacted ids, and the behaviour policy's own are left out of its
sample.

The turn's row keeps what was said: it is the person's conversation.
"""

from __future__ import annotations

import copy
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext, gettext_noop

from chat.models import Turn
from chat.rendering.renderer import MessagesRefused, Renderer
from core.textfiles import read_text
from feedback import spans
from feedback.spans import Span
from judge.samples import removal
from judge.samples.personal import search
from judge.samples.personal.findings import Finding
from judge.samples.personal.kinds import USUAL, Wanted
from judge.samples.removal import Remover
from judge.samples.teacher import LaidOutAnew, TooLong, Unreadable
from judge.votes.evidence import Evidence

REQUEST, TOOLS, REPLY, HINT = (
    gettext_noop("request"),
    gettext_noop("tools"),
    gettext_noop("reply"),
    gettext_noop("hint"),
)
"""Where something was removed."""

Value = TypeVar("Value")


class StillPersonal(Unreadable):
    """Something personal could not be taken out: the turn does not teach."""

    code = "personal"


@dataclass(frozen=True)
class Clean:
    """A turn without what is personal in it."""

    turn: Turn
    """An unsaved copy: messages, tools, text, ids are the cleaned ones. The row itself where nothing was found."""
    remover: Remover
    origins: tuple[int | None, ...] | None = None
    """For each id of the cleaned reply the place of the id it was; None for a placeholder's. None: all as served."""

    @property
    def is_changed(self) -> bool:
        return bool(self.remover.removed)

    @property
    def mask(self) -> list[int]:
        """1 for what was sampled, 0 for placeholders; empty when the reply is as it was."""
        return [] if self.origins is None else [int(origin is not None) for origin in self.origins]

    def carried(self, values: Sequence[Value], instead: Value) -> list[Value]:
        """One value a served id as one value an id of the cleaned reply; `instead` for those of placeholders."""
        if self.origins is None:
            return list(values)
        return [instead if origin is None else values[origin] for origin in self.origins]

    def hint(self, text: str) -> str:
        """A hint without what is personal in it; what the turn says too has the same placeholder here."""
        return self._with(text)[0]

    def told(self, hint: str = "") -> list[dict[str, Any]]:
        """What was removed from the turn, and from the hint that it is taught with, as a sample keeps it."""
        cleaned, remover = self._with(hint)
        for kind, name in removal.placeholders(cleaned, self.remover.wanted):  # some hints were cleaned before
            remover.removed.setdefault((HINT, kind), set()).add(name)
        return [*self.remover.told, *remover.told]

    def _with(self, text: str) -> tuple[str, Remover]:
        remover = self.remover.branch()
        remover.learn(text)
        return remover.clean(text, HINT), remover


def of(turn: Turn, renderer: Renderer) -> Clean:
    """The turn as it may be learned from.

    Raises LaidOutAnew when its messages no longer give the prompt that was served, TooLong when they no longer fit the
    window, and StillPersonal when something personal is left: such a turn does not teach.
    """
    remover = Remover(wanted())
    if not is_on(remover.wanted):
        return Clean(turn, remover)
    served = renderer.decode(turn.response_ids, controls=True)
    learn(remover, turn.messages, turn.tools, [served])
    if not remover.names:
        return Clean(turn, remover)
    clean = copy.copy(turn)
    clean.messages = messages_without(turn.messages, remover)
    clean.tools = remover.clean_value(turn.tools, TOOLS)
    clean.text = remover.branch().clean(turn.text, REPLY)
    if clean.messages != turn.messages or clean.tools != turn.tools:
        try:
            if prompt_of(turn, renderer) != list(turn.prompt_ids):
                raise LaidOutAnew("The model's chat template lays this conversation out differently now.")
            clean.prompt_ids = prompt_of(clean, renderer)
        except MessagesRefused as error:
            raise LaidOutAnew(str(error)) from error
    clean.response_ids, origins = reply_without(turn.response_ids, remover, renderer)
    if remover.removed:
        clean.logprobs = []
    if len(clean.prompt_ids) + len(clean.response_ids) > renderer.context_length:
        raise TooLong("Without its personal data the turn is longer than the model's window.")
    for ids in (clean.prompt_ids, clean.response_ids):
        check(renderer.decode(ids, controls=True), remover.wanted)
    if not any(origin is not None for origin in origins):
        raise StillPersonal("The reply is nothing but personal data, so there is nothing to learn from it.")
    changed = list(clean.response_ids) != list(turn.response_ids)
    return Clean(clean, remover, tuple(origins) if changed else None)


def hints_without(turn: Turn, hints: Sequence[str], renderer: Renderer) -> tuple[str, ...]:
    """Hints as they are kept and shown to reviewers: nothing personal in them, placeholders as in the turn's sample."""
    remover = Remover(wanted())
    if not hints or not is_on(remover.wanted):
        return tuple(hints)
    learn(remover, turn.messages, turn.tools, [renderer.decode(turn.response_ids, controls=True)])
    clean = Clean(turn, remover)
    return tuple(dict.fromkeys(clean.hint(hint) for hint in hints))


def check(text: str, wanted: Wanted) -> None:
    """Raises StillPersonal when a text that is to be learned from holds something personal."""
    if left := search.find(text, wanted):
        kinds = ", ".join(sorted({one.kind for one in left}))
        raise StillPersonal(f"Personal data could not be removed from it ({kinds}), so it is not learned from.")


def learn(remover: Remover, messages: Iterable[Mapping[str, Any]], tools: Any = (), texts: Iterable[str] = ()) -> None:
    """Show the remover all that belongs together, in the order in which placeholders are to be numbered."""
    for message in messages:
        remover.learn({key: value for key, value in message.items() if key not in ("role", "tool_calls")})
        for call in message.get("tool_calls") or ():
            arguments = arguments_of(call)
            text = arguments if isinstance(arguments, str) else ""
            remover.learn((removal.loaded(text) or text) if text else arguments)
    remover.learn(list(tools or ()))
    for text in texts:
        remover.learn(text)


def messages_without(messages: Sequence[Mapping[str, Any]], remover: Remover) -> list[dict[str, Any]]:
    """Messages of OpenAI's shape without what is personal in them: words, names, and what tools were called with."""
    cleaned = []
    for message in messages:
        rest = {key: value for key, value in message.items() if key not in ("role", "tool_calls")}
        now = {"role": message["role"], **remover.clean_value(rest, REQUEST)}
        if "tool_calls" in message:
            now["tool_calls"] = [call_without(call, remover) for call in message["tool_calls"] or ()]
        cleaned.append({key: now[key] for key in message})
    return cleaned


def call_without(call: Any, remover: Remover) -> Any:
    arguments = arguments_of(call)
    if arguments is None:
        return call
    cleaned = (
        remover.clean_json(arguments, REQUEST)
        if isinstance(arguments, str)
        else remover.clean_value(arguments, REQUEST)
    )
    return {**call, "function": {**call["function"], "arguments": cleaned}}


def arguments_of(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    return function.get("arguments") if isinstance(function, Mapping) else None


def prompt_of(turn: Turn, renderer: Renderer) -> list[int]:
    """The prompt's ids as these messages give them."""
    tools = None if turn.asked.get("tool_choice") == "none" else turn.tools or None
    return renderer.prompt_ids(turn.messages, tools, turn.asked.get("opened", ""))


def reply_without(ids: Sequence[int], remover: Remover, renderer: Renderer) -> tuple[list[int], list[int | None]]:
    """The reply's ids with placeholders in place of what is personal, and where each id comes from."""
    now, origins = list(ids), list[int | None](range(len(ids)))
    for _ in range(removal.ROUNDS):
        text = renderer.decode(now, controls=True)
        found = remover.find(text)
        if not found:
            break
        for start, end, parts in reversed(covered(text, found, now, renderer)):
            words = "".join(
                remover.name(part.kind, text[part.start : part.end], REPLY)
                if part.kind
                else text[part.start : part.end]
                for part in parts
            )
            instead = renderer.encode(words)
            now[start:end] = instead
            origins[start:end] = [None] * len(instead)
    return now, origins


def covered(
    text: str, found: Sequence[Finding], ids: Sequence[int], renderer: Renderer
) -> list[tuple[int, int, list[Finding]]]:
    """Half-open ranges of ids that cover the findings, in order and apart, each with the pieces of its text: findings,
    and between them (kind empty) what only shares their tokens."""
    ranges: list[tuple[int, int, list[Finding]]] = []
    for one in found:
        start, end = tokens_over(text, one.start, one.end, ids, renderer)
        if ranges and start < ranges[-1][1]:
            first, last, inside = ranges.pop()
            ranges.append((first, max(last, end), [*inside, one]))
        else:
            ranges.append((start, end, [one]))
    whole = []
    for start, end, inside in ranges:
        at, to = (len(renderer.decode(ids[:n], controls=True)) for n in (start, end))
        pieces = []
        for one in inside:
            pieces += [Finding(at, one.start, ""), one]
            at = one.end
        whole.append((start, end, [*pieces, Finding(at, to, "")]))
    return whole


def tokens_over(text: str, start: int, end: int, ids: Sequence[int], renderer: Renderer) -> tuple[int, int]:
    """The fewest ids, as a half-open range, whose text is whole characters and holds those from `start` to `end`."""

    def length(count: int) -> int:
        return len(renderer.decode(ids[:count], controls=True))

    def is_between_characters(count: int) -> bool:
        return text.startswith(renderer.decode(ids[:count], controls=True))

    first = bisect_right(range(len(ids) + 1), start, key=length) - 1
    last = bisect_left(range(len(ids) + 1), end, key=length)
    while first > 0 and not (length(first) <= start and is_between_characters(first)):
        first -= 1
    while last < len(ids) and not (length(last) >= end and is_between_characters(last)):
        last += 1
    return first, last


def evidence_without(seen: Evidence) -> Evidence:
    """What a judge outside this machine is shown: the same evidence without what is personal in it. Nothing can be
    removed from a picture: where anything is to be, pictures stay here."""
    removed = wanted()
    return _evidence_without(replace(seen, pictures=()) if seen.pictures and is_on(removed) else seen, removed)


@lru_cache(maxsize=16)
def _evidence_without(seen: Evidence, wanted: Wanted) -> Evidence:
    """The same evidence is asked about by several votes at once."""
    remover = Remover(wanted)
    values = {one.name: getattr(seen, one.name) for one in fields(seen) if one.name != "pictures"}
    for value in values.values():
        remover.learn(value)
    marked = reply_and_marks(values.pop("reply"), values.pop("marks"), remover)
    cleaned = {name: same_shape(remover.clean_value(value, "evidence"), value) for name, value in values.items()}
    return replace(seen, reply=marked[0], marks=marked[1], **cleaned) if remover.removed else seen


def reply_and_marks(reply: str, marks: Iterable[Span], remover: Remover) -> tuple[str, tuple[Span, ...]]:
    """The reply without what is personal in it, and where its marks are then. A placeholder has the sign of
    what was marked of what it stands for; of both signs, that of the larger part.

    >>> reply_and_marks("Ask ana@example.com or bo.", [(4, 19, 1), (23, 25, -1)], Remover())
    ('Ask [email 1] or bo.', ((4, 13, 1), (17, 19, -1)))
    """
    signs = [0] * len(reply)
    for start, end, sign in marks:
        signs[start:end] = [sign] * len(signs[start:end])
    for _ in range(removal.ROUNDS):
        pieces = remover.pieces(reply, "evidence")
        if not any(instead for _, instead in pieces):
            break
        now, at = list[int](), 0
        for piece, instead in pieces:
            held = signs[at : at + len(piece)]
            now += [(sum(held) > 0) - (sum(held) < 0)] * len(instead) if instead else held
            at += len(piece)
        reply, signs = "".join(instead or piece for piece, instead in pieces), now
    return reply, tuple(spans.runs(signs))


def same_shape(cleaned: Any, before: Any) -> Any:
    """Tuples where there were tuples."""
    if isinstance(before, tuple):
        return tuple(same_shape(one, was) for one, was in zip(cleaned, before, strict=True))
    return cleaned


@dataclass(frozen=True)
class Before:
    """One text as it was, in pieces with what stands in their place; empty for what stays."""

    where: str
    pieces: tuple[tuple[str, str], ...]

    @property
    def is_changed(self) -> bool:
        return any(instead for _, instead in self.pieces)


def shown(turn: Turn, hints: Sequence[str] = ()) -> list[Before]:
    """What would be removed from this turn and these hints, to be looked at: the texts that change. Nothing of this is
    stored. What tools were called with, and the tools, are not among them."""
    remover = Remover(wanted())
    learn(remover, turn.messages, turn.tools, [turn.text, *hints])
    texts = [
        (f"{gettext(REQUEST)}, {gettext(message['role'])}", words)
        for message in turn.messages
        for words in words_of(message)
    ]
    texts += [(gettext(REPLY), turn.text), *((gettext(HINT), hint) for hint in hints)]
    found = (Before(where, tuple(remover.pieces(text, where))) for where, text in texts)
    return [one for one in found if one.is_changed]


def words_of(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return [str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text")]


def tried(text: str) -> tuple[Before, list[dict[str, Any]]]:
    """What would be removed from this text, and how much of what."""
    remover = Remover(wanted())
    remover.learn(text)
    before = Before(gettext(REQUEST), tuple(remover.pieces(text, REQUEST)))
    return before, remover.told


def is_on(wanted: Wanted) -> bool:
    return bool(wanted.kinds or wanted.patterns)


def wanted() -> Wanted:
    """What the settings say is to be removed. Raises ImproperlyConfigured, with a sentence, for settings that make no
    sense."""
    return wanted_as(settings.REMOVE_PERSONAL_DATA, settings.PHONE_REGIONS, settings.PERSONAL_PATTERNS)


@lru_cache(maxsize=16)
def wanted_as(kinds: str, regions: str, patterns: str) -> Wanted:
    """`kinds`: 1, 0, or names with commas between; `regions`: two letters each; `patterns`: path of a TOML file."""
    try:
        named = {"1": USUAL, "0": ()}.get(kinds.strip(), listed(kinds.lower()))
        own = own_patterns(patterns) if patterns and kinds.strip() != "0" else ()
        return Wanted(named, listed(regions.upper()), own)
    except (ValueError, OSError) as error:
        raise ImproperlyConfigured(f"REMOVE_PERSONAL_DATA or PERSONAL_PATTERNS: {error}") from error


def own_patterns(path: str) -> tuple[tuple[str, str], ...]:
    """(kind, pattern) of each line `kind = 'pattern'` in this file. Raises OSError and ValueError."""
    given = tomllib.loads(read_text(path))
    if not all(isinstance(pattern, str) for pattern in given.values()):
        raise ValueError(f"{path} has something else than lines kind = 'pattern'.")
    return tuple(given.items())


def listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def number(redactions: Iterable[Mapping[str, Any]]) -> int:
    """How many different things were removed, as far as the sample's own account tells: what stands in two places is
    counted once.

    >>> number([{"where": "request", "kind": "email", "count": 2}, {"where": "reply", "kind": "email", "count": 1}])
    2
    """
    most: dict[str, int] = {}
    for one in redactions:
        most[one["kind"]] = max(most.get(one["kind"], 0), int(one["count"]))
    return sum(most.values())
