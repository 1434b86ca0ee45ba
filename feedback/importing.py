"""Store chats of another program's export, with what was said of their replies, once each.

Another model wrote these replies: there are no token ids of ours and no log-probs, so none of them becomes a sample
(judge.samples.sample_rows.Reason.IMPORTED). Their thumbs and corrections are kept as feedback, shown and exported;
what is said from then on in such a chat is answered here, and teaches as anything does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat import stories, turns
from chat.imports import files
from chat.imports.conversations import Conversation, Exchange, Given, ImportRefused
from chat.imports.import_rows import Import
from chat.models import Session, Turn
from chat.rendering import markdown
from chat.search import keeping
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from core.errors import IllegalMove
from feedback import reasons, spans
from feedback.models import Feedback

log = logging.getLogger(__name__)

AT_ONCE = 20
"""Chats that the request itself stores: of more, a worker does the rest, and the page says how far it is."""

HISTORY = 30_000
"""Characters of what was said before that an imported turn keeps with it, the newest: a chat of a thousand turns would
be a thousand times as large otherwise. A reply to come is asked for with these."""

WAITS = timedelta(days=1)
"""How long a file waits for its person's yes."""

WANTED = (Import.Status.SHOWN, Import.Status.ASKED)
"""Imports whose file is needed still."""


def look(row: Import) -> None:
    """Read the file, and note what is in it. Raises ImportRefused; the file is gone then."""
    try:
        found = files.read(row.file)
        if not found.conversations:
            raise ImportRefused(gettext_noop("There is no chat with a reply in this file, so nothing can be imported."))
    except ImportRefused:
        row.file.unlink(missing_ok=True)
        raise
    row.kind, row.found = found.kind, found.summed_up()
    known = known_digests(row.user, [chat.digest(found.kind) for chat in found.conversations])
    row.found["known"] = len(known | own_chats(row.user, found.kind, found.conversations))


def go_on(row: Import, *, most: int | None = None) -> Import:
    """Store so many chats, or all that are left. Safe to call at any time, and from two workers."""
    if row.status != Import.Status.ASKED:
        return row
    try:
        found = files.read(row.file)
    except (ImportRefused, OSError) as error:
        fail(
            row,
            str(error) if isinstance(error, ImportRefused) else gettext_noop("The file is gone: upload it once more."),
        )
        return row
    chats = found.conversations
    end = len(chats) if most is None else min(len(chats), row.done + most)
    for place in range(row.done, end):
        if not _store_next(row, chats[place], place, found.kind):
            break
    row.refresh_from_db()
    if row.status == Import.Status.ASKED and row.done >= len(chats):
        try:
            row.move(Import.Status.DONE, done_at=timezone.now())
        except IllegalMove:
            row.refresh_from_db()
        row.file.unlink(missing_ok=True)
    return row


@transaction.atomic
def _store_next(row: Import, chat: Conversation, place: int, kind: str) -> bool:
    """Store the chat at this place, unless another worker did. False: there is no more to do."""
    held = Import.objects.select_for_update().get(pk=row.pk)
    if held.status != Import.Status.ASKED:
        return False
    if held.done != place:
        return held.done > place
    added = store(held.user, chat, kind)
    stored = {name: held.stored.get(name, 0) + added.get(name, 0) for name in {*held.stored, *added}}
    Import.objects.filter(pk=held.pk).update(done=place + 1, stored=stored, moved_at=timezone.now())
    return True


def fail(row: Import, sentence: str) -> None:
    row.file.unlink(missing_ok=True)
    try:
        row.move(Import.Status.FAILED, error=sentence, done_at=timezone.now())
    except IllegalMove as error:
        log.info("import %s: %s", row.pk, error)


def drop_all(user: User) -> None:
    """Drop this person's files that wait or are being imported; what was stored of them stays."""
    for row in Import.objects.filter(user=user, status__in=WANTED):
        fail(row, gettext_noop("You asked to have everything of yours deleted."))


def clear() -> None:
    """Drop files for which no person has said yes in a day, and those that no row tells of."""
    for row in Import.objects.filter(status=Import.Status.SHOWN, created_at__lt=timezone.now() - WAITS)[:20]:
        fail(row, gettext_noop("It waited for more than a day, and its file was dropped: upload it once more."))
    folder = Import.folder()
    if not folder.is_dir():
        return
    wanted = {str(pk) for pk in Import.objects.filter(status__in=WANTED).values_list("pk", flat=True)}
    until = (timezone.now() - WAITS).timestamp()
    for file in folder.iterdir():
        if file.name not in wanted and file.stat().st_mtime < until:
            file.unlink(missing_ok=True)


def known_digests(user: User, digests: Sequence[str]) -> set[str]:
    """Which of these chats were imported before."""
    held: set[str] = set()
    for start in range(0, len(digests), 500):
        rows = Session.objects.filter(user=user, imported_as__in=digests[start : start + 500])
        held |= set(rows.values_list("imported_as", flat=True))
    return held


def own_chats(user: User, kind: str, chats: Sequence[Conversation]) -> set[str]:
    """Digests of chats that were exported here and are here still."""
    if kind != "talkback":
        return set()
    by_id = {pk: chat.digest(kind) for chat in chats if (pk := _uuid(chat.id)) is not None}
    keys, held = list(by_id), set()
    for start in range(0, len(keys), 500):
        rows = Session.objects.filter(user=user, pk__in=keys[start : start + 500])
        held |= {by_id[pk] for pk in rows.values_list("pk", flat=True)}
    return held


@transaction.atomic
def store(user: User, chat: Conversation, kind: str) -> dict[str, int]:
    """Store one chat. Returns how many rows of what: {"chats", "messages", "thumbs", "corrections"}, or {"known": 1}
    where it is here already."""
    digest = chat.digest(kind)
    if known_digests(user, [digest]) or own_chats(user, kind, [chat]):
        return {"known": 1}
    now = timezone.now()
    begun = chat.begun or next((one.at for one in chat.exchanges if one.at), None) or now
    active = chat.active or max((one.at for one in chat.exchanges if one.at), default=begun)
    title = turns.shorten(markdown.plain(chat.title[: turns.TITLE_FROM])) if chat.title else ""
    session = Session.objects.create(
        user=user,
        imported_as=digest,
        title=title or turns.title_of([{"role": "user", "content": chat.exchanges[0].said}]),
        learns=Consent.by_default(user),
        created_at=min(begun, now),
        active_at=min(active, now),
        pinned_at=now if chat.is_pinned else None,
        archived_at=now if chat.is_archived else None,
    )
    made = _make_turns(session, chat.exchanges, kind, min(begun, now))
    Turn.objects.bulk_create(made.values(), batch_size=50)
    if chat.shown in made:
        Session.objects.filter(pk=session.pk).update(head=made[chat.shown].pk)
    given = [one for exchange in chat.exchanges for one in _feedback(user, made[exchange.id], exchange.given)]
    Feedback.objects.bring(given)
    keeping.keep_title(session)
    keeping.write([keeping.passage_of(turn, user.pk) for turn in made.values()])
    thumbs = sum(one.kind == Feedback.Kind.THUMB for one in given)
    return {"chats": 1, "messages": len(made), "thumbs": thumbs, "corrections": len(given) - thumbs}


def _make_turns(session: Session, exchanges: Sequence[Exchange], kind: str, begun: datetime) -> dict[str, Turn]:
    """The turns of these exchanges, by the exchange's id, each behind the one that it follows."""
    base = Checkpoint.objects.get(number=0)
    made: dict[str, Turn] = {}
    at = begun
    for position, one in enumerate(exchanges):
        follows = made.get(one.after or "")
        messages = [*_history(follows), {"role": "user", "content": one.said}]
        reply = {"role": "assistant", "content": one.reply}
        at = min(one.at, timezone.now()) if one.at else at
        made[one.id] = Turn(
            id=uuid4(),
            session=session,
            follows=follows,
            position=position,
            status=Turn.Status.CLOSED,
            line=Turn.Line.SIDE,
            kind=keeping.IMPORTED,
            checkpoint=base,
            messages=messages,
            chain=stories.chain([*messages, reply]),
            request_chain=stories.chain(messages),
            asked={"imported": kind, "model": one.model},
            text=one.reply,
            message=reply,
            finish_reason="stop",
            created_at=at,
            served_at=at,
        )
    return made


def _history(turn: Turn | None) -> list[dict[str, Any]]:
    """What was said up to and with this turn, as far as an imported turn keeps it: whole exchanges, the newest."""
    if turn is None:
        return []
    said = [*turn.messages, turn.message]
    room = HISTORY
    for place in range(len(said) - 2, -1, -2):  # a message and its reply
        room -= len(said[place]["content"]) + len(said[place + 1]["content"])
        if room < 0:
            return said[place + 2 :]
    return said


def _feedback(user: User, turn: Turn, given: Sequence[Given]) -> list[Feedback]:
    """What was said of this reply, as it may be kept here: marks that are on no words of it are left out."""
    kept = []
    for one in given:
        try:
            tags = reasons.tidy_tags(tag[: reasons.LONGEST] for tag in one.tags[: reasons.MOST])
            marks = [list(span) for span in spans.paint(one.spans, len(turn.text))]
        except ValueError:
            continue
        if one.kind == Feedback.Kind.MARKS and not marks:
            continue
        fields = {"kind": one.kind, "value": one.value, "text": one.text, "wish": one.wish}
        kept.append(Feedback(turn=turn, by=user, tags=tags, spans=marks, created_at=turn.created_at, **fields))
    return kept


def _uuid(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None
