"""A court: Redis, a scripted engine, beat and two judge workers over one database, and a docket of turns to judge.

python -m tests.kill.court N    in such an environment: N served turns with their next states enter the docket
python -m tests.kill.court      what has become of them, as JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from benchmarks.stack import PYTHON, Stack

WORKERS = ("judge-1", "judge-2")

ANSWERS = (
    # What comes back, what the judge says of it, and of a hint.
    ("That is right, thank you.", r"\boxed{1}", r"\boxed{-1}"),
    ("Shorter, please.", r"\boxed{-1}", r"\boxed{1} [HINT_START] Answer in one short sentence. [HINT_END]"),
    ("Oh, sheep.", r"\boxed{0}", r"\boxed{-1}"),
    ("Wait, what about Wales?", "It depends on how one looks at it.", "Perhaps there is one."),
)

SCRIPT = [
    {"to": rf"(?s)Does what came back say.*came back, user:\n\| {said[:12]}", "says": hint, "times": None}
    for said, _, hint in ANSWERS
] + [{"to": rf"came back, user:\n\| {said[:12]}", "says": score, "times": None} for said, score, _ in ANSWERS]


class Court(Stack):
    """The part of a stack that judges."""

    def __init__(self, data_dir: Path, model: Path, database_url: str = "") -> None:
        environment = {
            "JUDGE_TEACHES": "1",
            "JUDGE_MAX_NEW_TOKENS": "120",
            "JUDGE_DEADLINE_S": "10",
            "CALIBRATION_VOTES": "0",
            "JUDGES": '[{"kind": "base", "constrain": false}]',
            "LOG_LEVEL": "WARNING",
        }
        if database_url:
            environment["DATABASE_URL"] = database_url
        super().__init__(data_dir, model, **environment)
        (data_dir / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in SCRIPT))

    @property
    def commands(self) -> dict[str, list[str]]:
        usual = super().commands
        engine = [PYTHON, "-m", "benchmarks.scripted", "--model", str(self.model), "--port", str(self.engine_port)]
        script = ["--script", str(self.data_dir / "script.jsonl"), "--tokens-per-second", "0"]
        named = {name: [f"{name}@%h" if word == "judge@%h" else word for word in usual["judge"]] for name in WORKERS}
        return {"redis": usual["redis"], "engine": [*engine, *script], "beat": usual["beat"], **named}

    def ready(self) -> bool:
        return httpx.get(f"{self.environment['ENGINE_URL']}/ready", timeout=10).status_code == 200

    def call(self, *arguments: str) -> dict[str, Any]:
        """This module in a process of its own, within the court's environment."""
        command = [PYTHON, "-m", "tests.kill.court", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, cwd=self.data_dir)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))


def enter(number: int) -> dict[str, Any]:
    """Serve so many turns to which something came back: each is due, and says so to the workers."""
    from django.conf import settings
    from django.contrib.auth import get_user_model

    from chat.models import Session, Turn
    from chat.rendering.renderer import Renderer
    from checkpoints.models import Checkpoint

    renderer = Renderer.for_model(settings.MODEL)
    user, _ = get_user_model().objects.get_or_create(username="docket")
    sessions = [Session.objects.create(user=user) for _ in range(20)]
    live = Checkpoint.live()
    for position in range(number):
        messages = [{"role": "user", "content": f"How many sheep are in field {position}?"}]
        ids = [*renderer.encode(f"There are {position} sheep."), 2]
        Turn.objects.create(
            session=sessions[position % len(sessions)],
            position=position,
            status=Turn.Status.OBSERVED,
            checkpoint=live,
            messages=messages,
            prompt_ids=renderer.prompt_ids(messages),
            response_ids=ids,
            logprobs=[-0.5] * len(ids),
            text=f"There are {position} sheep.",
            sampling={"temperature": 0.7},
            finish_reason="stop",
            next_state=[{"role": "user", "content": ANSWERS[position % len(ANSWERS)][0]}],
        )
    return {"turns": number}


def told() -> dict[str, Any]:
    """How the turns stand, and everything of which there should be one."""
    from django.db.models import Count

    from chat.models import Turn
    from judge.models import Judgement, Vote
    from training.models import Sample

    readable = Vote.objects.exclude(score=None).order_by()
    places = readable.values("turn", "question", "index", "evidence", "prompt_version").annotate(votes=Count("pk"))
    outcomes = Counter(
        (turn.position % len(ANSWERS), turn.judgement.reward, turn.judgement.reason_code)
        for turn in Turn.objects.filter(judgement__isnull=False).select_related("judgement")
    )
    return {
        "turns": Turn.objects.count(),
        "status": dict(Turn.objects.order_by().values_list("status").annotate(n=Count("pk"))),
        "judgements": Judgement.objects.count(),
        "judged": Judgement.objects.values("turn").distinct().count(),
        "outcomes": sorted([*map(list, ([*key, n] for key, n in outcomes.items()))], key=str),
        "samples": Sample.objects.count(),
        "sampled": Judgement.objects.exclude(sample=None).count(),
        "stale": Sample.objects.filter(status="stale").count(),
        "votes": Vote.objects.count(),
        "readable": readable.count(),
        "read_twice": sum(1 for place in places if place["votes"] > 1),
    }


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    import django

    django.setup()
    print(json.dumps(enter(int(sys.argv[1])) if len(sys.argv) > 1 else told()))
