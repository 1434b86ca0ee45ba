"""What a policy makes of text that rightly says things again: `python -m benchmarks.again --adapter FOLDER --json`.

Code, tables and markup repeat themselves, and `w_again` has what replies say again be less likely. Of this repository's
own files the part that says most again is scored as a reply to who asks for it: by the base, and by each adapter. Of
the tokens with which six in a row stood before (`training/repetitions.py`), and of the others, it prints the mean
log-prob in nats, and of the former the share that is likelier than all else together.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any

from core import pipes
from training.repetitions import again

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

ROOT = Path(__file__).parent.parent
KINDS = {"python": "training/*.py", "html": "templates/**/*.html", "table": "docs/**/*.md", "json": "judge/*.jsonl"}


def passages(kind: str, number: int) -> Iterator[tuple[str, str]]:
    """So many files' names, evenly from all of a kind, and what they hold; of documents their tables alone."""
    files = sorted(ROOT.glob(KINDS[kind]))
    for file in files[:: max(1, len(files) // number)][:number]:
        text = file.read_text()
        if kind == "table":
            text = "\n".join(line for line in text.splitlines() if line.startswith("|"))
        if text.strip():
            yield str(file.relative_to(ROOT)), text


def densest(ids: list[int], tokens: int) -> list[int]:
    """So many in a row that say most again."""
    return max(
        (ids[at : at + tokens] for at in range(0, max(1, len(ids) - tokens), tokens // 4)),
        key=lambda part: sum(again(part)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--adapter", type=Path, action="append", default=[], help="a folder of adapter weights; again")
    parser.add_argument("--files", type=int, default=12, help="of each kind, at most")
    parser.add_argument("--tokens", type=int, default=256, help="of each file, in a row")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    import django
    import torch

    django.setup()
    torch.set_num_threads(1)
    from chat.rendering import Renderer
    from gpu_workers.learner import Learner
    from gpu_workers.policy import LoraShape

    renderer = Renderer.for_model(arguments.model)
    for folder in [None, *arguments.adapter]:
        learner = Learner(arguments.model, adapter_dir=folder, lora=LoraShape())
        for kind in KINDS:
            found: dict[bool, list[float]] = {True: [], False: []}
            for name, text in passages(kind, arguments.files):
                prompt = renderer.prompt_ids([{"role": "user", "content": f"Show me a part of {name}."}])
                reply = densest(renderer.encode(text), arguments.tokens)
                for logprob, is_again in zip(learner.score(prompt, reply), again(reply), strict=True):
                    found[is_again].append(logprob)
            row: dict[str, Any] = {
                "policy": str(folder or "base"),
                "kind": kind,
                "again": len(found[True]),
                "others": len(found[False]),
                "again_nats": sum(found[True]) / len(found[True]),
                "others_nats": sum(found[False]) / len(found[False]),
                "again_sure": sum(one > log(0.5) for one in found[True]) / len(found[True]),
            }
            print(json.dumps(row) if arguments.json else "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
