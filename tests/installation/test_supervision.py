"""What we started is stopped, and nothing else."""

from __future__ import annotations

import configparser
import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_workers.servers import leases
from installation import supervision
from installation.speech import Trouble

WAITS = [sys.executable, "-c", "print('up', flush=True); import signal; signal.pause()"]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(supervision, "DATA_DIR", tmp_path)
    monkeypatch.setattr(supervision, "LOGS", tmp_path / "log")
    return tmp_path


def waiting(**environment: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(WAITS, env=os.environ | environment, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"  # it runs its own program now, with its own environment
    return process


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    started = {
        "ours": waiting(**{supervision.MARK: str(tmp_path)}),
        "of another folder": waiting(**{supervision.MARK: str(tmp_path / "other")}),
        "a person's shell with DATA_DIR": waiting(DATA_DIR=str(tmp_path)),
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def test_only_processes_with_our_mark_are_stopped(processes: dict[str, subprocess.Popen[bytes]]):
    assert supervision.left_running() == [processes["ours"].pid]

    assert supervision.stop_left_running() == 1

    assert processes["ours"].wait(10) != 0
    assert processes["of another folder"].poll() is None
    assert processes["a person's shell with DATA_DIR"].poll() is None


def settings_of(**more: str) -> dict[str, str]:
    base = {"PROFILE": "embedded", "MODEL": "/models/a 50% one", "HOST": "127.0.0.1", "PORT": "8000"}
    return base | {"ENGINE_PORT": "1234", "REDIS_PORT": "1235", "ENGINE_API_KEY": "s3cret-key"} | more


def configuration(settings: dict[str, str]) -> configparser.RawConfigParser:
    parsed = configparser.RawConfigParser()
    parsed.read(supervision.write_supervisor_configuration(settings))
    return parsed


def test_every_process_restarts_logs_and_takes_its_children_with_it(folder: Path):
    written = configuration(settings_of())

    names = [section.partition(":")[2] for section in written.sections() if section.startswith("program:")]
    assert names == ["redis", "engine", "web", "judge", "learn", "beat"]
    for name in names:
        program = written[f"program:{name}"]
        assert (program["autorestart"], program["stopasgroup"], program["killasgroup"]) == ("true", "true", "true")
        assert program["stdout_logfile"] == str(folder / "log" / f"{name}.log")


def test_every_process_has_the_same_time_to_stop_and_is_asked_politely(folder: Path):
    for settings, seconds in ((settings_of(), "30"), (settings_of(STOP_S="89.5"), "90")):
        written = configuration(settings)
        programs = [written[section] for section in written.sections() if section.startswith("program:")]
        assert {(program["stopsignal"], program["stopwaitsecs"]) for program in programs} == {("TERM", seconds)}


def test_workers_stop_together_before_what_they_need(folder: Path):
    written = configuration(settings_of())
    groups = [written[section] for section in written.sections() if section.startswith("group:")]
    groups.sort(key=lambda group: -int(group["priority"]))  # the order in which supervisord stops them
    assert [group["programs"] for group in groups] == ["web,judge,learn,beat", "engine", "redis"]


def test_a_time_to_stop_that_is_none_is_refused_with_a_sentence(folder: Path):
    with pytest.raises(Trouble, match="STOP_S is 'soon': it takes a number of seconds, 6 or more"):
        supervision.write_supervisor_configuration(settings_of(STOP_S="soon"))


def test_no_secret_stands_in_a_command_line(folder: Path):
    configuration(settings_of())
    assert "s3cret-key" not in (folder / "supervisor.conf").read_text()


def test_spaces_and_percent_signs_survive_the_configuration_file():
    assert "'/models/a 50%% one'" in configuration(settings_of())["program:engine"]["command"]


def test_a_named_redis_or_engine_is_not_started_by_us():
    settings = settings_of()
    del settings["REDIS_PORT"], settings["ENGINE_PORT"]
    programs = supervision.programs(settings | {"WEB_PROCESSES": "1"})
    assert [program.name for program in programs] == ["web", "judge", "learn", "beat"]


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (4, 1), (7, 1), (8, 2), (64, 4)])
def test_web_has_a_process_for_each_four_cores(cores: int, count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    names = [name for name in configuration(settings_of()) if name.startswith("program:web")]
    assert names == ["program:web", "program:web-2", "program:web-3", "program:web-4"][:count]


def test_web_has_as_many_processes_as_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    three = configuration(settings_of(WEB_PROCESSES="3"))
    assert all("--shared" in three[f"program:{name}"]["command"] for name in ("web", "web-2", "web-3"))
    one = configuration(settings_of(WEB_PROCESSES="1"))
    assert "--shared" not in one["program:web"]["command"]
    assert "program:web-2" not in one
    with pytest.raises(Trouble, match="WEB_PROCESSES is 'many'"):
        supervision.programs(settings_of(WEB_PROCESSES="many"))


def test_a_socket_path_too_long_for_the_system_is_moved_out_of_the_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervision, "DATA_DIR", Path("/" + "d" * 200))
    assert len(os.fsencode(supervision.socket_path())) < 100


def test_the_supervisor_is_silent_when_it_is_not_there():
    assert supervision.process_states() == {}


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class ReadyOnIPv6(http.server.HTTPServer):
    address_family = socket.AF_INET6


def what_is_unready(web: http.server.HTTPServer, host: str) -> list[str]:
    web.timeout = 10
    thread = threading.Thread(target=web.handle_request, daemon=True)
    thread.start()
    found = supervision.unready(settings_of(HOST=host, PORT=str(web.server_port)))
    if not found:
        thread.join(10)
    return found


def test_readiness_is_asked_for_past_any_proxy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.HTTPServer(("127.0.0.1", 0), Ready) as web:
        assert what_is_unready(web, "127.0.0.1") == []


@pytest.mark.parametrize(
    "host", ["localhost", "0.0.0.0", *(pytest.param(host, marks=pytest.mark.ipv6) for host in ("::", "::1"))]
)
def test_readiness_is_asked_for_where_web_listens(monkeypatch: pytest.MonkeyPatch, host: str):
    """Whatever this machine's list of hosts says of localhost: there it is the other loopback address."""
    of_one, other = socket.getaddrinfo, "127.0.0.1" if ":" in host else "::1"
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda name, *rest, **more: of_one(other if name == "localhost" else name, *rest, **more),
    )
    with ReadyOnIPv6(("::1", 0), Ready) if ":" in host else http.server.HTTPServer(("127.0.0.1", 0), Ready) as web:
        assert what_is_unready(web, host) == []


def test_what_the_processes_write_is_for_its_owner_alone():
    assert configuration(settings_of())["supervisord"]["umask"] == "077"


def test_each_process_sees_its_own_cards(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    settings = settings_of(PROFILE="gpu", ACTOR_GPUS="2", PRM_GPUS="1", JUDGE_PORT="1236", JUDGE_MODEL="/models/judge")

    written = configuration(settings)

    seen = {name: written[f"program:{name}"].get("environment") for name in ("learn", "engine", "judge-engine", "web")}
    assert seen == {
        "learn": 'CUDA_VISIBLE_DEVICES="0,1"',
        "engine": 'CUDA_VISIBLE_DEVICES="2"',
        "judge-engine": 'CUDA_VISIBLE_DEVICES="3"',
        "web": None,
    }
    assert written["program:engine"]["command"].endswith("--cards 2")
    assert written["program:judge-engine"]["command"].endswith("--model /models/judge --port 1236 --cards 3")


def test_an_engine_on_the_only_card_leaves_room_for_the_learner(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    written = configuration(settings_of(PROFILE="gpu"))

    assert written["program:engine"]["command"].endswith("--cards 0 --shares")
    assert written["program:learn"]["environment"] == 'CUDA_VISIBLE_DEVICES="0"'


def test_learning_gives_way_on_every_core(folder: Path):
    assert configuration(settings_of())["program:learn"]["command"].startswith("nice -n 10 ")


def test_several_engines_divide_their_cards_evenly(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    asked = {"PROFILE": "gpu", "ENGINE_COUNT": "2", "ENGINE_PORTS": "1234,1237"}

    written = configuration(settings_of(**asked, ROLLOUT_GPUS="4"))
    lines = [written[f"program:{name}"]["command"].partition("--port ")[2] for name in ("engine", "engine-2")]
    assert lines == ["1234 --cards 1,2", "1237 --cards 3,4"]
    assert written["program:learn"]["environment"] == 'CUDA_VISIBLE_DEVICES="0"'

    one_each = configuration(settings_of(**asked))
    assert one_each["program:engine-2"]["environment"] == 'CUDA_VISIBLE_DEVICES="4"'
    with pytest.raises(leases.LeaseInvalid, match="3 cards are the engines', which are 2"):
        configuration(settings_of(**asked, ROLLOUT_GPUS="3"))
