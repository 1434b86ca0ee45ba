"""Write a chat as a file: Markdown to read, JSON that can be imported again."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from chat import branches, stories
from chat.imports import files, talkback
from chat.models import Session, Turn
from chat.pictures import keeping as kept_pictures
from chat.pictures.picture import PictureRefused, in_messages
from chat.search import keeping
from chat.tools import calls
from chat.tools.calls import ToolCall
from core.visible import visible
from feedback.models import Feedback

THUMBS = {1: "👍", -1: "👎"}


def as_json(session: Session) -> bytes:
    """All turns of all branches, with thumbs, marks and corrections that stand."""
    told, turns = given_on(session), rows(session)
    called = calls.of_turns(turn.pk for turn in turns)
    chat = {
        "id": str(session.pk),
        "title": session.title,
        "created_at": session.created_at.isoformat(),
        "active_at": session.active_at.isoformat(),
        "archived": session.archived_at is not None,
        "pinned": session.pinned_at is not None,
        "learns": session.learns,
        "shown": str(session.head) if session.head else None,
        "turns": [turn_as_json(turn, told.get(turn.pk, []), called.get(turn.pk, [])) for turn in turns],
    }
    file = {"object": talkback.OBJECT, "version": 1, "exported_at": timezone.now().isoformat(), "chats": [chat]}
    return files.encode(file)


def turn_as_json(turn: Turn, given: list[Feedback], made: list[ToolCall]) -> dict[str, Any]:
    told = {
        "id": str(turn.pk),
        "follows": str(turn.follows_id) if turn.follows_id else None,
        "said": keeping.words_said(turn.messages, turn.client),
        "reply": turn.text,
        "model": model_of(turn),
        "created_at": turn.created_at.isoformat(),
        "learns": turn.learns,
        "feedback": [
            {name: getattr(one, name) for name in ("kind", "value", "text", "wish", "tags", "spans")} for one in given
        ],
    }
    if pictures := shown_in(turn):
        told["pictures"] = [picture_as_json(turn, one) for one in pictures]
    if made:
        told["calls"] = [{"name": one.name, "arguments": one.arguments, "result": one.answer} for one in made]
    return told


def shown_in(turn: Turn) -> list[dict[str, Any]]:
    """The pictures that its person sent with what this turn answers, as its row keeps them."""
    return in_messages(stories.split(turn.messages, turn.client)[1]) if turn.pictures else []


def picture_as_json(turn: Turn, picture: dict[str, Any]) -> dict[str, Any]:
    """A picture with its bytes in base64; null where its file is gone."""
    about = {name: picture[name] for name in ("type", "width", "height")}
    data: str | None = None
    with suppress(PictureRefused):
        data = base64.b64encode(kept_pictures.read(turn.session_id, picture["digest"])).decode()
    return about | {"data": data}


def as_markdown(session: Session) -> str:
    """The branch that is shown, to be read."""
    told, tree = given_on(session), branches.Tree.of(session)
    by_pk = {turn.pk: turn for turn in rows(session)}
    called = calls.of_turns(tree.path)
    begun = date_format(timezone.localtime(session.created_at), _("j F Y"))
    parts = [f"# {session}", f"{begun}, {session.pk}"]
    for pk in tree.path:
        if (turn := by_pk.get(pk)) is None:
            continue
        words = keeping.words_said(turn.messages, turn.client)
        made = called.get(pk, [])
        parts += ["## " + _("You"), words] if words else []  # else it goes on from what tools said
        parts += [f"> {one['type']}, {one['width']} × {one['height']}" for one in shown_in(turn)]
        parts += [f"## {model_of(turn)}", turn.text, *(lines_of(call) for call in made)]
        parts += [line_of(one) for one in told.get(pk, [])]
    return "\n\n".join(part for part in parts if part) + "\n"


def lines_of(call: ToolCall) -> str:
    """A tool call and its result, as a quotation."""
    said = f"Tool {call.name}({visible(call.arguments)}): {call.answer}"
    return "\n".join(f"> {line}".rstrip() for line in said.splitlines())


def line_of(given: Feedback) -> str:
    """One thing that was said of a reply, as a quotation under it."""
    words = {
        Feedback.Kind.THUMB: " ".join([THUMBS.get(given.value, ""), given.shown_tags, given.text]),
        Feedback.Kind.REWRITE: _("It should have said:") + f"\n{given.text}",
        Feedback.Kind.GUIDANCE: _("Next time: %(wish)s") % {"wish": given.text},
    }.get(Feedback.Kind(given.kind), "")
    return "\n".join(f"> {line}".rstrip() for line in words.strip().splitlines())


def rows(session: Session) -> list[Turn]:
    """The turns that a file tells: whole replies of the conversation, no requests of a client's own."""
    told = session.turns.exclude(status=Turn.Status.ANSWERING).select_related("checkpoint").order_by("position")
    light = told.defer("prompt_ids", "response_ids", "logprobs", "tools", "next_state")
    return [turn for turn in light if turn.line == Turn.Line.MAIN or turn.kind == keeping.IMPORTED]


def given_on(session: Session) -> dict[Any, list[Feedback]]:
    """What stands of what its person said of the replies, by turn."""
    told: dict[Any, list[Feedback]] = {}
    said = Feedback.objects.standing().filter(turn__session=session, by=session.user_id)
    for one in said.exclude(kind=Feedback.Kind.VERDICT):
        told.setdefault(one.turn_id, []).append(one)
    return told


def model_of(turn: Turn) -> str:
    """Who wrote the reply: of an imported one, what its file said."""
    if turn.kind == keeping.IMPORTED:
        return str(turn.asked.get("model") or turn.asked.get("imported") or "imported")
    return str(turn.checkpoint)
