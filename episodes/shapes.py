"""Describe requests and answers about episodes for the API's schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from chat.api.sent import Sent
from chat.api.wire import storable
from core.visible import name_fault
from episodes.models import Episode

Status = Literal["solved", "failed", "truncated", "gave_up", "infra_error", "cancelled"]

MOST_CHECKS = 1000

MOST_SCORES = 1000
"""Steps of one attempt that its world may score."""


def visible(name: str) -> str:
    """Raises ValueError for a name with characters that are not seen."""
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(visible)]
Score = Annotated[float, Field(strict=True, ge=-1, le=1)]
Number = Annotated[float, Field(strict=True, ge=0, le=1e15)]


class Posted(Sent):
    """The body of a request about an episode: nothing unknown, and nothing that no database keeps."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, body: Any) -> Any:
        return storable(body)


class EpisodeAsked(Posted):
    world: Name
    task: Name
    split: Literal["train", "heldout"]
    group: Name
    """The player's name for the attempts that are compared: one task, tried by the same weights."""
    attempt: int = Field(strict=True, ge=0, lt=2**31)
    attempts: int | None = Field(None, strict=True, ge=1, lt=2**31)
    """How many the group is to have. Left out: it is done when those that were opened are."""
    lease_s: int = Field(600, strict=True, ge=5, le=86_400)
    """So many seconds without a sign of life, and its player is taken for dead."""
    model: str = Field("", max_length=200)
    """name@number of the checkpoint that plays the group. Left out: the one that answers this key."""

    @field_validator("attempts")
    @classmethod
    def _has_this_one(cls, attempts: int | None, field: ValidationInfo) -> int | None:
        if attempts is not None and field.data.get("attempt", 0) >= attempts:
            raise ValueError("attempts are counted from 0: attempt must be less than attempts")
        return attempts


class EpisodeEnded(Posted):
    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "solved", "outcome": 1.0}]})

    status: Status
    outcome: float | None = Field(None, strict=True, ge=-1, le=1, validate_default=True)
    """-1 to 1; null for infra_error and cancelled, and where a truncated attempt has none."""
    truncated_by: Literal["horizon", "context"] | None = Field(None, validate_default=True)
    """What cut a truncated attempt off: its last step (so if left out), or the model's window."""
    checks: dict[Name, Annotated[bool, Field(strict=True)] | Annotated[float, Field(strict=True)]] = Field(
        default_factory=dict, max_length=MOST_CHECKS
    )
    """What the outcome was made of, by name."""
    cost: dict[Name, Number] = Field(default_factory=dict, max_length=16)
    """Tokens, seconds, …, as the player counts them."""
    scores: dict[Annotated[str, Field(min_length=1, max_length=64)], Score] = Field(
        default_factory=dict, max_length=MOST_SCORES
    )
    """What the world itself, by rule, says of single steps: the answer's id, and −1 to 1."""
    reason: str = Field("", max_length=400, validate_default=True)
    """Why the world failed, or the attempt was called off, as people read it on its page."""

    @field_validator("outcome")
    @classmethod
    def _fits_the_status(cls, outcome: float | None, field: ValidationInfo) -> float | None:
        status = field.data.get("status")
        if outcome is None and status in Episode.SETTLED:
            raise ValueError(f"an attempt that is {status} has an outcome from -1 to 1")
        if outcome is not None and status in Episode.UNSCORED:
            raise ValueError(f"{status} says nothing of the agent, so it has no outcome: leave it out")
        return outcome

    @field_validator("truncated_by")
    @classmethod
    def _was_truncated(cls, cut_by: str | None, field: ValidationInfo) -> str | None:
        status = field.data.get("status")
        if status == Episode.Ending.TRUNCATED:
            return cut_by or Episode.Cut.HORIZON.value
        if cut_by is not None and status is not None:
            raise ValueError(f"an attempt that is {status} was not truncated")
        return None

    @field_validator("reason")
    @classmethod
    def _is_void(cls, reason: str, field: ValidationInfo) -> str:
        status = field.data.get("status")
        if reason and status is not None and status not in Episode.UNSCORED:
            raise ValueError(f"an attempt that is {status} gives its reasons as checks")
        return reason


class ExamClosed(Posted):
    reason: str = Field("", max_length=400)
    """Why no more is played: the world has fewer tasks, or is not there."""


class ActionAsked(Posted):
    turn: str = Field(max_length=200)
    """The id of the answer that asked for it."""
    call: str = Field("", max_length=200)
    """The id of its tool call; left out where the answer's words are the action."""


class GroupShown(BaseModel):
    name: str
    world: str
    task: str
    split: Literal["train", "heldout"]
    attempts: int | None = Field(description="How many it is to have, where that was said.")
    opened: int
    counted: int = Field(description="Attempts that ended and say something of the agent.")
    state: Literal["playing", "complete", "short"]
    reason: str | None = Field(description="Why it is short: then nothing of it teaches.")


class EpisodeShown(BaseModel):
    object: Literal["episode"]
    id: str
    group: GroupShown
    attempt: int
    model: str = Field(description="The checkpoint that plays.")
    session: str | None = Field(description="The session whose turns are its own; null once that was deleted.")
    state: Literal["playing", "scored", "learned", "void"]
    status: Status | None = Field(description="How it ended; null while it is played.")
    outcome: float | None
    truncated_by: Literal["horizon", "context"] | None
    checks: dict[str, bool | float]
    cost: dict[str, float]
    scores: dict[str, float] = Field(description="What its world says of single steps, by the answer's id.")
    reason: str | None = Field(description="Why it says nothing of the agent, as Talkback or its player said.")
    lease_until: int
    created: int
    ended_at: int | None


class EpisodeOpened(EpisodeShown):
    key: str = Field(description="Opens the doors for this episode alone, until it ends. It is shown this once.")


class ActionClaimed(BaseModel):
    object: Literal["episode.action"]
    turn: str
    call: str
    first: bool = Field(description="True once: do it then, and never otherwise.")


class LeaseShown(BaseModel):
    object: Literal["episode.lease"]
    id: str
    lease_until: int = Field(description="Seconds since 1970.")


class ExamShown(BaseModel):
    object: Literal["episode.exam"]
    id: int
    world: str
    split: Literal["heldout"]
    tasks: int = Field(description="How many different held-out tasks, the same for each model.")
    attempts: int = Field(description="At each task, by each model.")
    seed: int = Field(description="Decides which tasks, and all that is drawn in an attempt, for each model.")
    models: list[str] = Field(description="Who plays: the candidate, and what it is held against.")
    groups: str = Field(description="How the names of its groups begin.")
    state: Literal["open", "lapsed", "over"] = Field(
        description="lapsed: the gate went on without it, and what is played still counts while nothing is decided."
    )
    reason: str | None
    created: int


class ExamList(BaseModel):
    object: Literal["list"]
    data: list[ExamShown]
