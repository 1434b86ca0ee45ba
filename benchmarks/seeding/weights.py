"""Write checkpoints with the runs that made them, their exams, and what was decided of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Max

from benchmarks.seeding.amounts import Amounts, Draw, write
from benchmarks.seeding.people import People
from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Decision, Line, Taint, Trial
from gate.models import Examination
from training import config
from training.models import Pause, Run, RunNote, RunTag

UPDATES, PAIRS, KEPT = 8, 12, 12
HISTOGRAM = {"edges": [-1.0, -0.5, 0.5, 1.0], "counts": [2, 5, 3]}


@dataclass
class Weights:
    """The shared line's checkpoints that answered, each with the run that learned from what it said."""

    everything: list[Checkpoint] = field(default_factory=list)
    answered: list[Checkpoint] = field(default_factory=list)
    learned_by: list[Run | None] = field(default_factory=list)
    exams: list[Examination] = field(default_factory=list)


def seed_weights(amounts: Amounts, draw: Draw, people: People, lines: list[Line]) -> Weights:
    """So many checkpoints, the newest of which is a candidate, two before it wait for a person, and one is live. Of
    each five one was rejected, of each twenty one is a team's."""
    first = (Checkpoint.objects.aggregate(most=Max("number"))["most"] or 0) + 1
    base = Checkpoint.objects.get(number=0)
    base.go_live()
    Checkpoint.objects.filter(pk=base.pk).update(status="retired")
    recipe = config.preset("embedded").model_dump(mode="json")
    found, parent, parents = Weights(answered=[base]), base, {line.name: base for line in lines}
    runs: list[Run] = []
    for place in range(amounts.checkpoints):
        left = amounts.checkpoints - place - 1
        line = lines[place // 20 % len(lines)] if place % 20 == 10 and left > 3 else None
        status = "candidate" if left == 0 else "passed" if left < 3 else "live" if left == 3 else "retired"
        status = "rejected" if status == "retired" and place % 5 == 4 else status
        before = parents[line.name] if line else parent
        made, run = _make(draw, first + place, place / amounts.checkpoints, status, before, recipe)
        if line:
            made.line = run.line = line
            parents[line.name] = made
        elif status in ("retired", "live"):
            found.answered.append(made)
            found.learned_by.append(run)
            parent = made
        found.everything.append(made)
        runs.append(run)
    found.learned_by.append(None)
    keep = {one.number for one in found.answered[-KEPT:]} | {one.number for one in found.everything[-3:]}
    for one in found.everything:
        if one.number not in keep:
            one.let_go_at = one.created_at
    for one in found.everything:  # each names the one before it, which must be there
        one.save()
    write(runs)
    _write_files(found.everything)
    _examine(found, draw)
    _decide(found, draw, people, runs)
    return found


def _make(
    draw: Draw, number: int, share: float, status: str, parent: Checkpoint, recipe: dict[str, Any]
) -> tuple[Checkpoint, Run]:
    at = draw.moment(share)
    made = Checkpoint(
        number=number, status=status, parent=parent, adapter=f"talkback-{number}-seeded", path=f"checkpoints/{number}",
        probe={"prompt_ids": [5, 6], "response_ids": [8, 2], "logprobs": [-1.0, -0.5], "base_logprobs": [-1.1, -0.6],
               "dtype": "float32"},
        files={"adapter_model.safetensors": f"{number:064x}"}, created_at=at, moved_at=at,
        reason="It repeats itself more than before." if status == "rejected" else "",
        pinned="the first that was short" if number % 100 == 50 else "",
    )  # fmt: skip
    metrics = [
        {
            "update": n, "loss": 0.5 / n, "policy_loss": 0.4 / n, "sft_loss": 0.3 / n, "kl": 0.1 * n, "entropy": 2.0,
            "clip_fraction": 0.01 * n, "gap_mean": 0.012, "gap_p99": 0.03, "grad_norm": draw.random.uniform(0.3, 1.2),
            "tokens": 900.0, "seconds": 2.0, "tokens_per_s": 450.0, "advantage_histogram": HISTOGRAM, "at_s": 2.0 * n,
        }
        for n in range(1, UPDATES + 1)
    ]  # fmt: skip
    usage = [{"at_s": 2.0 * n, "updates": n // 4, "cpu": 1.5, "memory_mib": 900.0 + n} for n in range(4 * UPDATES)]
    run = Run(
        status="finished", recipe=recipe, parent=parent, checkpoint=made, seed=number, metrics=metrics, usage=usage,
        progress={"phase": "done", "done": UPDATES, "total": UPDATES, "share": 1.0, "eta_s": 0.0}, attempts=1,
        created_at=at - timedelta(minutes=4), started_at=at - timedelta(minutes=3), finished_at=at, moved_at=at,
    )  # fmt: skip
    return made, run


def _write_files(checkpoints: list[Checkpoint]) -> None:
    for one in checkpoints:
        if one.let_go_at is None:
            folder = Path(settings.DATA_DIR) / one.path
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "adapter_model.safetensors").write_bytes(b"\0" * 4096)


def _examine(found: Weights, draw: Draw) -> None:
    """An exam of each but the candidate's."""
    for one in found.everything[:-1]:
        names = ("length", "variety", "general pack", "repetition", "fluency", "kept corrections")
        is_good = one.status != "rejected"
        found.exams.append(
            Examination(
                checkpoint=one, against=one.parent, passed=is_good, started_at=one.created_at,
                finished_at=one.created_at + timedelta(seconds=40),
                progress={"phase": "done", "seconds": {"replies": 31.0, "meter": 2.0}},
                checks=[
                    {"name": name, "passed": is_good or place > 0, "value": 0.5, "limit": 0.1, "where": "pairs",
                     "sentence": "It is within its limit of 0.10 nats per token."}
                    for place, name in enumerate(names)
                ],
                pairs=[
                    {"id": f"h{n:02}", "prompt": draw.question(), "live": draw.reply(), "candidate": draw.reply(),
                     "live_tokens": 60, "candidate_tokens": 41, "live_own": -1.1, "candidate_own": -1.2,
                     "candidate_on_live": -1.5}
                    for n in range(PAIRS)
                ],
            )
        )  # fmt: skip
    write(found.exams, 200)


def _decide(found: Weights, draw: Draw, people: People, runs: list[Run]) -> None:
    staff = people.staff
    write(
        Decision(checkpoint=one, verb=verb, by=draw.random.choice(staff), at=one.created_at, reason="")
        for one in found.everything[:-3]
        for verb in (("reject",) if one.status == "rejected" else ("approve", "promote"))
    )
    write(
        Taint(checkpoint=one, samples=3, reason="Its person took it back.", at=one.created_at)
        for one in found.everything[:: max(1, len(found.everything) // 20)]
    )
    shared = found.answered
    write(
        Trial(
            checkpoint=shared[-1 - n], against=shared[-2 - n], line=shared[-1].line, share=20, outcome="better",
            since=shared[-1 - n].created_at, ended_at=shared[-1 - n].created_at, evidence={},
        )
        for n in range(min(10, len(shared) - 1))
    )  # fmt: skip
    write(
        Cleaning(
            status="finished", line=shared[-1].line, ancestor=shared[n], replaces=shared[n + 1], result=shared[n + 2],
            by=staff[0], removed=3, finished_at=draw.moment(0.9),
        )
        for n in range(min(5, len(shared) - 2))
    )  # fmt: skip
    write(
        Run(status="failed", recipe=runs[0].recipe, parent=shared[-1], error="Out of memory.",
            created_at=one.created_at, finished_at=one.created_at)
        for one in found.everything[::25]
    )  # fmt: skip
    write(RunNote(run=one, text=draw.question(), by=staff[0]) for one in runs[::10])
    write(RunTag(run=one, name=draw.random.choice(("baseline", "short", "tried")), by=staff[0]) for one in runs[::5])
    write(
        Pause(by=staff[0], reason="A talk.", since=draw.moment(n / 20), ended_at=draw.moment(n / 20)) for n in range(20)
    )
