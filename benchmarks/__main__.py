"""Every yardstick, one after another, each in processes of its own: `make bench`."""

import subprocess
import sys
import time

from core import pipes

YARDSTICKS = {
    "engine": "tokens a second beside plain transformers",
    "learner": "a step beside a plain PEFT loop",
    "swap": "twenty swaps under load",
    "api": "what the API adds to an engine asked directly",
    "judge": "what a verdict costs",
    "memory": "what the embedded engine holds after an hour's use",
    "pages": "every page over 100,000 turns",
    "worlds_pages": "pages over 10,000 attempts of agents",
    "sandboxes": "a start, a command, and 128 at once",
    "worlds_parallel": "attempts of every world side by side, with scripted actions",
    "loop": "from a person's word to weights that answer",
}


def main() -> int:
    failed = []
    for name, says in YARDSTICKS.items():
        print(f"\n== {name}: {says}", flush=True)
        start = time.monotonic()
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]).returncode:
            failed.append(name)
        print(f"   ({time.monotonic() - start:.0f} s)", flush=True)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main())
