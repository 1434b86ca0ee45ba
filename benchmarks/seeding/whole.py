"""Write a whole installation's rows."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from benchmarks import played_episodes
from benchmarks.seeding import people as of_people
from benchmarks.seeding.amounts import Amounts, Draw, write
from benchmarks.seeding.people import People
from benchmarks.seeding.talk import seed_talk
from benchmarks.seeding.weights import Weights, seed_weights
from chat.api_keys import ApiKey
from chat.imports.import_rows import Import as ChatImport
from chat.models import Session
from evaluation.models import Comparison, Export, Import
from gate.models import AskedAgain
from judge.models import DeskRules, GoldReading, Measuring
from privacy.models import Erasure
from training.models import Rehearsal


def seed(amounts: Amounts, seed: int = 1) -> People:
    """Write them into an empty database, all or none; the people, of whom the first is the administrator, ana, and the
    second a talker, ben."""
    with transaction.atomic():
        draw = Draw(seed, timezone.now())
        people = of_people.seed_people(amounts, draw)
        lines = of_people.seed_lines(people)
        played_episodes.seed(people.administrator, amounts.episodes)
        # Each attempt has a key of its own, asked for by its player's; one for all of them is as good for pages, which
        # list none of them.
        asked = ApiKey.objects.create(
            user=people.administrator, parent=people.keys[0], name="attempts", digest="0" * 64
        )
        Session.objects.exclude(episode=None).update(key=asked, named_by="key")
        weights = seed_weights(amounts, draw, people, lines)
        corrected = seed_talk(amounts, draw, people, weights)
        of_people.seed_notices(amounts, draw, people, weights.everything)
        of_people.seed_deeds(amounts, draw, people)
        _seed_rest(amounts, draw, people, weights, corrected)
    return people


def _seed_rest(amounts: Amounts, draw: Draw, people: People, weights: Weights, corrected: list[UUID]) -> None:
    """Comparisons, datasets, what judges were measured by, and questions asked again."""
    by, count = people.administrator, max(10, amounts.checkpoints // 10)
    write(
        Comparison(
            status="answered", first=draw.random.choice(weights.answered), second=weights.answered[-1], by=by,
            prompts=[(asked := draw.question())],
            replies=[{"prompt": asked, "first": draw.reply(), "second": draw.reply(), "is_swapped": place % 2 == 0}],
        )
        for place in range(count)
    )  # fmt: skip
    write(
        Export(
            status="gone", what="dataset", by=by, asked={"kind": "sft"}, error="Its files were deleted after a week.",
            made={"rows": 900, "left_out": {}, "sources": {}, "files": []}, created_at=draw.moment(place / count),
        )
        for place in range(count)
    )  # fmt: skip
    write(
        Import(
            status="taken", name=f"examples-{place}.jsonl", sha256=f"{place:064x}", by=by, origin="ours", licence="MIT",
            found={"rows": 90, "refused": {}, "where": [], "first": []}, created_at=draw.moment(place / count),
            taken={"lessons": 90, "known": 0, "refused": {}, "where": []}, consented_at=draw.now,
        )
        for place in range(count)
    )  # fmt: skip
    write(
        GoldReading(
            item=f"gold-{place % 60}", gold=f"{place % 60:016x}", judge="adapter", prompt_version="trained-1",
            role="user", expected=1, score=1 if place % 5 else -1, confidence=0.8, wants_hint=place % 2 == 0,
            raw=[{"question": "score", "said": 1, "raw": "1", "failure": ""}], read_at=draw.moment(place / 600),
        )
        for place in range(600)
    )  # fmt: skip
    write([Measuring(judge="adapter", votes=3, total=60, asked_by=by, finished_at=draw.now)])
    write([DeskRules(desk=desk, guidelines="Be *brief*.", share=50) for desk in ("hint", "reward")])
    write([Erasure(status="done", user=people.everyone[-1], total=3, done_at=draw.now)])
    write(Rehearsal(model="seeded", prompt_ids=[5], response_ids=[8, 2], logprobs=[-1.0, -1.0]) for _ in range(64))
    write(
        ChatImport(status="done", user=by, kind="chatgpt", done=9, done_at=draw.now,
                   found={"chats": 9, "messages": 90, "thumbs": 3, "skipped": {}},
                   stored={"chats": 9, "messages": 90, "thumbs": 3, "known": 0})
        for _ in range(5)
    )  # fmt: skip
    write(
        AskedAgain(examination=exam, turn_id=turn, live=draw.reply(), candidate=draw.reply())
        for exam in weights.exams[-20:]
        for turn in corrected[-6:]
    )
