"""Where everything is."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "talkback.json"
"""What was installed, and from which inputs."""

DATA_DIR = Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().resolve()
ENV_FILE = DATA_DIR / "env"
LOGS = DATA_DIR / "log"
LOCK = DATA_DIR / "lock"
"""Held by the one start that owns this DATA_DIR; its process id is inside."""
DEFAULT_MODEL = DATA_DIR / "models" / "smollm2-135m-instruct"
