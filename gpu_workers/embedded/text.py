"""Text decodes token ids while they arrive: whole characters only, cut at a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class Text:
    """Decode one reply as it grows.

    Decoding starts a few tokens back, because the text of a token depends on its neighbours, and a character
    may be spread over several tokens.
    """

    def __init__(self, decode: Decode, stop: Sequence[str], keep_stop: bool) -> None:
        self.so_far = ""
        self._decode, self._stop, self._keep_stop = decode, stop, keep_stop
        self._ids: list[int] = []
        self._from, self._read = 0, 0  # decode from here; text up to here is out

    def add(self, token: int) -> str | None:
        """Take one more token; the stop string it completed, if any."""
        self._ids.append(token)
        before = self._decode(self._ids[self._from : self._read])
        after = self._decode(self._ids[self._from :])
        if len(after) > len(before) and not after.endswith("\ufffd"):
            searched = max((len(s) for s in self._stop), default=0)
            tail = len(self.so_far) - searched
            self.so_far += after[len(before) :]
            self._from, self._read = self._read, len(self._ids)
            return self._find_stop(max(0, tail))
        return None

    def finish(self) -> None:
        """Nothing more comes: give out what was held back as an unfinished character."""
        before = self._decode(self._ids[self._from : self._read])
        self.so_far += self._decode(self._ids[self._from :])[len(before) :]
        self._from, self._read = self._read, len(self._ids)

    def _find_stop(self, start: int) -> str | None:
        for stop in self._stop:
            at = self.so_far.find(stop, start)
            if at >= 0:
                self.so_far = self.so_far[: at + len(stop) if self._keep_stop else at]
                return stop
        return None
