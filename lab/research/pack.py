"""What a model, or an adapter of it, does on the general pack: `python -m lab.research.pack --adapter FOLDER --json`.

The learner scores what the gate asks the engine, or what another `--pack` holds: the mean log-prob a token of each
item's answers. Prints the share of items whose right answer is the likeliest, by kind; the least lead of a right one;
nats a token; and processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path

from core import pipes

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--adapter", type=Path, help="a folder of adapter weights; left out: the base")
    parser.add_argument(
        "--pack", type=Path, default=Path("gate/general_pack.jsonl"), help="a file of items; the gate's else"
    )
    parser.add_argument("--items", type=int, default=1000, help="the first so many")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    import django
    import torch

    django.setup()
    torch.set_num_threads(1)
    from chat.rendering.renderer import Renderer
    from gate import general_pack
    from gpu_workers.learner.learner import Learner
    from gpu_workers.learner.policy import LoraShape

    renderer = Renderer.for_model(arguments.model)
    learner = Learner(arguments.model, adapter_dir=arguments.adapter, lora=LoraShape())
    began = time.process_time()
    kinds: dict[str, list[bool]] = defaultdict(list)
    margins, nats = [], []
    for item in general_pack.items(arguments.pack)[: arguments.items]:
        prompt_ids = renderer.prompt_ids([{"role": "user", "content": item.prompt}])
        right, *wrong = (
            sum(logprobs) / len(logprobs)
            for logprobs in (learner.score(prompt_ids, renderer.encode(one)) for one in (item.right, *item.wrong))
        )
        scores = general_pack.Scores(right, tuple(wrong))
        nats.append(right)
        if scores.margin is not None:
            margins.append(scores.margin)
            kinds[item.kind].append(scores.margin > 0)
    found = {
        "items": len(nats),
        "right": sum(map(sum, kinds.values())) / len(margins),
        "least_lead": min(margins),
        "nats": sum(nats) / len(nats),
        "by_kind": {kind: sum(right) / len(right) for kind, right in kinds.items()},
        "processor_s": time.process_time() - began,
    }
    if arguments.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<12} {value:.3f}" if isinstance(value, float) else f"{name:<12} {value}")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
