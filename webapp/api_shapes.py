"""Define the schema of what the API tells of turns and sessions."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from chat.api.session_routes import Described
from feedback.feedback_shapes import Far, Standing, Wished
from judge.samples import ledger

CODES = tuple(code for code in ledger.SENTENCES if code != ledger.Stands.SAMPLE.code)
"""Why a turn makes no sample, each in a word."""


class Noted(BaseModel):
    code: str = Field(description=f"One of {', '.join(CODES)}.")
    sentence: str


class Sorted(BaseModel):
    line: Literal["main", "side"]
    kind: str | None = Field(description="In its rule file's words: main, title, recap, heartbeat …")
    rule: str | None = Field(description="The rule that said so, as client/rule.")
    by: Literal["rule", "person"]
    learns: bool = Field(description="False: served only, whatever comes back.")


class NextState(BaseModel):
    role: Literal["user", "tool"]
    messages: int


class Scores(BaseModel):
    good: int
    bad: int
    neutral: int
    failed: int


class Hints(BaseModel):
    offered: int
    none: int
    failed: int


class Votes(BaseModel):
    score: Scores
    hint: Hints


class Verdict(BaseModel):
    reward: int | None = Field(description="-1, 0 or 1; null: undecided.")
    reward_from: str | None = Field(description="reviewer, thumb, marks, test, rule or votes: the first that spoke.")
    confidence: float | None
    hint: str | None
    hint_from: str | None = Field(description="reviewer, guidance, rewrite, said (the next message) or votes.")
    precedence: str | None = Field(description="Whose word it is, and whose outranks it, in a sentence.")
    note: Noted | None = Field(description="Why it made no sample, or what of the evidence went into none.")
    judged: int


class Sample(BaseModel):
    status: Literal["ready", "claimed", "trained", "stale"]
    reward: float
    has_hint: bool
    place: int | None = Field(
        description="Among those that wait for the next batch, from 1; null: a run left it, or it waits with its group."
    )
    batch_size: int | None
    wanting: int | None = Field(description="How many more samples the run begins with, whatever they are.")
    corrections: int | None = Field(description="With how many more corrections it begins once it is full.")


class Run(BaseModel):
    id: int
    status: Literal["queued", "running", "finished", "failed"]
    phase: str | None
    done: int | None
    total: int | None
    eta_s: float | None
    limits_passed: list[str] = Field(description="Which limits its figures passed; none: nothing is worrying.")


class Reached(BaseModel):
    number: int
    name: str
    status: Literal["candidate", "passed", "approved", "live", "retired", "rejected"]
    learned_here: bool = Field(description="False: it was trained on from one that learned the turn.")
    live_since: int | None


class Learning(Far):
    object: Literal["completion.learning"]
    id: str
    created: int
    model: str
    session: Described
    status: Literal["answering", "served", "observed", "judged", "closed"]
    finish_reason: str | None
    sorted: Sorted
    next_state: NextState | None = Field(description="What came back after the reply; null while nothing has.")
    feedback: Standing
    wish: Wished | None = Field(description="What is taught of this key's owner's guidance; null without any.")
    votes: Votes
    verdict: Verdict | None
    reason: Noted | None = Field(description="Why there is no sample that teaches; null where there is one.")
    sample: Sample | None
    run: Run | None
    checkpoints: list[Reached]


class Turn(Far):
    id: str
    created: int
    model: str
    line: Literal["main", "side"]
    kind: str | None
    status: Literal["answering", "served", "observed", "judged", "closed"]


class Session(Described):
    turns: list[Turn] = Field(description="The newest, at most a hundred.")
