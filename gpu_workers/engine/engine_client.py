"""The engine client speaks SGLang's native HTTP interface and cannot tell who answers.

The embedded engine and the real SGLang give the same answers to everything that is asked here; the contract
tests (tests/contract/) hold both to it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any
from uuid import uuid4

import aiohttp

from core.errors import TalkbackError
from gpu_workers.engine import native_wire
from gpu_workers.engine.interface import Engine, PauseMode, SpareEngine
from gpu_workers.engine.stamps import weights_in
from gpu_workers.engine.transport import Failures, Transport
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineGarbled,
    EngineRefused,
    EngineUnavailable,
    WeightsExchanged,
)
from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored, storable


class EngineClient(Transport):
    """Ask one server to generate and score: token ids in, token ids and log-probs out. An `Engine`.

    Safe to share between threads and event loops: each loop gets its own pool of connections.
    Every call raises EngineUnavailable when no server answers, or nothing that an engine says (EngineGarbled), and
    EngineRefused when the engine says no.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        admin_key: str = "",
        timeout_s: float = 300.0,
        priorities: bool = True,
        spare: SpareEngine | None = None,
    ) -> None:
        """`timeout_s` is the longest silence that is borne; the real SGLang has two keys that do not overlap. Without
        `priorities` none is sent, and all requests are equal there. `spare` answers for the full weights, or the base,
        that this server does not serve at the time."""
        super().__init__(url, api_key=api_key, admin_key=admin_key, timeout_s=timeout_s)
        self.spare = spare
        self._weights = ""  # as the last answer was stamped
        self._priorities = priorities

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
        """One whole reply to `prompt_ids`. `adapter` may also name full weights. Raises AdapterMissing when the engine
        has nothing of that name."""
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                return await other.generate(
                    prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority, pictures=pictures
                )
        body = self._request(prompt_ids, sampling, adapter, request_id, priority, pictures)
        answer = await self._post("/generate", body)
        with native_wire.understood():
            meta = answer["meta_info"]
            finish = native_wire.finish_reason(meta)
            self._stamped(meta, adapter)
            ids, logprobs = tuple(answer["output_ids"]), native_wire.logprobs_of(meta["output_token_logprobs"])
            native_wire.agree(ids, logprobs)
            return Completion(
                text=storable(answer["text"]),
                ids=ids,
                logprobs=logprobs,
                finish_reason=finish or "stop",
                prompt_tokens=meta["prompt_tokens"],
                cached_tokens=meta.get("cached_tokens", 0),
                weight_version=str(meta.get("weight_version", "")),
                top=native_wire.likeliest(meta.get("output_top_logprobs") or (), len(ids)),
            )

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
        """The reply, piece by piece, as it is sampled. Closing the iterator aborts the request on the engine.

        Pieces hold whole characters and never a part of a stop string; what arrived at once is one piece. The last one
        carries the finish reason.
        """
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                asked = other.stream(
                    prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority, pictures=pictures
                )
                async with aclosing(asked) as deltas:
                    async for delta in deltas:
                        yield delta
            return
        body = self._request(prompt_ids, sampling, adapter, request_id, priority, pictures) | {"stream": True}
        cut = native_wire.Cut(sampling.stop)
        seen = 0  # tokens handed out so far
        async with aclosing(self._events("/generate", body)) as arrivals:
            async for events in arrivals:
                text: list[str] = []
                ids: list[int] = []
                logprobs: list[float] = []
                top: list[Any] = []
                finish: str | None = None
                failure: TalkbackError | None = None
                for event in events:
                    try:
                        meta = event["meta_info"]
                        # The server may send all tokens so far, or only the new ones; the total tells which.
                        total, given = meta["completion_tokens"], len(event["output_ids"])
                        is_cumulative = given == total
                        skip = seen if is_cumulative else 0
                        new = event["output_ids"][skip:] if skip else event["output_ids"]
                        finish = native_wire.finish_reason(meta)
                        self._stamped(meta, adapter)
                        if not is_cumulative and seen + given != total:
                            raise EngineGarbled(f"The stream broke: {seen} + {given} tokens are not {total}.")
                        values = native_wire.logprobs_of(meta["output_token_logprobs"][skip:])
                        native_wire.agree(new, values)
                        likely = native_wire.likeliest((meta.get("output_top_logprobs") or ())[skip:], len(new))
                        piece, read = storable(event["text"]), int(meta["prompt_tokens"])
                    except TalkbackError as error:  # what came before it in the same breath is said first
                        failure, finish = error, None
                        break
                    except native_wire.NOT_UNDERSTOOD as error:
                        failure, finish = native_wire.garbled(error), None
                        break
                    ids += new
                    logprobs += values
                    top += likely
                    text.append(cut.whole(piece) if is_cumulative else cut.more(piece))
                    seen = total
                    if finish:
                        break
                if ids or finish or failure is None:
                    yield Delta(
                        text="".join(text) + (cut.rest() if finish else ""),
                        ids=tuple(ids),
                        logprobs=tuple(logprobs),
                        finish_reason=finish,
                        prompt_tokens=read,
                        cached_tokens=meta.get("cached_tokens", 0),
                        weight_version=str(meta.get("weight_version", "")),
                        top=tuple(top),
                    )
                if failure is not None:
                    raise failure
                if finish:
                    return
        raise EngineUnavailable("The engine ended the reply before it was finished.")

    async def score(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
        top: int = 0,
    ) -> Scored:
        """Log-probs at temperature 1 of each response token after the prompt, and the `top` likeliest tokens at its
        place. Nothing is generated."""
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                return await other.score(prompt_ids, response_ids, adapter=adapter, priority=priority, top=top)
        nothing = Sampling(max_new_tokens=0, top_logprobs=top)
        body = self._request([*prompt_ids, *response_ids], nothing, adapter, None, priority)
        # The entry at the start position is null: begin one token early, so that the first response token is real.
        body["logprob_start_len"] = len(prompt_ids) - 1
        with native_wire.understood():
            meta = await self._read(body, adapter)
            entries = meta["input_token_logprobs"][1:]
            nameless = native_wire.nameless(entries, response_ids)
        if nameless:
            # SGLang 0.5.23 calls the last id of the vocabulary 0: it takes ids from there on for places of images.
            # Asked for that id besides, it says the same log-prob again, now by its name.
            again = body | {"rid": uuid4().hex, "token_ids_logprob": sorted(nameless)}
            with native_wire.understood():
                said = await self._read(again, adapter)
                entries = said["input_token_logprobs"][1:]
                native_wire.confirm(entries, (said.get("input_token_ids_logprobs") or [])[1:], response_ids)
        with native_wire.understood():
            rivals = (meta.get("input_top_logprobs") or [])[1:] if top else []
            return Scored(
                ids=tuple(response_ids),
                logprobs=native_wire.logprobs_of(entries),
                top=native_wire.likeliest(rivals, len(response_ids)),
            )

    async def score_choices(
        self,
        prompt_ids: Sequence[int],
        choice_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
    ) -> Choices:
        """Log-probs at temperature 1 of each of these ids as the next token, in one pass. Nothing is generated."""
        if not prompt_ids or not choice_ids:
            raise ValueError("choices are scored after a prompt, and there is at least one")
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                return await other.score_choices(prompt_ids, choice_ids, adapter=adapter, priority=priority)
        # As a prompt with one more token: log-probs of prompts are at temperature 1 on every engine.
        body = self._request([*prompt_ids, choice_ids[0]], Sampling(max_new_tokens=0), adapter, None, priority)
        body["logprob_start_len"] = len(prompt_ids) - 1
        body["token_ids_logprob"] = list(choice_ids)
        with native_wire.understood():
            meta = await self._read(body, adapter)
            rows = (meta.get("input_token_ids_logprobs") or [])[1:]
            return Choices(native_wire.chosen_of(rows, choice_ids), len(prompt_ids), meta.get("cached_tokens", 0))

    async def load_adapter(self, name: str, path: str) -> None:
        """Load the adapter in folder `path` (on the engine's disk) as `name`; no change when it is loaded already.

        Raises AdapterInvalid when the files cannot be served, or when `name` stands for another folder.
        """
        if (loaded := (await self.adapters()).get(name)) is not None:
            if loaded == str(path):
                return
            raise AdapterInvalid(f"{name} is already loaded from another folder; names are never used twice.")
        try:
            await self._post("/load_lora_adapter", {"lora_name": name, "lora_path": str(path)}, admin=True)
        except EngineRefused as refused:
            if (await self.adapters()).get(name) == str(path):
                return  # another process loaded it meanwhile
            raise AdapterInvalid(str(refused)) from refused

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter once its running requests have ended. Raises AdapterMissing when it is not loaded."""
        if name not in await self.adapters():
            raise AdapterMissing(f"The engine does not hold {name}.")
        try:
            await self._post("/unload_lora_adapter", {"lora_name": name}, admin=True)
        except EngineRefused as refused:
            if name in await self.adapters():
                raise
            raise AdapterMissing(f"The engine does not hold {name} any more.") from refused

    async def adapters(self) -> dict[str, str]:
        """List the loaded adapters: name to folder."""
        with native_wire.understood():
            models = (await self._get("/v1/models"))["data"]
            return {model["id"]: model["root"] for model in models if model.get("parent")}

    async def update_weights(self, path: str, *, version: str) -> None:
        """Serve the full weights in folder `path` from now on, and stamp each answer with `version`.

        Unless it is paused the server first ends what it is answering, and lets no request in meanwhile: so no reply
        has tokens of two weights, and none is lost. Raises AdapterInvalid, with nothing changed, for files that cannot
        be served, and EngineUnavailable when it cannot be told whether they are.
        """
        body = {"model_path": str(path), "weight_version": version, "flush_cache": True, "abort_all_requests": False}
        try:
            await self._post("/update_weights_from_disk", body, admin=True)
        except EngineRefused as refused:
            raise AdapterInvalid(str(refused)) from refused
        served = str((await self.info()).get("weight_version", ""))
        self._weights = weights_in(served)
        if served != version:
            raise EngineUnavailable(f"The engine took the weights {version} and serves {served or 'others'}.")

    async def serving(self) -> str:
        """The name of the full weights that this server serves now; empty for the base, with adapters or without."""
        self._weights = weights_in(str((await self.info()).get("weight_version", "")))
        return self._weights

    async def pause(self, mode: PauseMode = "retract") -> None:
        """Stop sampling. retract: requests wait and go on correctly afterwards; abort: they end with what they have."""
        await self._post("/pause_generation", {"mode": mode}, admin=True)

    async def resume(self) -> None:
        await self._post("/continue_generation", {}, admin=True)

    async def flush(self) -> None:
        """Forget all cached prefixes. Raises EngineRefused while requests are running."""
        await self._post("/flush_cache", {}, admin=True)

    async def abort(self, request_id: str) -> None:
        """End this request with what it has; no error when there is none."""
        await self._post("/abort_request", {"rid": request_id}, admin=True)

    async def ready(self) -> bool:
        """True when the engine takes new requests: not while it is paused, or down, or no engine. Never raises."""
        try:
            timeout = aiohttp.ClientTimeout(total=5.0)
            async with self._session().get(f"{self.url}/ready", timeout=timeout) as response:
                return response.status == 200 and not native_wire.is_page(await response.read())
        except Failures:
            return False

    async def info(self) -> dict[str, Any]:
        """The model: its folder, and the version of its weights as `weight_version`."""
        with native_wire.understood():
            return dict(await self._get("/model_info"))

    async def server_info(self) -> dict[str, Any]:
        """The server's settings. May hold keys: never show it to people."""
        with native_wire.understood():
            return dict(await self._get("/server_info"))

    async def metrics(self) -> dict[str, float]:
        """Prometheus samples, summed over their labels, without SGLang's prefix; empty when they are switched off."""
        status, content = await self._asked("GET", "/metrics", {})
        return native_wire.samples(content.decode(errors="replace")) if status == 200 else {}

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        await self._connections.close()
        if self.spare is not None:
            await self.spare.aclose()

    async def _instead(self, adapter: str | None) -> AbstractAsyncContextManager[Engine] | None:
        """The spare, with what is asked for in place; None where this server has it. Raises WeightsExchanged when
        neither has."""
        wanted = weights_in(adapter or "")
        if wanted == self._weights or wanted == await self.serving():
            return None
        if self.spare is None:
            raise WeightsExchanged(f"The engine serves {self._weights or 'the base'}, not {wanted or 'the base'}.")
        return self.spare.serving(wanted)

    def _stamped(self, meta: Mapping[str, Any], adapter: str | None) -> None:
        """Hold the answer's stamp to what was asked for. Raises WeightsExchanged."""
        wanted = weights_in(adapter or "")
        spans = [str(span.get("version", "")) for span in meta.get("weight_versions") or ()]
        for version in (*spans, str(meta.get("weight_version", ""))):
            self._weights = weights_in(version)
            if self._weights != wanted:
                raise WeightsExchanged(
                    f"The engine answered with {self._weights or 'the base'}, not {wanted or 'the base'}."
                )

    def _request(
        self,
        ids: Sequence[int],
        sampling: Sampling,
        adapter: str | None,
        request_id: str | None,
        priority: int,
        pictures: Sequence[str] = (),
    ) -> dict[str, Any]:
        priority = priority if self._priorities else 0
        return native_wire.request(ids, sampling, adapter, request_id or uuid4().hex, priority, pictures)

    async def _read(self, body: Mapping[str, Any], adapter: str | None) -> dict[str, Any]:
        """What the engine says of a prompt; the first entry of each of its lists is of the token before those that were
        asked for."""
        meta: dict[str, Any] = (await self._post("/generate", body))["meta_info"]
        native_wire.finish_reason(meta)
        self._stamped(meta, adapter)
        return meta
