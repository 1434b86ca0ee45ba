"""Corrected questions asked again: what a candidate that learned from a correction says to the same question now.

They decide nothing. They are what a person looks at first, and so each goes with its turn, and with its place on the
record: a person reads here only what they may read there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from chat import clients
from chat.models import Turn
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from gate import exam_requests
from gate.models import AskedAgain, Examination
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import EngineRefused
from gpu_workers.types import Completion
from judge.hints import hint_words
from judge.models import Judgement
from judge.samples import personal_holdout, pooling
from judge.votes.evidence import text_of
from training.models import Run

LOOKED_THROUGH = 60
"""Lessons among which different questions are looked for: many ask the same thing twice."""

MOST_TOKENS = 256
"""Where an answer is cut, if the turn's own was not cut before."""

LIVE, CANDIDATE = "live", "candidate"

BY_PEOPLE = (Feedback.Kind.REWRITE, Feedback.Kind.GUIDANCE)


@dataclass(frozen=True)
class Answers:
    """What both said to one question. Where what answers wrote the corrected reply itself, that is what it said."""

    live: str
    candidate: str
    cut: tuple[str, ...] = ()


def find_questions(run: Run | None, most: int, context_length: int) -> list[Turn]:
    """The turns whose corrections this run learned, each question once: those corrected in a person's own words first,
    the newest first. None off the record, and none that would not fit the model's window."""
    if run is None or not most:
        return []
    said = Feedback.objects.standing().filter(turn=OuterRef("turn"), kind__in=BY_PEOPLE)
    taught = pooling.judged(run).annotate(by_people=Exists(said)).filter(Q(by_people=True) | ~Q(hint=""))
    taught = taught.filter(turn__learns=True, turn__session__learns=True).exclude(turn__prompt_ids=[])
    rows = taught.order_by("-by_people", "-turn__created_at", "-pk").values_list("turn", flat=True)[:LOOKED_THROUGH]
    turns = Turn.objects.select_related("checkpoint", "session").in_bulk(list(dict.fromkeys(rows)))
    found: dict[str, Turn] = {}
    for pk in dict.fromkeys(rows):
        turn = turns[pk]
        if len(turn.prompt_ids) + turn.sampled_with(MOST_TOKENS).max_new_tokens <= context_length:
            found.setdefault(question_of(turn), turn)
    return list(found.values())[:most]


def question_of(turn: Turn) -> str:
    """What the person asked, without what a client put around it."""
    rules = clients.of(turn.client)
    asked = (text_of(message) for message in reversed(turn.messages) if message.get("role") == "user")
    return next((rules.words(text) or text for text in asked if text and not rules.is_internal(text)), "")


def lesson_of(judgement: Judgement | None, said: Sequence[Feedback]) -> tuple[str, str]:
    """(kind, words) of what the turn taught: rewrite, guidance or hint. The person's own words come before a judge's.

    >>> lesson_of(Judgement(hint="Be brief."), [])
    ('hint', 'Be brief.')
    """
    for kind in BY_PEOPLE:
        for one in said:
            if one.kind == kind and one.text.strip():
                return str(kind), one.text.strip()
    hint = judgement.hint if judgement is not None else ""
    return ("", "") if not hint or hint_words.is_rewrite(hint) else ("hint", hint)


def ask(turns: Sequence[Turn], exam: Examination, engine: Engine) -> None:
    """Ask these questions of the candidate, and of what answers where other weights wrote the corrected reply; keep
    what both said. A question that the engine refuses is left out."""

    async def both(turn: Turn) -> Answers | None:
        sampling = replace(turn.sampled_with(MOST_TOKENS), seed=int(personal_holdout.place(turn.pk) * 2**31))

        async def reply(who: Checkpoint) -> Completion:
            return await exam_requests.generate(who, engine, turn.prompt_ids, sampling)

        with suppress(EngineRefused):
            if turn.checkpoint_id == exam.against_id:
                said = await reply(exam.checkpoint)
                sides = {LIVE: (turn.text, turn.finish_reason), CANDIDATE: (said.text, said.finish_reason)}
            else:
                before, said = await asyncio.gather(reply(exam.against), reply(exam.checkpoint))
                sides = {LIVE: (before.text, before.finish_reason), CANDIDATE: (said.text, said.finish_reason)}
            cut = tuple(side for side, (_, reason) in sides.items() if reason == "length")
            return Answers(sides[LIVE][0].strip(), sides[CANDIDATE][0].strip(), cut)
        return None

    async def all_of_them() -> list[Answers | None]:
        return list(await asyncio.gather(*map(both, turns)))

    for turn, answers in zip(turns, exam_requests.run(engine, all_of_them), strict=True):
        if answers is not None:
            _keep(turn, exam, answers)


def _keep(turn: Turn, exam: Examination, answers: Answers) -> None:
    """Write it down, once, if the turn is still there and still on the record."""
    row = AskedAgain(examination=exam, turn=turn, live=answers.live, candidate=answers.candidate, cut=list(answers.cut))
    with transaction.atomic():
        on_record = Turn.objects.filter(pk=turn.pk, learns=True, session__learns=True)
        if on_record.select_for_update(of=("self",)).exists():
            AskedAgain.objects.bulk_create([row], ignore_conflicts=True)


def prune() -> int:
    """Delete what is about turns that are off the record by now. Returns how many."""
    off = Q(turn__learns=False) | Q(turn__session__learns=False)
    gone, _ = AskedAgain.objects.filter(off).delete()
    return gone
