"""Write conversations and what was learned from them, turn by turn: verdicts, votes, hints, samples, words to find."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import models

from benchmarks.seeding.amounts import Amounts, Draw, shares, write
from benchmarks.seeding.people import People
from benchmarks.seeding.weights import Weights
from chat.models import Session, Turn
from chat.search.keeping import is_found, passage_of
from chat.search.passages import Passage
from chat.search.words import index_words
from evaluation.models import BlindChoice, Shadow
from feedback.models import Feedback
from judge.models import Hint, Judgement, Overruling, Reading, Ruling, Vote
from training.models import Sample

REMEMBERED = 12
"""Exchanges of a conversation that a request repeats: longer ones would fill the disk with copies of copies."""

ORDER: tuple[type[models.Model], ...] = (
    Session, Turn, Passage, Sample, Judgement, Vote, Hint, Feedback, Overruling, Ruling, Reading, Shadow, BlindChoice,
)  # fmt: skip
"""Each after those that its rows name."""

NOT_TAUGHT = (
    ("no_signal", "nothing came back that says how it went"),
    ("neutral", "neutral, and no hint"),
    ("unclear", "unclear: the judge is not sure enough"),
    ("new_topic", "they turned to another subject, which says nothing of this reply"),
)
MOST_WAITING = 1 / 20
"""The share of hints that wait for a person, at the most."""


class Basket:
    """Rows that are not stored yet, by model."""

    def __init__(self) -> None:
        self.rows: dict[type[models.Model], list[Any]] = defaultdict(list)

    def put(self, row: Any) -> Any:
        self.rows[type(row)].append(row)
        return row

    def empty(self) -> None:
        for model in ORDER:
            write(self.rows.pop(model, []))


def seed_talk(amounts: Amounts, draw: Draw, people: People, weights: Weights) -> list[UUID]:
    """So many turns in so many chats, the longest of which are the administrator's and the talker's, who have two
    fifths and a fifth of all. The numbers of turns that people corrected, newest last."""
    basket, corrected = Basket(), []
    others = people.everyone[2:]
    for place, length in enumerate(shares(amounts.turns, amounts.chats)):
        owner = (
            (people.administrator, people.talker, people.administrator)[place % 5]
            if place % 5 < 3
            else others[place % len(others)]
        )
        corrected += _talk(basket, draw, people, weights, owner, place, length)
        if len(basket.rows[Turn]) > 4_000:
            basket.empty()
    basket.empty()
    return corrected


def _talk(
    basket: Basket, draw: Draw, people: People, weights: Weights, owner: Any, place: int, length: int
) -> list[UUID]:
    """One chat. Long ones go on for a month, and end at any time."""
    ends = draw.random.uniform(0.02, 0.999)
    begins = max(0.0, ends - 1 / 12)
    is_api = place % 10 == 9
    keys = [key for key in people.keys if key.user_id == owner.pk] if is_api else []
    folders = [one for one in people.folders if one.user_id == owner.pk] if place % 4 == 1 else []
    session = basket.put(
        Session(
            id=UUID(int=draw.random.getrandbits(128), version=4),
            user=owner, key=keys[place % len(keys)] if keys else None, external_id=f"talk-{place}" if keys else "",
            client="openclaw" if keys else "", named_by="header" if keys else "", title=draw.question()[:100],
            learns=place % 20 != 19, created_at=draw.moment(begins), active_at=draw.moment(ends),
            closed_at=draw.moment(ends) if is_api else None,
            folder=draw.random.choice(folders) if folders else None,
            pinned_at=draw.moment(ends) if place % 90 == 5 else None,
            archived_at=draw.moment(ends) if place % 25 == 6 else None,
            deleted_at=draw.now - timedelta(days=1) if place % 100 == 57 else None,
        )
    )  # fmt: skip
    if is_found(session):
        words = index_words(session.title)
        basket.put(Passage(user=owner, session=session, said=session.title, words=words, at=session.active_at))
    history: list[dict[str, Any]] = []
    asked, before, corrected = draw.question(), None, []
    for position in range(length):
        share = begins + (ends - begins) * (position + 1) / length
        is_side = bool(keys) and position % 20 == 7
        said = [*history[-2 * REMEMBERED :], {"role": "user", "content": asked}]
        follow_up = draw.question() if position + 1 < length else ""
        turn = _turn(draw, session, weights, position, share, said, follow_up, before, is_side)
        basket.put(turn)
        if is_found(session) and not is_side:
            basket.put(passage_of(turn, owner.pk))
        if not is_side and _judge(basket, draw, people, weights, turn, owner, share):
            corrected.append(turn.pk)
        if not is_side and not draw.chance(0.03):  # else the next one is another try at the same question
            history += [said[-1], {"role": "assistant", "content": turn.text}]
            before, asked = turn, follow_up
    return corrected


def _turn(
    draw: Draw,
    session: Session,
    weights: Weights,
    position: int,
    share: float,
    said: list[dict[str, Any]],
    follow_up: str,
    before: Turn | None,
    is_side: bool,
) -> Turn:
    pk, text, at = UUID(int=draw.random.getrandbits(128), version=4), draw.reply(), draw.moment(share)
    finish = "stop" if position % 30 else draw.random.choice(("length", "abort", "stop"))
    tokens = 20 + len(text) // 6
    is_judged = follow_up and finish == "stop" and not is_side
    return Turn(
        id=pk, completion_id=f"chatcmpl-{pk.hex}", session=session, follows=before, position=position,
        status="closed" if is_side or finish == "abort" else "judged" if is_judged else "served",
        line="side" if is_side else "main", kind="title" if is_side else "main" if session.key_id else "",
        rule=("openclaw/title" if is_side else "openclaw/main") if session.key_id else "",
        protocol="chat" if session.key_id else "", request_key=f"{pk.hex}00", chain="" if is_side else f"{pk.hex}01",
        checkpoint=weights.answered[min(len(weights.answered) - 1, int(share * len(weights.answered)))],
        messages=said, text=text, message={"role": "assistant", "content": text},
        prompt_ids=TOKENS[: 60 + 12 * len(said)], response_ids=TOKENS[:tokens], logprobs=[-0.5] * tokens,
        sampling={"temperature": 0.7, "max_new_tokens": 400}, finish_reason=finish, first_token_s=0.2,
        next_state=[{"role": "user", "content": follow_up}] if follow_up and not is_side else [],
        created_at=at, served_at=at + timedelta(seconds=4), moved_at=at + timedelta(seconds=4),
        observed_at=at + timedelta(minutes=1) if follow_up else None,
    )  # fmt: skip


TOKENS = [5 + n * 7 % 480 for n in range(2_000)]


def _judge(basket: Basket, draw: Draw, people: People, weights: Weights, turn: Turn, owner: Any, share: float) -> bool:
    """The verdict on this turn with all that speaks for it; whether its person corrected it."""
    fate = draw.random.random()
    at = turn.served_at or turn.created_at
    if fate < 0.12 and turn.finish_reason == "stop":
        value = 1 if fate < 0.08 else -1
        tags = ["too long"] if value < 0 else []
        basket.put(Feedback(turn=turn, by=owner, kind="thumb", value=value, tags=tags, created_at=at))
    if turn.status != Turn.Status.JUDGED:
        return False
    is_corrected = 0.08 <= fate < 0.12
    if is_corrected:
        kind = "guidance" if draw.chance(0.7) else "rewrite"
        text = draw.wish() if kind == "guidance" else draw.reply()
        basket.put(Feedback(turn=turn, by=owner, kind=kind, text=text, created_at=at))
        if draw.chance(0.2):
            basket.put(Feedback(turn=turn, by=owner, kind="marks", spans=[[0, 5, -1]], created_at=at))
    reward = 1 if fate < 0.08 else -1 if fate < 0.2 else 1 if fate < 0.4 else 0
    by = "thumb" if fate < 0.12 else "votes"
    why = ("", "") if reward and turn.session.learns else draw.random.choice(NOT_TAUGHT)
    sample = _sample(draw, weights, turn, owner, share, reward, is_corrected) if not why[0] else None
    if sample is not None:
        basket.put(sample)
    basket.put(
        Judgement(
            turn=turn, reward=None if why[0] == "unclear" else reward, reward_from=by, confidence=0.67,
            hint=draw.wish() if is_corrected else "", hint_from="guidance" if is_corrected else "", sample=sample,
            reason_code=why[0], reason=why[1], evidence=f"The reply:\n| {turn.text[:200]}", judged_at=at,
            held_out=not turn.pk.int % 50 and sample is None,
        )
    )  # fmt: skip
    if by == "votes" and draw.chance(0.3):
        _vote(basket, turn, reward)
    if is_corrected or 0.12 <= fate < 0.16:
        _hint(basket, draw, people, turn, owner, share, is_corrected)
    if draw.chance(0.002):
        reviewer = draw.random.choice(people.staff)
        basket.put(Overruling(turn=turn, reward=1, reason="It was right.", by=reviewer, at=at))
        basket.put(Ruling(verb="overturn", by=reviewer, turn=turn, before={}, after={"reward": 1}, at=at))
    if draw.chance(0.01):
        shadow = basket.put(Shadow(turn=turn, checkpoint=weights.answered[0], text=draw.reply(), at=at))
        if draw.chance(0.5):
            basket.put(BlindChoice(shadow=shadow, by=owner, picked=draw.random.choice(("reply", "shadow")), at=at))
    return is_corrected


def _sample(
    draw: Draw, weights: Weights, turn: Turn, owner: Any, share: float, reward: int, has_teacher: bool
) -> Sample:
    """A lesson: learned by the next run, or, of the newest checkpoint, ready. One in forty went stale."""
    run = weights.learned_by[min(len(weights.learned_by) - 1, int(share * len(weights.learned_by)))]
    is_stale = run is not None and draw.chance(1 / 40)
    return Sample(
        status="stale" if is_stale else "trained" if run else "ready",
        drop_reason="Newer ones came before it." if is_stale else "", origin=turn.pk, person=str(owner.pk),
        conversation=turn.session_id, checkpoint=turn.checkpoint, run=None if is_stale else run,
        prompt_ids=turn.prompt_ids[:80], response_ids=turn.response_ids, behaviour_logprobs=turn.logprobs,
        teacher_prompt_ids=turn.prompt_ids[:90] if has_teacher else None, reward=float(reward),
        created_at=turn.served_at, moved_at=turn.served_at,
        redactions=[{"where": "prompt", "kind": "email", "count": 1}] if draw.chance(0.03) else [],
    )  # fmt: skip


def _vote(basket: Basket, turn: Turn, reward: int) -> None:
    for index in range(3):
        score = None if index == 2 and turn.pk.int % 9 == 0 else reward
        basket.put(
            Vote(
                turn=turn, question="score", index=index, judge="adapter", prompt_version="trained-1", role="user",
                raw=f"\\boxed{{{score}}}", score=score, failure="" if score is not None else "unreadable",
                seconds=0.4, tokens=31, prompt_tokens=266, cached_tokens=180, cast_at=turn.served_at,
            )
        )  # fmt: skip


def _hint(basket: Basket, draw: Draw, people: People, turn: Turn, owner: Any, share: float, is_own: bool) -> None:
    waits = not is_own and draw.chance(2 * MOST_WAITING)
    status = "waiting" if waits else "accepted" if is_own else draw.random.choice(("accepted", "edited", "rejected"))
    reviewer = None if waits or is_own else draw.random.choice(people.staff)
    text = draw.wish() if draw.chance(0.5) else draw.question().rstrip("?") + "."
    words = turn.text.split()[:40]
    teacher = {"tokens": words, "logprobs": [-0.4] * len(words), "old_logprobs": [-0.5] * len(words)}
    hint = basket.put(
        Hint(
            turn=turn, status=status, source="person" if is_own else "user", proposed=text, text=text, confidence=0.67,
            gain=0.2, teacher=teacher if waits else {}, created_at=turn.served_at, moved_at=turn.served_at,
            waits_because="The votes of this judge teach nothing by themselves." if waits else "",
            decided_by=reviewer, decided_at=turn.served_at if reviewer else None,
        )
    )  # fmt: skip
    if reviewer is not None:
        verb = {"accepted": "accept", "edited": "edit", "rejected": "reject"}[status]
        ruling = basket.put(
            Ruling(verb=verb, by=reviewer, turn=turn, hint=hint, before={"status": "waiting"}, after={"status": status},
                   at=turn.served_at)
        )  # fmt: skip
        label = "reject" if status == "rejected" else "accept"
        basket.put(
            Reading(desk="hint", turn=turn, hint=hint, by=reviewer, label=label, ruling=ruling, at=turn.served_at)
        )
        second = next(one for one in people.staff if one != reviewer)
        if draw.chance(0.1):
            basket.put(
                Reading(desk="hint", turn=turn, hint=hint, by=second, label="accept", is_second=True, at=turn.served_at)
            )
