"""Serve episodes to the programs that play them: open an attempt, claim its actions, close it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router

from chat.api.access import Bearer, key_of
from episodes import attempts, exams
from episodes.attempts import Asked, Result
from episodes.models import Episode, Exam
from episodes.shapes import (
    ActionAsked,
    ActionClaimed,
    EpisodeAsked,
    EpisodeEnded,
    EpisodeOpened,
    EpisodeShown,
    ExamClosed,
    ExamList,
    ExamShown,
    LeaseShown,
)

router = Router(auth=Bearer("episodes"), tags=["episodes"])


@router.post("/episodes", summary="Begin an attempt at a task", response=EpisodeOpened)
async def open_episode(request: HttpRequest, body: EpisodeAsked) -> dict[str, Any]:
    """An id, and a key that is good for this episode alone. Asked again before anything was said in it, the same
    episode with another key; afterwards 409."""
    return await sync_to_async(opened)(request, Asked(**body.model_dump()))


@router.get("/episodes/exams", summary="What the gate asks to have played", response=ExamList)
async def list_exams(request: HttpRequest) -> dict[str, Any]:
    """Held-out tasks that this key's person is asked to play, with a candidate and with what it is held against. Play
    them as episodes: `split` heldout, `model` one of `models`, and group names that begin with `groups`."""
    return {
        "object": "list",
        "data": await sync_to_async(lambda: [describe_exam(one) for one in exams.list_open(key_of(request))])(),
    }


@router.post("/episodes/exams/{row:exam}/close", summary="No more of an exam is played", response=ExamShown)
async def close_exam(request: HttpRequest, exam: int, body: ExamClosed) -> dict[str, Any]:
    """The gate reads what there is. It needs no word where all was played."""
    return await sync_to_async(lambda: describe_exam(exams.close(key_of(request), exam, body.reason)))()


@router.get("/episodes/{uuid:episode}", summary="One episode, and how far its group is", response=EpisodeShown)
async def show_episode(request: HttpRequest, episode: UUID) -> dict[str, Any]:
    """Of this key's person, whichever of their keys opened it."""
    return await sync_to_async(lambda: describe(attempts.find(key_of(request), episode)))()


@router.post("/episodes/{uuid:episode}/close", summary="An attempt is over", response=EpisodeShown)
async def close_episode(request: HttpRequest, episode: UUID, body: EpisodeEnded) -> dict[str, Any]:
    """What it came to. The same once more changes nothing; anything else is 409."""
    result = Result(
        body.status, body.outcome, body.truncated_by or "", body.checks, body.cost, body.scores, body.reason
    )
    return await sync_to_async(lambda: describe(attempts.close(key_of(request), episode, result)))()


@router.post("/episodes/{uuid:episode}/alive", summary="Its player is alive", response=LeaseShown)
async def renew_lease(request: HttpRequest, episode: UUID) -> dict[str, Any]:
    """The lease begins anew. For what asks for nothing meanwhile: a player whose turn has not come, a world that works
    for long."""
    row = await sync_to_async(attempts.renew)(key_of(request), episode)
    return {"object": "episode.lease", "id": str(row.pk), "lease_until": seconds(row.lease_until)}


@router.post("/episodes/{uuid:episode}/actions", summary="May this action happen?", response=ActionClaimed)
async def claim_action(request: HttpRequest, episode: UUID, body: ActionAsked) -> dict[str, Any]:
    """Ask before anything is done in the world: `first` is true once for each episode, turn and call, so what a dead
    player may have done is not done again."""
    first = await sync_to_async(attempts.claim)(key_of(request), episode, body.turn, body.call)
    return {"object": "episode.action", "turn": body.turn, "call": body.call, "first": first}


def opened(request: HttpRequest, asked: Asked) -> dict[str, Any]:
    episode, secret = attempts.open_attempt(key_of(request), asked)
    return describe(episode) | {"key": secret}


def describe(episode: Episode) -> dict[str, Any]:
    group, standing = episode.group, episode.group.standing()
    return {
        "object": "episode",
        "id": str(episode.pk),
        "group": {
            "name": group.name,
            "world": group.world,
            "task": group.task,
            "split": group.split,
            "attempts": group.attempts,
            "opened": standing.opened,
            "counted": standing.counted,
            "state": standing.state,
            "reason": standing.reason or None,
        },
        "attempt": episode.attempt,
        "model": str(group.checkpoint),
        "session": str(episode.session_id) if episode.session_id else None,
        "state": episode.status,
        "status": episode.ending or None,
        "outcome": episode.outcome,
        "truncated_by": episode.cut_by or None,
        "checks": episode.checks,
        "cost": episode.cost,
        "scores": episode.scores,
        "reason": episode.reason or None,
        "lease_until": seconds(episode.lease_until),
        "created": seconds(episode.created_at),
        "ended_at": seconds(episode.ended_at) if episode.ended_at else None,
    }


def describe_exam(exam: Exam) -> dict[str, Any]:
    return {
        "object": "episode.exam",
        "id": exam.pk,
        "world": exam.world,
        "split": "heldout",
        "tasks": exam.tasks,
        "attempts": exam.attempts,
        "seed": exam.seed,
        "models": [str(exam.candidate), str(exam.live)],
        "groups": exam.prefix,
        "state": "over" if exam.ended_at else "lapsed" if exam.lapsed_at else "open",
        "reason": exam.reason or None,
        "created": seconds(exam.created_at),
    }


def seconds(at: datetime) -> int:
    return int(at.timestamp())
