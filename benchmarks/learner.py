"""The learner's step beside a plain PEFT loop and TRL: `python -m benchmarks.learner --batch 8 --micro-batch 4 --json`.

All do the same work on the same random tokens: a reference pass, a teacher pass on a longer prompt, the policy's way
there and back with the policy loss and the anchor, an AdamW update. The teacher is heard through each token's
advantage, or, with `--distillation vocabulary`, through its whole distribution, which TRL does not do. The plain loop
does it as one would write it: the whole model, full logits, autograd. TRL's side is GRPOTrainer's own passes and loss
with its defaults (checkpointed layers, a fused head), fed our advantages; it is left out where TRL is not installed. To
have it, beside the environment and not in it:

    pip install --no-deps --target DIR trl==1.16.0 datasets==5.2.0 pyarrow dill multiprocess xxhash pandas
    PYTHONPATH=DIR python -m benchmarks.learner

Each side runs in a process of its own, so that the peak of memory is its own, and the sides take their steps in turn,
so that they see the same machine. Each step is a first run's: the policy is the base when it begins. After the last
one each side takes one more from where that left it, as the next run of a line does: the learner then looks at where
its policy stands too, which the others leave out. That step's loss says whether the updates before it were the same;
its speed is given for itself (later_reply_tokens_per_cpu_s). Speed is given by the process's CPU clock, which a busy
machine does not stop but does slow, and by the wall clock. `--table` goes through replies of 256 to 4096 tokens and
batches of 4 to 64, the learner alone; `--replies` and `--batches` choose among them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

from benchmarks.sides import SIDES, Begins  # after the thread count
from core import pipes


@dataclass
class Side:
    """One of `benchmarks/sides.py` in its process, which takes a step for each line it is sent."""

    name: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, name: str, more: list[str]) -> Side:
        command = [sys.executable, "-m", "benchmarks.learner", *more, "--side", name]
        return cls(name, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def step(self, begins: Begins) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{begins}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith('{"loss"'):
                answer: dict[str, float] = json.loads(line)
                return answer
        raise RuntimeError(f"the {self.name} side ended with {self.process.wait()}")

    def stop(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def serve(arguments: argparse.Namespace) -> None:
    """Be one side: a step and a line of figures for each line that comes."""
    import torch

    torch.set_num_threads(1)
    is_cuda = arguments.device == "cuda"
    step = SIDES[arguments.side](arguments)
    for line in sys.stdin:
        cpu, wall = time.process_time(), time.monotonic()
        loss = step(cast(Begins, line.strip()))
        if is_cuda:
            torch.cuda.synchronize()
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if is_cuda:
            peak = torch.cuda.max_memory_allocated() / 2**30
        print(json.dumps({"loss": loss, "cpu_s": cpu, "wall_s": wall, "peak_gb": peak}), flush=True)


def measure(names: list[str], arguments: argparse.Namespace, more: list[str]) -> dict[str, Any]:
    """One step of each side to warm up, the steps that count, and a later one, in turn; the figures of each.

    Speed is of the median step: a step during which another process came by is not the side's fault.
    """
    sides = [Side.start(name, more) for name in names]
    try:
        begins: list[Begins] = [*["first"] * (arguments.steps + 1), "later"]
        taken = [[side.step(begin) for side in sides] for begin in begins]
    finally:
        for side in sides:
            side.stop()
    tokens = arguments.batch * arguments.response_tokens
    rows: dict[str, Any] = {}
    for at, side in enumerate(sides):
        mine = [row[at] for row in taken]
        cpu_s = sorted(one["cpu_s"] for one in mine[1:-1])[arguments.steps // 2]
        wall_s = sorted(one["wall_s"] for one in mine[1:-1])[arguments.steps // 2]
        rows[side.name] = {
            "losses": [one["loss"] for one in mine],
            "cpu_s": [one["cpu_s"] for one in mine],
            "reply_tokens_per_cpu_s": tokens / cpu_s,
            "reply_tokens_per_s": tokens / wall_s,
            "later_reply_tokens_per_cpu_s": tokens / mine[-1]["cpu_s"],
            "later_reply_tokens_per_s": tokens / mine[-1]["wall_s"],
            "step_s": wall_s,
            "peak_gb": mine[-1]["peak_gb"],
        }
    return rows


def _speed(arguments: argparse.Namespace) -> tuple[str, str]:
    """Which figure is the speed here, and of what it is: a GPU works while the process's CPU clock stands."""
    on_cpu = arguments.device == "cpu"
    return ("reply_tokens_per_cpu_s", "CPU second") if on_cpu else ("reply_tokens_per_s", "second")


def compare(arguments: argparse.Namespace) -> None:
    names = [name for name in SIDES if name in arguments.sides.split(",")]
    notes = []
    if "trl" in names and (find_spec("trl") is None or find_spec("datasets") is None):
        names.remove("trl")
        notes.append("TRL is not installed; the module's docstring says how to have it.")
    if "trl" in names and arguments.distillation != "token":
        names.remove("trl")
        notes.append("TRL learns from tokens only.")
    if "trl" in names and arguments.device != "cpu":
        names.remove("trl")
        notes.append("TRL's side is on the CPU.")
    rows = measure(names, arguments, sys.argv[1:])
    result: dict[str, Any] = {"micro_batch": arguments.micro_batch, "dtype": arguments.dtype, "notes": notes} | rows
    ours = rows.get("learner")
    speed, unit = _speed(arguments)
    for name in names:
        if name == "learner" or ours is None:
            continue
        result[f"against_{name}"] = {
            "speed_up": ours[speed] / rows[name][speed],
            "memory": ours["peak_gb"] / rows[name]["peak_gb"],
            "loss_gap": max(abs(a - b) for a, b in zip(ours["losses"], rows[name]["losses"], strict=True)),
        }
    if arguments.json:
        print(json.dumps(result))
        return
    for name, row in rows.items():
        print(
            f"{name:8} {row[speed]:7.1f} reply tokens a {unit}  "
            f"{row['step_s']:6.2f} s a step  {row['peak_gb']:5.2f} GB at most  "
            f"({row[f'later_{speed}']:.1f} in a later run)"
        )
    for name in names:
        against = result.get(f"against_{name}")
        if against:
            print(
                f"learner against {name}: {against['speed_up']:.2f} times the speed, {against['memory']:.2f} of the "
                f"memory, losses within {against['loss_gap']:.1e}"
            )
    for note in notes:
        print(note)


def table(arguments: argparse.Namespace) -> None:
    """The learner alone, over lengths and batches; one step each after one reply to warm up."""
    found = []
    name, unit = _speed(arguments)
    for tokens in (int(one) for one in arguments.replies.split(",")):
        for batch in (int(one) for one in arguments.batches.split(",")):
            more = [
                *("--model", str(arguments.model), "--dtype", arguments.dtype),
                *("--micro-batch", str(arguments.micro_batch), "--distillation", arguments.distillation),
                *("--device", arguments.device),
                *("--prompt-tokens", str(arguments.prompt_tokens)),
                *("--response-tokens", str(tokens), "--batch", str(batch)),
            ]
            side = Side.start("learner", more)
            try:
                side.step("one")
                row = side.step("first")
            finally:
                side.stop()
            speed = tokens * batch / row["cpu_s" if arguments.device == "cpu" else "wall_s"]
            found.append({"response_tokens": tokens, "batch": batch, name: speed} | row)
            if not arguments.json:
                print(
                    f"{tokens:5} tokens x {batch:3} replies  {speed:7.1f} reply tokens a {unit}  "
                    f"{row['peak_gb']:5.2f} GB at most",
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--response-tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="on cuda speed is by the wall clock, memory the card's"
    )
    parser.add_argument("--distillation", choices=("token", "vocabulary"), default="token")
    parser.add_argument("--sides", default=",".join(SIDES), help="which of plain, trl and learner, with commas")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--replies", default="256,1024,4096", help="lengths of the table, in tokens")
    parser.add_argument("--batches", default="4,16,64", help="batches of the table")
    parser.add_argument("--side", choices=SIDES, help="be this side, in this process")
    arguments = parser.parse_args()
    if arguments.side:
        serve(arguments)
    elif arguments.table:
        table(arguments)
    else:
        compare(arguments)


if __name__ == "__main__":
    pipes.end_with_reader()
    main()
