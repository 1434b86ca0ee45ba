"""python3 -m environments worlds play | exam | check"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from contextlib import suppress

from core.visible import escape_hidden
from environments.client import KEY, LOCAL, URL
from environments.worlds.checking import add_check_plan, check
from environments.worlds.exam import add_exam_plan, play_exams
from environments.worlds.night import add_harness, add_plan, play_night
from environments.worlds.played import Played, table

STOPPED = 130
"""The status of a night that was stopped by a signal."""


def add_worlds(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    worlds = verbs.add_parser("worlds", help="agents that play tasks with an outcome").add_subparsers(required=True)
    playing = worlds.add_parser("play", help="play groups of attempts, each once")
    add_plan(playing)
    add_harness(playing)
    playing.set_defaults(play=play_night)
    examined = worlds.add_parser("exam", help="play what the gate asks for: a candidate and live at held-out tasks")
    add_exam_plan(examined)
    examined.set_defaults(play=play_exams)
    for one in (playing, examined):
        one.add_argument("--url", default=os.environ.get(URL) or LOCAL, help=f"where Talkback answers, or in {URL}")
        one.add_argument("--key", default=os.environ.get(KEY, ""), help=f"with the scope episodes, or in {KEY}")
        one.add_argument("--json", action="store_true", help="each attempt as a JSON line instead of the table")
        one.set_defaults(run=run)
    checking = worlds.add_parser("check", help="whether task folders can be played: their solution scores, nothing not")
    add_check_plan(checking)
    checking.set_defaults(run=check)


async def run(said: argparse.Namespace) -> int:
    """Play a night, or exams, and return the command's status."""
    every: list[Played] = []

    def note(played: Played) -> None:
        every.append(played)
        if said.json:
            print(escape_hidden(json.dumps(played.row(), ensure_ascii=False)), flush=True)

    is_stopped = False
    try:
        with stopping_by(signal.SIGTERM, signal.SIGINT):
            await said.play(said, said.url, said.key, note, sys.stderr)
    except asyncio.CancelledError:
        is_stopped = True
    if not said.json:
        print(table(every))
    if is_stopped:
        print(
            "Stopped. The same command goes on with what was not begun; --night NAME plays all anew.", file=sys.stderr
        )
    return STOPPED if is_stopped else 0


class stopping_by:
    """Within this, the first of these signals cancels the task at work; the next one ends the process as usual."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._signals = signals

    def __enter__(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            self.__exit__()
            task.cancel()

        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread: its owner has signals
            for one in self._signals:
                loop.add_signal_handler(one, stop)

    def __exit__(self, *_: object) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for one in self._signals:
                asyncio.get_running_loop().remove_signal_handler(one)
