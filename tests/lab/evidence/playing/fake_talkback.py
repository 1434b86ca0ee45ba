"""A Talkback that learns by a rule, and a run of the evidence against it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments.client import Completion
from environments.personas import Persona
from environments.tasks import Task
from environments.users import ModelUser, Said, User
from lab.evidence.plan import Plan
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.running import Running
from lab.evidence.playing.traffic import Overdue, RememberedWords

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
