"""Answer programs that ask what became of a turn: its journey, and the rows behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest
from ninja import Router

from chat.api.access import Bearer, key_of
from chat.api.session_routes import describe_session, find_session
from chat.api_keys import ApiKey
from chat.models import Turn
from checkpoints.models import Checkpoint
from feedback.api import CompletionNotFound, standing_of
from feedback.models import Feedback
from gpu_workers.types import storable
from judge.models import Judgement
from judge.samples import ledger
from judge.samples.sample_rows import Reason
from training.models import Run, Sample
from training.monitoring import limits
from webapp import api_shapes
from webapp.journeys import known as journeys
from webapp.journeys.ballots import Ballot
from webapp.journeys.stages import Batch, Journey
from webapp.journeys.verdict_words import beside
from webapp.people import taught

MOST_TURNS = 100
"""How many of a session's turns are told of, newest first."""

HEAVY = ("prompt_ids", "logprobs", "tools", "text", "message")
"""Columns of a turn that nothing here reads."""

router = Router(auth=Bearer("feedback"), tags=["feedback"])


@router.get(
    "/completions/{completion_id}/learning", summary="What became of one completion", response=api_shapes.Learning
)
async def learning(request: HttpRequest, completion_id: str) -> dict[str, Any]:
    """Where it stands on its way into a checkpoint, what decided it, and which checkpoints it has reached."""
    key = key_of(request)
    return await sync_to_async(told)(key, completion_id)


@router.get("/sessions/{path:session}", summary="One session and its turns", response=api_shapes.Session)
async def session(request: HttpRequest, session: str) -> dict[str, Any]:
    """By our id, or by the client's own name for it. The newest turns, at most a hundred."""
    key = key_of(request)
    return await sync_to_async(shown)(key, session)


def follows(turn: Turn, by: User) -> dict[str, Any]:
    """How far a turn has come, as the answer to feedback says it, the wish that this person's guidance comes to, and
    which checkpoints it reached: a person who takes back what was learned sees where it is."""
    known = journeys.known([turn])
    judgement = known.judgements.get(turn.pk)
    wish = taught.told(taught.guidance_of(turn, by))
    far = in_brief(known.journey(turn))
    return far | {"wish": wish, "checkpoints": [row["name"] for row in reached(judgement)]}


def in_brief(far: Journey) -> dict[str, Any]:
    return {"stage": far.stage, "label": far.label, "detail": far.detail}


def told(key: ApiKey, completion_id: str) -> dict[str, Any]:
    """All there is to tell of one completion, in a fixed number of queries. Raises CompletionNotFound."""
    completion_id = storable(completion_id)
    found = Turn.objects.visible_to(key.user).select_related("session", "checkpoint").defer(*HEAVY)
    turn = found.filter(completion_id=completion_id).first()
    if turn is None:
        raise CompletionNotFound(f"There is no completion {completion_id!r} that this key may ask about.")
    known = journeys.known([turn])
    far, judgement = known.journey(turn), known.judgements.get(turn.pk)
    sample = judgement.sample if judgement else None
    said = list(Feedback.objects.standing().filter(turn=turn, by=key.user))
    guidance = next((one for one in said if one.kind == Feedback.Kind.GUIDANCE), None)
    return {
        "object": "completion.learning",
        "id": turn.completion_id,
        "created": int(turn.created_at.timestamp()),
        "model": str(turn.checkpoint),
        "session": describe_session(turn.session),
        **in_brief(far),
        "status": turn.status,
        "finish_reason": turn.finish_reason or None,
        "sorted": sorting(turn),
        "next_state": came_back(turn),
        "feedback": standing_of(said, turn),
        "wish": taught.told(guidance),
        "votes": counted(known.ballots.get(turn.pk, Ballot())),
        "verdict": verdict(judgement),
        "reason": reason(turn, judgement),
        "sample": drafted(sample, known.batch(sample)),
        "run": ran(sample.run if sample else None),
        "checkpoints": reached(judgement),
    }


def sorting(turn: Turn) -> dict[str, Any]:
    """Main line or side, and who said so."""
    return {
        "line": turn.line,
        "kind": turn.kind or None,
        "rule": turn.rule or None,
        "by": "person" if turn.sorted_by_id else "rule",
        "learns": turn.learns and turn.session.learns,
    }


def came_back(turn: Turn) -> dict[str, Any] | None:
    """Whose messages came back after the reply, and how many; None while none has."""
    roles = {str(message.get("role", "user")) for message in turn.next_state}
    if not roles:
        return None
    return {"role": "tool" if "tool" in roles else "user", "messages": len(turn.next_state)}


def counted(ballot: Ballot) -> dict[str, Any]:
    scores = [score for score in ballot.scores if score is not None]
    failed_scores = len(ballot.scores) - len(scores)
    return {
        "score": {
            "good": scores.count(1),
            "bad": scores.count(-1),
            "neutral": scores.count(0),
            "failed": failed_scores,
        },
        "hint": {"offered": ballot.hints, "none": ballot.hintless, "failed": ballot.failed - failed_scores},
    }


def verdict(judgement: Judgement | None) -> dict[str, Any] | None:
    """The reward and the hint, and who decided each; None before there is a verdict."""
    if judgement is None:
        return None
    return {
        "reward": judgement.reward,
        "reward_from": judgement.reward_from or None,
        "confidence": judgement.confidence,
        "hint": judgement.hint or None,
        "hint_from": judgement.hint_from or None,
        "precedence": beside(judgement) or None,
        "note": noted(judgement) if judgement.reason else None,
        "judged": int(judgement.judged_at.timestamp()),
    }


def reason(turn: Turn, judgement: Judgement | None) -> dict[str, str] | None:
    """Why there is no sample that teaches, as one word of a short list and as a sentence; None where there is one.

    Before the verdict the word is `writing`, `unanswered`, `judging` or `closed`, unless it is certain already that
    nothing said so far can teach by the turn.
    """
    said = ledger.told(turn, judgement)
    return None if said.is_sample else worded(said.code, said.sentence)


def noted(judgement: Judgement) -> dict[str, str]:
    """A verdict's note, with its word: why it made no sample, or what of the evidence did not go into one."""
    return worded(judgement.reason_code or Reason.code_of(judgement.reason), judgement.reason)


def worded(code: str, sentence: str) -> dict[str, str]:
    return {"code": code, "sentence": str(sentence)}


def drafted(sample: Sample | None, batch: Batch) -> dict[str, Any] | None:
    """The sample, with its place in the next batch while it waits for one."""
    if sample is None:
        return None
    place = batch.places.get(sample.pk) if sample.status == Sample.Status.READY else None
    filling = batch.filling if place is not None else None
    return {
        "status": sample.status,
        "reward": sample.reward,
        "has_hint": sample.has_teacher,
        "place": place,
        "batch_size": filling.size if filling else None,
        "wanting": filling.wanting if filling else None,
        "corrections": filling.unwritten if filling else None,
    }


def ran(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    progress = run.progress or {}
    return {
        "id": run.pk,
        "status": run.status,
        "phase": progress.get("phase"),
        "done": progress.get("done"),
        "total": progress.get("total"),
        "eta_s": progress.get("eta_s"),
        "limits_passed": [one.limit.key for one in limits.passed(run.metrics, run.recipe)],
    }


def reached(judgement: Judgement | None) -> list[dict[str, Any]]:
    """The checkpoints that were trained on the turn, and those that were trained on from them; oldest first."""
    if judgement is None:
        return []
    made = [pk for pk in (judgement.sample_id, judgement.learned_id) if pk]
    first = set(_learned_in(made, judgement.turn_id)) if made else set()
    if not first:
        return []
    family: set[int] = set()
    rows = []
    for row in Checkpoint.objects.order_by("number").only("number", "kind", "status", "parent", "moved_at"):
        if row.pk in first or row.parent_id in family:  # a parent has the smaller number
            family.add(row.pk)
            rows.append(row)
    return [
        {
            "number": row.number,
            "name": str(row),
            "status": row.status,
            "learned_here": row.pk in first,
            "live_since": int(row.moved_at.timestamp()) if row.status == Checkpoint.Status.LIVE else None,
        }
        for row in rows
    ]


def _learned_in(made: list[int], turn: UUID) -> Iterator[int]:
    """Keys of the checkpoints whose own run learned these samples, or others of the turn's. A clean line's run learns
    samples once more, which stay those of the run that it repeats, and leaves some of those out."""
    rows = Checkpoint.objects.order_by()
    own = rows.filter(Q(run__samples__in=made) | Q(run__samples__origin=turn))
    repeated = rows.filter(Q(run__again__samples__in=made) | Q(run__again__samples__origin=turn))
    of_both = own.values_list("pk", "run__learned", "run__samples").union(
        repeated.values_list("pk", "run__learned", "run__again__samples"), all=True
    )
    return (pk for pk, learned, sample in of_both if not learned or sample in learned)


def shown(key: ApiKey, name: str) -> dict[str, Any]:
    """One session, and how far each of its newest turns has come. Raises SessionNotFound."""
    session = find_session(key, name)
    newest = session.turns.select_related("session", "checkpoint").defer(*HEAVY, "messages", "response_ids")
    turns = list(newest.order_by("-position")[:MOST_TURNS])
    far = journeys.journeys(turns)
    return describe_session(session) | {"turns": [listed(turn, far) for turn in turns]}


def listed(turn: Turn, far: dict[UUID, Journey]) -> dict[str, Any]:
    return {
        "id": turn.completion_id,
        "created": int(turn.created_at.timestamp()),
        "model": str(turn.checkpoint),
        "line": turn.line,
        "kind": turn.kind or None,
        "status": turn.status,
        **in_brief(far[turn.pk]),
    }
