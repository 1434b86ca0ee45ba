"""Resume a reply after its engine went away: the ids so far become a part of the next prompt."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

from django.utils.translation import gettext_noop

from gpu_workers.errors import EngineUnavailable
from gpu_workers.types import Delta, Sampling

SEAMS = 3
"""How often one reply goes on. One that brings the engine down itself must not do so for ever."""

BEHIND = 8
"""Tokens before a seam that say how the first one behind it is written; no character is made of more."""

PART = "\ufffd"
"""What a part of a character decodes to."""

Decode = Callable[[Sequence[int]], str]


class Course:
    """Keep one reply going over as many requests to an engine as it takes.

    Ids are the engine's own. Behind a seam the text is decoded here, from ids on both sides of it, for the engine
    takes what was said before for a prompt: it would not join the parts of a character, nor of a stop string.
    """

    def __init__(self, prompt_ids: Sequence[int], sampling: Sampling, decode: Decode, *, sees: bool = False) -> None:
        """`sees`: there are pictures in the prompt, which servers tokenise anew together with what was said."""
        self._prompt_ids, self._sampling, self._decode = prompt_ids, sampling, decode
        self._is_exact = is_exact(sampling) and not sees
        self._ids = array("q")
        self._text: list[str] = []  # as it was given out
        self._version = ""
        self._has_spoken = self._is_continued = False
        self._seams, self._seam = 0, -1  # how many, and how many ids stand before the last one
        self._start = self._read = 0  # the ids that are decoded anew with each further one
        self._held = ""  # text that may yet become a stop string

    @property
    def is_resumed(self) -> bool:
        return self._seams > int(self._is_continued)

    def go_on(self, ids: Sequence[int], text: str, version: str) -> None:
        """Begin behind these ids, whose whole characters are `text`: an earlier request said them, with the weights of
        this version. Raises EngineUnavailable where that cannot be gone on from exactly."""
        self._ids.extend(ids)
        self._text.append(text)
        self._version, self._has_spoken, self._is_continued = version, True, True
        if not self.resume():
            raise EngineUnavailable(
                gettext_noop("This reply cannot be gone on from exactly where it ended: try again instead.")
            )

    def resume(self) -> bool:
        """Prepare to ask for what is missing; False when something was said that cannot be gone on from exactly."""
        said = len(self._ids)
        if not self._has_spoken:
            return True
        if not self._is_exact or said >= self._sampling.max_new_tokens:
            return False
        if said == self._seam:
            return True
        if self._seams == SEAMS:
            return False
        if not self._seams:
            given = "".join(self._text)
            read, whole = whole_part(self._decode, self._ids)
            if not whole.startswith(given):
                return False
            self._held, self._start, self._read = whole[len(given) :], max(0, read - BEHIND), read
        self._seams, self._seam = self._seams + 1, said
        return True

    def question(self) -> tuple[list[int], Sampling]:
        """What to ask the engine now."""
        left = self._sampling.max_new_tokens - len(self._ids)
        return [*self._prompt_ids, *self._ids], replace(self._sampling, max_new_tokens=left)

    def take(self, delta: Delta) -> Delta:
        """The piece as it follows on what was said before. Raises EngineUnavailable where other weights speak now."""
        if self._seams:
            delta = self._fitted(delta)
        self._version, self._has_spoken = delta.weight_version, True
        if self._is_exact:
            self._ids.extend(delta.ids)
            self._text.append(delta.text)
        return delta

    def _fitted(self, delta: Delta) -> Delta:
        if delta.weight_version != self._version:
            self._is_exact = False
            raise EngineUnavailable(
                gettext_noop("The engine came back with other weights than this reply began with: ask again.")
            )
        finish_reason = delta.finish_reason
        ids = self._ids + array("q", delta.ids)
        end = len(self._ids)
        while end < len(ids):
            ended = self._held + self._rest(ids, end)  # the text, should the next token be the one that ends it
            end += 1
            self._spell(ids, end)
            at = find_stop(self._held, self._sampling.stop)
            if at is not None:
                self._held, finish_reason = self._held[:at], "stop"
                break
        else:
            if finish_reason == "stop" and delta.ids:
                self._held = ended
            elif finish_reason:
                self._held += self._rest(ids, end)
        kept = len(self._held) - (0 if finish_reason else count_begun(self._held, self._sampling.stop))
        text, self._held = self._held[:kept], self._held[kept:]
        count = end - len(self._ids)
        return replace(
            delta,
            text=text,
            ids=delta.ids[:count],
            logprobs=delta.logprobs[:count],
            top=delta.top[:count],
            finish_reason=finish_reason,
            prompt_tokens=len(self._prompt_ids),
            cached_tokens=min(delta.cached_tokens, len(self._prompt_ids)),
        )

    def _spell(self, ids: Sequence[int], end: int) -> None:
        """Hold what the ids up to `end` add to the text, once it is whole characters."""
        piece = self._rest(ids, end)
        if not piece.endswith(PART):
            self._held += piece
            self._start, self._read = max(self._start, self._read - BEHIND), end

    def _rest(self, ids: Sequence[int], end: int) -> str:
        """The text of the ids up to `end` that are not spelled yet."""
        return self._decode(ids[self._start : end])[len(self._decode(ids[self._start : self._read])) :]


def whole_part(decode: Decode, ids: Sequence[int]) -> tuple[int, str]:
    """How many of the ids make whole characters, and their text."""
    read = len(ids)
    while read and decode(ids[max(0, read - BEHIND) : read]).endswith(PART):
        read -= 1
    return read, decode(ids[:read])


def is_exact(sampling: Sampling) -> bool:
    """Whether the rest is drawn as it would have been: a grammar would begin anew, penalties would forget."""
    is_constrained = bool(sampling.json_schema or sampling.regex)
    penalties = sampling.frequency_penalty, sampling.presence_penalty, sampling.repetition_penalty
    return not is_constrained and penalties == (0.0, 0.0, 1.0)


def find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first of the stop strings in `text` begins.

    >>> find_stop("so it is. End", ["End", "is."]), find_stop("so", ["End"])
    (6, None)
    """
    return min((at for string in stop if (at := text.find(string)) >= 0), default=None)


def count_begun(text: str, stop: Sequence[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a stop string.

    >>> count_begun("so it is. En", ["End"]), count_begun("so", ["End"])
    (2, 0)
    """
    return max((n for string in stop for n in range(1, len(string)) if text.endswith(string[:n])), default=0)
