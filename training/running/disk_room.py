"""Say whether the weights of a run fit beside what is kept for chat."""

from __future__ import annotations

from django.conf import settings

from core import stores
from core.stores import DiskFull
from training.config import Recipe
from training.next_run import forecast


def check_room(recipe: Recipe) -> None:
    """Raises DiskFull where the weights of such a run would not fit beside what is kept for chat."""
    needed, free = forecast.room(recipe)
    if free < needed:
        raise DiskFull(f"There is no room for the new weights. {say_room(needed, free)}")


def is_room_for_two(recipe: Recipe) -> bool:
    """Whether a snapshot fits beside the weights that a run ends with: it must not take the room that these need."""
    needed, free = forecast.room(recipe)
    return free >= 2 * needed


def say_room(needed: int, free: int) -> str:
    wanted, left = f"{needed / forecast.MIB:.1f} MiB", f"{free / forecast.MIB:.1f} MiB"
    beside = f" beside the {settings.DISK_RESERVE_MB} MiB that are kept for chat" if settings.DISK_RESERVE_MB else ""
    return f"They need about {wanted}, and DATA_DIR now has {left} free{beside}: make room, then have it learn now."


def is_full(failure: BaseException) -> bool:
    """Whether a disk was full: Python says so by a number, safetensors in words alone."""
    return getattr(failure, "errno", None) in stores.FULL_ERRNOS or "No space left on device" in str(failure)
