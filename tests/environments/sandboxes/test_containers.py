"""What docker and podman are told, by a command line that records and answers in their place."""

from __future__ import annotations

import json
import sys

import pytest

from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable
from environments.sandboxes import containers
from environments.sandboxes.containers import Container
from environments.sandboxes.sandbox import MIB, Mount, Wants

FAKE = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path({folder!r})
said = sys.argv[1:]
variables = [word.partition("=")[2] for word in said if word.startswith("--env-file=")]
call = {{"argv": said, "env": open(variables[0]).read() if variables else None}}
if "--interactive" in said:
    call["stdin"] = sys.stdin.read()
with open(here / "calls", "a") as calls:
    calls.write(json.dumps(call) + "\\n")
for starts, status, out, err, wait in json.loads((here / "answers").read_text()):
    if starts in " ".join(said):
        time.sleep(wait)
        print(out, end="")
        print(err, end="", file=sys.stderr)
        sys.exit(status)
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    class Fake:
        answers: list = []

        def calls(self):
            return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]

        def answer(self, starts, status=0, out="", err="", wait=0.0):
            self.answers.insert(0, [starts, status, out, err, wait])
            (tmp_path / "answers").write_text(json.dumps(self.answers))

    for name in ("docker", "podman"):
        program = tmp_path / name
        program.write_text(FAKE.format(python=sys.executable, folder=str(tmp_path)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    containers.why_not.cache_clear()
    fake = Fake()
    fake.answers = []
    fake.answer("inspect", out="true\n")
    yield fake
    containers.why_not.cache_clear()


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_a_container_starts_without_network_rights_or_a_writable_system(docker, tmp_path, program):
    (tmp_path / "tests").mkdir()
    wants = Wants(memory=64 * MIB, disk=8 * MIB, processes=16, mounts=(Mount(tmp_path / "tests", "/tests"),))
    with Container(wants, program) as room:
        started = docker.calls()[-1]["argv"]
    assert started[0] == "run"
    assert started[-3:] == ["python:3.11-slim", "sleep", "infinity"]
    for option in (
        "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=1000:1000",
        "--pids-limit=19",  # 16 and the container's own
        f"--memory={72 * MIB}", f"--memory-swap={72 * MIB}",  # 64 and the folder's 8, and no swap beside
        f"--tmpfs=/box:rw,exec,size={8 * MIB},mode=0777", f"--name={room.name}",
        f"--mount=type=bind,source={tmp_path}/tests,target=/tests,readonly",
    ):  # fmt: skip
        assert option in started, option
    assert docker.calls()[-1]["argv"] == ["rm", "--force", "--volumes", room.name]


def test_values_of_variables_are_in_no_argument(docker):
    docker.answer("exec --interactive", status=3, out="printed", err="said")
    with Container(Wants()) as room:
        said = room.run(["sh", "-c", "x"], timeout_s=20, stdin=b"fed", env={"KEY": "sk-secret-4711"}, cwd="/box/a")
        (call,) = [call for call in docker.calls() if call["argv"][0] == "exec"]
        with pytest.raises(SandboxRefused):
            room.run(["x"], timeout_s=20, env={"KEY": "two\nlines"})
    assert (said.status, said.out, said.err) == (3, b"printed", b"said")
    assert "4711" not in " ".join(call["argv"])
    assert "KEY=sk-secret-4711" in call["env"].splitlines()
    assert "HOME=/box" in call["env"].splitlines()
    assert call["stdin"] == "fed"
    assert call["argv"][-4:] == [room.name, "sh", "-c", "x"]


def test_every_process_is_killed_after_the_time(docker):
    docker.answer("sleepy", wait=30)
    with Container(Wants()) as room:
        assert room.run(["sleepy"], timeout_s=1.0).timed_out
        assert docker.calls()[-1]["argv"] == ["exec", room.name, "sh", "-c", "kill -9 -1"]


def test_files_go_by_standard_input_and_a_link_is_no_file(docker):
    with Container(Wants()) as room:
        room.put("a b.txt", b"content", mode=0o755)
        call = docker.calls()[-1]
        assert call["argv"][-2:] == ["/box/a b.txt", "755"]
        assert call["stdin"] == "content"
        docker.answer("[ ! -L", status=66, err="it is no regular file")
        with pytest.raises(FileNotFoundError, match="no regular file"):
            room.get("link")


def test_a_container_that_ended_is_not_taken_for_a_command_that_failed(docker):
    docker.answer("exec --interactive", status=1, err="Error: container is not running")
    with Container(Wants()) as room:
        assert room.run(["false"], timeout_s=20).status == 1
        docker.answer("inspect", status=1)
        with pytest.raises(SandboxEnded, match="not running"):
            room.run(["false"], timeout_s=20)


def test_a_program_that_cannot_start_one_says_why(docker):
    docker.answer("run --detach", status=125, err="setrlimit RLIMIT_NOFILE: Operation not permitted")
    with pytest.raises(SandboxUnavailable, match="RLIMIT_NOFILE"):
        Container(Wants(), "podman")
    docker.answer("info", status=1, err="Cannot connect to the Docker daemon")
    with pytest.raises(SandboxUnavailable, match="Cannot connect"):
        Container(Wants(), "docker")


def test_a_list_of_allowed_hosts_is_refused(docker):
    with pytest.raises(SandboxRefused, match="no or public"):
        Container(Wants(network="allowlist"))
