"""Parse and check a client's rule file, written in TOML.

Patterns are RE2's: whatever a client sends, a match takes time in proportion to the text and no more.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, Protocol

import re2
from django.utils.translation import gettext as _
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from core.errors import TalkbackError
from core.visible import name_fault

LONGEST_FILE = 50_000
"""Characters of a rule file."""
LONGEST_PATTERN = 500
MOST_RULES = 100
FARTHEST = 200_000
"""Characters of one text that a rule looks at."""

OPTIONS = re2.Options()
OPTIONS.log_errors = False
OPTIONS.max_mem = 1 << 20  # bytes; a pattern that needs more is refused when it is written


class Readable(Protocol):
    """A request, as far as rules read it (chat.clients.sorting.Seen)."""

    @property
    def has_tools(self) -> bool: ...

    def text_at(self, place: str) -> str:
        """The text at a place that `place` allows; empty where there is none."""


class RulesInvalid(TalkbackError):
    """A rule file that cannot be understood; the sentence names the file, the rule and the field."""

    code, status = "rules_invalid", 400


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    return re2.compile(pattern, OPTIONS)


@lru_cache(maxsize=1024)
def lead(pattern: str) -> str:
    """The word with which a line must begin for this pattern to match there; empty where there is none."""
    found = re.match(r"\(\?m\)\^([\w :=-]{3,})", pattern)
    has_choices = "|" in re.sub(r"\\.|\[[^\]]*\]", "", pattern)
    return found[1][:-1] if found and not has_choices else ""  # what follows may be about the last letter


def search(pattern: str, text: str) -> Any:
    """The first match, or None. A long text is not read by the pattern where its lead is not even there."""
    if word := lead(pattern):
        start = text.find(word)
        if start < 0:
            return None
        text = text[max(start - 1, 0) :]
    return compiled(pattern).search(text)


def check_pattern(pattern: str) -> str:
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"a pattern may have {LONGEST_PATTERN} characters, this one has {len(pattern)}")
    try:
        compiled(pattern)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ValueError(f"{pattern!r} is no pattern of RE2's (it has no look-ahead and no \\1): {reason}") from error
    return pattern


def check_session_group(pattern: str) -> str:
    if "session" not in compiled(pattern).groupindex:
        raise ValueError(f"{pattern!r} names no group (?P<session>…), and that is what it is to find")
    return pattern


def place(where: str) -> str:
    kind, colon, name = where.partition(":")
    if where in ("system", "first_user", "last_user", "last") or (kind in ("header", "field") and colon and name):
        return where.lower() if kind == "header" else where
    raise ValueError(f"{where!r} is no place: system, first_user, last_user, last, header:NAME or field:NAME")


def as_list(value: Any) -> Any:
    """One text may stand for a list of one."""
    return [value] if isinstance(value, str) else value


def check_name(name: str) -> str:
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


Word = Annotated[str, Field(min_length=1, max_length=1000)]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(check_pattern)]
Words = Annotated[tuple[Word, ...], BeforeValidator(as_list)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(as_list)]
Places = Annotated[tuple[Annotated[str, AfterValidator(place)], ...], BeforeValidator(as_list)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9 _-]{0,38}$")]


class Part(BaseModel):
    """The base of a rule file's parts: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Phrases(Part):
    """Match a text that holds one of these wordings."""

    starts: Words = ()
    """The text begins so, blanks aside."""
    contains: Words = ()
    matches: Patterns = ()

    def are_in(self, text: str) -> bool:
        return (
            (bool(self.starts) and text.lstrip().startswith(self.starts))
            or any(word in text for word in self.contains)
            or any(search(pattern, text) for pattern in self.matches)
        )

    @property
    def is_given(self) -> bool:
        return bool(self.starts or self.contains or self.matches)


class Condition(Phrases):
    """Test a request: true where everything that is said here holds."""

    where: Places = ()
    """Where to look: in any of these. A place without text is no match."""
    lacks: Words = ()
    """None of these is there."""
    within: int = Field(FARTHEST, ge=1, le=FARTHEST)
    """Only this many characters from the beginning are looked at."""
    tools: bool | None = None
    """Whether the request offers tools; left out: either."""

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if bool(self.where) != (self.is_given or bool(self.lacks)):
            raise ValueError("where, and one of starts, contains, matches or lacks, belong together")
        if not self.where and self.tools is None:
            raise ValueError("it asks for nothing: give where and what to look for, or tools")
        return self

    def holds(self, seen: Readable) -> bool:
        if self.tools is not None and seen.has_tools != self.tools:
            return False
        return not self.where or any(self._is_in(seen.text_at(place)[: self.within]) for place in self.where)

    def _is_in(self, text: str) -> bool:
        if not text or any(word in text for word in self.lacks):
            return False
        return self.are_in(text) if self.is_given else True


class SideRule(Condition):
    """Recognise one kind of side request."""

    name: Name


class Finder(Part):
    """Find what the client calls its session, in one way."""

    name: Name
    where: Places = Field(min_length=1)
    matches: Annotated[Pattern, AfterValidator(check_session_group)] = r"(?s)^\s*(?P<session>.+?)\s*$"
    """A pattern with a group named session."""
    cut: Pattern | None = None
    """What of the name is cut off: a counter at its end."""

    def found(self, seen: Readable) -> str:
        for place in self.where:
            if (text := seen.text_at(place)) and (match := search(self.matches, text)):
                return self.trimmed(match.group("session") or "")
        return ""

    def trimmed(self, name: str) -> str:
        return (compiled(self.cut).sub("", name) if self.cut else name).strip()


class MainLine(Part):
    """Say what a main-line request must have. One that lacks it, and is no known side request, is `other`."""

    requires: tuple[Condition, ...] = ()


class Said(Part):
    """Say how the client dresses what people said, and what it puts among it."""

    internal: Phrases = Phrases()
    """User messages that are the client's own notes: they come and go, and no person said them."""
    unsaid: Phrases = Phrases()
    """User messages that the client sends by itself: a heartbeat's prompt, a recovery's."""
    strip: Patterns = ()
    """Taken out of users' messages before they are compared, judged or hinted at."""
    cut: Patterns = ()
    """What the client cuts out of replies that it replays."""
    silent: Words = ()
    """Replies, word for word, that the client leaves out of later history."""
    dropped: Patterns = ()
    """Tool results that the client later leaves out, together with their calls."""
    summary: Phrases = Phrases()
    """The user message that a compaction leaves in place of old turns."""


class Rules(Part):
    """One client's rule file."""

    client: str = ""
    """The file's name."""
    title: Annotated[str, AfterValidator(check_name)] = Field(min_length=1, max_length=80)
    known: tuple[Condition, ...] = Field((), max_length=MOST_RULES)
    """By any of these the client is known; none: every request is its own."""
    session: tuple[Finder, ...] = Field((), max_length=MOST_RULES)
    """Tried in this order."""
    side: tuple[SideRule, ...] = Field((), max_length=MOST_RULES)
    """Tried in this order."""
    main: MainLine = MainLine()
    said: Said = Said()

    def __hash__(self) -> int:
        return id(self)  # one file read once is one object, and what is read by it is remembered by it

    @model_validator(mode="after")
    def _names_differ(self) -> Rules:
        for kind, names in (
            ("side", [rule.name for rule in self.side]),
            ("session", [one.name for one in self.session]),
        ):
            if twice := {name for name in names if names.count(name) > 1}:
                raise ValueError(f"two {kind} rules are called {sorted(twice)[0]!r}")
        if taken := {"main", "other"} & {rule.name for rule in self.side}:
            raise ValueError(f"a side rule cannot be called {taken.pop()!r}")
        return self

    def knows(self, seen: Readable) -> bool:
        return not self.known or any(sign.holds(seen) for sign in self.known)

    def named(self, seen: Readable) -> tuple[str, str]:
        """What the client calls the session, and the finder that says so; both empty where none does."""
        return next(((name, finder.name) for finder in self.session if (name := finder.found(seen))), ("", ""))

    def trimmed(self, header: str) -> str:
        """The X-Session-Id that this client sends, without the counter that it may carry."""
        finder = next((one for one in self.session if "header:x-session-id" in one.where), None)
        return finder.trimmed(header) if finder else header.strip()

    def side_kind(self, seen: Readable) -> str:
        return next((rule.name for rule in self.side if rule.holds(seen)), "")

    def is_main(self, seen: Readable) -> bool:
        return all(condition.holds(seen) for condition in self.main.requires)

    def words(self, text: str) -> str:
        """A user's message as the person wrote it, as far as the client lets one know."""
        for pattern in self.said.strip:
            text = compiled(pattern).sub("", text)
        return text.strip() if self.said.strip else text

    def reply(self, text: str) -> str:
        """A reply as the client would replay it."""
        for pattern in self.said.cut:
            text = compiled(pattern).sub("", text)
        return "" if text.strip() in self.said.silent else text

    def is_internal(self, text: str) -> bool:
        return self.said.internal.are_in(text)

    def is_said(self, text: str) -> bool:
        """Whether this user message is a person's words."""
        return not self.is_internal(text) and not self.said.unsaid.are_in(self.words(text))

    def is_dropped(self, result: str) -> bool:
        return any(compiled(pattern).search(result[:1000]) for pattern in self.said.dropped)

    @cached_property
    def headers(self) -> set[str]:
        """The request headers that some rule here looks at, in lower case."""
        parts: Sequence[Condition | Finder] = (*self.known, *self.session, *self.side, *self.main.requires)
        return {where.partition(":")[2] for part in parts for where in part.where if where.startswith("header:")}


def read(client: str, source: str) -> Rules:
    """The rules in this TOML. Raises RulesInvalid with a sentence that says where it is wrong."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,38}", client):
        said = _("%(name)r is no name for a rule file: small letters, digits and hyphens, up to 39.")
        raise RulesInvalid(said % {"name": client})
    if len(source) > LONGEST_FILE:
        said = _("%(name)s.toml has %(n)s characters; %(most)s are the most.")
        raise RulesInvalid(said % {"name": client, "n": len(source), "most": LONGEST_FILE})
    try:
        content = tomllib.loads(source)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RulesInvalid(_("%(name)s.toml is no TOML: %(why)s") % {"name": client, "why": error}) from error
    try:
        return Rules.model_validate({**content, "client": client})
    except ValidationError as error:
        first = error.errors()[0]
        reason = str(first["msg"]).removeprefix("Value error, ")
        place = f"{client}.toml, {describe_place(first['loc'], content)}"
        raise RulesInvalid(f"{place}: {reason}") from error


def describe_place(path: Sequence[int | str], content: Mapping[str, Any]) -> str:
    """Where in a file an error is: its table, the rule's name or place, the field.

    >>> describe_place(("side", 1, "where", 0), {"side": [{"name": "title"}, {"name": "recap"}]})
    'side rule "recap", where'
    """
    table, *rest = path or ("the whole file",)
    if not rest or not isinstance(rest[0], int):
        return ", ".join(str(part) for part in path if not isinstance(part, int)) or "the whole file"
    entries = content.get(str(table))
    entry = entries[rest[0]] if isinstance(entries, list) and rest[0] < len(entries) else {}
    name = entry.get("name") if isinstance(entry, Mapping) else None
    rule = f'{table} rule "{name}"' if name else f"{table} rule {rest[0] + 1}"
    fields = [str(part) for part in rest[1:] if not isinstance(part, int)]
    return ", ".join([rule, *fields])
