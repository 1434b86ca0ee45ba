"""Gold follow-ups: what came back after a reply, and what people agree that it means. Judges are measured on them.

They were written one by one by agents of the team, for this alone: nothing is trained on them, and no prompt shows one.
Beside them stand injections: hostile text that is put into some of them and must move no verdict.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import TalkbackError
from core.textfiles import read_lines
from judge.votes.evidence import Evidence

FILE = Path(__file__).with_name("gold.jsonl")
INJECTIONS = Path(__file__).with_name("gold_injections.jsonl")

ROLES = ("user", "tool", "environment", "test")
WHERE = ("next_state", "reply", "request")
PLACES = ("before", "after", "middle")
WORD, LANGUAGE = re.compile(r"[a-z]{1,20}"), re.compile(r"[a-z]{2,3}")


class GoldInvalid(TalkbackError):
    """A line of a gold set cannot be read."""

    code, status = "gold_invalid", 422


@dataclass(frozen=True)
class Item:
    """One follow-up, with what it says of the reply."""

    id: str
    role: str
    """Whose next state it is: user | tool | environment | test."""
    request: str
    reply: str
    next_state: tuple[str, ...]
    """Several where tools were called side by side."""
    score: int
    """-1, 0 or 1."""
    wants_hint: bool
    """Whether it says how the reply should have been."""
    hint_about: tuple[str, ...] = ()
    """A hint that holds any of these, whatever its case, names the change that is asked for."""
    slice: str = ""
    """One word for the kind of follow-up. Judges are measured by it; no judge is shown it."""
    language: str = "en"
    """ISO 639 code of the follow-up's language."""
    new_topic: bool = False
    """The next message changes the subject and says nothing of the reply. The score is then 0."""

    @property
    def evidence(self) -> Evidence:
        """As a judge reads it. A test's output comes without the test's verdict, which would decide it by rule."""
        request = (("user", self.request),)
        if self.role == "test":
            return Evidence(request, self.reply, output="\n".join(self.next_state))
        return Evidence(request, self.reply, tuple((self.role, text) for text in self.next_state))

    @property
    def digest(self) -> str:
        """16 hex digits that change with its texts and its labels: a changed item is read anew. Slice and language
        only sort it."""
        said: tuple[Any, ...] = (
            *(self.role, self.request, self.reply, self.next_state, self.score, self.wants_hint, self.hint_about),
            *(("new_topic",) if self.new_topic else ()),
        )
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def is_named_in(self, hint: str) -> bool:
        """Whether a hint names the change that was asked for."""
        said = hint.casefold()
        return any(word.casefold() in said for word in self.hint_about)


@dataclass(frozen=True)
class Injection:
    """Hostile text, and where in which item it is put."""

    of: str
    """The item's id."""
    where: str
    """Into what: next_state | reply | request."""
    place: str
    """before | after | middle"""
    text: str

    def put_into(self, item: Item) -> Item:
        """The item with the text in it, on lines of its own. Of several next states the last one gets it."""
        if self.where == "next_state":
            *others, last = item.next_state
            return replace(item, next_state=(*others, self._placed(last)))
        if self.where == "reply":
            return replace(item, reply=self._placed(item.reply))
        return replace(item, request=self._placed(item.request))

    def _placed(self, said: str) -> str:
        if self.place == "before":
            return f"{self.text}\n{said}"
        if self.place == "after":
            return f"{said}\n{self.text}"
        cut = min((gap.start() for gap in re.finditer(r"\s", said)), key=lambda at: abs(at - len(said) / 2))
        return f"{said[:cut]}\n{self.text}\n{said[cut + 1 :]}"


@cache
def items() -> tuple[Item, ...]:
    """Those of the repository, in the order of the file."""
    return read(FILE)


@cache
def by_digest() -> Mapping[str, Item]:
    """The repository's items by what they say."""
    return {item.digest: item for item in items()}


@cache
def injected() -> tuple[tuple[Item, Item], ...]:
    """Pairs of a repository's item and the same item with an injection in it: a verdict on both must be the same."""
    return read_injections(INJECTIONS, items())


def read_injections(path: Path, items: Iterable[Item]) -> tuple[tuple[Item, Item], ...]:
    """Pairs (clean, injected) of a file with one JSON object a line. Raises GoldInvalid with the line's number.

    The injected item's id is the clean one's with the number of its line behind it.
    """
    known = {item.id: item for item in items}
    pairs: list[tuple[Item, Item]] = []
    for number, said in _objects(path):
        injection = _injection(said, f"{path.name}, line {number}", known)
        clean = known[injection.of]
        pairs.append((clean, replace(injection.put_into(clean), id=f"{clean.id}/injected-{number}")))
    return tuple(pairs)


def read(path: Path) -> tuple[Item, ...]:
    """The items of a file of your own: one JSON object a line. Raises GoldInvalid with the line's number."""
    found = [_item(said, f"{path.name}, line {number}") for number, said in _objects(path)]
    if not found:
        raise GoldInvalid(f"{path} holds no item.")
    if twice := _repeated(item.id for item in found):
        raise GoldInvalid(f"{path.name} has the id {twice} twice.")
    return tuple(found)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one a line, each with its line's number; empty lines are passed over."""
    try:
        lines = read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise GoldInvalid(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
        except ValueError as error:
            raise GoldInvalid(f"{path.name}, line {number} is no JSON: {error}") from error
        if not isinstance(said, dict):
            raise GoldInvalid(f"{path.name}, line {number} is no object.")
        yield number, said


def _injection(said: Mapping[str, Any], where: str, known: Mapping[str, Item]) -> Injection:
    of, into, place, text = (said.get(name) for name in ("of", "where", "place", "text"))
    if not isinstance(of, str) or of not in known:
        raise GoldInvalid(f"{where}: of must be the id of a gold item.")
    if into not in WHERE:
        raise GoldInvalid(f"{where}: where must be one of {', '.join(WHERE)}.")
    if place not in PLACES:
        raise GoldInvalid(f"{where}: place must be one of {', '.join(PLACES)}.")
    if not isinstance(text, str) or not text:
        raise GoldInvalid(f"{where}: text must be a text.")
    target = known[of].next_state[-1] if into == "next_state" else getattr(known[of], into)
    if place == "middle" and not re.search(r"\s", target):
        raise GoldInvalid(f"{where}: {into} of {of} is one word and has no middle.")
    return Injection(of, into, place, text)


def _item(said: Mapping[str, Any], where: str) -> Item:
    next_state = said.get("next_state")
    texts = tuple(next_state) if isinstance(next_state, list) else (next_state,)
    role = said.get("role", said.get("next_role"))
    for name, text in (("id", said.get("id")), ("request", said.get("request")), ("reply", said.get("reply"))):
        if not isinstance(text, str) or not text:
            raise GoldInvalid(f"{where}: {name} must be a text.")
    if role not in ROLES:
        raise GoldInvalid(f"{where}: role must be one of {', '.join(ROLES)}.")
    if not texts or not all(isinstance(text, str) for text in texts):
        raise GoldInvalid(f"{where}: next_state must be a text, or a list of texts.")
    if said.get("score") not in (-1, 0, 1) or isinstance(said.get("score"), bool):
        raise GoldInvalid(f"{where}: score must be -1, 0 or 1.")
    about = said.get("hint_about") or []
    if not isinstance(about, list) or not all(isinstance(word, str) and word for word in about):
        raise GoldInvalid(f"{where}: hint_about must be a list of words.")
    wants_hint, new_topic = bool(said.get("wants_hint", bool(about))), said.get("new_topic", False)
    slice_, language = said.get("slice", ""), said.get("language", "en")
    if not isinstance(slice_, str) or (slice_ and not WORD.fullmatch(slice_)):
        raise GoldInvalid(f"{where}: slice must be one word in small letters.")
    if not isinstance(language, str) or not LANGUAGE.fullmatch(language):
        raise GoldInvalid(f"{where}: language must be an ISO 639 code, such as en.")
    if not isinstance(new_topic, bool):
        raise GoldInvalid(f"{where}: new_topic must be true or false.")
    if new_topic and (said["score"] != 0 or wants_hint):
        raise GoldInvalid(f"{where}: a new topic says nothing of the reply, so score must be 0 and no hint is wanted.")
    return Item(
        id=said["id"][:80],
        role=role,
        request=said["request"],
        reply=said["reply"],
        next_state=texts,
        score=said["score"],
        wants_hint=wants_hint,
        hint_about=tuple(about),
        slice=slice_,
        language=language,
        new_topic=new_topic,
    )


def _repeated(ids: Iterable[str]) -> str:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return ""
