"""Values that are kept by name, as many as fit, so that what costs time is not done again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Name, Value]):
    """The values that were asked for last. Safe to share between threads."""

    def __init__(self, room: int) -> None:
        """All of them together take `room` bytes at most, and one alone a quarter of it."""
        self._room, self.taken = room, 0
        self._values: OrderedDict[Name, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: Name) -> Value | None:
        with self._lock:
            if (found := self._values.get(name)) is None:
                return None
            self._values.move_to_end(name)
            return found[0]

    def put(self, name: Name, value: Value, size: int) -> None:
        """Keep what takes `size` bytes, name and all; what was asked for longest ago makes room. What is too large is
        not kept."""
        if size > self._room // 4:
            return
        with self._lock:
            if name in self._values:
                return
            self._values[name] = value, size
            self.taken += size
            while self.taken > self._room:
                self.taken -= self._values.popitem(last=False)[1][1]
