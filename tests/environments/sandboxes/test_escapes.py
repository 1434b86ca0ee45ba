"""Escapes: what strangers' code in bubblewrap tries against the host, and what is left of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from environments.errors import SandboxEnded
from environments.sandboxes import bubblewrap
from environments.sandboxes.bubblewrap import OURS, Bubblewrap
from environments.sandboxes.groups import Hierarchies
from environments.sandboxes.sandbox import MIB, Wants
from environments.sandboxes.trees import File, Tree
from tests.environments.sandboxes.seen import is_alive, most_processes, namespace_of, processes_of, wait_until_gone

pytestmark = pytest.mark.bubblewrap

ROOT = Path(__file__).parents[3]
SMALL = Wants(memory=64 * MIB, disk=4 * MIB, processes=16)


@pytest.fixture
def sandbox():
    with Bubblewrap(SMALL) as opened:
        yield opened


def shell(sandbox, script: str, timeout_s: float = 20):
    return sandbox.run(["sh", "-c", script], timeout_s=timeout_s)


def python(sandbox, script: str, timeout_s: float = 20):
    return sandbox.run(["python3", "-I", "-c", script], timeout_s=timeout_s)


def test_no_network_is_reached_not_even_the_hosts_own(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0talkback-escape")
        abstract.listen()
        said = python(
            sandbox,
            "import socket, errno\n"
            f"for family, place in ((socket.AF_INET, ('127.0.0.1', {server.getsockname()[1]})),\n"
            "        (socket.AF_INET, ('192.0.2.1', 80)), (socket.AF_UNIX, '\\0talkback-escape')):\n"
            "    try: socket.socket(family).connect(place); print('REACHED')\n"
            "    except OSError as error: print(errno.errorcode[error.errno])",
        )
    assert said.out.decode().split() == ["ECONNREFUSED", "ENETUNREACH", "ECONNREFUSED"]


def test_the_hosts_processes_are_neither_seen_nor_killed(sandbox):
    host = subprocess.Popen(["sleep", "54321"])
    try:
        said = shell(sandbox, f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 5432[1]'; kill -9 {host.pid}")
        assert said.out == b"0\n"
        assert b"No such process" in said.err
        assert host.poll() is None
    finally:
        host.kill()
        host.wait()


def test_a_fork_bomb_is_bounded_and_ends_with_its_time(sandbox):
    namespace = namespace_of(sandbox)
    with most_processes(namespace) as counts:
        said = python(sandbox, "import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(.01)", 1.5)
    assert said.timed_out
    assert 8 < max(counts) <= SMALL.processes + OURS
    assert shell(sandbox, "echo alive").out == b"alive\n"
    assert len(processes_of(namespace)) <= 3  # bubblewrap's first, the keeper, one that is just ending


def test_a_fork_bomb_is_bounded_without_control_groups():
    with Bubblewrap(SMALL, Hierarchies({})) as sandbox:
        assert len(sandbox.capabilities.missing) == 2
        namespace = namespace_of(sandbox)
        with most_processes(namespace) as counts:
            python(sandbox, "import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(.01)", 1.5)
        assert 4 < max(counts) <= SMALL.processes // 2 + OURS


def test_memory_is_bounded(sandbox):
    # 64 MiB, and on top what the writable folders and the keeper may hold: 4 + 16 + 24. 200 is more than all of it.
    assert python(sandbox, f"bytearray({200 * MIB}); print('got it')").out == b""


@pytest.mark.memory_group
def test_memory_is_bounded_over_all_processes(sandbox):
    # Four of 40 MiB, each within the bound, and 160 together are beyond 108.
    one = f"python3 -I -c 'import time; held = bytearray(b\"x\" * {40 * MIB}); print(1, flush=True); time.sleep(1)' &"
    try:
        held = shell(sandbox, f"{one} {one} {one} {one} wait").out.count(b"1")
    except SandboxEnded:
        return  # the kernel chose the keeper: bounded as well
    assert held < 4


def test_memory_is_bounded_without_control_groups():
    with Bubblewrap(SMALL, Hierarchies({})) as sandbox:
        said = python(sandbox, f"bytearray({100 * MIB}); print('got it')")
        assert b"MemoryError" in said.err
        assert said.out == b""


@pytest.mark.parametrize("place", ["/box/big", "/dev/shm/big"])
def test_disk_is_bounded(sandbox, place):
    said = shell(sandbox, f"dd if=/dev/zero of={place} bs=1M count=30 2>&1; stat -c %s {place}")
    assert int(said.out.split()[-1]) <= bubblewrap.SHARED


def test_disk_is_bounded_for_files_without_a_name(sandbox):
    # Eight of 1 MiB in a folder of 4, each unlinked while it is open: what adds up names would see nothing.
    said = python(
        sandbox,
        "import os, tempfile\nheld = []\n"
        "for _ in range(8):\n"
        "    held.append(tempfile.TemporaryFile(dir='/box', buffering=0))\n"
        "    try: held[-1].write(bytes(2**20)); print('held')\n"
        "    except OSError as error: print(error.strerror); break",
    )
    assert said.out.count(b"held") <= 4
    assert b"No space left on device" in said.out


def test_nothing_else_can_be_written(sandbox):
    said = shell(
        sandbox,
        "for place in / /usr /usr/bin /dev /proc/sys/kernel /etc /bin /var /home /root; do "
        "touch $place/planted 2>/dev/null && echo $place; done; "
        "for name in core_pattern hostname; do echo x 2>/dev/null > /proc/sys/kernel/$name && echo $name; done; true",
    )
    assert said.out == b""


def test_settings_of_the_kernel_are_mounted_read_only(sandbox):
    assert b" /proc/sys proc ro," in shell(sandbox, "cat /proc/self/mounts").out


def test_many_at_once_leave_no_file_group_or_handle_on_the_host():
    def one(number: int) -> bytes:
        with Bubblewrap(SMALL) as sandbox:
            sandbox.put("mine.txt", str(number).encode())
            return shell(sandbox, "sleep 0.3; cat mine.txt", timeout_s=60).out

    one(0)  # the starter's thread is there
    handles = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(one, range(12))) == [str(number).encode() for number in range(12)]
    assert len(os.listdir("/proc/self/fd")) == handles
    parents = [parent for _, parent in bubblewrap.hierarchies().parents.values()]
    assert [folder for parent in parents for folder in parent.glob(f"talkback-sandbox-{os.getpid()}-*")] == []


def test_no_user_of_the_hosts_and_no_new_namespace(sandbox):
    said = shell(sandbox, "id -u; unshare --user true 2>&1; mount -t tmpfs none /box 2>&1; cat /proc/self/status")
    assert said.out.startswith(b"1000\n")
    assert b"unshare failed" in said.out
    assert b"CapEff:\t0000000000000000" in said.out
    assert b"NoNewPrivs:\t1" in said.out


@pytest.mark.root
def test_on_the_host_it_is_no_root_where_root_started_it(sandbox):
    inside = processes_of(namespace_of(sandbox))
    assert len(inside) >= 2
    for pid in inside:
        assert f"Uid:\t{bubblewrap.USER}\t{bubblewrap.USER}" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.root
def test_a_user_without_rights_starts_one_as_well():
    script = (
        "from environments.sandboxes.bubblewrap import *\n"
        "with Bubblewrap(Wants(processes=16, memory=64 * MIB)) as sandbox:\n"
        "    print(sandbox.run(['id', '-u'], timeout_s=20).out.decode().strip(), *sandbox.capabilities.missing)\n"
    )
    becoming = ["setpriv", "--reuid=64212", "--regid=64212", "--clear-groups", "--"]
    if subprocess.run([*becoming, "test", "-r", ROOT / "environments" / "errors.py"]).returncode:
        pytest.skip("the repository lies where no other user can read it")
    said = subprocess.run(
        [*becoming, bubblewrap.python_inside(), "-B", "-c", script],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert said.stdout.startswith("1000"), said.stderr


def test_daemons_do_not_outlive_it():
    with Bubblewrap(SMALL) as sandbox:
        namespace = namespace_of(sandbox)
        shell(sandbox, "setsid sh -c '(trap \"\" TERM HUP INT; exec sleep 300) &' > /dev/null 2>&1 &")
        assert b"sleep" in shell(sandbox, "cat /proc/[0-9]*/cmdline").out
        assert len(processes_of(namespace)) >= 3
    assert processes_of(namespace) == []


def test_nothing_outlives_a_starter_that_is_killed():
    script = (
        "import time\nfrom environments.sandboxes.bubblewrap import *\n"
        "s = Bubblewrap(Wants())\ns.run(['sh', '-c', 'setsid sleep 300 > /dev/null 2>&1 &'], timeout_s=10)\n"
        "print(s.run(['readlink', '/proc/self/ns/pid'], timeout_s=10).out.decode().strip(), flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        namespace = starter.stdout.readline().strip()
        assert len(processes_of(namespace)) >= 3
        starter.send_signal(signal.SIGKILL)
    assert wait_until_gone(namespace, within_s=5)
    bubblewrap.hierarchies().sweep()
    left = [folder for _, parent in bubblewrap.hierarchies().parents.values() for folder in parent.glob("talkback-*")]
    assert [folder for folder in left if not is_alive(int(folder.name.split("-")[2]))] == []


def test_it_lives_on_where_the_thread_that_opened_it_has_ended():
    opened = []
    opener = threading.Thread(target=lambda: opened.append(Bubblewrap(SMALL)))
    opener.start()
    opener.join()
    while Path(f"/proc/self/task/{opener.native_id}").exists():  # Python joins a thread before the kernel has ended it
        os.sched_yield()
    with opened[0] as sandbox:
        assert shell(sandbox, "echo alive").out == b"alive\n"


def test_links_lead_nowhere_on_the_host(sandbox, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    shell(sandbox, f"ln -s {secret} file; ln -s {tmp_path} folder; ln -s / top; mkfifo pipe; echo mine > real")
    for path in ("file", "folder/secret.txt", "top/proc/1/mem", "pipe", str(secret), f"../..{secret}"):
        with pytest.raises(FileNotFoundError):
            sandbox.get(path)
    for path in ("file", "folder/new.txt"):
        with pytest.raises(OSError, match=path.split("/")[0]):
            sandbox.put(path, b"theirs")
    tree = sandbox.read_tree()
    assert {name: file.content for name, file in tree.files.items()} == {"real": b"mine\n"}
    assert set(tree.left_out) == {"file", "folder", "top", "pipe"}
    assert secret.read_text() == "secret"
    assert sorted(tmp_path.iterdir()) == [secret]


def test_no_file_of_the_hosts_is_seen_but_the_system(sandbox, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    said = shell(
        sandbox, f"cat {tmp_path}/secret.txt {ROOT}/pyproject.toml /etc/passwd /etc/hostname; ls -A /root /home"
    )
    assert said.out == b""


def test_the_hosts_environment_is_in_no_process(monkeypatch):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret-4711")
    with Bubblewrap(SMALL) as sandbox:
        said = shell(sandbox, "cat /proc/1/environ /proc/self/environ /proc/[0-9]*/environ 2>/dev/null; env")
    assert b"HOME=/box" in said.out
    assert b"4711" not in said.out
    assert b"TALKBACK" not in said.out


def test_a_variable_that_is_given_is_seen(sandbox):
    said = sandbox.run(["sh", "-c", 'echo "$OPENAI_BASE_URL $HOME"'], timeout_s=10, env={"OPENAI_BASE_URL": "http://x"})
    assert said.out == b"http://x /box\n"


@pytest.mark.parametrize("doing", ["kill -9 2", "kill -STOP 2"])
def test_a_keeper_that_is_killed_or_stopped_ends_the_sandbox_alone(monkeypatch, doing):
    monkeypatch.setattr(bubblewrap, "GRACE_S", 1.0)
    with Bubblewrap(SMALL) as sandbox:
        namespace = namespace_of(sandbox)
        with pytest.raises(SandboxEnded):
            shell(sandbox, f"{doing}; sleep 30", timeout_s=0.5)
        assert processes_of(namespace) == []
        with pytest.raises(SandboxEnded):
            shell(sandbox, "true")


def test_the_keeper_cannot_be_read_or_answered_for(sandbox):
    said = shell(sandbox, "cat /proc/2/environ /proc/2/maps; ls /proc/2/fd; echo forged > /proc/2/fd/4; true")
    assert said.out == b""
    assert said.err.count(b"Permission denied") + said.err.count(b"cannot create") >= 3


def test_a_command_that_ignores_signals_ends_with_its_time_and_what_it_printed_is_kept(sandbox):
    said = shell(sandbox, "trap '' TERM INT HUP; echo begun; while true; do sleep 0.1; done", timeout_s=0.5)
    assert said.timed_out
    assert (said.status, said.out) == (137, b"begun\n")  # 128 + SIGKILL


def test_a_command_ends_while_a_daemon_of_its_holds_the_streams(sandbox):
    start = time.monotonic()
    assert shell(sandbox, "sleep 300 & echo done").out == b"done\n"
    assert time.monotonic() - start < 10


def test_output_without_end_is_cut(sandbox):
    said = shell(sandbox, "yes", timeout_s=0.5)
    assert said.cut
    assert len(said.out) == sandbox.MOST_OUTPUT


def test_of_long_output_the_beginning_and_the_end_are_kept_and_what_is_between_is_counted(sandbox):
    # 1, 2, ... 100000, each with its line end: 9·2 + 90·3 + 900·4 + 9000·5 + 90000·6 + 7 bytes.
    said = shell(sandbox, "seq 100000")
    assert said.left_out == 588_895 - sandbox.MOST_OUTPUT
    assert (said.out[:6], said.out[-7:]) == (b"1\n2\n3\n", b"100000\n")


def test_folders_beside_the_first_are_written_and_bounded():
    # 4 MiB in all: a half for /box and a half for /app.
    with Bubblewrap(Wants(memory=64 * MIB, disk=4 * MIB, processes=16, folders=("/app",))) as sandbox:
        shell(sandbox, "mkdir -p /app/empty/deep; dd if=/dev/zero of=/app/x bs=1M count=3")
        said = shell(sandbox, "stat -c %s /app/x")
        assert said.out == b"2097152\n"
        sandbox.run(["rm", "/app/x"], timeout_s=10)
        sandbox.write_tree(Tree({"app/y": File(b"y")}, folders=("app/hollow",)), "/")
        tree = sandbox.read_tree("/app")
    assert (set(tree.files), set(tree.folders)) == ({"y"}, {"empty/deep", "hollow"})


def test_a_folder_deeper_than_any_path_can_still_be_read(sandbox):
    python(sandbox, "import os\nfor _ in range(3000):\n os.mkdir('deeper'); os.chdir('deeper')\nopen('end', 'w')")
    sandbox.put("near.txt", b"x")
    assert set(sandbox.read_tree().files) == {"near.txt"}


def test_kill_ends_a_command_that_another_thread_waits_for():
    sandbox = Bubblewrap(SMALL)
    threading.Timer(0.3, sandbox.kill).start()
    start = time.monotonic()
    with pytest.raises(SandboxEnded):
        shell(sandbox, "sleep 60", timeout_s=60)
    assert time.monotonic() - start < 10
    sandbox.kill()
