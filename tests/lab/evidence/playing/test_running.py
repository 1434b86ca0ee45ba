"""A whole run against a scripted Talkback: to its end, killed in the middle, and when something goes wrong."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from environments.client import Completion
from environments.personas import Persona
from environments.tasks import Task
from environments.users import ModelUser, Said, ScriptedUser, User
from lab.evidence.compared_arms import chosen
from lab.evidence.plan import Plan, made, sessions
from lab.evidence.playing import traffic
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.running import ArmsFailed, PlanDiffers, Running
from lab.evidence.playing.traffic import Overdue, RememberedWords
from lab.evidence.report import writing
from lab.evidence.report.run_findings import Findings

SAMPLES = 4


class Killed(BaseException):
    """kill -9, as far as a test can have it: nothing after it is done."""


@dataclass
class FakeLine:
    """A line of Talkback: its replies in order, its runs, what answers."""

    waiting: list[str] = field(default_factory=list)
    """Completions that taught and that no run has, oldest first."""
    had: dict[str, int] = field(default_factory=dict)
    """Those that a run has: which one, from 0 on."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: dict[int, str] = field(default_factory=dict)
    live: int = 0


class FakeTalkback:
    """The door: lines that learn as soon as SAMPLES replies taught, checkpoints that pass at the second look."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()  # by the request's name: more than one is something asked twice
        self.read = 0
        self.lines: dict[str, FakeLine] = {}
        self.completions: dict[str, tuple[str, str]] = {}  # id: line, why it ended
        self.numbers = 0
        self.dies_after: int | None = None
        self.dies_approving = False
        self.looks: Counter[int] = Counter()  # at a checkpoint that was approved
        self.fails: set[tuple[str, int]] = set()  # line and run (from 1 on) that fails
        self.turns_away: set[int] = set()
        self.most = SAMPLES  # how many wait before a run begins with the last SAMPLES of them
        self.takes_first = False  # with the first of them
        self.unwritten = 0  # corrections that it says a run awaits
        self.talking: Counter[str] = Counter()  # sessions that are being answered, by line
        self.late = 0  # the most of them while as many samples as a run takes wait
        self.cuts = False
        self.rewrites_teach = False  # what is written in place of a reply that was cut
        self.rewritten: set[str] = set()
        self.stuck = False
        self.has_rehearsed = False
        self.away: str | None = None

    # Door

    at_once = 12

    async def make_lines(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
        for row in rows:
            self.lines.setdefault(row["name"], FakeLine())
        return {row["name"]: {"talk": f"{row['name']}:talk", "probe": f"{row['name']}:probe"} for row in rows}

    async def rehearse(self) -> None:
        self.has_rehearsed = True

    async def approve(self, number: int) -> None:
        line = next(line for line in self.lines.values() if number in line.checkpoints)
        assert line.checkpoints[number] == "passed"
        assert "candidate" not in line.checkpoints.values(), "a second batch was learned from before the first answered"
        line.checkpoints[number] = "approved"
        if self.dies_approving:
            raise Killed

    async def standing(self, name: str) -> dict[str, Any]:
        line = self.lines[name]
        rows = [{"number": number, "status": status, "reason": "empty"} for number, status in line.checkpoints.items()]
        return {"runs": line.runs, "checkpoints": rows, "recipe": {"lr": 1e-3}}

    def client(self, key: str) -> FakeClient:
        return FakeClient(self, *key.split(":"))

    def reader(self) -> FakeTalkback:
        return self

    async def logprobs(self, messages: Sequence[Mapping[str, Any]], reply: str, number: int = 0) -> list[float]:
        self.read += 1
        return [-1.0 - 0.25 * bool(number)] * max(1, len(reply.split()))

    def check(self) -> None:
        if self.away:
            raise Overdue(self.away)

    def spent(self) -> dict[str, float]:
        return {"engine": 1.5}

    # What happens by itself

    def taught(self, name: str, completion: str) -> None:
        line = self.lines[name]
        line.waiting.append(completion)
        if len(line.waiting) >= self.most and not self.stuck:
            taken = line.waiting[:SAMPLES] if self.takes_first else line.waiting[-SAMPLES:]
            line.had |= dict.fromkeys(taken, len(line.runs))
            line.waiting.clear()
            failed = (name, len(line.runs) + 1) in self.fails
            self.numbers += 1
            error = "every advantage is zero." if failed else ""
            status = "failed" if failed else "finished"
            run = {"id": self.numbers, "status": status, "error": error, "seconds": 3.0, "metrics": [{"loss": 0.5}]}
            line.runs.append(run)
            if not failed:
                line.checkpoints[self.numbers] = "candidate"

    def place(self, name: str, completion: str) -> dict[str, int | None]:
        line = self.lines[name]
        if completion not in line.waiting:
            return {"place": None, "wanting": None, "corrections": None}
        wanting = max(0, self.most - len(line.waiting))
        place = line.waiting.index(completion) + 1
        return {"place": place, "wanting": wanting, "corrections": min(self.unwritten, wanting)}

    def run_of(self, name: str, completion: str) -> dict[str, Any] | None:
        line = self.lines[name]
        return line.runs[line.had[completion]] if completion in line.had else None


@dataclass
class FakeClient:
    talkback: FakeTalkback
    line: str
    use: str

    async def complete(self, messages: Sequence[Mapping[str, Any]], **how: Any) -> Completion:
        told = self.talkback
        told.talking[self.line] += self.use == "talk"
        if len(told.lines[self.line].waiting) >= SAMPLES:
            told.late = max(told.late, told.talking[self.line])
        await asyncio.sleep(0)  # no time passes: any other that may talk now begins
        told.talking[self.line] -= self.use == "talk"
        if told.dies_after is not None and told.asked.total() >= told.dies_after:
            raise Killed
        assert told.has_rehearsed, "once people talk the engine is never idle, and runs would rehearse nothing"
        assert how["name"], "a request without a name would be a second turn after a kill"
        told.asked[how["name"]] += 1
        completion = f"c-{how['name']}"
        known = completion in told.completions
        last = how["max_tokens"] <= 8
        ends = "length" if last or told.cuts else "stop"
        told.completions[completion] = (self.line, ends)
        if self.use == "talk" and ends == "stop" and not known:
            told.taught(self.line, completion)
        number = int(how["model"].partition("@")[2]) if how.get("model") else told.lines[self.line].live
        # A taught model is brief: it says what its number says, so that one checkpoint's replies differ from another's.
        words = "Rain is water. " * (1 if number else 9)
        guided = "Guidance" in messages[-1]["content"]
        text = f"{'Brief.' if guided else words.strip()} {number}"
        tokens = len(messages[-1]["content"].split())
        return Completion(completion, text, ends, f"talkback@{number}", tokens, len(text.split()))

    async def give(self, completion_id: str, **said: Any) -> None:
        assert said["correction"], "no person gives a thumb here"
        line, ends = self.talkback.completions[completion_id]
        if ends == "length" and self.talkback.rewrites_teach and completion_id not in self.talkback.rewritten:
            self.talkback.rewritten.add(completion_id)
            self.talkback.taught(line, completion_id)

    async def learning(self, completion_id: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        line, ends = self.talkback.completions[completion_id]
        if ends == "length" and completion_id not in self.talkback.rewritten:
            return {"stage": "unused", "sample": None, "run": None, "reason": {"code": "truncated"}, "checkpoints": []}
        run = self.talkback.run_of(line, completion_id)
        status = "ready" if run is None or run["status"] == "failed" else "trained"
        sample = {"status": status, **self.talkback.place(line, completion_id)}
        told = {"stage": "batch", "sample": sample, "run": run, "reason": None, "checkpoints": []}
        if status == "trained" and run is not None:
            number, checkpoints = run["id"], self.talkback.lines[line].checkpoints
            told["checkpoints"] = [{"number": number, "status": checkpoints[number], "learned_here": True}]
            if checkpoints[number] == "candidate":  # the gate speaks before the next look
                checkpoints[number] = "rejected" if number in self.talkback.turns_away else "passed"
            elif checkpoints[number] == "approved":  # engines load it first
                self.talkback.looks[number] += 1
                if self.talkback.looks[number] == 20:
                    checkpoints[number], self.talkback.lines[line].live = "live", number
        return told

    async def live(self) -> str:
        return f"talkback@{self.talkback.lines[self.line].live}"


@pytest.fixture
def talkback() -> FakeTalkback:
    return FakeTalkback()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "config.json").write_text("{}")
    sizes = {"rounds": 2, "updates": 2, "samples": SAMPLES, "probes": 5, "read": 2, "references": 2, "pack": 3}
    arms = chosen(["base", "prompt-only", "binary", "combined"])
    return made(arms, (1, 2), tmp_path, sizes=sizes | {"sessions": 9})


class FakeSpeaker:
    """A model that never says the same twice, as models are."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def says(self, messages: Sequence[Mapping[str, str]], *, seed: int) -> str:
        await asyncio.sleep(0)
        self.asked[f"{seed} {messages}"] += 1
        return f"Shorter, for the time number {self.asked.total()}."


class Editor:
    """Writes in place of the first reply of a session, and leaves the second; or thanks for the first."""

    def __init__(self, *, writes: bool = True) -> None:
        self._wrote = not writes

    def opening(self, task: Task) -> str:
        return task.prompt

    async def hear(self, reply: str, *, finished: bool) -> Said:
        if self._wrote:
            return Said("Thanks.", accepts=True, asked=None)
        self._wrote = True
        return Said("Shorter.", accepts=False, asked="short", instead="Rain is water.")


class Run:
    """A run over the same two files, as often as it is started."""

    def __init__(self, plan: Plan, talkback: FakeTalkback, out: Path) -> None:
        self.plan, self.talkback, self.out = plan, talkback, out
        self.said: list[str] = []
        self.now = 0.0
        self.speaker: FakeSpeaker | None = None
        self.person: Callable[[Persona, int], User] | None = None
        self.others: list[FakeTalkback] = []

    async def __call__(self, plan: Plan | None = None) -> tuple[Journal, Journal]:
        journal, rows = Journal(self.out / "journal.jsonl"), Journal(self.out / "probes.jsonl")

        async def sleep(seconds: float) -> None:
            self.now += seconds
            await asyncio.sleep(0)

        def played(person: Persona, seed: int) -> User:
            return ModelUser(person, RememberedWords(self.speaker, journal), seed, writes=0.5)

        try:
            await Running(
                plan or self.plan,
                [self.talkback, *self.others],
                journal,
                rows,
                say=self.said.append,
                sleep=sleep,
                clock=lambda: self.now,
                person=played if self.speaker else self.person,
            ).run()
        finally:
            journal.close()
            rows.close()
        return journal, rows


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
