"""Lay out a session as branches: other wordings of a message, other tries at a reply, and the one that is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from chat import stories
from chat.composing import files
from chat.models import Session, Turn
from chat.search import keeping
from chat.tools import calls

SHOWN = 12
"""How many of a branch's newest turns a page shows at once; earlier ones are asked for."""

MOST_CHARACTERS = 12_000
"""Of what is said in the turns that a page shows at once, behind the newest one: a page stays light where replies are
long."""

HEAVY = ("prompt_ids", "response_ids", "logprobs", "tools")


@dataclass(frozen=True)
class Switch:
    """Where one stands among siblings, as ‹2/3›, and the turns that its two arrows lead to."""

    place: int
    total: int
    before: UUID
    after: UUID


@dataclass(frozen=True)
class Node:
    """What is read of a turn to know its place."""

    pk: UUID
    follows: UUID | None
    position: int
    request: str
    """Digest of all that was said up to the reply: tries at one reply have it in common."""


class Tree:
    """A session's turns by what continues what. A session that came through a key is one line: its client branches."""

    def __init__(self, session: Session, nodes: Iterable[Node]) -> None:
        self.nodes = {node.pk: node for node in nodes}  # by position
        self.is_branching = has_branches(session)
        self._below = defaultdict[UUID | None, list[UUID]](list)
        for node in self.nodes.values():
            self._below[self.parent(node.pk)].append(node.pk)
        self.path = self._branch_with(session.head) if self.is_branching else [*self.nodes]
        """The turns of the branch that is shown, first to last."""

    @classmethod
    def of(cls, session: Session) -> Tree:
        rows = session.turns.order_by("position").values_list("pk", "follows_id", "position", "request_chain")
        return cls(session, (Node(*row) for row in rows))

    def parent(self, pk: UUID) -> UUID | None:
        """The turn that this one continues; None where it was deleted, or this is a first one."""
        follows = self.nodes[pk].follows
        return follows if follows in self.nodes else None

    def newest_below(self, pks: Iterable[UUID]) -> UUID:
        """The newest turn among these and all that continue them."""
        left, newest = [*pks], None
        while left:
            node = self.nodes[left.pop()]
            left += self._below[node.pk]
            newest = node if newest is None or node.position > newest.position else newest
        assert newest is not None
        return newest.pk

    def _branch_with(self, head: UUID | None) -> list[UUID]:
        """The branch that goes through this turn to the newest one below it; without one, to the newest of all."""
        if not self.nodes:
            return []
        at: UUID | None = self.newest_below([head]) if head in self.nodes else [*self.nodes][-1]
        path = []
        while at is not None:
            path.append(at)
            at = self.parent(at)
        return path[::-1]

    def switches(self, pk: UUID) -> tuple[Switch | None, Switch | None]:
        """Among the wordings of its message, and among the tries at its reply; None where there is one only."""
        if not self.is_branching:
            return None, None
        tries_of = defaultdict[str, list[UUID]](list)
        for sibling in self._below[self.parent(pk)]:
            tries_of[self.nodes[sibling].request or str(sibling)].append(sibling)
        wordings, own = list(tries_of.values()), tries_of[self.nodes[pk].request or str(pk)]
        return self._switch(wordings, wordings.index(own)), self._switch([[one] for one in own], own.index(pk))

    def _switch(self, branches: Sequence[Sequence[UUID]], at: int) -> Switch | None:
        total = len(branches)
        if total == 1:
            return None
        before, after = (self.newest_below(branches[(at + step) % total]) for step in (-1, 1))
        return Switch(at + 1, total, before, after)


def has_branches(session: Session) -> bool:
    """Whether it was begun on a page. In others it is the client that says what continues what."""
    return session.key_id is None and not session.named_by


def last_shown(session: Session) -> Turn | None:
    """The turn that the shown branch ends with."""
    path = Tree.of(session).path
    return session.turns.get(pk=path[-1]) if path else None


@dataclass(frozen=True)
class Shown:
    """The part of a branch that one page shows."""

    turns: list[Turn]
    earlier: int | None = None
    """The position before which the branch has turns that are not shown; None where its first one is."""


def conversation(session: Session, before: int | None = None) -> Shown:
    """The newest turns of the shown branch, before a position where one is given, as a page draws them."""
    return _page(Tree.of(session), before)


def conversation_at(session: Session, turn: str) -> tuple[Shown, int | None]:
    """The page that has this turn, whose branch this session, and not its row, then shows; and the position before
    which it ends. None where that is the newest page, as where the turn is none of this session's."""
    try:
        session.head = UUID(turn)
    except ValueError:
        return conversation(session), None
    tree = Tree.of(session)
    place = tree.path.index(session.head) if session.head in tree.path else len(tree.path)
    if place >= len(tree.path) - SHOWN:
        newest = _page(tree)
        if place >= len(tree.path) - len(newest.turns):
            return newest, None
    before = tree.nodes[tree.path[place + 1]].position  # the last turn of a page is shown however long it is
    return _page(tree, before), before


def _page(tree: Tree, before: int | None = None) -> Shown:
    path = [pk for pk in tree.path if before is None or tree.nodes[pk].position < before]
    turns = take_light(draw(tree, path[-SHOWN:]))
    return Shown(turns, turns[0].position if len(path) > len(turns) else None)


def take_light(turns: list[Turn]) -> list[Turn]:
    """The newest of these drawn turns, as many as have at most MOST_CHARACTERS; the last one whatever it has."""
    left = MOST_CHARACTERS
    for n, turn in enumerate(reversed(turns)):
        left -= len(turn.text) + sum(len(one["content"]) for one in turn.said)
        if left < 0 and n:
            return turns[-n:]
    return turns


def asked_by(turn: Turn) -> list[dict[str, Any]]:
    """What this turn answers, as a page shows it: each message with its words as `content`, and its `files`."""
    said = stories.split(turn.messages, turn.client)[1] or turn.messages[-1:]
    shown = []
    for message in said:
        content = keeping.text_of(message.get("content"))
        words, sent = files.split_files(content) if message["role"] == "user" else (content, [])
        shown.append({**message, "content": words, "files": sent, "pictures": message.get("pictures") or ()})
    return shown


def draw(tree: Tree, pks: Sequence[UUID]) -> list[Turn]:
    """These turns as a page shows them: with what each answers, and where its siblings are."""
    rows = Turn.objects.filter(pk__in=pks).select_related("session__key", "checkpoint").defer(*HEAVY)
    turns = list(rows.order_by("position"))
    asked = {turn.pk: asked_by(turn) for turn in turns}
    called = [turn.pk for turn in turns if turn.finish_reason == "tool_calls"]
    answers = [turn.follows_id for turn in turns if any(one["role"] == "tool" for one in asked[turn.pk])]
    made = calls.of_turns([*called, *answers])
    for turn in turns:
        said = asked[turn.pk]
        if turn.follows_id in made:  # what its tools said stands with their calls
            said = [message for message in said if message["role"] != "tool"]
        turn.said = said
        turn.made = made.get(turn.pk, [])
        turn.at_work = calls.is_at_work(turn.made)
        turn.branching = tree.is_branching
        turn.place_id = str(tree.parent(turn.pk) or "first")
        turn.wordings, turn.tries = tree.switches(turn.pk)  # type: ignore[attr-defined]  # exports count tries by this name
    return turns
