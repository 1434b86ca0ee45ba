"""The virtual environment, the build of torch that suits this machine, and the model."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from core.envfile import copy_folder
from installation.diagnosis import bubblewrap, chromium, has_gpu, postgres_programs, uses_default_model
from installation.installers import bring, bring_uv, pip, uv
from installation.languages import compile_languages
from installation.places import CONSTRAINTS, DATA_DIR, DEFAULT_MODEL, PYTHON, ROOT, STAMP, VENV
from installation.speech import Trouble, run, say

TORCH = "torch==2.13.0"
"""The version everything was tested with, where its CPU build can be had."""


def install(extras: set[str]) -> None:
    """The virtual environment with these extras. Nothing is asked of the network when nothing has changed."""
    with (ROOT / "pyproject.toml").open("rb") as pyproject:
        if not locked(pyproject):
            say("  waiting for another installation in this folder to end")
            fcntl.flock(pyproject, fcntl.LOCK_EX)
        inputs = hashlib.sha256(pyproject.read() + CONSTRAINTS.read_bytes()).hexdigest()
        stamp = json.loads(STAMP.read_text()) if STAMP.exists() else {"inputs": "", "extras": []}
        have = set(stamp["extras"])
        if stamp["inputs"] == inputs and extras <= have:
            compile_languages()
            return
        extras |= have
        make_environment()
        install_torch()
        wanted = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
        bring("packages", "--constraint", CONSTRAINTS, "--editable", wanted)
        STAMP.write_text(json.dumps({"inputs": inputs, "extras": sorted(extras)}))
        compile_languages()


def make_environment() -> None:
    if PYTHON.exists() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return
    if importlib.util.find_spec("ensurepip"):
        run("virtual environment", [sys.executable, "-m", "venv", "--clear", VENV])
    else:
        run("virtual environment", ["uv", "venv", "--seed", "--clear", "--python", sys.executable, VENV])


def install_torch() -> None:
    """The build of torch that suits this machine, unless one that will do is there.

    On Linux without a GPU the plain wheel would bring several GB of CUDA that nothing here can use. A CPU build
    that pip's own configuration offers is taken; else uv knows where the PyTorch project keeps its own, so no
    address stands in this file; else the plain wheel, which works as well and is only large.
    """
    suits = "import sys, torch; sys.exit(not (2, 6) <= tuple(map(int, torch.__version__.split('.')[:2])) < (3, 0))"
    if subprocess.run([PYTHON, "-c", suits], capture_output=True).returncode == 0:
        return
    if has_gpu():
        bring("torch for the GPU", "torch>=2.6,<3")
    elif sys.platform != "linux" or f"{TORCH.partition('==')[2]}+cpu" in offered_versions("torch"):
        bring("torch", TORCH)
    else:
        try:
            bring_uv()
            run("torch (CPU)", uv("--torch-backend=cpu", TORCH))
        except Trouble as trouble:
            say(f"  {trouble}")
            say("  taking torch's plain build instead: it brings several GB of CUDA, and runs on a CPU as well")
            bring("torch", TORCH)


def offered_versions(package: str) -> set[str]:
    """Every version that pip's configured sources offer for this machine; empty when pip cannot say."""
    listed = subprocess.run([*pip("index", "versions"), package], capture_output=True, text=True, cwd=ROOT)
    for line in listed.stdout.splitlines():
        if line.startswith("Available versions:"):
            return {version.strip() for version in line.partition(":")[2].split(",")}
    return set()


def install_system_packages() -> None:
    """Chromium, PostgreSQL and bubblewrap, where this is Debian and we are root; elsewhere the tests say so."""
    wanted = (("chromium", chromium()), ("postgresql", postgres_programs()), ("bubblewrap", bubblewrap()))
    lacking = [name for name, there in wanted if not there]
    if not lacking or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        run("package lists", ["apt-get", "update", "-q"], environment)
        run(" ".join(lacking), ["apt-get", "install", "-q", "-y", "--no-install-recommends", *lacking], environment)
    except Trouble as trouble:
        say(f"  {trouble}")


def bring_model(settings: dict[str, str]) -> str:
    """The folder of the model that is asked for, downloaded and converted where that is still to be done."""
    model = settings.get("MODEL", "")
    if uses_default_model(settings):
        if not (DEFAULT_MODEL / "manifest.json").exists():
            run("model", [PYTHON, "-m", "gpu_workers.weights", DEFAULT_MODEL], one_thread())
        return str(DEFAULT_MODEL)
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser().resolve())
    folder = copy_folder(model, DATA_DIR)
    if not (folder / "config.json").exists():
        run(f"model {model}", [PYTHON, "-m", "gpu_workers.weights", folder, "--hub", model])
    return str(folder)


def one_thread() -> dict[str, str]:
    """The environment with one torch thread a process: two that share busy cores are far slower than one."""
    quiet = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return {**quiet, "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1", **os.environ}


def locked(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
