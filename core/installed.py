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

ENTERED = "TALKBACK_ENTERED"
"""Names the process that was started again, which keeps its number: what stands in VENV may be no environment, and
would be started for ever."""


def enter(needed: str, *command: str) -> None:
    """Start the same again with the installed Python, where there is one and another runs; else go on.

    Another Python may have the package `needed` and lack the rest. `command` is what the installed one is to run,
    sys.argv's arguments aside. Ends the process with a sentence where the package `needed` cannot be imported.
    """
    python = VENV / "bin" / "python"
    is_told = os.environ.get(ENTERED) == str(os.getpid())
    if python.exists() and not is_told and Path(sys.prefix).resolve() != VENV.resolve():
        os.environ[ENTERED] = str(os.getpid())
        os.execv(python, [str(python), *command, *sys.argv[1:]])
    if not importlib.util.find_spec(needed):
        sys.exit("Talkback is not installed here yet: run make up first.")
