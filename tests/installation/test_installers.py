"""Packages come from where pip's configuration says, whichever installer brings them."""

from __future__ import annotations

from pathlib import Path

import pytest

from installation import installers, speech
from installation.installers import bring, configuration
from installation.speech import Trouble

# Says what it was asked; has uv, or not, and a uv that can, or not; reads its pip configuration from a file.
PYTHON = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in
  *"-m uv --version") [ -e {folder}/has-uv ] ;;
  *"-m pip"*"install"*" uv") [ -e {folder}/offers-uv ] && touch {folder}/has-uv ;;
  *"-m uv pip install"*) env >> {folder}/environment; [ -e {folder}/uv-can ] ;;
  *"config list") cat {folder}/configured ;;
  *) [ -e {folder}/pip-can ] ;;
esac
"""
ALL = ("offers-uv", "uv-can", "pip-can")


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "python").write_text(PYTHON.format(folder=folder))
        (folder / "python").chmod(0o755)
        self.configured("")

    def has(self, *what: str) -> None:
        for one in what:
            (self.folder / one).touch()

    def configured(self, listed: str) -> None:
        (self.folder / "configured").write_text(listed)

    @property
    def asked(self) -> list[str]:
        """What was installed by whom, in order."""
        return [line for line in (self.folder / "asked").read_text().splitlines() if "install" in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(installers, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(speech, "LOGS", tmp_path / "log")
    return made


def test_uv_is_brought_by_pip_and_told_what_pip_is_told_and_no_password_in_its_command_line(machine: Machine):
    machine.has(*ALL)
    machine.configured(
        ":env:.find-links='/wheels /more'\n:env:.cert='/ca.pem'\nglobal.find-links='/other'\nglobal.timeout='9'\n"
        "global.index-url='http://me:secret@localhost/simple'\ninstall.extra-index-url='\\nfile:///a\\nfile:///b'\n"
        "global.constraint='/all.txt'\ndownload.dest='x'\n"
    )

    bring("packages", "left-pad")

    by_pip, by_uv = machine.asked
    assert by_pip.endswith(" uv")
    assert "-m uv pip install" in by_uv
    assert by_uv.endswith("--constraint /all.txt left-pad")
    assert "secret" not in by_uv + (machine.folder / "log" / "setup.log").read_text()
    assert set((machine.folder / "environment").read_text().splitlines()) >= {
        "UV_DEFAULT_INDEX=http://me:secret@localhost/simple",
        "UV_INDEX=file:///a file:///b",
        "UV_FIND_LINKS=/wheels,/more",  # the variable holds, and not the file
        "SSL_CERT_FILE=/ca.pem",
        "UV_HTTP_TIMEOUT=9",
    }


def test_uv_that_is_there_is_not_brought_again(machine: Machine):
    machine.has(*ALL, "has-uv")

    bring("packages", "left-pad")

    (by_uv,) = machine.asked
    assert "-m uv pip install" in by_uv


@pytest.mark.parametrize(
    ("there", "configured"),
    [
        (("pip-can",), ""),  # no source offers uv
        (("offers-uv", "pip-can"), ""),  # uv fails
        (ALL, "global.proxy='http://localhost:3128'\n"),  # uv has no option for a proxy
    ],
)
def test_pip_is_asked_where_uv_cannot_be(machine: Machine, there: tuple[str, ...], configured: str):
    machine.has(*there)
    machine.configured(configured)

    bring("packages", "left-pad")

    assert "-m pip" in machine.asked[-1]
    assert machine.asked[-1].endswith("install --progress-bar=off left-pad")


def test_where_neither_can_it_is_said_and_not_passed_over(machine: Machine):
    machine.has("offers-uv")

    with pytest.raises(Trouble, match="packages failed"):
        bring("packages", "left-pad")


def test_a_configuration_that_pip_cannot_tell_is_left_to_pip(machine: Machine):
    (machine.folder / "configured").unlink()

    assert installers.as_uv(configuration()) is None
