"""Measure what rounds of lessons do to a model: `python -m lab.research.rounds --person short+asks-back --json`.

`make evidence` measures a recipe through the whole of Talkback, in an hour. This is for choosing one: no engine, no
judge, first replies only. A person asks; of each reply they accept or ask for one change, and write beside some of
these what they would have had; a run learns from a batch of that; then an exam is held. The reward
and the hint are what a judge that never errs would say, and a hint gives way to demonstrations as a judge's does.
Style and content are the evidence's own. The exam's questions are training questions that no batch asks: a model that
chooses a recipe by the evidence's held-out ones has no evidence left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any
from uuid import UUID

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

from core import pipes
from environments import personas, tasks
from environments.editing import edited
from environments.personas import Persona
from environments.tasks import Task
from environments.users import ScriptedUser
from environments.wishes import WISHES
from lab.evidence.measures.content import BRIEFLY, Reading, Reference, Yardstick
from lab.research.recipe import Lab  # after the thread count

REFERENCES = 2
"""Further replies of the base to each question of the exam; the second is told to be brief."""

REWRITES = "rewrites"
"""Named as an arm: what the person writes themselves in place of the base's answers."""


@dataclass(frozen=True)
class Answer:
    """One reply to one question."""

    prompt: list[int]
    ids: list[int]
    text: str
    finished: bool


def asked(
    lab: Lab,
    openings: Sequence[str],
    *,
    seed: int,
    hint: str = "",
    tokens: int | None = None,
    temperature: float = 0.7,
) -> list[Answer]:
    """A sampled reply to each, of `tokens` at most, or of as many as the lab's."""
    prompts = [lab.prompt(opening, hint=hint) for opening in openings]
    found = []
    for prompt, ids in zip(
        prompts, lab.replies(prompts, seed=seed, tokens=tokens, temperature=temperature), strict=True
    ):
        finished = ids[-1] == lab.stop
        found.append(Answer(prompt, ids, lab.renderer.decode(ids[:-1] if finished else ids), finished))
    return found


def batch(lab: Lab, person: Persona, coming: Iterator[Task], recipe: Any, *, writes: float, seed: int) -> list[Any]:
    """Examples of as many replies as a run takes."""
    from gpu_workers.types import Example
    from judge.hints.hint_words import worded
    from training.objective import edits

    made: list[Any] = []
    while len(made) < recipe.batch_size:
        drawn = [next(coming) for _ in range(recipe.batch_size)]
        users = [ScriptedUser(person, seed, writes=writes) for _ in drawn]
        openings = [user.opening(task) for user, task in zip(users, drawn, strict=True)]
        seed += 1
        for opening, user, answer in zip(openings, users, asked(lab, openings, seed=seed), strict=True):
            said = asyncio.run(user.hear(answer.text, finished=answer.finished))
            if not answer.text.strip() or not (answer.finished or (said.instead and (recipe.w_opd or recipe.w_sft))):
                continue  # of a reply that was cut Talkback learns nothing but what was written in its place
            hint = worded(said.hint, said.instead or "")
            written = [*lab.renderer.encode(said.instead), lab.stop] if said.instead and recipe.w_sft else []
            made.append(
                Example(
                    answer.prompt,
                    answer.ids[: recipe.max_tokens],
                    lab.learner.score(answer.prompt, answer.ids[: recipe.max_tokens]),
                    teacher_prompt_ids=lab.prompt(opening, hint=hint) if hint and recipe.w_opd else None,
                    reward=(1.0 if said.accepts else -1.0) if recipe.w_rl and answer.finished else 0.0,
                    rewrite=(answer.prompt, written[: recipe.written_tokens]) if written else None,
                    decided=edits.decided(answer.ids, written)[: recipe.written_tokens],
                )
            )
    return made[: recipe.batch_size]


def rehearsed(lab: Lab, recipe: Any, written: int, replayed: int, *, seed: int) -> list[Any]:
    """Talkback's ordinary prompts with the base's own answers, as many as a run takes that learns so many rewrites."""
    from judge.samples.base_answers import prompts
    from training.rehearsals import TOKENS, count, example

    number = count(recipe, recipe.batch_size, written, replayed)
    if not number:
        return []
    ordinary = random.Random(seed).sample(prompts(), number)
    with lab.learner.model.disable_adapter():
        answers = asked(lab, ordinary, seed=seed, temperature=1.0, tokens=TOKENS)
    return [
        example(one.prompt, one.ids, lab.learner.score(one.prompt, one.ids, adapter=False), TOKENS) for one in answers
    ]


@dataclass(frozen=True)
class Exam:
    """Questions in one person's words, and what the base says to them."""

    person: Persona
    questions: list[str]
    openings: list[str]
    scale: Yardstick
    seed: int

    @classmethod
    def of(cls, lab: Lab, person: Persona, questions_: Sequence[Task], *, seed: int) -> Exam:
        user = ScriptedUser(person, seed)
        openings = [user.opening(task) for task in questions_]
        references: dict[str, list[Reference]] = {opening: [] for opening in openings}
        for at in range(REFERENCES):
            answers = asked(lab, openings, seed=9000 + at, hint=BRIEFLY if at % 2 else "")
            for opening, answer in zip(openings, answers, strict=True):
                references[opening].append(Reference(answer.text, cls.read(lab, opening, answer)))
        return cls(person, [task.prompt for task in questions_], openings, Yardstick(references), seed)

    @staticmethod
    def read(lab: Lab, opening: str, answer: Answer) -> Reading | None:
        ids = answer.ids[:-1] if answer.finished else answer.ids
        return Reading.of(lab.learner.score(lab.prompt(opening), ids, adapter=False)) if answer.text.strip() else None

    def sat(self, lab: Lab, *, hint: str = "") -> dict[str, Any]:
        """What the lab's policy answers, marked."""
        return self.marked(lab, asked(lab, self.openings, seed=1000 + self.seed, hint=hint))

    def rewritten(self, lab: Lab) -> dict[str, Any]:
        """What the person would have had in place of the policy's answers, marked: as much content as they keep who
        learn it perfectly. An answer that no editor's pen can mend stays."""
        answers = []
        for question, answer in zip(self.questions, asked(lab, self.openings, seed=1000 + self.seed), strict=True):
            rng = random.Random(question)
            text = edited(self.person, answer.text, asked=question, finished=answer.finished, rng=rng)
            ids = [*lab.renderer.encode(text), lab.stop] if text else answer.ids
            answers.append(Answer(answer.prompt, ids, text or answer.text, bool(text) or answer.finished))
        return self.marked(lab, answers)

    def marked(self, lab: Lab, answers: Sequence[Answer]) -> dict[str, Any]:
        """Style, by wish and in all; content; both at once; what the base thinks of it; the replies."""
        obeyed: dict[str, list[bool]] = {name: [] for name in self.person.wishes}
        rows: list[dict[str, Any]] = []
        for opening, answer in zip(self.openings, answers, strict=True):
            reading = self.read(lab, opening, answer)
            parts = personas.parts(self.person, answer.text, finished=answer.finished)
            for name, holds in parts.items():
                obeyed[name].append(holds)
            content = self.scale.content(opening, answer.text, reading)
            rows.append(
                {
                    "question": opening,
                    "reply": answer.text,
                    "style": mean(parts.values()),
                    "content": content.score,
                    "topic": content.topic,
                    "substance": content.substance,
                    "fluency": content.fluency,
                    "lp": reading.fluency if reading else None,
                    "finished": answer.finished,
                    "words": len(answer.text.split()),
                }
            )
        return {
            "style": mean(row["style"] for row in rows),
            **{f"style.{name}": mean(values) for name, values in obeyed.items()},
            "all": mean(row["style"] == 1 for row in rows),
            **{name: mean(row[name] for row in rows) for name in ("content", "topic", "substance", "fluency")},
            "product": mean(row["style"] * row["content"] for row in rows),
            "lp": mean(row["lp"] for row in rows if row["lp"] is not None),
            "cut": mean(not row["finished"] for row in rows),
            "words": mean(row["words"] for row in rows),
            "replies": rows,
        }


def questions(arguments: argparse.Namespace) -> tuple[list[Task], list[Task]]:
    """Those of the exam, the same for every seed, and those to teach with, in the seed's order."""
    every = tasks.tasks("open", "train", arguments.probes + arguments.training, 0)
    teaching = every[arguments.probes :]
    random.Random(arguments.seed).shuffle(teaching)
    return every[: arguments.probes], teaching


def taught(name: str, recipe: Any, exam: Exam, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One recipe, round after round, with an exam after each."""
    from training.demonstrations import Said
    from training.demonstrations import shown as demonstrated
    from training.objective import question_bank
    from training.objective.updates import updates

    lab = Lab(arguments.model, seed=arguments.seed, reply_tokens=arguments.reply_tokens, recipe=recipe)
    known = question_bank.read(lab.renderer)
    coming = cycle(questions(arguments)[1])
    earlier: list[Any] = []
    for number in range(1, arguments.rounds + 1):
        began = time.monotonic()
        seed = 100 * arguments.seed + 10 * number
        examples = batch(lab, exam.person, coming, recipe, writes=arguments.writes, seed=seed)
        served_s = time.monotonic() - began
        replayed = random.Random(seed).sample(earlier, min(recipe.replays, len(earlier)))
        said = [
            Said(exam.person.name, UUID(int=at), one.prompt_ids, one.rewrite[1] if one.rewrite else None, is_voted=True)
            for at, one in enumerate([*examples, *replayed])
        ]
        written = sum(one.rewrite is not None for one in examples)
        every = [
            *demonstrated(examples, said[: len(examples)], recipe.shows, seed=seed, earlier=said[len(examples) :]),
            *rehearsed(lab, recipe, written, len(replayed), seed=seed),
        ]
        is_apart = recipe.distillation != "token"
        views = [lab.learner.score_example(one, teacher=recipe.teacher, with_distribution=is_apart) for one in every]
        *_, figures = updates(
            lab.learner,
            views,
            recipe,
            replayed,
            questions=question_bank.draw(recipe, seed, known),
        )
        earlier += [one for one in examples if one.rewrite]
        run_s = time.monotonic() - began - served_s
        yield {
            "arm": name,
            "updates": number * recipe.updates,
            "accepted": sum(one.reward > 0 for one in examples),
            "rewritten": sum(one.rewrite is not None for one in examples),
            "served_s": round(served_s),
            "run_s": round(run_s),
            "kl": figures.get("kl"),
            **exam.sat(lab),
        }


def shown(row: Mapping[str, Any]) -> str:
    """A line of figures."""
    return "  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k != "replies")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--person", default="short+asks-back", help="wishes with + between")
    parser.add_argument(
        "--arms", default="base,prompt-only,combined", help=f"of lab/evidence/compared_arms.py, or {REWRITES}"
    )
    parser.add_argument("--try", dest="tries", action="append", default=[], metavar="NAME={…}", help="a recipe; again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--probes", type=int, default=32)
    parser.add_argument("--writes", type=float, default=0.5)
    parser.add_argument("--training", type=int, default=160, help="different questions to teach with")
    parser.add_argument("--reply-tokens", type=int, default=256, help="where a reply is cut, to teach and in the exam")
    parser.add_argument("--replies", action="store_true", help="print the replies too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    import django
    import torch

    django.setup()
    from lab.evidence.compared_arms import ARMS
    from training.config import read

    torch.set_num_threads(1)
    person = personas.named(arguments.person, "train")
    base = Lab(arguments.model, seed=arguments.seed, reply_tokens=arguments.reply_tokens)
    exam = Exam.of(base, person, questions(arguments)[0], seed=arguments.seed)
    own = {"updates": arguments.updates, "batch_size": arguments.samples}
    hint = " ".join(WISHES[name].hint for name in person.wishes)

    def rows() -> Iterator[dict[str, Any]]:
        for name in filter(None, arguments.arms.split(",")):
            if name == REWRITES:
                yield {"arm": name, "updates": 0, **exam.rewritten(base)}
            elif ARMS[name].learns:
                yield from taught(name, read({**ARMS[name].recipe, **own}), exam, arguments)
            elif ARMS[name].kind == "shown":
                parser.error(f"{name} is for make evidence alone: no person has written anything here before the exam.")
            else:
                told = hint if ARMS[name].kind == "prompt" else ""
                yield {"arm": name, "updates": 0, **exam.sat(base, hint=told)}
        for each in arguments.tries:
            name, _, recipe = each.partition("=")
            yield from taught(name, read({**ARMS["combined"].recipe, **own, **json.loads(recipe)}), exam, arguments)

    for row in rows():
        if arguments.json:
            print(json.dumps({"person": person.name, "seed": arguments.seed} | row), flush=True)
            continue
        print(shown(row), flush=True)
        for reply in row["replies"] if arguments.replies else ():
            print(f"    {reply['style']:.2f} {reply['content']:.2f} {reply['reply']!r}")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
