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

IMPORTED = "imported"
"""The `kind` of turns that another program's export brought."""

COLUMNS = ("user", "session", "turn", "said", "words", "at")


def keep_turn(turn: Turn, session: Session) -> None:
    """Have this turn of this session found by its words from now on, both sides, as they stand on it. A side request
    is the client's own: it is never found. Call it in the transaction that ends the reply."""
    if is_found(session) and (turn.line == Turn.Line.MAIN or turn.kind == IMPORTED):
        write([passage_of(turn, session.user_id)])


def is_found(session: Session) -> bool:
    """Not what lies in the bin, and no attempt of an agent: there may be thousands, each with a key of its own."""
    return session.deleted_at is None and session.named_by != "key"


def keep_session(session: Session) -> None:
    """Have all of this session found again."""
    keep_title(session)
    for turn in session.turns.only("session", "line", "kind", "rule", "messages", "text", "created_at").iterator(100):
        keep_turn(turn, session)


def forget_session(session: Session) -> None:
    """Have nothing of this session found any more."""
    Passage.objects.filter(session=session).delete()


def keep_title(session: Session) -> None:
    """Have this chat found by its title as it is now."""
    if not is_found(session):
        return
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
