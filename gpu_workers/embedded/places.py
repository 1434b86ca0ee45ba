"""Who runs and who waits, in which order, and in what memory: the engine's places, without its thread and its model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gpu_workers.embedded.cache import KV, PrefixCache, shared_length
from gpu_workers.embedded.strands import Strand

# Prompt tokens read in one step, while others are generating and while none is. The shares keep a stream at
# about half its pace beside prompts of its own rank, and above that beside prompts of a lower one.
CHUNK_BESIDE_HIGHER = 16  # also of what is only scored: no person watches it grow, as a swap's proof beside the chat
CHUNK_BESIDE_EQUAL = 48
CHUNK_ALONE = 256  # also bounds the logits of a scored prompt to 256 x vocabulary
WORTH_WAITING = 32  # tokens that must be saved for a prompt to wait for another that begins alike


class Places:
    """Strands that run, strands that wait, and the keys and values of both and of what is kept for whoever begins
    alike. Changed by one thread alone; others may read how many there are."""

    def __init__(
        self,
        new_kv: Callable[[int], KV],
        *,
        max_running: int,
        max_tokens: int,
        max_kept: int | None = None,
        chunk: int = 0,
    ) -> None:
        """`new_kv` makes the buffer of a strand of so many tokens; `max_tokens` bounds all buffers together, `max_kept`
        those that are kept for whoever begins alike (None: nothing else does). Where nobody minds a slower stream a
        step reads `chunk` prompt tokens at least, and a quarter of it beside writers of a higher rank: somebody waits
        for those, and for what is read nobody does."""
        self._chunk = chunk
        self.running: list[Strand] = []
        self.waiting: list[Strand] = []
        self.cache = PrefixCache()
        self.generation = 0
        """Of the weights: what was computed under another is never read again."""
        self._new_kv = new_kv
        self._max_running, self._max_tokens = max_running, max_tokens
        self._max_kept = max_tokens if max_kept is None else max_kept

    @property
    def strands(self) -> list[Strand]:
        return [*self.running, *self.waiting]

    @property
    def used(self) -> int:
        """Tokens of room that are taken."""
        return self.used_by_strands + self.cache.tokens

    @property
    def used_by_strands(self) -> int:
        """Tokens of room that those who run and those who wait have."""
        return sum(strand.kv.capacity for strand in self.strands if strand.kv is not None)

    @property
    def is_answering(self) -> bool:
        """True while a reply has begun that new weights must not end: one that stepped back is among them."""
        return bool(self.running) or any(strand.output_length for strand in self.waiting)

    # Who comes and goes

    def join(self, strands: Sequence[Strand]) -> None:
        self.waiting.extend(strands)

    def admit(self, *, only_begun: bool) -> None:
        """Give waiting strands a place, by rank; a lower rank steps back for a higher one. With `only_begun` none that
        has not begun: new weights wait, and whoever has begun ends with the weights it began with."""
        waiting = [strand for strand in self.waiting if strand.output_length or not only_begun]
        for strand in sorted(waiting, key=Strand.rank):
            if self._awaits_prefix(strand):
                continue
            if len(self.running) >= self._max_running:
                last = max(self.running, key=Strand.rank)
                if last.ask.priority >= strand.ask.priority:
                    return
                self.running.remove(last)  # it keeps what it has computed and goes on later
                self.waiting.append(last)
            if not self._find_memory(strand):
                return
            self.waiting.remove(strand)
            self.running.append(strand)
            if strand.started is None:
                strand.started = time.time()

    def leave(self, strand: Strand, *, keeps: bool) -> None:
        """Give the place back; with `keeps`, what was computed stays for those who begin alike."""
        for places in (self.running, self.waiting):
            if strand in places:
                places.remove(strand)
        if strand.kv is None:
            return
        if keeps and strand.generation == self.generation:
            self.cache.keep(self._key(strand), strand.ids[: strand.computed].copy(), strand.kv)
            self.cache.shrink(self._max_kept)
        strand.kv = None

    def step_back(self) -> int:
        """All that run wait, and will compute their tokens again; returns how many."""
        stepped = len(self.running)
        for strand in self.running:
            strand.retract()
        self.waiting.extend(self.running)
        self.running.clear()
        return stepped

    def renew(self) -> None:
        """The weights are others: nothing that was computed under the old ones is used for a new strand."""
        self.generation += 1
        for strand in self.running:  # only after an in-place pause
            strand.generation = -1
        for strand in self.waiting:  # one that had stepped back reads everything again
            if strand.kv is not None:
                strand.retract()
        self.cache.forget()

    def keep_at_most(self, tokens: int) -> None:
        """Bound what is kept by so many tokens of room from now on."""
        self._max_kept = tokens
        self.cache.shrink(tokens)

    def forget(self, instance: int) -> None:
        """Drop what is kept of an adapter."""
        self.cache.forget([(instance, self.generation)])

    # Who computes what

    def plan(self) -> list[tuple[Strand, int]]:
        """Which strands compute how many tokens now; those of one adapter stand together."""
        writing = [strand for strand in self.running if not strand.is_reading]
        reading = sorted((strand for strand in self.running if strand.is_reading), key=Strand.rank)
        plan = [(strand, 1) for strand in writing]
        top = max((strand.ask.priority for strand in writing), default=None)
        room = None
        for strand in reading:
            is_outranked = top is not None and strand.ask.priority < top
            share = max(self._chunk // 4 if is_outranked else self._chunk, _chunk(strand, top))
            room = share if room is None else min(room, share)
            if room <= 0:
                break
            n = min(room, strand.length - strand.computed)
            plan.append((strand, n))
            room -= n
        return sorted(plan, key=lambda one: 0 if one[0].adapter is None else one[0].adapter.instance)

    # Memory

    def _awaits_prefix(self, strand: Strand) -> bool:
        """True while another strand is computing a prefix that this one can soon take over."""
        if strand.kv is not None:
            return False
        limit = _reusable(strand)
        have = None
        for other in self.running:
            if other.is_reading and other.adapter is strand.adapter and other.generation == self.generation:
                shared = min(shared_length(other.ids, strand.ids), limit)
                if shared > other.computed:
                    if have is None:
                        have = min(self.cache.best(self._key(strand), strand.ids)[1], limit)
                    if shared - max(have, other.computed) >= WORTH_WAITING:
                        return True
        return False

    def _find_memory(self, strand: Strand) -> bool:
        """Give the strand its buffer, with the longest prefix that anyone has computed; False without room."""
        if strand.kv is not None:
            return True
        source, shared = self.cache.best(self._key(strand), strand.ids)
        for other in self.running:
            if other.adapter is strand.adapter and other.generation == self.generation and other.kv is not None:
                n = min(shared_length(other.ids, strand.ids), other.computed)
                if n > shared:
                    source, shared = other.kv, n
        need = len(strand.tokens)
        if not self._make_room(need, strand, source):
            return False
        strand.kv = self._new_kv(need)
        strand.generation = self.generation
        shared = min(shared, _reusable(strand)) if source is not None else 0
        if source is not None and shared > 0:
            strand.kv.copy_prefix(source, shared)
        if strand.cached_tokens is None:
            strand.cached_tokens = shared
        return True

    def _make_room(self, need: int, strand: Strand, source: KV | None) -> bool:
        """Free `need` tokens: of what is kept, `source` last, after the buffers of those that stepped back and come
        after this strand."""
        if (lack := self._lack(need)) > 0:
            self.cache.make_room(lack, sparing=source)
        stepped = [other for other in self.waiting if other.kv is not None and other.rank() > strand.rank()]
        for other in sorted(stepped, key=Strand.rank, reverse=True):
            if self._lack(need) <= 0:
                return True
            other.retract()
        if (lack := self._lack(need)) > 0:
            self.cache.make_room(lack)
        return self._lack(need) <= 0

    def _lack(self, need: int) -> int:
        return self.used + need - self._max_tokens

    def _key(self, strand: Strand) -> tuple[int, int]:
        return (0 if strand.adapter is None else strand.adapter.instance), self.generation


def _chunk(strand: Strand, top: int | None) -> int:
    """How much of a prompt is read beside writers of this highest priority; None: no sequence is written."""
    if top is None:
        return CHUNK_ALONE
    priority = strand.ask.priority
    steps_aside = priority < top or (priority == top and not strand.ask.params.max_new_tokens)
    return CHUNK_BESIDE_HIGHER if steps_aside else CHUNK_BESIDE_EQUAL


def _reusable(strand: Strand) -> int:
    """How long a prefix may be taken over: the rest must be computed for its logits."""
    return min(strand.length - 1, strand.first_scored)
