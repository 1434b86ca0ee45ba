"""Serve feedback through the API: store what was said of a completion, by its id, without a new turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from ninja import Router
from pydantic import AliasChoices, ConfigDict, Field, field_validator, model_validator

from chat import turns
from chat.api.access import Bearer, key_of
from chat.api.sent import Sent
from chat.api.wire import Quick, storable
from chat.api_keys import ApiKey
from chat.models import Turn
from core.errors import TalkbackError
from feedback import reasons, spans
from feedback.feedback_shapes import Given
from feedback.forms import LONGEST
from feedback.models import Feedback, MarksInvalid, Receipt
from feedback.spans import Span

OUTPUT_KEPT = 8000
"""Characters of a test's output that are kept: its end, which says what failed."""


class CompletionNotFound(TalkbackError):
    """The key may speak of no such completion."""

    code, status = "completion_not_found", 404


class ThumbMissing(TalkbackError):
    """Reason tags were sent, and no thumb stands that they could be the reason of."""

    code, status = "thumb_missing", 400


class Marking(Sent):
    """Words to mark: from `start` up to and without `end`, or the `occurrence`-th place where the reply says `text`."""

    model_config = ConfigDict(extra="forbid")

    good: bool
    start: int | None = Field(None, ge=0)
    end: int | None = Field(None, ge=1)
    text: str | None = Field(None, max_length=LONGEST)
    occurrence: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _says_where(self) -> Marking:
        by_place = self.start is not None and self.end is not None
        if by_place == (self.text is not None) or (self.start is None) != (self.end is None):
            raise ValueError("a mark says where by start and end, or by text")
        if by_place and "occurrence" in self.model_fields_set:
            raise ValueError("occurrence goes with text")
        return self

    def on(self, text: str) -> Span:
        """Its range in the reply. Raises ValueError where it has none."""
        sign = 1 if self.good else -1
        if self.text is not None:
            return (*spans.find_quote(text, self.text, self.occurrence), sign)
        assert self.start is not None
        assert self.end is not None
        return (*spans.check_range(self.start, self.end, len(text)), sign)


class Saying(Sent):
    """The body of a feedback request. What is left out stays; null (or "none", or an empty text) takes it back."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"completion_id": "chatcmpl-1", "thumb": "down", "guidance": "Answer in one sentence."}]
        },
    )
    null_says: ClassVar = frozenset(
        ("thumb", "tags", "comment", "marks", "correction", "guidance", "verdict", "exit_code", "output")
    )

    completion_id: str = Field(validation_alias=AliasChoices("completion_id", "id"))
    """The id of the answer it is about; `id` means the same."""
    thumb: Literal["up", "down", "none"] | None = None
    tags: Quick[str] | None = None
    """Why, in a word or two each. They go with a thumb, given here or standing."""
    comment: str | None = Field(None, max_length=LONGEST)
    """Anything else, in words. It goes with a thumb, given here or standing."""
    marks: Quick[Marking] | None = None
    """Words of the reply that are good or bad: all that are marked from now on. Where two overlap the later wins."""
    correction: str | None = Field(None, max_length=LONGEST)
    """What the reply should have said."""
    guidance: str | None = Field(None, max_length=LONGEST)
    """What to do next time; the hint, word for word."""
    verdict: Literal["passed", "failed", "none"] | None = None
    """What a test of the reply came to. Where only `exit_code` is given: 0 has passed, anything else failed."""
    exit_code: int | None = Field(None, ge=-(2**31), lt=2**32)
    output: str | None = None
    """What the test wrote; its end is kept."""
    withdraw: bool = False
    """Takes back all that stands."""

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, body: Any) -> Any:
        if isinstance(body, dict) and len(body) > 2 * len(cls.model_fields):
            raise ValueError(f"this has {len(body)} fields, and feedback knows {len(cls.model_fields)}")
        return storable(body)

    @field_validator("tags")
    @classmethod
    def _tidy(cls, tags: list[str] | None) -> list[str] | None:
        return None if tags is None else reasons.tidy_tags(tags)

    @model_validator(mode="after")
    def _says_something(self) -> Saying:
        said = self.model_fields_set - {"completion_id", "withdraw"}
        if self.withdraw and said:
            raise ValueError("withdraw takes back all that stands: send it alone")
        if not self.withdraw and not said:
            raise ValueError("give a thumb, marks, a correction, a guidance or a verdict, or withdraw")
        if "thumb" in said and not self.is_thumb:
            if self.tags:
                raise ValueError("tags go with a thumb: leave them out, or give one")
            if self.comment:
                raise ValueError("a comment goes with a thumb: leave it out, or give one")
        if self.marks and len(self.marks) > spans.MOST:
            raise ValueError(f"a reply may have at most {spans.MOST} marks; these are {len(self.marks)}")
        if self.output is not None and not self.tested:
            raise ValueError("output goes with a verdict or an exit code")
        return self

    @property
    def is_thumb(self) -> bool:
        return self.thumb in ("up", "down")

    @property
    def tested(self) -> int:
        """1 passed, -1 failed, 0 no word of a test. The rule: the verdict where there is one, else the exit code."""
        if "verdict" in self.model_fields_set:
            return {"passed": 1, "failed": -1}.get(self.verdict or "", 0)
        return 0 if self.exit_code is None else 1 if self.exit_code == 0 else -1

    def beside_thumb(self) -> dict[str, Any]:
        """What this request says of a thumb's tags and comment, as `Feedback.objects.give` takes it."""
        given = self.model_fields_set
        said: dict[str, Any] = {"tags": self.tags or []} if "tags" in given else {}
        return said | ({"text": (self.comment or "").strip()} if "comment" in given else {})

    def spoken(self) -> dict[str, dict[str, Any]]:
        """Kind to what `Feedback.objects.give` takes, for what this request speaks of; empty takes the kind back."""
        if self.withdraw:
            return {kind: {} for kind in Feedback.Kind.values}
        given = self.model_fields_set
        said: dict[str, dict[str, Any]] = {}
        if "thumb" in given:
            thumb = {"value": 1 if self.thumb == "up" else -1, **self.beside_thumb()}
            said[Feedback.Kind.THUMB] = thumb if self.is_thumb else {}
        if "correction" in given:
            said[Feedback.Kind.REWRITE] = strip_text(self.correction)
        if "guidance" in given:
            said[Feedback.Kind.GUIDANCE] = strip_text(self.guidance)
        if given & {"verdict", "exit_code"}:
            text = None if self.output is None else keep_end(self.output)
            told = {"value": self.tested, "text": text, "exit_code": self.exit_code}
            said[Feedback.Kind.VERDICT] = told if self.tested else {}
        return said


def strip_text(text: str | None) -> dict[str, Any]:
    return {"text": text.strip()} if text and text.strip() else {}


def keep_end(output: str) -> str:
    """The last of a test's output.

    >>> keep_end("one line")
    'one line'
    """
    if len(output) <= OUTPUT_KEPT:
        return output
    return f"({len(output) - OUTPUT_KEPT} characters left out)\n{output[-OUTPUT_KEPT:]}"


def routes(follows: Callable[[Turn, User], dict[str, Any]]) -> Router:
    """The routes of this room. `follows` tells how far a turn has come, and what is taught of this person's words on
    it: only those above this room know."""
    router = Router(auth=Bearer("feedback"), tags=["feedback"])

    @router.post("/feedback", summary="What a person or a test says of one completion", response=Given)
    async def give(request: HttpRequest, body: Saying) -> dict[str, Any]:
        """Sending the same again changes nothing; with an `Idempotency-Key`, even after something else was said.

        The answer says what stands now, and how far the turn has come. Feedback on what never teaches is kept all
        the same, and the answer says so.
        """
        key = key_of(request)
        retry = request.headers.get("Idempotency-Key", "")
        turn = await sync_to_async(say)(key, body, retry)
        return await sync_to_async(describe_turn)(turn, key.user, follows)

    return router


@transaction.atomic
def say(key: ApiKey, body: Saying, retry: str = "") -> Turn:
    """Carry out what is said, all or nothing. The turn it was said of.

    `retry` is the request's Idempotency-Key: one that was carried out before is not carried out again, whatever was
    said since. Raises CompletionNotFound, KeyReused, MarksInvalid, ThumbMissing or TurnUnfinished.
    """
    turn = Turn.objects.visible_to(key.user).only("session_id").filter(completion_id=body.completion_id).first()
    if turn is None:
        raise CompletionNotFound(f"There is no completion {body.completion_id!r} that this key may speak of.")
    # The turn first: whatever is written of it points to it, and two who hold on to it both could not lock it after.
    turn = turns.locked(turn)
    saying = body.model_dump_json(exclude_unset=True).encode()
    if retry and not Receipt.objects.is_new(turn, key=f"{key.pk} {retry}", body=saying):
        return turn
    for kind, said in body.spoken().items():
        if said:
            Feedback.objects.give(turn, by=key.user, kind=kind, **said)
        else:
            Feedback.objects.withdraw(turn, by=key.user, kind=kind)
    if "marks" in body.model_fields_set:
        mark(turn, key.user, body.marks or [])
    if "thumb" not in body.model_fields_set and (said := body.beside_thumb()):
        explain(turn, key.user, said)
    return turn


def mark(turn: Turn, by: User, marks: list[Marking]) -> None:
    """Have these words marked, and no others. Raises MarksInvalid."""
    try:
        wanted = [one.on(turn.text) for one in marks]
    except ValueError as error:
        raise MarksInvalid(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    if wanted:
        Feedback.objects.give(turn, by=by, kind=Feedback.Kind.MARKS, spans=wanted)
    else:
        Feedback.objects.withdraw(turn, by=by, kind=Feedback.Kind.MARKS)


def explain(turn: Turn, by: User, said: dict[str, Any]) -> None:
    """Say why, of the thumb that stands. Raises ThumbMissing without one."""
    if Feedback.objects.say_why(turn, by=by, **said) is None and any(said.values()):
        raise ThumbMissing("Tags and comments say why a thumb was given, and none stands: send thumb with them.")


def describe_turn(turn: Turn, by: User, follows: Callable[[Turn, User], dict[str, Any]]) -> dict[str, Any]:
    turn = Turn.objects.select_related("session").get(pk=turn.pk)
    standing = standing_of(Feedback.objects.standing().filter(turn=turn, by=by), turn)
    return {"object": "feedback", "completion_id": turn.completion_id, **standing, "learning": follows(turn, by)}


def standing_of(rows: Any, turn: Turn) -> dict[str, Any]:
    """What one person's standing words on a turn come to, as every answer of the API shows it."""
    stands = {row.kind: row for row in rows}
    kinds = ("thumb", "marks", "rewrite", "guidance", "verdict")
    thumb, marks, rewrite, guidance, verdict = (stands.get(kind) for kind in kinds)
    return {
        "thumb": {1: "up", -1: "down"}[thumb.value] if thumb else None,
        "tags": thumb.tags if thumb else [],
        "comment": (thumb.text or None) if thumb else None,
        "marks": [
            {"start": start, "end": end, "text": turn.text[start:end], "good": sign > 0}
            for start, end, sign in (marks.spans if marks else ())
        ],
        "correction": rewrite.text if rewrite else None,
        "guidance": guidance.text if guidance else None,
        "verdict": {1: "passed", -1: "failed"}[verdict.value] if verdict else None,
        "exit_code": verdict.exit_code if verdict else None,
        "output": verdict.text if verdict else None,
    }
