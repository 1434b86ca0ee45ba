"""What a harness says is one step each: its retries are no further ones, its sub-agents' calls are none."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import sync_to_async

from chat.models import Turn
from episodes.models import Episode
from tests.environments.worlds.harnesses.conftest import ASK, judged, python

pytestmark = [pytest.mark.bubblewrap, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

RUNTIME = "Runtime: agent=main | session=agent:main:{} | sessionId={} | channel=none"
MAIN = "[Sun 2026-11-29 10:04 UTC] Write it.\n\n" + RUNTIME.format("main", "s1")
SUB = "[Sun 2026-11-29 10:05 UTC] Count.\n\n" + RUNTIME.format("subagent:9", "s9")


async def turns_of(played) -> list[Turn]:
    episode = await Episode.objects.aget(pk=played.episode)
    return await sync_to_async(list)(Turn.objects.filter(session=episode.session_id).order_by("position"))


@pytest.mark.parametrize(
    "again", [{"Idempotency-Key": "first"}, {"X-Stainless-Retry-Count": "1"}], ids=["named", "counted"]
)
async def test_a_harness_that_asks_again_has_the_same_reply_and_made_one_step(plays, engine, again):
    engine.says("First.")
    engine.says("Second.")
    first = again if "Idempotency-Key" in again else {}
    program = f"""
one, two = ask([user("Hi")], **{json.dumps(first)}), ask([user("Hi")], **{json.dumps(again)})
assert one == two, (one, two)
ask([user("Hi"), said(one), user("More")])
"""
    for_two = await plays(python(ASK + program), attempts=2)
    assert {one.exit_status for one in for_two} == {0}, for_two
    for one in for_two:
        assert len(await turns_of(one)) == 2  # of three requests
        assert [sample.step for sample in await judged(one)] == [0, 1]


async def test_a_sub_agents_calls_are_side_turns_and_no_steps(plays, engine):
    program = f"""
one = ask([user({MAIN!r})])
ask([user({SUB!r})])
ask([user("Summarise.")], **{{"X-Turn-Type": "side"}})
ask([user({MAIN!r}), said(one), user({MAIN!r})])
"""
    for one in await plays(python(ASK + program), attempts=2):
        assert one.exit_status == 0, one
        turns = await turns_of(one)
        assert sorted(turn.line for turn in turns) == ["main", "main", "side", "side"]
        assert [sample.step for sample in await judged(one)] == [0, 1]
