"""Store a turn before its reply, and observe it when something comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from chat import clients, sessions, stories
from chat.clients.sorting import SHARED
from chat.composing.files import split_files
from chat.models import Session, Turn
from chat.pictures.picture import in_messages
from chat.rendering import calling, markdown
from chat.rendering.renderer import Overlong, Renderer
from chat.replying import writers
from chat.requests import Message
from chat.search import keeping
from chat.sessions import Place
from chat.stories import Story
from checkpoints import trials
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from core.prepared import Prepared, insert, update
from core.visible import visible
from gpu_workers.types import Sampling

MAX_NEW_TOKENS = 512
"""The longest reply, unless the client asks for another length."""

LOOKED_AT = 20
"""How many of a session's newest turns are looked at to say what a request is: an edit, a branch …"""

TITLE_FROM = 2000
"""Characters of a first message of which a title is made."""

LONG = ("messages", "tools", "prompt_ids", "response_ids", "logprobs")
"""Columns as long as a conversation, which no move of a turn reads."""


class TurnUnfinished(TalkbackError):
    """A reply is still being written."""

    code, status = "reply_unfinished", 409


class ContextTooLong(TalkbackError):
    """The conversation does not fit the model's window. The wording is OpenAI's: clients act on it."""

    code, status = "context_length_exceeded", 400

    def __init__(self, window: int, asked: int) -> None:
        super().__init__(
            _(
                "This model's maximum context length is %(window)d tokens. However, you requested %(asked)d tokens. "
                "Shorten the messages, or start a new conversation. MODEL= sets a model with a larger window; "
                "OpenClaw's own prompt fits a small one with tools.allow and without skills."
            )
            % {"window": window, "asked": asked}
        )
        self.window, self.asked = window, asked


class NothingSaid(TalkbackError):
    """The request has no message to reply to."""

    code, status = "invalid_messages", 400


class ReplyBegun(TalkbackError):
    """The client began the reply for the model. Words that are not the model's could be neither told apart from its
    reply in a later history, nor learned from."""

    code, status = "invalid_messages", 400


@dataclass(frozen=True)
class Prompt:
    """A request, laid out as the engine will get it. Nothing of it is stored yet, and no lock is held meanwhile."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    prompt_ids: list[int]
    sampling: dict[str, Any]
    asked: dict[str, Any]


def lay_out(
    messages: Sequence[Message],
    *,
    sampling: Sampling,
    tools: Sequence[dict[str, Any]] = (),
    asked: Mapping[str, Any] | None = None,
) -> Prompt:
    """Render and tokenise. Raises ContextTooLong, MessagesRefused, NothingSaid, ReplyBegun, SchemaRefused or
    ToolMissing."""
    given = [dict(message) for message in messages]
    if not any(message["role"] in stories.NEXT_STATE for message in given):
        raise NothingSaid("There is nothing to reply to: give at least one message of a user.")
    if given[-1]["role"] == "assistant":
        raise ReplyBegun("A reply cannot be begun for the model: the last message must not be the assistant's.")
    renderer = Renderer.for_model(settings.MODEL)
    form = calling.form(renderer.style, renderer.opening, tools, asked or {})
    window = renderer.context_length
    seen = sum(renderer.count_picture(one["width"], one["height"]) for one in in_messages(given))
    try:
        prompt_ids = renderer.prompt_ids(given, form.tools or None, form.opened, most=max(0, window - 1 - seen))
    except Overlong as much:
        raise ContextTooLong(window, much.tokens + seen + 1) from None
    room = window - len(prompt_ids) - seen
    drawn = asdict(sampling) | {"max_new_tokens": min(sampling.max_new_tokens, room)} | form.sampling
    drawn["stop"] = [*sampling.stop, *form.stop]
    return Prompt(given, list(tools), prompt_ids, drawn, dict(asked or {}) | form.asked)


def check_answered(session: Session) -> None:
    """Raises TurnUnfinished while a reply of this session is being written. The caller has locked the session."""
    writers.close_stranded(session.turns.all())
    if session.turns.filter(status=Turn.Status.ANSWERING).exists():
        raise TurnUnfinished(_("The last reply is still being written: stop it, or wait for its end."))


def store(
    place: Place,
    story: Story,
    prompt: Prompt,
    completion_ids: Sequence[str],
    *,
    checkpoint: Checkpoint,
    line: str = Turn.Line.MAIN,
    **fields: Any,
) -> list[Turn]:
    """One turn a completion id, all answering this prompt, in a session that the caller has locked; what it continues
    is observed. `fields` are the turns' own. Call it inside a transaction."""
    session, follows = place.session, place.follows
    said = story.said_after(place.length)
    newest = recent(session)
    position = newest[0].position + 1 if newest else 0
    asked = prompt.asked
    if line == Turn.Line.MAIN:
        asked = asked | describe_event(place, story, [turn for turn in newest if turn.line == Turn.Line.MAIN])
    fields["checkpoint"] = trials.answering(checkpoint, session.user_id, session.pk)
    # Said off the record, it stays so; and the key may serve only since it was let in.
    is_served_only = bool(newest) and newest[0].key_learns is False  # type: ignore[attr-defined]
    fields["learns"] = fields.get("learns", True) and session.learns and not is_served_only
    writer = writers.name()
    opened = [
        Turn(
            completion_id=completion_id,
            session=session,
            follows=follows,
            position=position + n,
            line=line,
            messages=prompt.messages,
            tools=prompt.tools,
            request_chain=story.request if line == Turn.Line.MAIN else "",
            prompt_ids=prompt.prompt_ids,
            pictures=len(in_messages(prompt.messages)),
            sampling=prompt.sampling,
            asked=asked,
            writer=writer,
            **fields,
        )
        for n, completion_id in enumerate(completion_ids)
    ]
    for turn in opened:
        insert(turn)
        turn.announce()
    if follows is not None and line == Turn.Line.MAIN and said:
        observe(follows, said, session=session)
        if session.key_id is None:
            take_up(follows)
    session.active_at, session.closed_at, session.head = timezone.now(), None, opened[-1].pk
    is_named = bool(session.title)
    session.title = session.title or title_of(
        clients.strip_messages(said or stories.split(story.messages)[1], story.client)
    )
    about = {name: getattr(session, name) for name in ("active_at", "closed_at", "title", "head")}
    update(Session, {"pk": session.pk}, about)
    if session.title and not is_named:
        keeping.keep_title(session)
    return opened


def recent(session: Session) -> list[Turn]:
    """The session's newest turns, newest first, as far as is needed to know what happens next."""
    return RECENT.ask(session.pk)


RECENT: Prepared[Turn] = Prepared(
    lambda pk: (
        Turn.objects.filter(session=pk)
        .annotate(key_learns=F("session__key__learns"))
        .order_by("-position")
        .only(*sessions.NARROW, "request_chain")[:LOOKED_AT]
    )
)


def describe_event(place: Place, story: Story, newest: Sequence[Turn]) -> dict[str, str]:
    """What a main-line request is besides a next message, as fields of `Turn.asked`: `event`, and `of` which turn.

    regeneration: a reply that was whole is asked for once more, which says "not this one" of it. comparison: it is
    asked of another checkpoint, which says nothing of it. retry: one that was not whole. parallel: while another is
    being written. edit: other words in place of the last ones. branch: from an older reply. restart: from the
    beginning. foreign: a history that is not known here. rewritten: one that its client cut or summed up. None of them
    but the last is the next state of a reply that has one already.
    """
    follows = place.follows

    def of(event: str, turn: Turn | None = None) -> dict[str, str]:
        return {"event": event} | ({"of": turn.completion_id} if turn is not None else {})

    if place.session.named_by in SHARED:  # several conversations by one name, of which two may begin alike
        return {}
    other = place.instead_of
    if other is not None and other.request_chain != story.request:
        return of("edit", other)
    twin = other or next((turn for turn in newest if story.request and turn.request_chain == story.request), None)
    if twin is not None and twin.status != Turn.Status.ANSWERING:
        if not twin.is_whole:
            return of("retry", twin)
        if place.compares:
            return of("comparison", twin)
        Turn.objects.filter(pk=twin.pk).update(marks=add_mark(twin, "regenerated"))
        return of("regeneration", twin)
    if writing := next((turn for turn in newest if turn.status == Turn.Status.ANSWERING), None):
        return of("parallel", writing)
    if not newest:
        return of("foreign") if story.end else {}
    if follows is None:
        if story.end:
            return of("foreign")
        return of("restart" if newest[0].follows_id else "edit", newest[0])
    if place.is_rewritten:
        return of("rewritten", follows)
    sibling = next((turn for turn in newest if turn.follows_id == follows.pk), None)
    if sibling is not None:
        return of("edit" if sibling.pk == newest[0].pk else "branch", sibling)
    return {} if newest[0].pk == follows.pk else of("branch", follows)


def add_mark(turn: Turn, mark: str) -> list[str]:
    marks = Turn.objects.values_list("marks", flat=True).get(pk=turn.pk)
    return marks if mark in marks else [*marks, mark]


def prefer(turn: Turn) -> None:
    """Its person chose this reply among the tries at it: as where a conversation goes on from one (take_up), "not this
    one" is said of the others, and of this one no more."""
    Turn.objects.filter(pk=turn.pk).update(marks=add_mark(turn, "regenerated"))
    take_up(turn)


def take_up(turn: Turn) -> None:
    """A conversation goes on from this reply: where it was asked for once more, the person came back to it, and "not
    this one" (describe_event) is said of the tries that no message continues."""
    marks = Turn.objects.values_list("marks", flat=True).get(pk=turn.pk)
    if "regenerated" not in marks:
        return
    Turn.objects.filter(pk=turn.pk).update(marks=[mark for mark in marks if mark != "regenerated"])
    tries = Turn.objects.filter(session=turn.session_id, follows=turn.follows_id, followers=None)
    alike = Turn.objects.filter(pk=turn.pk).exclude(request_chain="").values("request_chain")
    for other in tries.filter(request_chain__in=alike, line=Turn.Line.MAIN).exclude(pk=turn.pk).only(*sessions.NARROW):
        if other.is_whole:
            Turn.objects.filter(pk=other.pk).update(marks=add_mark(other, "regenerated"))


def observe(turn: Turn, messages: Sequence[Message], *, session: Session | None = None) -> None:
    """These messages came back after the reply. Only the first ones count: another try, an edit of the same
    message or a branch says nothing new of this reply. A reply that was stopped or failed is not observed.

    `session` is the turn's, where the caller has locked it already."""
    with transaction.atomic(savepoint=False):
        held = locked(turn, session)
        if not held.next_state and held.line == Turn.Line.MAIN and held.is_whole:
            _reopen(held, next_state=[dict(message) for message in messages])


def reopen(turn: Turn, **fields: object) -> None:
    """Evidence arrived or was taken back: a verdict on this turn is due, or due again.

    `observed_at` changes each time, so that a judge can tell that the evidence it read is no longer all of it.
    What is off the record keeps its fields and is never judged. Raises TurnUnfinished before the reply is whole.
    """
    with transaction.atomic():
        _reopen(locked(turn), **fields)


def _reopen(held: Turn, **fields: object) -> None:
    fields["observed_at"] = timezone.now()
    if held.status == Turn.Status.ANSWERING:
        raise TurnUnfinished(_("This reply is still being written: it can be judged when it is whole."))
    if held.status == Turn.Status.OBSERVED or not (held.learns and held.session.learns):
        update(Turn, {"pk": held.pk}, fields)
        held.announce()
    else:
        held.move(Turn.Status.OBSERVED, **fields)


def locked(turn: Turn, session: Session | None = None) -> Turn:
    """The turn as it is now, until the transaction ends this caller's alone; its session first, as everywhere, so
    that of two who want both one waits for the other."""
    session = session or sessions.locked(turn.session_id)
    held = LOCKED.first(turn.pk)
    if held is None:
        raise Turn.DoesNotExist(f"Turn {turn.pk} was deleted.")
    held.session = session
    return held


LOCKED: Prepared[Turn] = Prepared(lambda pk: Turn.objects.select_for_update().defer(*LONG).filter(pk=pk).order_by())


@transaction.atomic
def set_learning(session: Session, learns: bool) -> None:
    """Put a session on or off the record. Off: verdicts that stand are opened again, so that what they made of
    these turns is taken back where it was not yet learned."""
    if learns:
        Session.objects.filter(pk=session.pk).update(learns=True)
    else:
        # The row first: a verdict that is being written locks it too, so it is either seen here or sees this.
        Session.objects.filter(pk=session.pk).update(learns=False)
        for turn in session.turns.filter(status=Turn.Status.JUDGED).select_for_update():
            turn.move(Turn.Status.OBSERVED, observed_at=timezone.now())
    session.learns = learns
    for turn in session.turns.exclude(status=Turn.Status.OBSERVED):
        turn.announce()


def title_of(said: Sequence[Message]) -> str:
    """What a conversation is called until a person names it: the first words said, without Markdown's marks."""
    said_first = next((keeping.text_of(message["content"]) for message in said if message.get("content")), "")
    words, _ = split_files(said_first)
    return shorten(markdown.plain(words[:TITLE_FROM]))


def shorten(words: str) -> str:
    """Words as a title: one line, each character of which is seen, cut behind a word."""
    line = visible(" ".join(words.split()), one_line=True)
    return line if len(line) <= 60 else line[:60].rsplit(" ", 1)[0] + "…"
