"""Disks that are small, and full: real file systems, where this machine lets us mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes file systems in memory, each of so many MiB; what takes it is marked small_disk."""
    mounted: list[Path] = []

    def mount(mib: int) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)], check=True)
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, *, leaving_mib: float = 0) -> Path:
    """Take all of a disk but so many MiB. The file that takes it: without it there is room again."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        while (left := free(disk) - int(leaving_mib * MIB)) > 0:
            try:
                file.write(b"\0" * min(left, MIB))
            except OSError:
                break
    return filler


def free(disk: Path) -> int:
    seen = os.statvfs(disk)
    return seen.f_bavail * seen.f_frsize


def flip(file: Path, place: int = 100) -> None:
    """Change one bit of a byte, and nothing that a directory listing shows."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= 1
    file.write_bytes(bytes(content))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
