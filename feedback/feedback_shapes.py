"""Describe answers about feedback for the API's schema."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Mark(BaseModel):
    start: int = Field(description="The first of its characters, counted from 0 in the reply's words.")
    end: int = Field(description="The first character behind it.")
    text: str
    good: bool


class Standing(BaseModel):
    """One person's standing feedback on one completion."""

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


class Wished(BaseModel):
    """The wish that guidance comes to. What speaks of an earlier reply waits, and nothing of it is taught."""

    said: str = Field(description="The guidance, in its person's own words.")
    text: str | None = Field(description="What is taught; null while it waits for its person's wording.")
    waits: bool
    suggestion: str | None = Field(description="Where it waits: the best try. Send guidance anew, so worded or better.")
    refers_back: list[str] = Field(description="Where it waits: the words that speak of an earlier reply.")


class Following(Far):
    wish: Wished | None = Field(description="What is taught of this key's owner's guidance; null without any.")
    checkpoints: list[str] = Field(description="Those that the turn has reached already, oldest first.")


class Given(Standing):
    object: Literal["feedback"]
    completion_id: str
    learning: Following
