"""Compile the catalogues of other languages, which pages read: locale/*/LC_MESSAGES/*.po to .mo."""

from __future__ import annotations

import subprocess
from pathlib import Path

from installation.places import PYTHON, ROOT
from installation.speech import Trouble, say

LOCALE = ROOT / "locale"


def stale(folder: Path = LOCALE) -> list[Path]:
    """Catalogues that changed since they were compiled."""
    found = ((one, one.with_suffix(".mo")) for one in sorted(folder.glob("*/LC_MESSAGES/*.po")))
    return [po for po, mo in found if not mo.exists() or mo.stat().st_mtime < po.stat().st_mtime]


def compile_languages() -> None:
    """Bring what is compiled up to date. Where that fails, pages are in English, and the reason is said."""
    if not stale():
        return
    try:
        for domain in ("django", "djangojs"):
            command = [str(PYTHON), "-m", "babel.messages.frontend", "--quiet", "compile", "-d", str(LOCALE)]
            done = subprocess.run([*command, "-D", domain], capture_output=True, text=True)
            if done.returncode:
                raise Trouble(done.stderr.strip()[-300:])
    except (OSError, Trouble) as failure:
        say(f"  other languages could not be compiled, and pages are in English: {failure}")
