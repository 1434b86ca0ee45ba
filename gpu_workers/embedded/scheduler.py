"""The scheduler decides which sequences run, in which order, and in what memory. It knows no thread and no model."""

from __future__ import annotations

import time
from collections import abc
from collections.abc import Callable

from gpu_workers.embedded.cache import KV, PrefixCache, shared_length
from gpu_workers.embedded.sequences import Sequence

# Prompt tokens read in one step, while others are generating and while none is. The shares keep a stream at
# about half its pace beside prompts of its own rank, and above that beside prompts of a lower one.
CHUNK_BESIDE_HIGHER = 16  # also of what is only scored: no person watches it grow, as a swap's proof beside the chat
CHUNK_BESIDE_EQUAL = 48
CHUNK_ALONE = 256  # also bounds the logits of a scored prompt to 256 x vocabulary
WORTH_WAITING = 32  # tokens that must be saved for a prompt to wait for another that begins alike


class Scheduler:
    """Schedule sequences: those that run, those that wait, and the memory for their keys and values, prefix cache
    included. One thread alone changes it; others may read its counts."""

    def __init__(
        self,
        new_kv: Callable[[int], KV],
        *,
        max_running: int,
        max_tokens: int,
        max_kept: int | None = None,
        chunk: int = 0,
    ) -> None:
        """`new_kv` makes the buffer of a sequence of so many tokens; `max_tokens` bounds all buffers together,
        `max_kept` those in the prefix cache (None: nothing else does). A step reads
        `chunk` prompt tokens at least, and a quarter of it beside writers of a higher rank: people watch those grow."""
        self._chunk = chunk
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.cache = PrefixCache()
        self.generation = 0
        """Of the weights: what was computed under another is never read again."""
        self._new_kv = new_kv
        self._max_running, self._max_tokens = max_running, max_tokens
        self._max_kept = max_tokens if max_kept is None else max_kept

    @property
    def sequences(self) -> list[Sequence]:
        return [*self.running, *self.waiting]

    @property
    def used(self) -> int:
        """Tokens of room that are taken."""
        return self.used_by_sequences + self.cache.tokens

    @property
    def used_by_sequences(self) -> int:
        """Tokens of room that those who run and those who wait have."""
        return sum(sequence.kv.capacity for sequence in self.sequences if sequence.kv is not None)

    @property
    def is_answering(self) -> bool:
        """True while a reply has begun that new weights must not end: one that stepped back is among them."""
        return bool(self.running) or any(sequence.output_length for sequence in self.waiting)

    # Who comes and goes

    def join(self, sequences: abc.Sequence[Sequence]) -> None:
        self.waiting.extend(sequences)

    def admit(self, *, only_begun: bool) -> None:
        """Run waiting sequences, by rank; a lower rank steps back for a higher one. With `only_begun` none that has
        not begun: new weights wait, and a reply ends with the weights it began with."""
        waiting = [sequence for sequence in self.waiting if sequence.output_length or not only_begun]
        for sequence in sorted(waiting, key=Sequence.rank):
            if self._awaits_prefix(sequence):
                continue
            if len(self.running) >= self._max_running:
                last = max(self.running, key=Sequence.rank)
                if last.ask.priority >= sequence.ask.priority:
                    return
                self.running.remove(last)  # it keeps what it has computed and goes on later
                self.waiting.append(last)
            if not self._find_memory(sequence):
                return
            self.waiting.remove(sequence)
            self.running.append(sequence)
            if sequence.started is None:
                sequence.started = time.time()

    def leave(self, sequence: Sequence, *, keeps: bool) -> None:
        """Give the place back; with `keeps`, what was computed stays for those who begin alike."""
        for places in (self.running, self.waiting):
            if sequence in places:
                places.remove(sequence)
        if sequence.kv is None:
            return
        if keeps and sequence.generation == self.generation:
            self.cache.keep(self._key(sequence), sequence.ids[: sequence.computed].copy(), sequence.kv)
            self.cache.shrink(self._max_kept)
        sequence.kv = None

    def step_back(self) -> int:
        """All that run wait, and will compute their tokens again; returns how many."""
        stepped = len(self.running)
        for sequence in self.running:
            sequence.retract()
        self.waiting.extend(self.running)
        self.running.clear()
        return stepped

    def renew(self) -> None:
        """The weights are others: nothing that was computed under the old ones is used for a new sequence."""
        self.generation += 1
        for sequence in self.running:  # only after an in-place pause
            sequence.generation = -1
        for sequence in self.waiting:  # one that had stepped back reads everything again
            if sequence.kv is not None:
                sequence.retract()
        self.cache.forget()

    def keep_at_most(self, tokens: int) -> None:
        """Bound what is kept by so many tokens of room from now on."""
        self._max_kept = tokens
        self.cache.shrink(tokens)

    def forget(self, instance: int) -> None:
        """Drop what is kept of an adapter."""
        self.cache.forget([(instance, self.generation)])

    # Who computes what

    def plan(self) -> list[tuple[Sequence, int]]:
        """Which sequences compute how many tokens now; those of one adapter stand together."""
        writing = [sequence for sequence in self.running if not sequence.is_reading]
        reading = sorted((sequence for sequence in self.running if sequence.is_reading), key=Sequence.rank)
        plan = [(sequence, 1) for sequence in writing]
        top = max((sequence.ask.priority for sequence in writing), default=None)
        room = None
        for sequence in reading:
            is_outranked = top is not None and sequence.ask.priority < top
            share = max(self._chunk // 4 if is_outranked else self._chunk, _chunk(sequence, top))
            room = share if room is None else min(room, share)
            if room <= 0:
                break
            n = min(room, sequence.length - sequence.computed)
            plan.append((sequence, n))
            room -= n
        return sorted(plan, key=lambda one: 0 if one[0].adapter is None else one[0].adapter.instance)

    # Memory

    def _awaits_prefix(self, sequence: Sequence) -> bool:
        """True while another sequence is computing a prefix that this one can soon take over."""
        if sequence.kv is not None:
            return False
        limit = _reusable(sequence)
        have = None
        for other in self.running:
            if other.is_reading and other.adapter is sequence.adapter and other.generation == self.generation:
                shared = min(shared_length(other.ids, sequence.ids), limit)
                if shared > other.computed:
                    if have is None:
                        have = min(self.cache.best(self._key(sequence), sequence.ids)[1], limit)
                    if shared - max(have, other.computed) >= WORTH_WAITING:
                        return True
        return False

    def _find_memory(self, sequence: Sequence) -> bool:
        """Give the sequence its buffer, with the longest prefix computed so far; False without room."""
        if sequence.kv is not None:
            return True
        source, shared = self.cache.best(self._key(sequence), sequence.ids)
        for other in self.running:
            if other.adapter is sequence.adapter and other.generation == self.generation and other.kv is not None:
                n = min(shared_length(other.ids, sequence.ids), other.computed)
                if n > shared:
                    source, shared = other.kv, n
        need = len(sequence.tokens)
        if not self._make_room(need, sequence, source):
            return False
        sequence.kv = self._new_kv(need)
        sequence.generation = self.generation
        shared = min(shared, _reusable(sequence)) if source is not None else 0
        if source is not None and shared > 0:
            sequence.kv.copy_prefix(source, shared)
        if sequence.cached_tokens is None:
            sequence.cached_tokens = shared
        return True

    def _make_room(self, need: int, sequence: Sequence, source: KV | None) -> bool:
        """Free `need` tokens: of what is kept, `source` last, after the buffers of those that stepped back and come
        after this sequence."""
        if (lack := self._lack(need)) > 0:
            self.cache.make_room(lack, sparing=source)
        stepped = [other for other in self.waiting if other.kv is not None and other.rank() > sequence.rank()]
        for other in sorted(stepped, key=Sequence.rank, reverse=True):
            if self._lack(need) <= 0:
                return True
            other.retract()
        if (lack := self._lack(need)) > 0:
            self.cache.make_room(lack)
        return self._lack(need) <= 0

    def _lack(self, need: int) -> int:
        return self.used + need - self._max_tokens

    def _key(self, sequence: Sequence) -> tuple[int, int]:
        return (0 if sequence.adapter is None else sequence.adapter.instance), self.generation


def _chunk(sequence: Sequence, top: int | None) -> int:
    """How much of a prompt is read beside writers of this highest priority; None: no sequence is written."""
    if top is None:
        return CHUNK_ALONE
    priority = sequence.ask.priority
    steps_aside = priority < top or (priority == top and not sequence.ask.params.max_new_tokens)
    return CHUNK_BESIDE_HIGHER if steps_aside else CHUNK_BESIDE_EQUAL


def _reusable(sequence: Sequence) -> int:
    """How long a prefix may be taken over: the rest must be computed for its logits."""
    return min(sequence.length - 1, sequence.first_scored)
