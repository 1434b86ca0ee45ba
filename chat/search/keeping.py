"""Write what can be found, in the transaction that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connections, router, transaction

from chat import stories
from chat.models import Session, Turn
from chat.search.passages import Passage
from chat.search.words import LONGEST_TEXT, index_words
from core.prepared import quote_names

COLUMNS = ("user", "session", "turn", "said", "words", "at")


def keep_turn(turn: Turn, user: int) -> None:
    """Have this turn of this person's found by its words from now on, both sides, as they stand on it. A side request
    is the client's own: it is never found. Call it in the transaction that ends the reply."""
    if turn.line == Turn.Line.MAIN:
        write([passage_of(turn, user)])


def keep_title(session: Session) -> None:
    """Have this chat found by its title as it is now."""
    title = {"said": session.title, "words": index_words(session.title), "at": session.active_at}
    if not Passage.objects.filter(session=session, turn=None).update(**title) and session.title:
        Passage.objects.create(user_id=session.user_id, session=session, **title)


def passage_of(turn: Turn, user: int) -> Passage:
    """What can be found of this turn, not yet stored."""
    said = words_said(turn.messages, turn.client)
    return Passage(
        user_id=user,
        session_id=turn.session_id,
        turn_id=turn.pk,
        said=said,
        words=index_words(said, turn.text),
        at=turn.created_at,
    )


def words_said(messages: Sequence[Mapping[str, Any]], client: str) -> str:
    """What the person said last in this request; tools' words are not theirs."""
    _, said = stories.split(messages, client)
    texts = [text_of(message.get("content")) for message in said if message["role"] == "user"]
    return "\n\n".join(texts)[:LONGEST_TEXT].replace("\x00", "")


def text_of(content: Any) -> str:
    """The words of a message's content, which may be in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))


def write(passages: list[Passage]) -> None:
    """Store these; one of a turn that has one already takes its place."""
    alias = router.db_for_write(Passage)
    connection = connections[alias]
    fields: list[Any] = [Passage._meta.get_field(name) for name in COLUMNS]
    table, *columns = quote_names(connection, Passage, fields)
    places = ", ".join(["%s"] * len(columns))
    changed = ", ".join(f"{column} = excluded.{column}" for column in columns[3:])
    sql = (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places}) "  # noqa: S608  # our own names
        f"ON CONFLICT ({columns[2]}) DO UPDATE SET {changed}"
    )
    rows = [[field.get_db_prep_save(getattr(one, field.attname), connection) for field in fields] for one in passages]
    with transaction.mark_for_rollback_on_error(using=alias), connection.cursor() as cursor:
        cursor.executemany(sql, rows)
