"""Does the gate tell good candidates from bad ones? `python -m lab.research.gate --arms embedded,parrot,blamed --json`.

A person says the same guidance to a few replies; each arm learns from them in one run, on the real model; then the
gate's own exam is held over each, through a served engine, and its checks are printed. The arms:

    embedded  the default recipe of the CPU profile, with a rewrite beside each hint: it should pass
    parrot    every reply rewritten as "You lie.", learned by supervision alone at rate 5e-4, without an anchor
    blamed    every reply blamed, learned from that alone at rate 5e-4: no anchor, no clip, no teacher

Kept corrections are the same guidance on questions that nothing trained on, so the default recipe's arm also shows
whether what it learned shows there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from core import pipes
from installation.diagnosis import free_port

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "var" / "models" / "smollm2-135m-instruct"

LIE = "You lie."

BARE = {"preset": "binary", "w_rl": 1.0, "beta": 0.0, "lr": 5e-4}
ARMS: dict[str, dict[str, Any]] = {
    "embedded": {},
    "parrot": BARE | {"w_rl": 0.0, "w_sft": 1.0, "updates": 12},
    "blamed": BARE | {"updates": 12},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--reply-tokens", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=6, help="held-out prompts of the exam")
    parser.add_argument("--items", type=int, default=16, help="items of the general pack")
    parser.add_argument("--kept", type=int, default=6, help="corrections that never train")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for row in run(arguments, Path(place)):
            print(json.dumps(row) if arguments.json else told(row), flush=True)


def told(row: dict[str, Any]) -> str:
    """An arm's exam, for people."""
    lines = [f"{row['arm']}: {row['status']}, learned in {row['learned_cpu_s']:.0f} processor s, exam {row['exam_s']}"]
    lines += [
        f"  {'' if one['passed'] else 'FAILED '}{one['name']}: {one['value']:.3f} (limit {one['limit']:.3f})"
        for one in row["checks"]
    ]
    return "\n".join([*lines, *(f"    {reply!r}" for reply in row["replies"])])


def run(arguments: argparse.Namespace, folder: Path) -> Any:
    """Everything in a folder of its own: a database, an engine, adapters. Yields a row an arm."""
    from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command

    port = free_port()
    keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    os.environ.update(
        {
            **keys,
            **ONE_THREAD,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENV_FILE": os.devnull,
            "DATA_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder}/talkback.sqlite3",
            "MODEL": str(arguments.model),
            "ENGINE_URL": f"http://127.0.0.1:{port}",
        }
    )
    import django
    import torch

    django.setup()
    torch.set_num_threads(1)
    from django.core.management import call_command

    from core.states import moved

    for listener_of in ("pipeline", "live"):  # no workers and no pages here: only the exam and the engine
        moved.disconnect(dispatch_uid=listener_of)
    call_command("migrate", verbosity=0)
    made = [learned(arm, arguments, number) for number, arm in enumerate(arguments.arms.split(","), start=1)]
    command = embedded_command(str(arguments.model), port)
    with EngineProcess(command, f"http://127.0.0.1:{port}", folder / "engine.log", environment={**ONE_THREAD, **keys}):
        for row in made:
            yield row | examined(row.pop("checkpoint"))


def learned(arm: str, arguments: argparse.Namespace, number: int) -> dict[str, Any]:
    """One run of this arm, with the rows that an installation would have of it."""
    from django.conf import settings
    from django.contrib.auth import get_user_model

    from chat.models import Session, Turn
    from checkpoints import checksums
    from checkpoints.models import Checkpoint
    from environments.editing import edited
    from environments.personas import Persona
    from gpu_workers.types import Example
    from judge.hints.hint_words import worded
    from judge.models import Judgement
    from lab.research.recipe import HELD_OUT, HINT, TAUGHT, Lab
    from training import config, learning
    from training.models import Run, Sample
    from training.objective import edits
    from training.objective.updates import updates

    gate = {"prompts": arguments.prompts, "pack": arguments.items, "own": arguments.kept, "meter": 3}
    recipe = config.read(ARMS[arm] | {"gate": gate | {"max_new_tokens": arguments.reply_tokens}})
    lab = Lab(arguments.model, seed=arguments.seed, reply_tokens=arguments.reply_tokens, recipe=recipe)
    person, _ = get_user_model().objects.get_or_create(username="ana")
    session = Session.objects.create(user=person)
    run = Run.objects.create(recipe=recipe.model_dump(), parent=Checkpoint.live(), seed=arguments.seed)
    hint = worded(rewrite=LIE) if arm == "parrot" else HINT

    def turn(question: str, prompt_ids: list[int]) -> Turn:
        return Turn.objects.create(
            session=session, position=session.turns.count(), checkpoint=Checkpoint.live(), status="judged",
            messages=[{"role": "user", "content": question}], prompt_ids=prompt_ids, text="…", finish_reason="stop",
        )  # fmt: skip

    began = time.process_time()
    questions = TAUGHT[: arguments.samples]
    prompts = [lab.prompt(question) for question in questions]
    brief = Persona("brief", "talk", ("short", "no-lists"), "train")
    examples = []
    for question, prompt, reply in zip(questions, prompts, lab.replies(prompts, seed=arguments.seed), strict=True):
        served = lab.learner.score(prompt, reply)
        finished = reply[-1] == lab.stop
        said = lab.renderer.decode(reply[:-1] if finished else reply)
        wanted = (
            LIE if arm == "parrot" else edited(brief, said, asked=question, finished=finished, rng=random.Random(0))
        )
        written = [*lab.renderer.encode(wanted), lab.stop] if wanted and recipe.w_sft else []
        examples.append(
            Example(
                prompt,
                reply,
                served,
                teacher_prompt_ids=lab.prompt(question, hint=HINT) if recipe.w_opd else None,
                reward=-1.0 if arm == "blamed" else 0.0,
                rewrite=(prompt, written) if written else None,
                decided=edits.decided(reply, written),
            )
        )
        sample = Sample.objects.create(
            status="trained", run=run, checkpoint=Checkpoint.live(), prompt_ids=prompt, response_ids=reply,
            behaviour_logprobs=served, reward=examples[-1].reward,
        )  # fmt: skip
        Judgement.objects.create(turn=turn(question, prompt), sample=sample, hint=hint, hint_from="guidance")
    if number == 1:  # one person, whose kept corrections every arm is asked about
        for question in HELD_OUT[: arguments.kept]:
            kept = turn(question, lab.prompt(question))
            Judgement.objects.create(turn=kept, hint=HINT, hint_from="guidance", held_out=True)
    views = [lab.learner.score_example(example, teacher=recipe.teacher) for example in examples]
    with unclipped() if arm == "blamed" else nullcontext():
        for figures in updates(lab.learner, views, recipe):
            print(
                f"  {arm} {figures['update']:.0f}: loss {figures['loss']:.3f}, kl {figures['kl']:.3f}", file=sys.stderr
            )
    name = f"talkback-{number}-{number:08x}"
    path = Path("checkpoints") / name
    lab.learner.save(Path(settings.DATA_DIR) / path)
    checkpoint = Checkpoint.objects.create(
        number=number, adapter=name, path=str(path), parent=Checkpoint.live(),
        files=checksums.of(Path(settings.DATA_DIR) / path),
        probe=learning.probed(lab.learner, [(prompts[0], list(examples[0].response_ids))]),
    )  # fmt: skip
    run.checkpoint = checkpoint
    run.save(update_fields=["checkpoint"])
    return {"arm": arm, "checkpoint": checkpoint, "learned_cpu_s": time.process_time() - began}


def unclipped() -> Any:
    """PPO's clip out of the way, so that blame goes on for as long as the run does."""
    from training.objective import updates as objective

    return mock.patch.multiple(objective, CLIP_LOW=0.99, CLIP_HIGH=99.0)


def examined(checkpoint: Any) -> dict[str, Any]:
    """The gate's word on it, with its figures."""
    from django.conf import settings

    from chat.rendering.renderer import Renderer
    from gate import exam as gate
    from gate.models import Examination
    from gpu_workers import engines

    gate.examine(str(checkpoint.pk), engine=engines.policy(), renderer=Renderer.for_model(Path(settings.MODEL)))
    checkpoint.refresh_from_db()
    exam = Examination.objects.get(checkpoint=checkpoint)
    return {
        "status": checkpoint.status,
        "failed": [check["name"] for check in exam.checks if not check["passed"]],
        "checks": [{part: check[part] for part in ("name", "passed", "value", "limit")} for check in exam.checks],
        "sentences": [check["sentence"] for check in exam.checks],
        "replies": [pair["candidate"] for pair in exam.pairs[:3]],
        "exam_s": exam.seconds,
    }


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
