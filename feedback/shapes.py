"""What answers about feedback look like, for the schema."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Mark(BaseModel):
    start: int = Field(description="The first of its characters, counted from 0 in the reply's words.")
    end: int = Field(description="The first character behind it.")
    text: str
    good: bool


class Standing(BaseModel):
    """What one person's standing words on one completion come to."""

    thumb: Literal["up", "down"] | None
    tags: list[str] = Field(description="Why, beside the thumb.")
    comment: str | None = Field(description="Anything else, beside the thumb.")
    marks: list[Mark] = Field(description="Words of the reply that are good or bad, in order and apart.")
    correction: str | None
    guidance: str | None
    verdict: Literal["passed", "failed"] | None
    exit_code: int | None
    output: str | None


class Far(BaseModel):
    """How far a turn has come. `stage` is for code; label and detail are for people and may be worded anew."""

    stage: Literal["writing", "served", "judging", "judged", "batch", "learning", "trained", "unused", "closed"]
    label: str
    detail: str


class Following(Far):
    checkpoints: list[str] = Field(description="Those that the turn has reached already, oldest first.")


class Given(Standing):
    object: Literal["feedback"]
    completion_id: str
    learning: Following
