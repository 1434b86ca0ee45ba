"""What is run by itself starts in a shell that knows nothing of Django's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("lab.worlds.__main__", "lab.worlds.rails", "lab.evidence.__main__", "benchmarks.learner", "training.launch")


def test_the_laboratorys_commands_and_the_learners_process_start_without_settings() -> None:
    bare = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(RUN)}"],
        env=bare, cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
