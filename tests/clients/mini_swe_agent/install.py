"""Bring mini-swe-agent to DATA_DIR/mini-swe-agent, in a virtual environment of its own: never a dependency of Talkback.

    python tests/clients/mini_swe_agent/install.py

82 packages and two minutes. Run again, it does nothing when the wanted version is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.4.6"
ROOT = Path(__file__).resolve().parents[3]
HOME = Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().resolve() / "mini-swe-agent"
PYTHON = next((each for each in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(each, os.X_OK)), "")
"""A sandbox sees no other: whose packages they are must be there too."""


def installed() -> bool:
    return any(HOME.glob(f"lib/python3*/site-packages/mini_swe_agent-{VERSION}.dist-info"))


def main() -> int:
    if installed():
        print(f"mini-swe-agent {VERSION} is in {HOME}.")
        return 0
    if not PYTHON:
        print("mini-swe-agent needs a Python below /usr: run sudo apt-get install python3-venv.", file=sys.stderr)
        return 1
    shutil.rmtree(HOME, ignore_errors=True)
    print(f"Installing mini-swe-agent {VERSION} in {HOME} ...", flush=True)
    made = [PYTHON, "-m", "venv", "--without-pip", str(HOME)]
    filled = [sys.executable, "-m", "pip", f"--python={HOME}/bin/python", "install", "-q", f"mini-swe-agent=={VERSION}"]
    for command in (made, filled):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"It could not be installed:\n{(done.stderr or done.stdout)[-2000:]}", file=sys.stderr)
            shutil.rmtree(HOME, ignore_errors=True)
            return 1
    print(f"mini-swe-agent {VERSION} is in {HOME}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
