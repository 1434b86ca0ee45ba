"""The commands behind `make`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import installation
from core import pipes
from core.visible import visible
from installation.diagnosis import bubblewrap, chromium, data_folder, findings, postgres_programs
from installation.packages import bring_model, install, install_system_packages, locked, one_thread
from installation.places import DATA_DIR, LOCK, LOGS, PYTHON, ROOT, VENV
from installation.settings import address, asked_for, complete, write_settings, written
from installation.speech import Trouble, reason_in, run, say
from installation.supervision import (
    MARK,
    process_states,
    start_supervisor,
    stop,
    stop_left_running,
    unready,
    wait_until_ready,
    whole_stop_s,
    write_redis_configuration,
    write_supervisor_configuration,
)

LOOK_S = 2
"""How often a start looks whether its terminal is still there."""


ASKS_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
"""Ctrl-C, `make down`, Ctrl-\\, a closed terminal."""


class Interrupted(BaseException):
    """We were asked to stop."""


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    for each in ASKS_TO_STOP:
        signal.signal(each, signal.SIG_IGN)  # once is enough; what follows is quick and must end
    raise Interrupted


def up() -> None:
    """Install, prepare, start every process and stay until stopped."""
    os.umask(0o077)  # conversations and secrets are their owner's alone
    folder = data_folder()
    if not folder.fine:
        raise Trouble(folder.says)
    with LOCK.open("a+") as lock:
        if not locked(lock):
            lock.seek(0)
            who = f"process {lock.read().strip() or 'unknown'}"
            raise Trouble(
                f"Talkback already runs on {DATA_DIR} ({who}): stop it with Ctrl-C there or with make down, "
                f"or start a second one with another DATA_DIR and PORT."
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        for signal_number in ASKS_TO_STOP:
            signal.signal(signal_number, interrupt)
        try:
            serve()
        except Interrupted:
            with contextlib.suppress(OSError):  # the terminal may be gone
                say("\nStopped.")


def serve() -> None:
    if count := stop_left_running():
        say(f"  stopped {count} processes that an earlier start had left behind")
    asked = asked_for()
    must_hold(asked)
    say(f"Talkback in {DATA_DIR}")
    install({"postgres"} if asked.get("DATABASE_URL", "").startswith("postgres") else set())
    must_hold(asked)
    model = bring_model(asked)
    chosen = complete(asked)
    write_settings(chosen)
    settings = chosen | {"MODEL": model}  # where it lies on this machine is not written down
    if "REDIS_PORT" in settings:
        write_redis_configuration(settings)
    environment = one_thread() | {"HF_HUB_OFFLINE": "1"} | settings | {MARK: str(DATA_DIR)}
    run("database", [PYTHON, "manage.py", "migrate", "--verbosity", "0"], environment)
    configuration = write_supervisor_configuration(settings)
    supervisor = start_supervisor(configuration, environment)
    try:
        # While the engine loads: who may come in.
        chosen["API_KEY"] = manage(environment, "create_key", "--name", "make up", "--keep")
        link = manage(environment, "sign_in_link")
        write_settings(chosen)
        pasted = json.loads(
            manage(
                environment | {"API_KEY": chosen["API_KEY"]},
                *("connect", "curl", "openclaw", "--json", "--address", address(settings)),
            )
        )
        wait_until_ready(settings, supervisor)
        say(welcome(link, pasted))
        while outlast(supervisor):  # it ended, and not because we asked
            say("  the supervisor ended unexpectedly: starting everything again")
            stop_left_running()
            supervisor = start_supervisor(configuration, environment)
    finally:
        stop(supervisor, settings)


def outlast(supervisor: subprocess.Popen[bytes]) -> int:
    """Stay until the supervisor ends, and return its status. A terminal that closes meanwhile ends us.

    Its SIGHUP goes to the terminal's first process alone, and make does not pass it on, so we look as well.
    """
    had_terminal = sys.stdin.isatty()
    while True:
        try:
            return supervisor.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if had_terminal and not sys.stdin.isatty():
                raise Interrupted from None


def must_hold(settings: dict[str, str]) -> None:
    for finding in findings(settings, running=False):
        if not finding.fine:
            raise Trouble(finding.says)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """What a management command prints."""
    outcome = subprocess.run(
        [PYTHON, "manage.py", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if outcome.returncode:
        raise Trouble(f"manage.py {arguments[0]} failed: {reason_in(outcome.stderr)}")
    return outcome.stdout.strip()


def welcome(link: str, pasted: dict[str, str]) -> str:
    """What a person needs now: one line to open, one curl, one openclaw.json, and where the rest is."""
    there = link.partition("/enter/")[0]
    return f"""
Open this once; it signs you in as the administrator:

  {link}

Ask it from a shell:

  {pasted["curl"]}

Or from OpenClaw, in openclaw.json:

{pasted["openclaw"]}

{there}/connect/ has the same for other clients, more keys, and a light that says whether turns can teach.

Logs are in {LOGS}. Ctrl-C stops everything.
"""


def down() -> None:
    """Stop what runs on DATA_DIR, from any shell."""
    if not DATA_DIR.is_dir():
        say(f"Nothing runs on {DATA_DIR}.")
        return
    with LOCK.open("a+") as lock:
        held = not locked(lock)
        if held:
            lock.seek(0)
            pid = lock.read().strip()
            if not pid.isdigit():
                raise Trouble(f"Something holds {LOCK} without saying who: stop that process by hand.")
            os.kill(int(pid), signal.SIGTERM)
            end = time.monotonic() + whole_stop_s(asked_for()) + 20
            while not locked(lock):
                if time.monotonic() > end:
                    raise Trouble(f"Process {pid} does not stop: look at it, then run kill -9 {pid} and make down.")
                time.sleep(0.2)
        count = stop_left_running()
        say(f"Stopped what ran on {DATA_DIR}." if held or count else f"Nothing runs on {DATA_DIR}.")


def doctor() -> None:
    """Every finding, fine or not, and how the processes are."""
    settings, running = asked_for(), False
    if DATA_DIR.is_dir():
        with LOCK.open("a+") as lock:
            running = not locked(lock)
    if running:
        settings |= {name: written()[name] for name in ("HOST", "PORT") if name in written()}
    wrong = 0
    for finding in findings(settings, running):
        wrong += not finding.fine
        say(f"{'fine ' if finding.fine else 'WRONG'}  {finding.subject:<12} {finding.says}")
    for subject, there, brings in (
        ("chromium", chromium(), "sudo apt-get install chromium"),
        ("postgres", postgres_programs(), "sudo apt-get install postgresql"),
        ("bubblewrap", bubblewrap(), "sudo apt-get install bubblewrap"),
    ):
        only = "only agents' sandboxes and their tests need" if subject == "bubblewrap" else "only some tests need"
        say(f"{'fine ' if there else 'lacks'}  {subject:<12} {there or f'{only} it: {brings}'}")
    if not running:
        say("       processes    not running: make up starts them")
    for name, process in process_states().items() if running else ():
        wrong += process["statename"] != "RUNNING"
        fine = "fine " if process["statename"] == "RUNNING" else "WRONG"
        say(f"{fine}  {name:<12} {process['description']}; its log is {LOGS / name}.log")
    if running:
        waiting_for = unready(settings)
        wrong += bool(waiting_for)
        say(
            f"WRONG  ready        not yet: {', '.join(waiting_for)}"
            if waiting_for
            else f"fine   ready        {address(settings)}"
        )
    if wrong:
        raise Trouble(f"{wrong} to see to." if wrong > 1 else "One thing to see to.")


def clean() -> None:
    """Remove what can be made again. Conversations, checkpoints and models in DATA_DIR are not touched."""
    for folder in (
        VENV,
        *(ROOT / name for name in (".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache")),
    ):
        shutil.rmtree(folder, ignore_errors=True)
    for cache in ROOT.rglob("__pycache__"):
        if DATA_DIR not in cache.parents:
            shutil.rmtree(cache, ignore_errors=True)
    say(f"Removed the environment and the caches; {DATA_DIR} is as it was.")


def model() -> None:
    """The model alone, for the tests that ask the real one."""
    say(bring_model(asked_for()))


COMMANDS: dict[str, Callable[[], None]] = {
    "up": up,
    "down": down,
    "doctor": doctor,
    "model": model,
    "packages": install_system_packages,
    "clean": clean,
}


def main(arguments: list[str]) -> int:
    try:
        if arguments and arguments[0] == "install":
            install(set(arguments[1:]))
        elif len(arguments) == 1 and arguments[0] in COMMANDS:
            COMMANDS[arguments[0]]()
        else:
            print(installation.__doc__, file=sys.stderr)
            return 2
    except Trouble as trouble:
        print(visible(f"\n{trouble}" if arguments[0] != "doctor" else str(trouble)), file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(
            f"\nThe disk is full: free some space and run the same command again ({error.filename}).", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main(sys.argv[1:]))
