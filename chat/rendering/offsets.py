"""Map each of a reply's tokens to the characters of `Turn.text` that it wrote, one range a response id.

Exact or not at all. The ids that were served are decoded one by one, what is read of them is read by the same reader
as when they were served, and the words that come out must be the words that are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import SupportsIndex

from chat.models import Turn
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from core.errors import TalkbackError

Decode = Callable[[Sequence[int]], str]

PART = "\ufffd"
"""What a part of a character decodes to."""

NOTHING = (0, 0)
"""The range of a token that wrote no word: a control token, reasoning, a tool call."""


class OffsetsLost(TalkbackError):
    """Which token wrote which word can no longer be told."""

    code, status = "offsets_lost", 422


def token_ranges(turn: Turn, renderer: Renderer) -> list[tuple[int, int]]:
    """For each response id the half-open range of the characters of `turn.text` that it wrote, whole or in part.

    Tokens that write one character together all have it in their range. Raises OffsetsLost where decoding and
    reading the ids anew does not give the very words that are kept.
    """
    decode = partial(renderer.decode, controls=not turn.sampling.get("skip_special_tokens", True))
    for without_last in (False, True):  # a stop token has a text too, where control tokens are a part of it
        ids = turn.response_ids[:-1] if without_last else turn.response_ids
        written, ranges = decode_ranges(ids, decode)
        words, places = read(turn, written)
        if words == turn.text and places is not None:
            spans = [narrowed(places, start, end) for start, end in ranges]
            return [*spans, NOTHING] if without_last else spans
    raise OffsetsLost("The tokens of this reply, decoded anew, do not give its words.")


def decode_ranges(ids: Sequence[int], decode: Decode) -> tuple[str, list[tuple[int, int]]]:
    """The text of these ids, and the range of its characters that each of them wrote, whole or in part.

    Decoding begins a few tokens back, because the text of a token depends on its neighbours; tokens after which the
    last character is not whole yet are looked at together with those that complete it.
    """
    written: list[str] = []
    ranges: list[tuple[int, int]] = []
    length = start = read = 0  # characters that are out; decode from `start`; ids up to `read` are out
    seen: list[str] = []  # what the ids from `read` on come to so far, after each of them
    for at in range(len(ids)):
        before = decode(ids[start:read])
        seen.append(decode(ids[start : at + 1])[len(before) :])
        if seen[-1].endswith(PART) and at + 1 < len(ids):
            continue
        piece = seen[-1]
        ranges += [(length + first, length + last) for first, last in within(seen, piece)]
        written.append(piece)
        length, start, read, seen = length + len(piece), read, at + 1, []
    return "".join(written), ranges


def within(seen: Sequence[str], whole: str) -> Iterator[tuple[int, int]]:
    """The range in `whole` of each of the ids that wrote it together; `seen` is the text after each of them.

    >>> list(within([" \ufffd", " \ufffd", " é!"], " é!"))
    [(0, 2), (1, 2), (1, 3)]
    """
    start = 0
    for text in seen:
        end = max(start, common(text, whole))
        if len(text) > end:
            yield (start, min(len(whole), end + 1))
        elif end == start and text.endswith(PART):  # it went into a character that nothing completed
            yield (max(0, start - 1), start)
        else:
            yield (start, end)
        start = end


def common(one: str, other: str) -> int:
    """How many characters both begin with.

    >>> common("abc", "abd")
    2
    """
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def read(turn: Turn, written: str) -> tuple[str, list[int] | None]:
    """The words in what was written, and where in it each of their characters stands; None where that is not known."""
    cut = min((at for stop in turn.sampling.get("stop") or () if (at := written.find(stop)) >= 0), default=None)
    reader = Reader.of(turn.tools, turn.asked, holds=True)
    pieces = [*reader.feed(Traced(written[:cut])), *reader.end()]
    words = ""
    places: list[int | None] = []
    for piece in pieces:
        if piece.kind == "content":
            words += piece.text
            places += places_of(piece.text)
    return words, filled(places, words, written)


def filled(places: Sequence[int | None], words: str, written: str) -> list[int] | None:
    """Places with what the reader spelled anew in between put where it stands; None where it does not stand there."""
    known: list[int] = []
    for at, place in enumerate(places):
        following = known[-1] + 1 if known else 0
        here = following if place is None else place
        if here < following or written[here : here + 1] != words[at]:
            return None
        known.append(here)
    return known


def narrowed(places: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The words' own range for characters `start` to `end` of what was written."""
    first, last = bisect_left(places, start), bisect_left(places, end)
    return (first, last) if first < last else NOTHING


class Traced(str):
    """A text that keeps where each of its characters comes from, through what the reader does to it."""

    places: Sequence[int]

    def __new__(cls, text: str, places: Sequence[int] | None = None) -> Traced:
        made = super().__new__(cls, text)
        made.places = range(len(text)) if places is None else places
        return made

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        return Traced(super().__getitem__(at), self.places[at]) if isinstance(at, slice) else super().__getitem__(at)

    def __add__(self, other: str) -> str:
        return Traced(super().__add__(other), [*places_of(self), *places_of(other)])  # type: ignore[list-item]

    def __radd__(self, other: str) -> str:
        return Traced(str.__add__(other, self), [*places_of(other), *places_of(self)])  # type: ignore[list-item]

    def lstrip(self, chars: str | None = None) -> str:
        return self[len(self) - len(super().lstrip(chars)) :]

    def rstrip(self, chars: str | None = None) -> str:
        return self[: len(super().rstrip(chars))]

    def partition(self, sep: str) -> tuple[str, str, str]:
        at = self.find(sep)
        return (self, "", "") if at < 0 else (self[:at], sep, self[at + len(sep) :])


def places_of(text: str) -> Sequence[int | None]:
    """Where each character comes from; None for those of a text that is not traced."""
    return text.places if isinstance(text, Traced) else [None] * len(text)
