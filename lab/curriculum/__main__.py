"""python -m lab.curriculum make | train | examine | coverage"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from core import pipes

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = ROOT / "judge" / "adapter"


def main(arguments: Sequence[str] | None = None) -> int:
    said = parser().parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    import django

    django.setup()
    said.run(said)
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.curriculum", description="The school of the judge's adapter.")
    verbs = parser.add_subparsers(required=True)
    model = ROOT / "var" / "models" / "smollm2-135m-instruct"

    make = verbs.add_parser("make", help="write lessons as JSON lines")
    make.add_argument("--split", choices=("train", "dev", "heldout"), default="train")
    make.add_argument("--groups", type=int, default=100)
    make.add_argument("--seed", type=int, default=7)
    make.set_defaults(run=made)

    train = verbs.add_parser("train", help="train an adapter")
    train.add_argument("--model", type=Path, default=model)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--from", dest="start", type=Path, help="an adapter to go on from")
    train.add_argument("--groups", type=int)
    train.add_argument("--rank", type=int)
    train.add_argument("--lr", type=float)
    train.add_argument("--look-every", type=int)
    train.add_argument("--seed", type=int)
    train.add_argument("--minutes", type=float, help="end after so long, with the rates of a whole run")
    train.add_argument("--device", default="cpu")
    train.add_argument("--dtype", default="auto")
    train.set_defaults(run=trained)

    examine = verbs.add_parser("examine", help="measure an adapter on held-out phrasings, through the engine")
    examine.add_argument("--model", type=Path, default=model)
    examine.add_argument("--adapter", type=Path, default=ADAPTER)
    examine.add_argument("--groups", type=int, default=100)
    examine.add_argument("--swayed", type=int, default=40, help="how many of them are asked again with injections")
    examine.add_argument("--votes", type=int, default=3)
    examine.add_argument("--seed", type=int, default=11)
    examine.add_argument("--out", type=Path, help="also write every case, with what the judge said, as JSON lines")
    examine.set_defaults(run=examined)

    coverage = verbs.add_parser("coverage", help="how sure an adapter is, and how often it is right when it is sure")
    coverage.add_argument("--model", type=Path, default=model)
    coverage.add_argument("--adapter", type=Path, default=ADAPTER)
    coverage.add_argument("--split", choices=("dev", "heldout"), default="heldout")
    coverage.add_argument("--groups", type=int, default=60)
    coverage.add_argument("--swayed", type=int, default=20, help="how many of them are weighed again with injections")
    coverage.add_argument("--seed", type=int, default=11)
    coverage.set_defaults(run=covered)
    return parser


def made(said: argparse.Namespace) -> None:
    from lab.curriculum import lessons

    for lesson in lessons.made(said.split, said.groups, said.seed):
        label = lesson.label
        print(
            json.dumps(
                {
                    "evidence": lesson.evidence.text,
                    "role": label.role,
                    "kind": label.kind,
                    "score": label.score,
                    "hint": label.hint,
                },
                ensure_ascii=False,
            )
        )


def trained(said: argparse.Namespace) -> None:
    from lab.curriculum.training import Plan, train

    wanted = {"groups": said.groups, "rank": said.rank, "lr": said.lr, "look_every": said.look_every}
    wanted |= {"seed": said.seed, "minutes": said.minutes}
    plan = Plan(**{name: value for name, value in wanted.items() if value is not None})
    figures = train(
        said.model,
        said.out,
        plan,
        start=said.start,
        device=said.device,
        dtype=said.dtype,
        told=lambda line: print(line, flush=True),
    )
    print(json.dumps(figures))


def examined(said: argparse.Namespace) -> None:
    from lab.curriculum import examination

    cases = examination.examine(
        said.model, said.adapter, groups=said.groups, swayed=said.swayed, votes=said.votes, seed=said.seed
    )
    if said.out:
        said.out.write_text("".join(json.dumps(case.row, ensure_ascii=False) + "\n" for case in cases))
    print(examination.table(cases))


def covered(said: argparse.Namespace) -> None:
    from lab.curriculum import coverage

    plain, hostile = coverage.weigh(said.model, said.adapter, said.split, said.groups, said.seed, said.swayed)
    print(coverage.table(plain, hostile))


if __name__ == "__main__":
    pipes.end_with_reader()
    raise SystemExit(main())
