"""The Celery queue `play`: hosts of their own that play nights, told of them by messages without a secret.

TALKBACK_URL=… TALKBACK_KEY=… PLAY_PARALLEL=64 celery -A webapp worker -Q play -c 1
celery -A webapp call worlds.play --args '[["--world", "till", "--groups", "16"]]'
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from celery import shared_task
from celery.exceptions import Reject

from core import stops
from environments.client import KEY, LOCAL, URL
from environments.errors import Unplayable
from environments.worlds.night import add_plan, play_night
from environments.worlds.played import Figures, Played, table

log = logging.getLogger(__name__)

PARALLEL = "PLAY_PARALLEL"
LOOK_S = 0.5
"""How often a night looks whether its worker was asked to stop."""


class Arguments(argparse.ArgumentParser):
    """A message's arguments: those of the command, but for where Talkback is and the key, which the host knows."""

    def __init__(self) -> None:
        super().__init__("worlds.play", add_help=False, allow_abbrev=False)
        add_plan(self)

    def error(self, message: str) -> NoReturn:
        raise Unplayable(f"worlds.play: {message}.")


@shared_task(name="worlds.play")
def play(arguments: Sequence[str]) -> dict[str, Any]:
    """Play a night, and return its figures. A worker that is asked to stop hands the message back, and the next one
    goes on with what was not begun. Raises as the command says in words."""
    said = Arguments().parse_args(list(arguments))
    every: list[Played] = []
    try:
        asyncio.run(
            _until_stopped(
                play_night(
                    said,
                    os.environ.get(URL) or LOCAL,
                    os.environ.get(KEY, ""),
                    every.append,
                    sys.stderr,
                    most=capacity(),
                )
            )
        )
    except asyncio.CancelledError:
        raise Reject("The worker was asked to stop.", requeue=True) from None
    log.info("%s\n%s", " ".join(arguments), table(every))
    figures = Figures.of(every)
    return {"attempts": figures.attempts, "counted": figures.counted, "solved": figures.solved}


def capacity() -> int | None:
    """How many attempts this host may play at once, by PLAY_PARALLEL; None: as the world is made for."""
    said = os.environ.get(PARALLEL, "").strip()
    if said and (not said.isdecimal() or int(said) < 1):
        raise Unplayable(f"{PARALLEL} is {said!r}: it is the number of attempts at once, 1 or more.")
    return int(said) if said else None


async def _until_stopped(night: Any) -> None:
    """Raises CancelledError where the worker was asked to stop, once what was at work is called off."""
    playing = asyncio.ensure_future(night)
    while not playing.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(playing), LOOK_S)
        if stops.is_asked():
            playing.cancel()
            await asyncio.wait([playing])
    playing.result()
