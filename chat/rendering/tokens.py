"""Tokenise text with a cache: each part between two control tokens is tokenised once.

A rendered conversation is cut at its control tokens. What stands between two of them is tokenised by itself, as the
tokenizer itself does it, so the ids of each part can be kept: a conversation that has grown by a message costs that
message. Where a tokenizer looks beyond its control tokens, nothing is kept and everything is tokenised each time.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from sys import getsizeof
from typing import Any

from tokenizers import Tokenizer

from core.kept import Kept

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one text at a time: more threads would only wait

ROOM = 64 * 2**20
"""Bytes that what is kept may take: texts with their ids, seven million tokens or so."""

OVERHEAD = 250
"""Bytes that a part takes besides its text and its ids."""

LONG = 4096
"""Characters of what is new in a text from which other threads run meanwhile. What is shorter is done sooner than they
would give way again."""

PROBES = ("Hello there", " two  blanks ", "\n", "\n\nlines\n", "né", "word", "'s", "12", " ", "\t{}", "日本 語")
"""What is put between control tokens to see whether they part a text: beginnings and ends that tokenizers treat."""


class Tokens:
    """One tokenizer and what it gave. Safe to share between threads."""

    def __init__(self, tokenizer: Tokenizer, added: Sequence[Mapping[str, Any]] = (), *, room: int = ROOM) -> None:
        """`added` are the tokenizer's added tokens, as tokenizer.json has them."""
        self._tokenizer = tokenizer
        self._kept: Kept[str, array[int]] = Kept(room)
        self._ids = {token["content"]: int(token["id"]) for token in added if not token.get("normalized")}
        self._cuts = spelling(self._ids)
        bends = any(token.get(flag) for token in added for flag in ("lstrip", "rstrip", "single_word"))
        self.keeps = not bends and self._is_parted()
        """Whether the tokenizer treats what stands between control tokens by itself."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def taken(self) -> int:
        """Bytes that are in use, about."""
        return self._kept.taken

    def ids(self, text: str) -> list[int]:
        """What the tokenizer gives for `text`; control tokens in it count as such."""
        if not self.keeps:
            return self._encoded([text])[0]
        parts = list(pieces(text, self._cuts))
        known = self._known([part for part in parts if part not in self._ids])
        ids: list[int] = []
        for part in parts:
            control = self._ids.get(part)
            if control is not None:
                ids.append(control)
            else:
                ids += known[part]
        return ids

    def _known(self, parts: Sequence[str]) -> dict[str, array[int]]:
        """The ids of each part; those that are new are tokenised together."""
        known = {part: ids for part in parts if (ids := self._kept.get(part)) is not None}
        new = list(dict.fromkeys(part for part in parts if part not in known))
        for part, encoded in zip(new, self._encoded(new), strict=True):
            ids = known[part] = array("I", encoded)
            self._kept.put(part, ids, bytes_of(part, ids))
        return known

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        if sum(map(len, texts)) < LONG:
            return [self._tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        # Lets go of the interpreter, once for all of them.
        return [found.ids for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _is_parted(self) -> bool:
        """Ask the tokenizer itself, for every control token and every probe on either side of it."""
        for control, id in self._ids.items():
            text = control.join(["", *PROBES, "", ""])
            wanted: list[int] = []
            for part in pieces(text, self._cuts):
                wanted += [id] if part == control else self._encoded([part])[0]
            if self._encoded([text]) != [wanted]:
                return False
        return True


def bytes_of(text: str, ids: array[int]) -> int:
    """Bytes that a part and its ids take, about."""
    return getsizeof(text) + len(ids) * ids.itemsize + OVERHEAD


def spelling(tokens: Iterator[str] | Sequence[str] | Mapping[str, Any]) -> re.Pattern[str] | None:
    """A pattern that finds any of these tokens in text, longest first."""
    ordered = sorted(set(tokens), key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in ordered)) if ordered else None


def pieces(text: str, pattern: re.Pattern[str] | None) -> Iterator[str]:
    """The text cut before and after each match of `pattern`; nothing is lost."""
    start = 0
    for match in pattern.finditer(text) if pattern else ():
        if match.start() > start:
            yield text[start : match.start()]
        yield match[0]
        start = match.end()
    if start < len(text):
        yield text[start:]
