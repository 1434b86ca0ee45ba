"""An arm's bookkeeping: what is played when, what is kept of it, and what equal tokens mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from environments.worlds.base import Call
from environments.worlds.till import Till
from lab.worlds.demonstration.arms import ARMS, chosen, heard, recipe
from lab.worlds.demonstration.plan import Plan
from lab.worlds.demonstration.rounds import ASK_S, RUN_S, Side
from lab.worlds.demonstration.talkback import play_sides
from tests.lab.worlds.demonstration.boards import Board

PLAN = Plan(chosen(["outcome", "index"]), updates=4, every=2, tasks=2, attempts=3, heldout=5)
EIGHT = replace(PLAN, updates=8)


def side(name: str, board: Board, rows: list[Any], plan: Plan = PLAN, said: list[str] | None = None) -> Side:
    now = iter(range(0, 1_000_000, 10))  # each look at the clock is ten seconds later

    async def at_once(_: float) -> None: ...

    return Side(
        plan,
        ARMS[name],
        1,
        Till(),
        board,
        tell=(said if said is not None else []).append,
        write=rows.append,
        sleep=at_once,
        clock=lambda: float(next(now)),
    )


@pytest.mark.asyncio
async def test_an_arm_plays_its_updates_and_the_held_out_tasks_at_each_mark() -> None:
    rows: list[Any] = []
    board = Board(tokens=10, score=lambda number, task: number >= 2)
    await play_sides([side("index", board, rows)])
    assert [(row["kind"], row["update"]) for row in rows] == [
        ("exam", 0), ("update", 1), ("update", 2), ("exam", 2), ("update", 3), ("update", 4), ("exam", 4),
    ]  # fmt: skip
    assert [row["success"] for row in rows if row["kind"] == "exam"] == [0.0, 1.0, 1.0]
    assert [row["checkpoint"] for row in rows if row["kind"] == "update"] == [f"talkback@{n}" for n in (1, 2, 3, 4)]
    assert rows[-1]["sampled"] == 4 * 2 * 3 * 10  # updates × tasks × attempts × tokens; examinations teach nothing
    assert board.asked[0] == ("index-1-exam-0", 5, 1)
    assert board.asked[1] == ("index-1-1", 2, 3)
    assert len({night for night, _, _ in board.asked}) == len(board.asked)  # a group's name is used once


@pytest.mark.asyncio
async def test_each_stage_is_told_with_how_sure_its_figure_is_and_what_answers_then() -> None:
    said: list[str] = []
    await play_sides([side("index", Board(tokens=10, score=lambda number, task: True), [], said=said)])
    # Wilson's interval of 5 of 5 begins at 1 / (1 + 1.96² / 5) = 0.57, of 6 of 6 at 1 / (1 + 1.96² / 6) = 0.61
    assert said[0].startswith("after update 0: 1.00 (0.57-1.00) solved of 5, ")
    assert said[1].startswith("update 1: 1.00 (0.61-1.00) solved of 6, ")
    assert "learned and let through in " in said[1]
    assert said[1].endswith(": talkback@1 answers")


@pytest.mark.asyncio
async def test_both_arms_play_the_same_tasks_and_other_ones_in_each_update() -> None:
    one, other = side("index", Board(1), []), side("outcome", Board(1), [])
    first, second = one._tasks("train", 4, 1), one._tasks("train", 4, 2)
    assert first == other._tasks("train", 4, 1) != second
    assert one._tasks("heldout", 9, 0) == other._tasks("heldout", 9, 3)


@pytest.mark.asyncio
async def test_an_arm_that_sampled_less_has_further_updates_until_the_tokens_are_equal() -> None:
    """60 tokens an update against 72: after four 240 and 288, which is 17 % less. One more makes 300, 4 % more."""
    rows: list[Any] = []
    sides = [side("outcome", Board(10), rows), side("index", Board(12), rows)]
    await play_sides(sides)
    assert [(one.arm.name, one.updates, one.sampled) for one in sides] == [("outcome", 5, 300), ("index", 4, 288)]
    assert [(row["arm"], row["update"]) for row in rows if row["kind"] == "exam"][-1] == ("outcome", 5)


@pytest.mark.asyncio
async def test_equal_arms_have_no_more_than_the_plan() -> None:
    sides = [side("outcome", Board(10), []), side("index", Board(10), [])]
    await play_sides(sides)
    assert [one.updates for one in sides] == [4, 4]


@pytest.mark.asyncio
async def test_the_weights_that_all_begin_with_are_examined_once_for_all() -> None:
    rows: list[Any] = []
    boards = [Board(10), Board(10)]
    await play_sides([side(name, board, rows) for name, board in zip(("outcome", "index"), boards, strict=True)])
    assert [(row["arm"], row["update"]) for row in rows if row["kind"] == "exam"][:2] == [("outcome", 0), ("index", 0)]
    assert [board.asked[0][0] for board in boards] == ["outcome-1-exam-0", "index-1-1"]


@pytest.mark.asyncio
async def test_a_run_that_fails_is_an_update_in_vain_and_three_in_a_row_end_the_arm_and_no_other() -> None:
    rows: list[Any] = []
    sides = [side("random", Board(10, fails={2, 4, 5, 6}), rows, EIGHT), side("index", Board(10), rows, EIGHT)]
    await play_sides(sides)
    assert (sides[0].updates, sides[0].stopped) == (6, "Run 6 failed: All attempts were equal.")
    assert sides[1].updates == 8
    own = [row for row in rows if row["arm"] == "random" and row["kind"] == "update"]
    assert [row["update"] for row in own if row["vain"]] == [2, 4, 5, 6]
    assert [row["checkpoint"] for row in own] == [f"talkback@{number}" for number in (1, 1, 2, 2, 2, 2)]


@pytest.mark.asyncio
async def test_weights_that_never_come_are_not_awaited_for_ever() -> None:
    board = Board(10, fails={1})
    rows: list[Any] = []
    one = side("index", board, rows)
    await one.examine()

    async def none() -> dict[str, str]:
        return {}

    board.failures = none  # type: ignore[method-assign]  # no run ever begins
    await one.play()
    assert one.stopped.startswith(f"{RUN_S / 60:.0f} minutes after")
    assert ASK_S < RUN_S


@pytest.mark.parametrize(("name", "scores"), [("index", {1.0}), ("judge", {None}), ("random", {-1.0, 1.0})])
def test_who_scores_steps_is_the_arm_and_the_world_stays(name: str, scores: set[float | None]) -> None:
    world = heard(Till(), ARMS[name].voice)
    seen = set()
    for task in world.tasks("train", 20, 1):
        with world.open(task, 1) as attempt:
            result = attempt.act(Call("1", "price", f'{{"item": "{next(iter(task.data["prices"]))}"}}'))
            assert result.text == str(next(iter(task.data["prices"].values())))
            seen.add(result.score)
            assert attempt.outcome(is_truncated=True).ending == "truncated"
    assert seen == scores


def test_arms_differ_in_the_baseline_and_in_nothing_else() -> None:
    outcome, index = (recipe(ARMS[name], attempts=32, laid_over={"lr": 0.01}) for name in ("outcome", "index"))
    assert {name for name in outcome if outcome[name] != index[name]} == {"baseline"}
    assert (outcome["batch_size"], outcome["gate"], outcome["lr"]) == (32, {"off": True}, 0.01)
