"""What a start runs with: told now, told before, or chosen. Kept in DATA_DIR/env."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from core.envfile import read_settings
from core.network import loopback
from core.told import KEPT
from installation.diagnosis import cards, engine_count, free_port, runs_elsewhere, uses_default_model
from installation.places import DATA_DIR, ENV_FILE
from installation.speech import Trouble

DEFAULTS = {"PROFILE": "embedded"}
"""Of those, what a start goes by where nothing was said. It is never written down: only what a person said is."""


def written() -> dict[str, str]:
    """What the last start wrote to DATA_DIR/env, wherever DATA_DIR was then."""
    return read_settings(ENV_FILE, DATA_DIR)


def asked_for() -> dict[str, str]:
    """What this start is to use: the environment first, then what an earlier start was told, then the default."""
    before = written()
    for ours, port in (("REDIS_URL", "REDIS_PORT"), ("ENGINE_URL", "ENGINE_PORT"), ("JUDGE_URL", "JUDGE_PORT")):
        if port in before:  # an address we chose then; it is chosen anew
            before.pop(ours, None)
    if "ENGINE_PORT" in before:
        before.pop("ENGINE_URLS", None)
    if "JUDGE_PORT" in before:  # and so is the key of a judge that we ran
        before.pop("JUDGE_API_KEY", None)
    settings = {name: before[name] for name in KEPT if name in before}
    settings |= {name: os.environ[name] for name in KEPT if name in os.environ}  # an empty value forgets
    settings = {name: value.strip() for name, value in settings.items() if value.strip()}
    if uses_default_model(settings):
        settings.pop("MODEL", None)
    elif (folder := Path(settings["MODEL"]).expanduser()).is_dir():
        settings["MODEL"] = str(folder.resolve())
    settings |= {name: settings.get(name, default) for name, default in DEFAULTS.items()}
    settings["HOST"] = os.environ.get("HOST", "").strip() or loopback.NAME
    settings["PORT"] = os.environ.get("PORT", "").strip() or "8000"
    return settings


def complete(settings: dict[str, str]) -> dict[str, str]:
    """The settings with everything a start chooses by itself: secrets once, ports each time."""
    before, chosen = written(), dict(settings)
    chosen["DATA_DIR"] = str(DATA_DIR)
    for secret in ("SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "REDIS_PASSWORD"):
        chosen[secret] = (
            os.environ.get(secret) or settings.get(secret) or before.get(secret) or secrets.token_urlsafe(50)
        )
    if "REDIS_URL" not in settings:
        chosen["REDIS_PORT"] = str(free_port(int(before.get("REDIS_PORT", "0"))))
        chosen["REDIS_URL"] = f"redis://:{chosen['REDIS_PASSWORD']}@127.0.0.1:{chosen['REDIS_PORT']}/0"
    if not runs_elsewhere(settings):
        ports: list[str] = []
        wished = before.get("ENGINE_PORTS", before.get("ENGINE_PORT", "0")).split(",")
        for number in range(engine_count(settings)):
            ports.append(str(free_port(int(wished[number]) if number < len(wished) else 0, *map(int, ports))))
        chosen["ENGINE_PORT"], chosen["ENGINE_PORTS"] = ports[0], ",".join(ports)
        chosen["ENGINE_URL"] = f"http://127.0.0.1:{ports[0]}"
        if len(ports) > 1:
            chosen["ENGINE_URLS"] = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    given_out = cards(settings)
    if given_out.judge:
        chosen["JUDGE_PORT"] = str(free_port(int(before.get("JUDGE_PORT", "0"))))
        chosen["JUDGE_URL"] = f"http://127.0.0.1:{chosen['JUDGE_PORT']}/v1"
        chosen.setdefault("JUDGE_API_KEY", secrets.token_urlsafe(32))
    chosen["LEARNER_SHARES"] = "1" if given_out.learner_shares else "0"  # found, and not told: never remembered
    if "API_KEY" in before:
        chosen["API_KEY"] = before["API_KEY"]
    return chosen


def write_settings(settings: dict[str, str]) -> None:
    """DATA_DIR/env, readable by its owner alone, replaced in one move."""
    settings = {name: value for name, value in settings.items() if DEFAULTS.get(name) != value}
    for name, value in settings.items():
        if "\n" in value or "\r" in value:
            raise Trouble(f"{name} has more than one line: give it on one.")
    heading = "# Written by make up, with secrets: what the processes run with, and what manage.py reads.\n"
    draft = ENV_FILE.with_name("env.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(heading + "".join(f"{name}={value}\n" for name, value in sorted(settings.items())))
    os.replace(draft, ENV_FILE)


def write_private(file: Path, text: str) -> Path:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    return file


def address(settings: dict[str, str]) -> str:
    """Where a browser on this machine finds web."""
    return f"http://{loopback.authority(settings['HOST'])}:{settings['PORT']}"


def own_address(settings: dict[str, str]) -> str:
    """Where a process of ours asks web: by number, so that no list of hosts has a say."""
    host = settings["HOST"]
    number = loopback.ADDRESSES[0] if host == loopback.NAME else loopback.authority(host)
    return f"http://{number}:{settings['PORT']}"
