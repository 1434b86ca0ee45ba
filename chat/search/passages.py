"""Store what can be found: one row a chat's title, one a turn, with its words as the index takes them.

The words are cut here, in Python (chat.search.words), so that both databases find the same. A row is written in the
transaction that ends a reply, makes a title or imports a chat; a turn or chat that is deleted takes its row along (a
foreign key), and triggers of the migration keep the index itself (FTS5's table, PostgreSQL's generated column) as the
row is, whichever program writes it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Lookup, Q, TextField
from django.utils import timezone

INDEX = "chat_passage_index"
"""SQLite's FTS5 table over the column `words`."""

LEXEMES = "lexemes"
"""PostgreSQL's generated column: a tsvector of `words`, with a GIN index."""


class WordsField(TextField):  # type: ignore[type-arg]  # at run time it takes none
    """Words with blanks between, each once, indexed as they are."""


class Passage(models.Model):
    """The words of one turn, both sides, or of one chat's title."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    session = models.ForeignKey("chat.Session", models.CASCADE, related_name="passages")
    turn = models.OneToOneField("chat.Turn", models.CASCADE, null=True, blank=True, related_name="passage")
    """Null: the words are the chat's title."""
    said = models.TextField(blank=True)
    """What the person said, as an excerpt shows it; a title's row has the title."""
    words = WordsField(blank=True)
    at = models.DateTimeField(default=timezone.now)
    """When it was said: what is newer is found first."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session",), condition=Q(turn=None), name="one_title_a_session"),
        )
        indexes = (models.Index(fields=("user", "-at", "-id"), name="passages_by_time"),)

    def __str__(self) -> str:
        return f"words of {self.turn_id or self.session_id}"


@WordsField.register_lookup
class Found(Lookup):  # type: ignore[type-arg]  # at run time it takes none
    """`words__found=["rain", "poe"]`: rows with each of these words, and one that begins as the last does. A single
    letter is a word: half of all rows have one that begins with it."""

    lookup_name = "found"
    prepare_rhs = False

    def get_db_prep_lookup(self, value: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        *whole, begun = value if len(value[-1]) > 1 else [*value, ""]
        if connection.vendor == "postgresql":
            return "%s", (" & ".join([*(f"'{word}'" for word in whole), *([f"'{begun}':*"] if begun else [])]),)
        return "%s", (" ".join([*(f'"{word}"' for word in whole), *([f'"{begun}"*'] if begun else [])]),)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        alias = connection.ops.quote_name(self.lhs.alias)
        rhs, params = self.process_rhs(compiler, connection)
        if connection.vendor == "postgresql":
            return f"{alias}.{LEXEMES} @@ ({rhs})::tsquery", tuple(params)
        rows = f"SELECT rowid FROM {INDEX} WHERE {INDEX} MATCH {rhs}"  # noqa: S608  # our own names
        return f"{alias}.id IN ({rows})", tuple(params)


@WordsField.register_lookup
class Indexed(Found):
    """The same, from the index alone: it is asked first, whatever else the query says."""

    lookup_name = "indexed"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        if connection.vendor != "postgresql":
            return super().as_sql(compiler, connection)
        alias = connection.ops.quote_name(self.lhs.alias)
        rhs, params = self.process_rhs(compiler, connection)
        rows = f"SELECT id FROM chat_passage WHERE {LEXEMES} @@ ({rhs})::tsquery OFFSET 0"  # noqa: S608  # our own names
        return f"{alias}.id IN ({rows})", tuple(params)
