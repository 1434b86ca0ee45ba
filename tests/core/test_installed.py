"""Commands find what `make up` installed, whichever Python a shell knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("manage.py", "core/__init__.py", "core/installed.py", "core/pipes.py")
COMMANDS = (("-m", "environments"), ("manage.py",))


@pytest.fixture
def checkout(tmp_path):
    """A copy of what a command reads before anything installed is imported."""
    for name in (*NEEDED, "environments/__init__.py", "environments/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """With a Python that has nothing installed: -S leaves out site-packages."""
    return subprocess.run([sys.executable, "-S", *command], cwd=checkout, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_run_by_the_installed_python_with_its_arguments(checkout, command):
    write_program(checkout, 'echo "$@"')
    said = run(checkout, *command, "worlds", "two words")
    assert (said.returncode, said.stdout) == (0, f"{' '.join(command)} worlds two words\n"), said.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_where_nothing_is_installed_a_command_says_what_to_do(checkout, command):
    said = run(checkout, *command)
    assert (said.returncode, said.stderr) == (1, "Talkback is not installed here yet: run make up first.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_installed_python_that_lacks_the_package_is_not_started_again_for_ever(checkout, command):
    shutil.copytree(Path(sys.executable).parent.parent, checkout / ".venv", symlinks=True, ignore=only_its_python)
    bare = [str(checkout / ".venv" / "bin" / Path(sys.executable).name), "-S", *command]
    said = subprocess.run(bare, cwd=checkout, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stderr) == (1, "Talkback is not installed here yet: run make up first.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_python_that_has_one_of_the_packages_gives_way_to_the_installed_one(checkout, command):
    """A system's own may have httpx or Django, and lacks the rest, or is too old."""
    for package in ("httpx", "django"):
        (checkout / f"{package}.py").write_text("")
    write_program(checkout, 'echo "$@"')
    said = run(checkout, *command, "worlds")
    assert (said.returncode, said.stdout) == (0, f"{' '.join(command)} worlds\n"), said.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_environment_is_not_started_again_for_ever(checkout, command):
    write_program(checkout, f'exec {sys.executable} -S "$@"')
    said = run(checkout, *command)
    assert (said.returncode, said.stderr) == (1, "Talkback is not installed here yet: run make up first.\n")


def write_program(checkout: Path, lines: str) -> None:
    """Put a shell script where the installed Python stands."""
    installed = checkout / ".venv" / "bin" / "python"
    installed.parent.mkdir(parents=True)
    installed.write_text(f"#!/bin/sh\n{lines}\n")
    installed.chmod(0o755)


def only_its_python(folder: str, names: list[str]) -> list[str]:
    """What is left out of a copy of an environment: all but its settings and its Python."""
    return [name for name in names if not name.startswith(("python", "pyvenv", "bin"))]
