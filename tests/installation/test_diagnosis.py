"""Whatever is wrong is said in one sentence that tells what to do, by `make up` and by `make doctor` alike."""

from __future__ import annotations

import errno
import shutil
import socket
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from installation import diagnosis
from tests.installation.conftest import Command


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_port_in_use_is_named_with_another_that_is_free(command: Command, taken_port: int):
    refused = command("up", PORT=str(taken_port))

    assert refused.returncode == 1
    assert f"Port {taken_port} is in use: choose another, as in make up PORT=" in last(refused.stderr)
    assert "Traceback" not in refused.stderr


@pytest.mark.ipv6
def test_a_port_that_another_program_has_at_the_other_address_of_localhost_is_in_use():
    """The first link signs an administrator in, and a browser looks at both."""
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = diagnosis.web_port({"HOST": "localhost", "PORT": str(port)})
        assert diagnosis.web_port({"HOST": "127.0.0.1", "PORT": str(port)}).fine  # the link is to the number then
    assert not found.fine
    assert found.says.startswith(f"Port {port} is in use")
    assert diagnosis.web_port({"HOST": "localhost", "PORT": str(port)}).fine


def test_a_port_that_is_suggested_is_not_refused_next_time(monkeypatch: pytest.MonkeyPatch):
    """The next port is free at 127.0.0.1 and taken at ::1, and then any is."""
    taken, asked = {("127.0.0.1", 8000), ("::1", 8001), ("::1", 50001)}, iter((50001, 50002))

    def bind(address: str, port: int) -> int:
        port = port or next(asked)
        if (address, port) in taken:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return port

    monkeypatch.setattr(diagnosis, "bind", bind)
    refused = diagnosis.web_port({"HOST": "localhost", "PORT": "8000"})
    assert refused.says.endswith("make up PORT=50002.")
    assert diagnosis.web_port({"HOST": "127.0.0.1", "PORT": "8000"}).says.endswith("make up PORT=8001.")


def test_a_port_is_found_on_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch):
    of_any = diagnosis.bind

    def bind(address: str, port: int) -> int:
        if address == "::1":
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return of_any(address, port)

    monkeypatch.setattr(diagnosis, "bind", bind)
    assert diagnosis.web_port({"HOST": "localhost", "PORT": str(diagnosis.free_port())}).fine


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"PORT": "eighty"}, "PORT=eighty is not a port"),
        ({"PORT": "70000"}, "PORT=70000 is not a port"),
        ({"HOST": "192.0.2.1"}, "HOST=192.0.2.1 cannot be listened on"),
        ({"MODEL": "/nowhere/at/all"}, "MODEL=/nowhere/at/all is neither a folder here nor a hub name"),
        ({"PROFILE": "quantum"}, "PROFILE=quantum is unknown"),
        ({"JUDGES": "/nowhere.toml"}, "JUDGES names /nowhere.toml, which is not there"),
        ({"JUDGES": "[{"}, "JUDGES is no JSON"),
        ({"RECIPE": "/nowhere.json"}, "RECIPE names /nowhere.json, which is not there"),
        ({"REDIS_URL": "localhost:6379"}, "REDIS_URL is not a Redis address"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "No Redis answers at 127.0.0.1:1"),
        ({"ENGINE_URL": "http://127.0.0.1:1"}, "No engine answers at http://127.0.0.1:1"),
        ({"LEARNER": "elsewhere"}, "LEARNER=elsewhere is unknown: it is local or tinker"),
        ({"LEARNER": "tinker"}, "LEARNER=tinker needs TINKER_API_KEY"),
        ({"LEARNER": "tinker", "TINKER_API_KEY": "k"}, "LEARNER=tinker needs TINKER_MODEL"),
        ({"LEARNER": "tinker", "TINKER_API_KEY": "k", "TINKER_MODEL": "Qwen/Qwen3-8B"}, "LEARNER=tinker needs MODEL"),
        ({"LEARNER": "tinker", "ENGINE_URL": "http://127.0.0.1:1"}, "and ENGINE_URL names http://127.0.0.1:1"),
        ({"PROFILE": "gpu", "SGLANG": "/nowhere/sglang"}, "No sglang program"),
    ],
)
def test_up_and_doctor_say_the_same_of_a_bad_setting(command: Command, settings: dict[str, str], sentence: str):
    started, examined = command("up", **settings), command("doctor", **settings)

    assert started.returncode == examined.returncode == 1
    assert sentence in last(started.stderr)
    assert sentence in examined.stdout
    assert last(examined.stderr) == "One thing to see to."


def test_a_data_folder_that_is_a_file_is_refused(command: Command, tmp_path: Path):
    (tmp_path / "file").write_text("")

    refused = command("up", DATA_DIR=str(tmp_path / "file"))

    assert refused.returncode == 1
    assert "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_doctor_finds_a_fresh_machine_fine_and_starts_nothing(command: Command):
    examined = command("doctor")

    assert examined.returncode == 0, examined.stdout
    assert "not running: make up starts them" in examined.stdout
    assert "WRONG" not in examined.stdout


def test_a_full_disk_is_refused_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10**12, 10**12, 10**8))

    finding = diagnosis.disk_space({})

    assert not finding.fine
    assert "0.1 GB free" in finding.says
    assert "free some space" in finding.says


def test_another_python_is_refused_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    monkeypatch.setattr(diagnosis.platform, "python_version", lambda: "3.10.13")

    finding = diagnosis.python_version()

    assert not finding.fine
    assert finding.says.startswith("Python 3.10.13 will not do")


def test_a_python_without_ensurepip_is_told_the_one_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(diagnosis, "PYTHON", tmp_path / "absent")
    monkeypatch.setattr(diagnosis.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(diagnosis.shutil, "which", lambda name: None)

    finding = diagnosis.environment_maker()

    assert not finding.fine
    assert f"sudo apt-get install python3.{sys.version_info[1]}-venv" in finding.says


def test_an_unknown_command_shows_how_it_is_used(command: Command):
    refused = command("sideways")

    assert refused.returncode == 2
    assert "python3 -m installation up | down | doctor" in refused.stderr


def test_the_data_folder_is_made_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(diagnosis, "DATA_DIR", tmp_path / "data")

    assert diagnosis.data_folder().fine

    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("settings", "fine", "says"),
    [
        ({}, True, "learner 0; engine 1; judge none"),
        ({"ACTOR_GPUS": "1", "ROLLOUT_GPUS": "1", "NUM_GPUS": "1"}, True, "learner 0; engine 0; judge none (in turns)"),
        ({"ACTOR_GPUS": "2", "ROLLOUT_GPUS": "2"}, False, "ACTOR_GPUS=2, ROLLOUT_GPUS=2 make 4 of 2 cards"),
        ({"ENGINE_URL": "http://elsewhere"}, True, "learner 0, 1; engine none; judge none"),
        ({"PRM_GPUS": "1"}, False, "name by JUDGE_MODEL what is to run there"),
        (
            {"PRM_GPUS": "1", "JUDGE_MODEL": "m", "JUDGE_URL": "http://elsewhere"},
            False,
            "JUDGE_URL names another judge",
        ),
        ({"PRM_GPUS": "1", "JUDGE_MODEL": "m"}, True, "learner 0; engine 1; judge 1"),
    ],
)
def test_whose_a_card_is_stands_among_the_findings(monkeypatch, settings: dict[str, str], fine: bool, says: str):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    found = diagnosis.gpu_cards({"PROFILE": "gpu", **settings})

    assert (found.fine, says in found.says) == (fine, True)
