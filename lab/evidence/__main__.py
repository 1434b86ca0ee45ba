"""Does talking help, and what does it cost? Play it, on a private Talkback, and write a report.

    python -m lab.evidence --out var/evidence [--quick] [--arms base,combined] [--seeds 1,2,3]

The same command goes on with a run that was cut off. docs/explanation/evidence.md says what is done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from core import pipes
from core.errors import TalkbackError
from environments.actor import KEY as ACTOR_KEY
from environments.actor import Actor
from environments.errors import Unplayable
from environments.personas import Persona
from environments.users import ModelUser, User
from lab.evidence.compared_arms import ALL, ARMS, USUAL, chosen
from lab.evidence.plan import FULL, QUICK, Plan, made
from lab.evidence.playing.homes import folders
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.private_stack import Stack, side_by_side
from lab.evidence.playing.running import ArmsFailed, Running, agree
from lab.evidence.playing.traffic import RememberedWords
from lab.evidence.report.writing import write

SIZES = (
    "rounds",
    "updates",
    "samples",
    "probes",
    "read",
    "references",
    "pack",
    "reply_tokens",
    "sessions",
    "rewrites",
    "writes",
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.evidence", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, default=Path("var/evidence"), help="journal, replies, report (%(default)s)")
    parser.add_argument("--arms", default=",".join(USUAL), help=f"of {', '.join(ARMS)}, or {ALL} of them (%(default)s)")
    parser.add_argument("--seeds", default="", help="whole numbers with commas between (1; make evidence: 1,2,3)")
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"), help="its folder")
    parser.add_argument("--personas", type=Path, help="a file of your own people, JSON lines")
    parser.add_argument("--prompts", type=Path, help="a file of your own prompts; half of them are held out")
    parser.add_argument("--quick", action="store_true", help="five minutes on two cores: whether it works here")
    parser.add_argument(
        "--set", action="append", default=[], metavar="ARM.KNOB=VALUE", help="a recipe's knob; again for more"
    )
    parser.add_argument(
        "--with", action="append", default=[], metavar="NAME=VALUE", help="a setting of the private Talkback"
    )
    for size in SIZES:
        named = "--" + size.replace("_", "-")
        least = getattr(FULL, size)
        parser.add_argument(named, type=type(least), metavar="N", help=f"({least}; quick {getattr(QUICK, size)})")
    parser.add_argument(
        "--actor", metavar="URL", default="", help="an OpenAI-compatible server, to word what people say"
    )
    parser.add_argument("--actor-model", default="", help="which of its models does")
    parser.add_argument("--actor-key", default=os.environ.get(ACTOR_KEY, ""), help=f"or in {ACTOR_KEY}")
    parser.add_argument(
        "--talkbacks", type=int, metavar="N", help="side by side, each with a learner (one for three cores)"
    )
    parser.add_argument("--plan", action="store_true", help="say what would be done and how long it takes; do nothing")
    parser.add_argument("--report", action="store_true", help="only write the report of what is there")
    return parser.parse_args(arguments)


def planned(options: argparse.Namespace) -> Plan:
    """The plan of these arguments. Raises Unplayable."""
    try:
        seeds = [int(seed) for seed in (options.seeds or "1").split(",") if seed.strip()]
    except ValueError as error:
        raise Unplayable(f"Seeds are whole numbers with commas between, as in 1,2,3: {options.seeds!r}.") from error
    if bool(options.actor) != bool(options.actor_model):
        raise Unplayable("--actor URL and --actor-model NAME go together: where the model answers, and which it is.")
    settings = dict(setting.partition("=")[::2] for setting in vars(options)["with"])
    if "" in settings.values() or not all(settings):
        raise Unplayable("--with reads NAME=VALUE, as in --with JUDGE_VOTES=5.")
    return made(
        chosen(options.arms.split(","), options.set),
        seeds,
        options.model,
        quick=options.quick,
        people=options.personas,
        prompts=options.prompts,
        settings=settings,
        sizes={size: value for size in SIZES if (value := getattr(options, size)) is not None},
        actor=options.actor_model,
    )


def sentences(plan: Plan, done: Sequence[str]) -> str:
    """What the plan is, for the operator who is about to start it."""
    sizes, steps = plan.sizes, list(plan.steps())
    left = [step for step in steps if step.key not in set(done)]
    engine_s, learner_s = sum(step.engine_s for step in left), sum(step.learner_s for step in left)
    lines = [
        f"Arms: {', '.join(arm.name for arm in plan.arms)}. Seeds: {', '.join(map(str, plan.seeds))}.",
        f"{sizes.rounds} rounds of {sizes.updates} updates on {sizes.samples} samples; after each, {sizes.probes} "
        f"held-out prompts, and {sizes.pack} items of the general pack at the end.",
    ]
    for seed in plan.seeds:
        lines.append(f"Seed {seed}: {plan.own(seed).name} is taught; {plan.other(seed).name} is not.")
    if plan.actor:
        lines.append(f"What people answer in sessions is worded by {plan.actor}.")
    lines += [
        f"{len(left)} of {len(steps)} steps are left: about {engine_s / 60:.0f} minutes of a core for the engines "
        f"and {learner_s / 60:.0f} for the learner, {plan.seconds(done) / 60:.0f} on two cores.",
    ]
    return "\n".join(lines)


async def carried_out(plan: Plan, homes: Sequence[Path], journal: Journal, rows: Journal, actor: Actor) -> str:
    """Carry out the plan on private Talkbacks in these folders; returns what could not be done, as sentences. `actor`
    words what people say where the plan says so."""

    def played(person: Persona, seed: int) -> User:
        return ModelUser(person, RememberedWords(actor, journal), seed, writes=plan.sizes.writes)

    made = [Stack(home, Path(plan.model), plan.settings, beside=len(homes) - 1) for home in homes]
    async with aclosing(actor), side_by_side(made) as stacks:
        for stack in stacks:
            print(f"A private Talkback runs in {stack.folder}, for as long as this does.", flush=True)
        who = played if plan.actor else None
        try:
            await Running(plan, stacks, journal, rows, say=partial(print, flush=True), person=who).run()
        except ArmsFailed as error:
            return str(error)
    return ""


def _actor(options: argparse.Namespace) -> Actor:
    return Actor(options.actor, options.actor_key, options.actor_model)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    out: Path = options.out
    trouble = ""
    try:
        plan = None if options.report else planned(options)
        there = (out / "journal.jsonl").exists()
        if options.report and not there:
            raise Unplayable(f"{out} holds no run: name it with --out, or start one.")
        if plan is not None and options.plan and not there:
            print(sentences(plan, []))
            return 0
        journal, rows = Journal(out / "journal.jsonl"), Journal(out / "probes.jsonl")
        if plan is not None:
            agree(plan, journal)
            print(sentences(plan, [row["key"] for row in journal]), flush=True)
            if options.plan:
                return 0
            lines = len(plan.seeds) * sum(arm.learns for arm in plan.arms)
            homes = folders(out, lines, plan.settings, options.talkbacks)
            trouble = asyncio.run(carried_out(plan, homes, journal, rows, _actor(options)))
        page, data = write(out, journal, rows)
    except TalkbackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped. The same command goes on from here; what is done is in {out}.", file=sys.stderr)
        return 130
    print(f"{page} and {data} are written.")
    if trouble:
        print(f"Not all could be done: {trouble}", file=sys.stderr)
    return 1 if trouble else 0


if __name__ == "__main__":
    pipes.end_with_reader()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite end stops everything
    os.umask(0o077)  # what people said, and keys, are the owner's alone
    raise SystemExit(main(sys.argv[1:]))
