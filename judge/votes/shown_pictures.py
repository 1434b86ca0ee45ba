"""Pictures of the evidence: which ones a judge that sees is shown, where they stand in its prompt, and in what form.

A judge that does not see reads "(picture)" in their place (`evidence.text_of`) and is asked in no other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from chat.models import Turn
from chat.pictures import keeping
from chat.pictures.picture import MOST, PictureRefused, in_messages

Urls = Mapping[str, str]
"""data: URLs by digest; of a picture that is no longer kept there is none."""


class Shown(NamedTuple):
    """A picture that stood before the reply, or came back after it."""

    digest: str
    """SHA-256 of its bytes, hex."""
    type: str
    width: int
    height: int
    is_after: bool
    session: str
    """Whose folder holds its file: the conversation's number in hex."""


def of(turn: Turn, request: Sequence[Mapping[str, Any]], next_state: Sequence[Mapping[str, Any]]) -> tuple[Shown, ...]:
    """The pictures of the last message of the `request` that holds some, and those that came back: a screen before an
    action and after it, or what a person sent. At most as many as one conversation may hold."""
    before = next((held for message in reversed(request) if (held := message.get("pictures"))), ())
    after = in_messages(next_state)
    before = before[-max(MOST - len(after), MOST // 2) :]
    after = after[: MOST - len(before)]
    session = turn.session_id.hex if turn.session_id else ""
    return tuple(
        Shown(one["digest"], one["type"], one["width"], one["height"], is_after, session)
        for held, is_after in ((before, False), (after, True))
        for one in held
    )


def is_kept(one: Shown) -> bool:
    """Whether its file is there."""
    return (keeping.folder(UUID(hex=one.session)) / one.digest).is_file()


def load(pictures: Sequence[Shown]) -> Urls:
    """Read the files: call it in a thread."""
    urls = {}
    for one in pictures:
        with suppress(PictureRefused):
            urls[one.digest] = keeping.data_url(UUID(hex=one.session), one.digest, one.type)
    return urls


def lay_in(
    before: Sequence[str], after: Sequence[str], rest: Sequence[str], pictures: Sequence[Shown], urls: Urls
) -> dict[str, Any]:
    """Lines of evidence with the pictures behind those that they belong to, as fields of a message: `content`, and
    `pictures`, each with its place among the characters (as chat.pictures.picture.say has them)."""
    lines, placed = [*before], []
    for number, one in enumerate(pictures, 1):
        if one.is_after and after:
            lines, after = [*lines, *after], ()
        name = f"Picture {number}, {'after' if one.is_after else 'before'} the reply"
        if one.digest in urls:
            lines.append(f"{name}:")
            placed.append({**one._asdict(), "at": len("\n".join(lines))})
        else:
            lines.append(f"{name}, cannot be shown: it is no longer kept.")
    content = "\n".join([*lines, *after, *rest])
    return {"content": content} | ({"pictures": placed} if placed else {})


def as_parts(message: Mapping[str, Any], urls: Urls) -> dict[str, Any]:
    """A message with its pictures as OpenAI's content parts; one without any stays as it is."""
    if not (pictures := message.get("pictures")):
        return dict(message)
    parts: list[dict[str, Any]] = []
    words, begun = message["content"], 0
    for one in pictures:
        parts.append({"type": "text", "text": words[begun : one["at"]]})
        parts.append({"type": "image_url", "image_url": {"url": urls[one["digest"]]}})
        begun = one["at"]
    rest = [{"type": "text", "text": words[begun:]}] if words[begun:] else []  # servers refuse an empty part
    return {"role": message["role"], "content": [*parts, *rest]}
