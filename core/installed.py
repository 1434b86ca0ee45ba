"""Have a command run by the Python that `make up` installed, whichever Python it was started with.

Standard library only: it runs before anything that was installed can be imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parents[1] / ".venv"
"""Where `make up` installs."""


def enter(needed: str, *command: str) -> None:
    """Go on where the package `needed` can be imported; else start the same again with the installed Python.

    `command` is what that Python is to run, sys.argv's arguments aside. Ends the process with a sentence where nothing
    is installed, or what is there lacks the package as well.
    """
    if importlib.util.find_spec(needed):
        return
    python = VENV / "bin" / "python"
    if not python.exists() or Path(sys.prefix).resolve() == VENV.resolve():
        sys.exit("Talkback is not installed here yet: run make up first.")
    os.execv(python, [str(python), *command, *sys.argv[1:]])
