"""A whole run against a scripted Talkback: to its end, killed in the middle, and when something goes wrong."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from environments.personas import Persona
from environments.users import ScriptedUser, User
from lab.evidence.compared_arms import chosen
from lab.evidence.plan import Plan, made, sessions
from lab.evidence.playing import traffic
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.running import ArmsFailed, PlanDiffers
from lab.evidence.playing.traffic import Overdue
from lab.evidence.report import writing
from lab.evidence.report.run_findings import Findings
from tests.lab.evidence.playing.fake_talkback import SAMPLES, Editor, FakeSpeaker, FakeTalkback, Killed, Run


@pytest.fixture
def talkback() -> FakeTalkback:
    return FakeTalkback()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "config.json").write_text("{}")
    sizes = {"rounds": 2, "updates": 2, "samples": SAMPLES, "probes": 5, "read": 2, "references": 2, "pack": 3}
    arms = chosen(["base", "prompt-only", "binary", "combined"])
    return made(arms, (1, 2), tmp_path, sizes=sizes | {"sessions": 9})


@pytest.fixture
def run(plan: Plan, talkback: FakeTalkback, tmp_path: Path) -> Run:
    return Run(plan, talkback, tmp_path / "out")


def places(rows: Journal, **of: Any) -> Counter[tuple[Any, ...]]:
    found = [row for row in rows if all(row[name] == value for name, value in of.items())]
    return Counter((row["arm"], row["seed"], row["update"]) for row in found)


async def test_every_arm_of_every_seed_is_probed_after_every_round_with_the_same_questions(run: Run) -> None:
    journal, rows = await run()
    own = places(rows, set="own")
    marks = {"base": [0], "prompt-only": [0], "binary": [0, 2, 4], "combined": [0, 2, 4]}
    assert own == {(arm, seed, mark): 5 for arm in marks for seed in (1, 2) for mark in marks[arm]}
    assert places(rows, set="other-persona") == own  # the same replies, held against another person's wishes
    asked = {}
    for row in rows:
        if row["set"] == "own" and row["arm"] != "prompt-only":
            place = (row["arm"], row["seed"], row["update"])
            asked.setdefault(row["seed"], {}).setdefault(place, []).append((row["task"]["id"], row["messages"]))
    for of_seed in asked.values():
        assert len({str(questions) for questions in map(sorted_by_id, of_seed.values())}) == 1
    assert {step.key for step in run.plan.steps()} <= {row["key"] for row in journal}


def sorted_by_id(questions: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(questions, key=lambda one: one[0])


async def test_probes_ask_pinned_weights_with_one_seed_a_prompt_and_the_base_once(run: Run) -> None:
    _, rows = await run()
    for row in rows:
        number = int(row["model"].partition("@")[2])
        assert (number > 0) == (row["update"] > 0)
    at_base = [name for name in run.talkback.asked if name.startswith("evidence-probe-")]
    assert not any("/0/own/" in name and "base" not in name and "prompt-only" not in name for name in at_base)
    first = {row["reply"] for row in rows if (row["arm"], row["update"], row["set"]) == ("combined", 0, "own")}
    assert first == {row["reply"] for row in rows if (row["arm"], row["set"]) == ("base", "own")}


async def test_prompt_only_is_told_every_wish_and_pays_for_it_in_tokens(run: Run) -> None:
    _, rows = await run()
    plain = {row["task"]["id"]: row for row in rows if (row["arm"], row["seed"], row["set"]) == ("base", 1, "own")}
    told = [row for row in rows if (row["arm"], row["seed"], row["set"]) == ("prompt-only", 1, "own")]
    for row in told:
        assert row["prompt_tokens"] > plain[row["task"]["id"]]["prompt_tokens"]
        assert row["messages"][0]["content"].startswith(plain[row["task"]["id"]]["messages"][0]["content"])


async def test_few_shot_is_shown_what_the_person_wrote_of_the_bases_first_replies_and_learns_nothing(run: Run) -> None:
    run.person = lambda person, seed: Editor()
    plan = replace(run.plan, arms=chosen(["base", "few-shot"]))
    journal, rows = await run(plan)
    for seed in (1, 2):
        first = [task.prompt for _, task, _ in islice(sessions(plan, seed), 4)]
        told = [(one["role"], one["content"]) for one in journal[f"shots/{seed}"]["messages"]]
        assert told == [pair for asked in first for pair in (("user", asked), ("assistant", "Rain is water."))]
        plain = {row["task"]["id"]: row["messages"] for row in rows if (row["arm"], row["seed"]) == ("base", seed)}
        asked = [row for row in rows if (row["arm"], row["seed"], row["set"]) == ("few-shot", seed, "own")]
        assert len(asked) == 5
        for row in asked:
            assert row["messages"] == [*journal[f"shots/{seed}"]["messages"], *plain[row["task"]["id"]]]
    assert not any(line.had or line.waiting for line in run.talkback.lines.values())
    assert writing.said(journal) == {f"few-shot/{seed}": ["Rain is water."] * 4 for seed in (1, 2)}
    assert {step.key for step in plan.steps()} <= {row["key"] for row in journal}

    before = run.talkback.asked.copy()
    await run(plan)
    assert run.talkback.asked == before


async def test_few_shot_of_a_person_who_writes_nothing_is_the_base(run: Run) -> None:
    run.person = lambda person, seed: ScriptedUser(person, seed, writes=0.0)
    journal, rows = await run(replace(run.plan, arms=chosen(["base", "few-shot"]), seeds=(1,)))
    assert (journal["shots/1"]["messages"], journal["shots/1"]["interactions"]) == ([], 9)  # all nine sessions
    caveats = Findings(journal["plan/1"]["plan"], list(rows), []).caveats()
    assert "few-shot, seed 1: 0 of 4 rewrites are shown, since no more were written." in caveats
    base, other = (
        {row["task"]["id"]: row["messages"] for row in rows if (row["arm"], row["set"]) == (arm, "own")}
        for arm in ("base", "few-shot")
    )
    assert base == other


async def test_the_distance_to_the_base_is_what_the_policy_says_less_what_the_base_says(run: Run) -> None:
    _, rows = await run()
    by_number = {(row["update"] > 0, row["kl"]) for row in rows if row["set"] == "own" and row["kl"] is not None}
    assert by_number == {(False, 0.0), (True, -0.25)}  # −1.25 a token under the adapter, −1 under the base
    read = [row for row in rows if row["set"] == "own" and row["kl"] is not None]
    assert len(read) == 2 * sum(places(rows, set="own").values()) // 5  # two of the five of each probe


async def test_a_round_says_what_it_took_and_what_it_came_to(run: Run) -> None:
    journal, _ = await run()
    first, second = (journal.get(f"round/combined/1/{number}") for number in (1, 2))
    assert first is not None
    assert second is not None
    assert (first["updates"], second["updates"]) == (2, 4)
    assert first["checkpoint"] != second["checkpoint"]
    assert first["interactions"] <= second["interactions"]
    assert len(first["spent"]) == SAMPLES
    assert len(set(second["spent"])) == 2 * SAMPLES  # nothing is learned twice
    assert first["metrics"] == [{"loss": 0.5}]
    assert not first["trouble"]


@pytest.mark.parametrize("after", [0, 1, 7, 20, 55, 90])
async def test_killed_at_any_request_it_goes_on_to_the_same_end_and_asks_nothing_twice(
    run: Run, tmp_path: Path, after: int
) -> None:
    whole_run = Run(run.plan, FakeTalkback(), tmp_path / "whole")
    _, whole = await whole_run()
    run.talkback.dies_after = after
    with pytest.raises(Killed):
        await run()
    run.talkback.dies_after = None
    _, rows = await run()

    def told(rows):
        return sorted((row["key"], row["reply"]) for row in rows)

    assert [key for key, _ in told(rows)] == [key for key, _ in told(whole)]
    assert max(run.talkback.asked.values()) == 1
    before = run.talkback.asked.total()
    await run()  # and once more, when all is done
    assert run.talkback.asked.total() == before


async def test_killed_between_a_yes_and_the_weights_that_answer_it_waits_for_these(run: Run) -> None:
    run.talkback.dies_approving = True
    with pytest.raises(Killed):
        await run()
    run.talkback.dies_approving = False
    journal, _ = await run()
    rounds = [row for row in journal if row["key"].startswith("round/")]
    assert len(rounds) == 8  # 2 arms that learn, 2 seeds, 2 rounds
    assert {row["trouble"] for row in rounds} == {""}


async def test_people_whom_a_model_plays_say_what_they_said_when_it_goes_on_after_a_kill(run: Run) -> None:
    run.speaker = FakeSpeaker()
    run.talkback.dies_after = 20
    with pytest.raises(Killed):
        await run()
    assert Journal(run.out / "journal.jsonl").under("words/")
    run.talkback.dies_after = None

    journal, _ = await run()

    heard = [one for row in journal.under("session/") for one in row["exchanges"] if one["said"]]
    # nothing else was said, and nothing that is not written down
    assert {one["said"]["text"] for one in heard} == {row["said"] for row in journal.under("words/")}
    assert max(run.talkback.asked.values()) == 1
    before = run.speaker.asked.total()
    await run()  # and once more, when all is done
    assert run.speaker.asked.total() == before


async def test_a_run_that_fails_is_on_record_and_the_arm_goes_on_with_what_answers(run: Run) -> None:
    run.talkback.fails = {("combined-1", 1)}
    journal, rows = await run()
    first, second = (journal.get(f"round/combined/1/{number}") for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first["checkpoint"] is None
    assert "failed: every advantage is zero." in first["trouble"]
    assert second["checkpoint"] is not None
    there = [row for row in rows if (row["arm"], row["seed"], row["update"]) == ("combined", 1, 2)]
    assert {row["model"] for row in there} == {"talkback@0"}  # what answered before; it was not asked again
    assert not any(name.startswith("evidence-probe-combined/1/2/") for name in run.talkback.asked)


async def test_a_candidate_that_is_turned_away_is_on_record(run: Run) -> None:
    run.talkback.turns_away = {1, 2, 3, 4, 5, 6, 7, 8}
    journal, _ = await run()
    row = journal.get("round/binary/1/1")
    assert row is not None
    assert row["checkpoint"] is None
    assert row["trouble"].endswith("was turned away: empty")


async def test_people_talk_until_a_run_begins_however_long_that_waits(run: Run) -> None:
    run.talkback.most = SAMPLES + 3
    journal, rows = await run()
    # Seven samples of which a run takes four and passes over three; what two late sessions bring is of the next one.
    spent = [len(journal[f"round/combined/1/{number}"]["spent"]) for number in (1, 2)]
    assert spent == [SAMPLES + 3, 2 * (SAMPLES + 3)]
    assert journal["round/combined/1/1"]["interactions"] >= SAMPLES + 3
    assert journal["round/combined/1/2"]["interactions"] >= 2 * (SAMPLES + 3)
    assert places(rows, set="own")["combined", 1, 2] == 5


async def test_a_run_that_passes_over_what_filled_its_batch_is_answered_with_before_the_next_one(run: Run) -> None:
    run.talkback.most, run.talkback.takes_first = SAMPLES + 3, True

    journal, rows = await run()

    numbers = [journal[f"round/combined/1/{number}"]["checkpoint"] for number in (1, 2)]
    assert numbers[0] < numbers[1]
    heard = [journal[f"round/combined/1/{number}"]["interactions"] for number in (1, 2)]
    assert SAMPLES + 3 <= heard[0] < 2 * (SAMPLES + 3) <= heard[1]
    assert places(rows, set="own")["combined", 1, 2] == 5


@pytest.mark.parametrize(("every", "unwritten", "at_once"), [(1, 1, 2), (1, 3, 3), (3, 1, 3), (3, 99, 4)])
async def test_while_a_full_batch_waits_as_many_talk_as_bring_the_corrections_at_the_pace_so_far(
    run: Run, every: int, unwritten: int, at_once: int
) -> None:
    sessions = count()
    run.person = lambda persona, seed: Editor(writes=next(sessions) % every == 0)
    run.talkback.most, run.talkback.unwritten = SAMPLES + 40, unwritten
    sizes = replace(run.plan.sizes, sessions=48, rewrites=0, rounds=1)
    await run(replace(run.plan, arms=chosen(["combined"]), seeds=(1,), sizes=sizes))
    # Sessions of one reply. Where each brings a correction one brings the last, beside one that is not known
    # yet; where a third of them do, three bring it; and five at once could bring the one that fills the batch and four
    # others, which are a second one.
    assert run.talkback.late == at_once


async def test_a_batch_that_never_fills_says_why_and_the_others_go_on(run: Run) -> None:
    run.talkback.cuts = True
    journal, rows = await run()
    row = journal.get("round/combined/1/1")
    assert row is not None
    assert row["unfilled"]
    heard = row["interactions"]
    said = (
        f"9 sessions brought 0 samples, and no run of 4 began: {heard} of {heard} replies were cut at their length, "
        "with nothing in"
    )
    assert said in row["trouble"]
    assert ("combined", 1, 2) not in places(rows)
    assert places(rows, set="own")["prompt-only", 2, 0] == 5


async def test_what_is_written_in_place_of_replies_that_were_cut_fills_a_batch(run: Run) -> None:
    run.talkback.cuts = run.talkback.rewrites_teach = True
    run.person = lambda persona, seed: Editor()
    journal, _ = await run()
    row = journal.get("round/combined/1/1")
    assert row is not None
    assert row["checkpoint"] is not None
    assert row["cut"] == row["interactions"] / 2  # the second of each session was left as it is


async def test_what_does_not_come_ends_with_a_sentence_and_the_other_arms_are_through(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "RUN_S", 120.0)
    run.talkback.stuck = True
    with pytest.raises(ArmsFailed, match="no run claimed the batch, which is full within 2 minutes"):
        await run()
    run.talkback.stuck = False
    assert "probed/prompt-only/2/0" in Journal(run.out / "journal.jsonl")


async def test_a_talkback_that_is_gone_ends_the_run_at_once(run: Run) -> None:
    run.talkback.away = "engine of the private Talkback ended 3 times."
    with pytest.raises(Overdue, match="engine of the private Talkback ended"):
        await run()


async def test_another_plan_does_not_go_on_with_this_ones_work(run: Run) -> None:
    await run()
    sizes = asdict(run.plan.sizes)
    for arms, seeds, probes, differs in (
        (["base", "binary"], (1, 2), 5, "arms"),
        (["base", "prompt-only", "binary", "combined"], (3, 1, 2), 5, "seeds"),
        (["base", "prompt-only", "binary", "combined"], (1,), 6, "seeds and sizes and personas"),
    ):
        other = made(chosen(arms), seeds, Path(run.plan.model), sizes=sizes | {"probes": probes})
        with pytest.raises(PlanDiffers, match=f"with other {differs}: name another OUT"):
            await run(other)


async def test_the_next_seed_begins_to_talk_while_the_last_arms_of_one_still_learn(run: Run) -> None:
    """Two of the arms learn and three places are there: the first arm of seed 2 has the third from the beginning."""
    await run()
    told = [" ".join(line.split("min", 1)[1].split()) for line in run.said if "round" in line]
    begins = next(at for at, line in enumerate(told) if line.startswith("binary seed 2 round 1 of 2: talks"))
    ends = max(at for at, line in enumerate(told) if " seed 1 round 2 of 2: learns" in line)
    assert begins < ends


async def test_a_bug_ends_the_run_at_once(run: Run) -> None:
    """What breaks at seed 1's first session is told before seed 6, whose turn is far off, has begun."""
    run.plan = replace(run.plan, seeds=(1, 2, 3, 4, 5, 6))
    broken = run.plan.own(1)

    def person(persona: Persona, seed: int) -> User:
        if persona == broken:
            raise LookupError("a bug")
        return Editor()

    run.person = person
    with pytest.raises(LookupError, match="a bug"):
        await run()
    assert not [line for line in run.said if "seed 6" in line and "round" in line]


async def test_arms_in_any_order_and_seeds_may_be_added_and_what_is_done_stays(run: Run) -> None:
    journal, rows = await run()
    done, probed, asked = {row["key"] for row in journal}, len(list(rows)), dict(run.talkback.asked)
    arms = chosen(["combined", "topk", "base", "prompt-only", "binary"])
    more = made(arms, (1, 2, 3), Path(run.plan.model), sizes=asdict(run.plan.sizes))

    journal, rows = await run(more)

    assert {step.key for step in more.steps()} <= {row["key"] for row in journal}
    assert done < {row["key"] for row in journal}
    assert len(list(rows)) > probed
    assert {name: run.talkback.asked[name] for name in asked} == asked  # nothing is asked again
    assert writing.write(run.out, journal, rows)
    report = json.loads((run.out / "report.json").read_text())
    assert (report["plan"]["seeds"], len(report["plan"]["arms"])) == ([1, 2, 3], 5)
    with pytest.raises(PlanDiffers, match="other arms and seeds and personas"):
        await run()  # the first plan is not all that was done


async def test_the_report_is_written_of_what_is_there(run: Run) -> None:
    journal, rows = await run()
    page, data = writing.write(run.out, journal, rows)
    assert "<svg" in page.read_text()
    assert data.stat().st_size > 1000
    assert len(writing.said(journal)["combined/1"]) >= 2 * SAMPLES


async def test_progress_is_a_line_a_step_with_the_minutes_that_are_left(run: Run) -> None:
    await run()
    assert any("combined     seed 1  round 1 of 2: learns from 4 samples; about" in line for line in run.said)
    assert run.said[-1].endswith("about 0 min left")


async def test_talkbacks_side_by_side_have_a_part_of_the_lines_each_and_one_report(run: Run, plan: Plan) -> None:
    """Those that learn go round, combined-1, combined-2, and so do base-1, prompt-only-1, base-2, prompt-only-2. An arm
    that comes later moves none of them: binary-1, binary-2 go on where the round was. A home that is asked on
    another's line raises."""
    run.others = [FakeTalkback(), FakeTalkback()]
    run.others[1].dies_after = 3  # of base-2's five
    with pytest.raises(Killed):
        await run(replace(plan, arms=plan.arms[:2] + plan.arms[3:]))  # combined-1, combined-2
    run.others[1].dies_after = None
    journal, rows = await run()
    assert [sorted(home.lines) for home in (run.talkback, *run.others)] == [
        ["base-1", "binary-2", "combined-1", "prompt-only-2"],
        ["combined-2", "prompt-only-1"],
        ["base-2", "binary-1"],
    ]
    marks = {"base": [0], "prompt-only": [0], "binary": [0, 2, 4], "combined": [0, 2, 4]}
    assert places(rows, set="own") == {(arm, seed, mark): 5 for arm in marks for seed in (1, 2) for mark in marks[arm]}
    assert all(max(home.asked.values()) <= 2 for home in run.others)  # what was on its way at the kill
    assert journal.last("spent/")["cpu_s"] == {"engine": 4.5}  # 1.5 of each
