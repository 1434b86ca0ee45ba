"""What brings packages: uv, in a tenth of the time, where it can be told all that pip is configured to do; else pip.

Which package comes from where is the matter of pip's configuration alone, whichever installer brings it.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from installation.places import CONSTRAINTS, PYTHON, ROOT
from installation.speech import Trouble, run, say

MANY = {"constraint": "--constraint", "trusted-host": "--allow-insecure-host"}
SWITCHES = {"no-index": "--no-index", "pre": "--prerelease=allow", "no-cache-dir": "--no-cache"}
SETTINGS = {
    **{"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"},
    **{"cert": "SSL_CERT_FILE", "timeout": "UV_HTTP_TIMEOUT", "default-timeout": "UV_HTTP_TIMEOUT"},
}
"""An address may hold a password, and a command line is for everybody to read, and stands in the log."""
LISTED_BY = {"extra-index-url": " ", "find-links": ","}
NOTHING_TO_UV = {
    *("disable-pip-version-check", "no-input", "progress-bar", "quiet", "verbose", "no-color", "log", "cache-dir"),
    *("retries", "root-user-action", "no-warn-script-location", "require-virtualenv", "break-system-packages"),
}
"""What says nothing of where packages come from and which of them are taken."""


def pip(*arguments: str | Path) -> list[str | Path]:
    return [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]


def bring(step: str, *wanted: str | Path) -> None:
    """Install this, as pip would. Raises Trouble with pip's own reason where neither can."""
    told = as_uv(configuration())
    if told is not None:
        try:
            bring_uv()
            run(step, uv(*told.options, *wanted), {**os.environ, **told.environment})
            return
        except Trouble as trouble:
            say(f"  {trouble}")
            say("  pip, which is slower, is asked instead")
    run(step, [*pip("install", "--progress-bar=off"), *wanted])


def bring_uv() -> None:
    if subprocess.run([PYTHON, "-m", "uv", "--version"], capture_output=True).returncode:
        run("uv", [*pip("install", "--progress-bar=off"), "--constraint", CONSTRAINTS, "uv"])


def uv(*arguments: str | Path) -> list[str | Path]:
    return [PYTHON, "-m", "uv", "pip", "install", "--no-config", "--no-progress", "--python", PYTHON, *arguments]


def configuration() -> dict[str, str]:
    """What pip goes by when it installs, from its files and its variables, by the option's long name."""
    listed = subprocess.run([*pip("config", "list")], capture_output=True, text=True, cwd=ROOT)
    return in_force(listed.stdout) if listed.returncode == 0 else {"config": listed.stderr}


def in_force(listed: str) -> dict[str, str]:
    """Of `pip config list`, what holds: a variable before what a file says of installing, and that before the rest.

    >>> in_force("global.timeout='60'\\n:env:.timeout='9'\\ninstall.pre='true'\\ndownload.dest='x'")
    {'timeout': '9', 'pre': 'true'}
    """
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        place, _, value = line.partition("=")
        section, _, option = place.rpartition(".")
        if section in found:
            found[section][option] = str(ast.literal_eval(value))
    return {option: value for section in found.values() for option, value in section.items()}


@dataclass
class Told:
    """What uv is told: options, and what goes by its environment."""

    # pip takes the best of all its sources
    options: list[str] = field(default_factory=lambda: ["--index-strategy=unsafe-best-match"])
    environment: dict[str, str] = field(default_factory=dict)


def as_uv(configured: Mapping[str, str]) -> Told | None:
    """The same in uv's words; None where it says something that uv has no word for.

    >>> told = as_uv({"find-links": "/wheels /more", "constraint": "/all.txt"})
    >>> told.options[1:], told.environment
    (['--constraint', '/all.txt'], {'UV_FIND_LINKS': '/wheels,/more'})
    >>> as_uv({"proxy": "http://localhost:3128"}) is None
    True
    """
    told = Told()
    for option, value in configured.items():
        if option in MANY:
            for each in value.split():
                told.options += [MANY[option], each]
        elif option in SWITCHES:
            told.options += [SWITCHES[option]] * (value.lower() in ("1", "true", "yes", "on"))
        elif option in SETTINGS:
            told.environment[SETTINGS[option]] = LISTED_BY[option].join(value.split()) if option in LISTED_BY else value
        elif option not in NOTHING_TO_UV:
            return None
    return told
