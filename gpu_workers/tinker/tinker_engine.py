"""The Tinker engine draws tokens at Tinker: an `Engine`, as far as its calls exist there.

Every prompt leaves this machine. Sampling there does not stream: a reply arrives whole, as one piece. Ids go out and
come back; text is made of them here, by the tokenizer in the model's folder.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from tokenizers import Tokenizer

from core.errors import TalkbackError
from gpu_workers.engine.interface import PauseMode
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineGarbled,
    EngineRefused,
    EngineUnavailable,
    KeyRefused,
)
from gpu_workers.tinker import archives
from gpu_workers.tinker.service import Service, scored
from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored, Top, storable

READY_S = 30.0
"""How long the service's word that it has the model is believed."""


class TinkerEngine:
    """Draw and score with the base at Tinker, and with adapters that runs there have left.

    Safe to share between threads and event loops. Every call raises EngineUnavailable when the service does not answer,
    EngineRefused when the service says no, or when it has nothing of what was asked for.
    """

    def __init__(self, service: Service, model: Path | str, loaded: Path) -> None:
        """`model` is a folder with a tokenizer; `loaded` is where the names of adapters are kept, for all processes."""
        self.service, self.model = service, Path(model)
        self.url = service.url
        self.spare, self.failures = None, 0  # full weights are for servers of one's own; a service forgets nothing
        self.names = archives.Names(loaded)
        self._tokenizer: Tokenizer | None = None
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._ready = (-READY_S, False)

    # Drawing and scoring

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> Completion:
        """One whole reply to `prompt_ids`. Raises AdapterMissing when `adapter` is not loaded. Nothing has priority."""
        if pictures:
            raise EngineRefused("Tinker is shown no pictures from here.")
        params = self._params(sampling)
        sampler, version = await self._sampler(adapter)
        asking = asyncio.ensure_future(
            self.service.awaited(
                sampler.sample(
                    self.service.package.ModelInput.from_ints(list(prompt_ids)),
                    1,
                    params,
                    topk_sample_logprobs=sampling.top_logprobs,
                )
            )
        )
        name = request_id or uuid4().hex
        self._running[name] = asking
        try:
            said = await asking
        except asyncio.CancelledError:
            if name in self._running:  # the caller has left
                asking.cancel()
                raise
            return Completion("", (), (), "abort", len(prompt_ids), weight_version=version)
        finally:
            self._running.pop(name, None)
        return self._completion(said, sampling, prompt_ids, version)

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> AsyncGenerator[Delta, None]:
        """The reply in one piece: the service does not hand out tokens while it draws them."""
        said = await self.generate(
            prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority, pictures=pictures
        )
        yield Delta(
            text=said.text,
            ids=said.ids,
            logprobs=said.logprobs,
            finish_reason=said.finish_reason,
            prompt_tokens=said.prompt_tokens,
            cached_tokens=said.cached_tokens,
            weight_version=said.weight_version,
            top=said.top,
        )

    async def score(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
        top: int = 0,
    ) -> Scored:
        """Log-probs at temperature 1 of each response token after the prompt; the service gives no others with them."""
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        sampler, _ = await self._sampler(adapter)
        ids = [*prompt_ids, *response_ids]
        said = await self.service.awaited(
            sampler.compute_logprobs(
                self.service.package.ModelInput.from_ints(ids), prompt_logprobs_last_n=len(response_ids)
            )
        )
        return Scored(tuple(response_ids), tuple(scored(said, len(ids), len(response_ids))))

    async def score_choices(
        self,
        prompt_ids: Sequence[int],
        choice_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
    ) -> Choices:
        """Log-probs at temperature 1 of each of these ids as the next token; the service is asked once for each."""
        if not prompt_ids or not choice_ids:
            raise ValueError("choices are scored after a prompt, and there is at least one")
        said = await asyncio.gather(*(self.score(prompt_ids, [id], adapter=adapter) for id in choice_ids))
        return Choices(tuple(one.logprobs[0] for one in said), len(prompt_ids))

    # Adapters

    async def load_adapter(self, name: str, path: str) -> None:
        """Have `name` stand for the weights that the checkpoint in folder `path` points to; no change when it does.

        Raises AdapterInvalid when the checkpoint is none of Tinker's, when its weights are gone from there, or when
        `name` stands for another folder.
        """
        if (loaded := self.names.get(name)) is not None:
            if loaded == str(path):
                return
            raise AdapterInvalid(f"{name} is already loaded from another folder; names are never used twice.")
        await self._weights(path)
        self.names.put(name, str(path))

    async def unload_adapter(self, name: str) -> None:
        """Let go of a name; the weights stay at the service. Raises AdapterMissing when it is not loaded."""
        path = self.names.get(name)
        if not self.names.drop(name):
            raise AdapterMissing(f"The engine does not hold {name}.")
        with suppress(AdapterInvalid):  # the checkpoint's folder went before its name
            self.service.forget(archives.read(path or "").tinker)

    async def serving(self) -> str:
        """No full weights: those are learned and served here alone."""
        return ""

    async def adapters(self) -> dict[str, str]:
        """The adapters that are loaded: name to folder."""
        return self.names.all()

    # What a service has and has not

    async def update_weights(self, path: str, *, version: str) -> None:
        raise EngineRefused("Tinker serves adapters of its own runs, no weights of ours.")

    async def pause(self, mode: PauseMode = "retract") -> None:
        raise EngineRefused("Tinker cannot be paused: it serves others too.")

    async def resume(self) -> None:
        """Nothing was paused."""

    async def flush(self) -> None:
        raise EngineRefused("Tinker's caches are its own.")

    async def abort(self, request_id: str) -> None:
        """Stop waiting for this request's reply, where this process waits for it; no error when it does not."""
        if (asking := self._running.pop(request_id, None)) is not None:
            asking.get_loop().call_soon_threadsafe(asking.cancel)

    async def ready(self) -> bool:
        """True when the service answers and has the model. Never raises, and sends no text."""
        since, answer = self._ready
        if monotonic() - since < READY_S and answer:
            return True
        try:
            answer = await asyncio.to_thread(self.service.offers)
        except (EngineUnavailable, EngineRefused):
            answer = False
        self._ready = (monotonic(), answer)
        return answer

    async def info(self) -> dict[str, Any]:
        """The model, by its name there."""
        return {"model_path": self.service.model, "weight_version": "base"}

    async def server_info(self) -> dict[str, Any]:
        """Nothing: the service does not say how it runs."""
        return {}

    async def metrics(self) -> dict[str, float]:
        """Nothing: the service does not say how busy it is."""
        return {}

    async def aclose(self) -> None:
        """The session belongs to the process, not to an event loop: nothing to close."""

    # In between

    async def _sampler(self, adapter: str | None) -> tuple[Any, str]:
        """The client that draws for this adapter, and how its weights are called."""
        if adapter is None:
            return await asyncio.to_thread(self.service.sampler), "base"
        path = self.names.get(adapter)
        if path is None:
            raise AdapterMissing(f"The engine does not hold {adapter}.")
        return await self._weights(path)

    async def _weights(self, folder: str) -> tuple[Any, str]:
        place = archives.read(folder)
        if place.model != self.service.model:
            raise AdapterInvalid(f"{Path(folder).name} belongs to {place.model}, not to {self.service.model}.")
        try:
            return await asyncio.to_thread(self.service.sampler, place.tinker), place.tinker
        except KeyRefused:
            raise
        except EngineRefused as refused:
            raise AdapterInvalid(str(refused)) from refused

    def _params(self, sampling: Sampling) -> Any:
        """How to draw, as the service takes it. Raises EngineRefused for what it has not."""
        lacking = {
            "frequency_penalty": sampling.frequency_penalty != 0,
            "presence_penalty": sampling.presence_penalty != 0,
            "repetition_penalty": sampling.repetition_penalty != 1,
            "json_schema": bool(sampling.json_schema),
            "regex": bool(sampling.regex),
        }
        if unknown := [name for name, asked in lacking.items() if asked]:
            raise EngineRefused(f"Tinker's sampling has no {' and no '.join(unknown)}.")
        # Its stops are strings or ids, not both, and either kind takes the place of the model's own: ids go there,
        # strings are looked for here, in what came back.
        stops = [] if sampling.ignore_eos else self._ends()
        return self.service.package.SamplingParams(
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.nucleus,
            top_k=sampling.top_k,
            seed=sampling.seed,
            stop=sorted({*stops, *sampling.stop_token_ids}),
        )

    def _completion(self, said: Any, sampling: Sampling, prompt_ids: Sequence[int], version: str) -> Completion:
        (one,) = said.sequences
        ids, logprobs = list(one.tokens), one.logprobs
        if logprobs is None or len(logprobs) != len(ids):
            raise EngineGarbled(f"Tinker returned {len(logprobs or ())} log-probs for {len(ids)} tokens.")
        finish = str(one.stop_reason)
        ends = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else self._ends())}
        is_ended = finish == "stop" and bool(ids) and ids[-1] in ends
        text = self._text(ids[:-1] if is_ended else ids, sampling)
        if any(stop in text for stop in sampling.stop):
            count = 1 + bisect_left(range(1, len(ids) + 1), True, key=lambda n: self._stops(ids[:n], sampling))
            ids, finish = ids[:count], "stop"
            text = self._text(ids, sampling)
            text = text[: min(at for stop in sampling.stop if (at := text.find(stop)) >= 0)]
        return Completion(
            text=storable(text),
            ids=tuple(ids),
            logprobs=tuple(float(value) for value in logprobs[: len(ids)]),
            finish_reason=finish,
            prompt_tokens=len(prompt_ids),
            cached_tokens=int(said.prompt_cache_hit_tokens),
            weight_version=version,
            top=_top(one, len(ids)) if sampling.top_logprobs else (),
        )

    def _stops(self, ids: Sequence[int], sampling: Sampling) -> bool:
        text = self._text(ids, sampling)
        return any(stop in text for stop in sampling.stop)

    def _text(self, ids: Sequence[int], sampling: Sampling) -> str:
        if self._tokenizer is None:
            try:
                self._tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
            except Exception as error:  # what it raises has no class of its own
                raise TokenizerMissing(f"MODEL has no tokenizer that can be read: {error}") from error
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=sampling.skip_special_tokens))

    def _ends(self) -> list[int]:
        """The ids that end a reply of this model, as its files say."""
        for name in ("generation_config.json", "config.json"):
            try:
                said = json.loads((self.model / name).read_text(encoding="utf-8")).get("eos_token_id")
            except (OSError, ValueError):
                continue
            if said is not None:
                return [int(said)] if isinstance(said, int) else [int(id) for id in said]
        raise TokenizerMissing(f"No file in {self.model.name} says which token ends a reply (eos_token_id).")


class TokenizerMissing(TalkbackError):
    """MODEL's folder lacks what turns tokens into text: an operator's omission."""

    code, status = "tokenizer_missing", 503


def _top(one: Any, count: int) -> Top:
    """The likeliest tokens beside each drawn one, likeliest first."""
    rows = one.topk_logprobs
    if rows is None or len(rows) < count:
        raise EngineGarbled(f"Tinker returned {len(rows or ())} lists of likely tokens for {count} tokens.")
    return tuple(tuple((int(id), float(logprob)) for id, logprob in row or ()) for row in rows[:count])
