"""An update on sessions, read together and apart: `python -m lab.research.sessions --sessions 8 --json`.

A session is a first reply, a second one whose prompt begins with all of the first, and what a person wrote in place of
the first, which begins as it does. Both ways take turns on the same weights and random tokens, by the default recipe,
the peak of memory first of the way that reads them apart. CPU seconds of this process, which a busy machine slows too:
look at the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

from core import pipes

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def examples(sessions: int, reply: int) -> list[Any]:
    """Two replies a session, of `reply` tokens each, the first rewritten to half of it and two tokens more."""
    import torch

    from gpu_workers.types import Example

    draw = torch.Generator().manual_seed(0)

    def ids(count: int) -> list[int]:
        return torch.randint(5, 400, (count,), generator=draw).tolist()

    made = []
    for _ in range(sessions):
        prompt, first, second = ids(45), ids(reply), ids(reply)
        rewrite = (prompt, [*first[: reply // 2], *ids(2)])
        hinted = [*prompt, *ids(16)]
        made.append(Example(prompt, first, [-9.0] * reply, teacher_prompt_ids=hinted, reward=-1.0, rewrite=rewrite))
        made.append(Example([*prompt, *first, *ids(30)], second, [-9.0] * reply, reward=1.0))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--reply", type=int, default=128, help="tokens (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="updates each way (%(default)s)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    from gpu_workers.learner.learner import Learner
    from training.config import PRESETS
    from training.objective.updates import updates

    learner = Learner(arguments.model)
    views = [learner.score_example(example) for example in examples(arguments.sessions, arguments.reply)]
    recipe = PRESETS["embedded"].model_copy(update={"updates": 1, "lr": 1e-9})  # both ways see the same weights
    found: dict[str, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for name, together in (("apart", False), ("together", True)):
            learner.branches, began = together, time.process_time()
            (figures,) = updates(learner, views, recipe)
            row = found.setdefault(name, {"cpu_s": float("inf")})
            row["cpu_s"] = round(min(row["cpu_s"], time.process_time() - began), 2)
            row |= {name: round(figures[name], 5) for name in ("loss", "grad_norm", "computed")}
            row.setdefault("peak_mib", round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
    ratio = round(found["together"]["cpu_s"] / found["apart"]["cpu_s"], 2)
    if arguments.json:
        print(json.dumps(found | {"ratio": ratio}))
        return
    for name, row in found.items():
        print(f"{name:9} {row}")
    print(f"together / apart: {ratio} of the CPU time")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
