"""Leases say whose a GPU is: the learner's, the engine's, the judge's. Cards are given out in that order, as the
reference does.

Standard library only: the set-up asks it too, before anything is installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ASKS = ("ACTOR_GPUS", "ROLLOUT_GPUS", "PRM_GPUS")
"""How many cards the learner, the engine and the judge get."""


class LeaseInvalid(ValueError):
    """The settings ask for cards that are not there, or a card belongs to another process; the message says what to
    do."""


@dataclass(frozen=True)
class Leases:
    """The cards of each, by the names that CUDA_VISIBLE_DEVICES takes. Without any the judge is asked at the engine."""

    learner: tuple[str, ...] = ()
    engine: tuple[str, ...] = ()
    judge: tuple[str, ...] = ()

    @property
    def learner_shares(self) -> bool:
        """Whether the learner works on a card that also answers people."""
        return bool(set(self.learner) & {*self.engine, *self.judge})

    @property
    def engine_shares(self) -> bool:
        return bool(set(self.engine) & {*self.learner, *self.judge})

    def __str__(self) -> str:
        said = [f"{name} {', '.join(cards) or 'none'}" for name, cards in vars(self).items()]
        return "; ".join(said) + (" (in turns)" if self.learner_shares else "")


def read(settings: Mapping[str, str], cards: Sequence[str]) -> Leases:
    """Read the leases from NUM_GPUS, ACTOR_GPUS, ROLLOUT_GPUS, PRM_GPUS and the cards that are here. Raises
    LeaseInvalid."""
    asks: dict[str, int | None] = {}
    for name in ("NUM_GPUS", *ASKS):
        text = settings.get(name, "").strip()
        if text and not text.isdecimal():
            raise LeaseInvalid(f"{name} is {text!r}: write how many cards, as in {name}=1.")
        asks[name] = int(text) if text else None
    total = asks["NUM_GPUS"]
    if total is not None and total > len(cards):
        raise LeaseInvalid(f"NUM_GPUS is {total}, and this machine shows {len(cards)}: lower it, or see to the driver.")
    return divide_cards(cards[:total], *(asks[name] for name in ASKS))


def divide_cards(
    cards: Sequence[str], actor: int | None = None, rollout: int | None = None, prm: int | None = None
) -> Leases:
    """Give out cards: `actor` to the learner, `rollout` to the engine, `prm` to the judge; None: as many as make sense.

    An engine has one card unless it is told otherwise, the judge none, and the learner what is left. Fewer cards than
    owners are used in turns, where each asks for one. Raises LeaseInvalid for anything else that does not fit.
    """
    count = len(cards)
    rollout = min(1, count) if rollout is None else rollout
    prm = prm or 0
    actor = max(min(1, count), count - rollout - prm) if actor is None else actor
    asked = {"ACTOR_GPUS": actor, "ROLLOUT_GPUS": rollout, "PRM_GPUS": prm}
    if sum(asked.values()) <= count:
        return Leases(
            tuple(cards[:actor]), tuple(cards[actor : actor + rollout]), tuple(cards[actor + rollout :][:prm])
        )
    owners = [name for name, wanted in asked.items() if wanted]
    if not count or len(owners) <= count or max(asked.values()) > 1:
        said = ", ".join(f"{name}={wanted}" for name, wanted in asked.items() if wanted)
        raise LeaseInvalid(
            f"{said} make {sum(asked.values())} of {count} cards: lower one, or raise NUM_GPUS if there are more."
        )
    # One card, or two for all three: the learner keeps to itself where it can, and answers share.
    first, last = tuple(cards[:1]), tuple(cards[-1:])
    return Leases(first if actor else (), last if rollout else (), last if prm else ())


def share_cards(cards: Sequence[str], count: int) -> tuple[tuple[str, ...], ...]:
    """Give equally many cards to each of `count` engines, none where there are none. Raises LeaseInvalid where they do
    not divide.

    >>> share_cards("0123", 2)
    (('0', '1'), ('2', '3'))
    """
    each, left = divmod(len(cards), count)
    if left or (cards and not each):
        raise LeaseInvalid(
            f"{len(cards)} cards are the engines', which are {count} (ENGINE_COUNT): each needs as many, at least one; "
            f"ROLLOUT_GPUS says how many there are."
        )
    return tuple(tuple(cards[n * each : (n + 1) * each]) for n in range(count))


def find_cards() -> tuple[str, ...]:
    """List the cards that this process may use, by name: those of CUDA_VISIBLE_DEVICES, else all that the driver
    shows."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip())
    if not shutil.which("nvidia-smi"):
        return ()
    with suppress(subprocess.TimeoutExpired):
        shown = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
        if shown.returncode == 0:
            return tuple(str(n) for n, _ in enumerate(line for line in shown.stdout.splitlines() if line.strip()))
    return ()


def take(folder: Path, cards: Sequence[str], owner: str) -> list[int]:
    """Hold cards as `owner` until the returned files are closed, at the latest when this process (or what it becomes)
    ends: the kernel sees to that. Raises LeaseInvalid where another process has one of them under the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    taken: list[int] = []
    for card in cards:
        name = "".join(letter if letter.isalnum() else "-" for letter in card)
        handle = os.open(folder / f"gpu-{name}.{owner}", os.O_RDWR | os.O_CREAT, 0o600)
        os.set_inheritable(handle, True)
        taken.append(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(handle, 64, 0).decode(errors="replace").strip() or "another one"
            for each in taken:
                os.close(each)
            raise LeaseInvalid(f"GPU {card} has {owner} already, process {who}: stop it first.") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    return taken


@contextmanager
def lease(folder: Path, cards: Sequence[str], owner: str) -> Iterator[None]:
    """Hold cards for as long as the `with` lasts. Raises as `take`."""
    with ExitStack() as open_files:
        for handle in take(folder, cards, owner):
            open_files.callback(os.close, handle)
        yield
