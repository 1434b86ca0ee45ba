"""Do step values help an agent to learn? Play it, on a private Talkback, and write a page.

    python -m lab.worlds --out var/worlds [--world till] [--smollm] [--seeds 1] [--arms outcome,index]

A tiny model that is made here plays, unless another is named. The last line it prints is JSON: success on held-out
tasks by arm and update. docs/explanation/agents-demonstration.md
says what is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from core import pipes
from core.errors import TalkbackError
from environments.errors import Unplayable
from lab.evidence.report.writing import machine, versions
from lab.worlds.demonstration.arms import ARMS, chosen
from lab.worlds.demonstration.figures import Figures
from lab.worlds.demonstration.page import write
from lab.worlds.demonstration.plan import Plan
from lab.worlds.demonstration.talkback import carry_out
from lab.worlds.rows import ROWS

SIZES = ("updates", "tasks", "attempts", "heldout", "every")
TINY: Mapping[str, Any] = {"lr": 2e-3, "beta": 0, "micro_batch": 32}
"""How the tiny model learns on a line, by an adapter: weights of lines answer beside one another."""
SMOLLM = Path("var/models/smollm2-135m-instruct")
"""Where `make model` puts it."""
say = partial(print, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.worlds", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, default=Path("var/worlds"), help="the page and its data (%(default)s)")
    parser.add_argument("--world", choices=ROWS, default="till", help="what is played (%(default)s)")
    parser.add_argument("--arms", help=f"of {', '.join(ARMS)}; left out: what the world's steps allow")
    parser.add_argument("--seeds", default="1", help="whole numbers with commas between (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="the tiny model, made here; so it is where none is named")
    parser.add_argument("--smollm", action="store_true", help="SmolLM2-135M in place of the tiny model")
    parser.add_argument("--model", type=Path, help="the folder of another, in place of both")
    parser.add_argument("--warm", type=Path, help="the folder of a model that has had its warm start")
    parser.add_argument("--cache", type=Path, default=Path("var/models"), help="of warm models (%(default)s)")
    for size in SIZES:
        parser.add_argument(f"--{size}", type=int, metavar="N", help=f"({getattr(Plan, size)})")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="of all arms' recipe")
    options = parser.parse_args(arguments)
    options.tiny = options.tiny or not (options.smollm or options.model or options.warm)
    return options


def planned(options: argparse.Namespace) -> Plan:
    """The plan of these arguments, without its model. Raises Unplayable."""
    try:
        seeds = tuple(int(seed) for seed in options.seeds.split(",") if seed.strip())
    except ValueError as error:
        raise Unplayable(f"Seeds are whole numbers with commas between, as in 1,2,3: {options.seeds!r}.") from error
    sizes = {size: value for size in SIZES if (value := getattr(options, size)) is not None}
    if not seeds or any(value < 1 for value in sizes.values()):
        raise Unplayable("There is at least one seed, and every size is at least 1.")
    arms = options.arms.split(",") if options.arms else ROWS[options.world].arms
    return Plan(chosen(arms), tuple(dict.fromkeys(seeds)), **sizes, world=options.world)


def laid_over(settings: Sequence[str]) -> dict[str, Any]:
    """The knobs of --set. Raises Unplayable.

    >>> laid_over(["lr=0.001", "baseline=pooled"])
    {'lr': 0.001, 'baseline': 'pooled'}
    """
    found = {}
    for setting in settings:
        knob, equals, value = setting.partition("=")
        if not (knob and equals):
            raise Unplayable(f"--set reads KNOB=VALUE, as in --set lr=0.001: {setting!r}.")
        try:
            found[knob] = json.loads(value)
        except ValueError:
            found[knob] = value
    return found


def recipe(options: argparse.Namespace) -> dict[str, Any]:
    """What is laid over the recipe of all arms: the tiny model's own, and above it what was set. Raises Unplayable."""
    return {**(TINY if options.tiny else {}), **laid_over(options.set)}


def warm_model(options: argparse.Namespace) -> Path:
    """The model that all arms begin with, from its cache or made now. Raises Unplayable."""
    from lab.worlds.small_model import small_model

    if options.warm:
        return Path(options.warm)
    if options.tiny:
        return ROWS[options.world].tiny(options.cache, told=say)
    if options.world != "till":
        raise Unplayable(f"In the world {options.world} the tiny model alone has a warm start: name no other.")
    model = options.model or SMOLLM
    if not (model / "config.json").exists():
        raise Unplayable(f"{model} holds no model: make model brings it.")
    return small_model(model, options.cache, told=say)


def main(arguments: Sequence[str]) -> int:
    options, began = parse(arguments), monotonic()
    rows: list[Mapping[str, Any]] = []
    try:
        plan, changes = planned(options), recipe(options)
        options.out.mkdir(parents=True, exist_ok=True)
        plan = replace(plan, model=str(warm_model(options).resolve()))
        made = {"versions": versions(), "machine": machine(), "recipe": changes}

        def figures() -> Figures:
            return Figures(plan.as_json() | made | {"minutes": round((monotonic() - began) / 60, 1)}, rows)

        def keep(row: Mapping[str, Any]) -> None:
            rows.append(row)
            write(options.out, figures())

        world = ROWS[plan.world].open(options.out)
        asyncio.run(carry_out(plan, world, options.out / "talkback", keep, laid_over=changes, say=say))
        found = figures()
        page, data = write(options.out, found)
    except TalkbackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped. What was played is in {options.out}.", file=sys.stderr)
        return 130
    say(f"{page} and {data} are written.\n{found.headline}")
    say(json.dumps(found.line))
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite end stops everything
    os.umask(0o077)
    raise SystemExit(main(sys.argv[1:]))
