"""The one engine client. It speaks SGLang's native HTTP interface and cannot tell who answers.

The embedded engine and the real SGLang give the same answers to everything that is asked here; the contract
tests (tests/contract/) hold both to it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import aiohttp
import orjson

from core.errors import TalkbackError
from gpu_workers.connections import Connections
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    KeyRefused,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.types import Completion, Delta, Sampling, Scored, Top, storable

if TYPE_CHECKING:
    from gpu_workers.spare import Spare

log = logging.getLogger(__name__)

FULL = "full:"
"""How names of full weights begin. A server puts the name of what it serves on each answer: whoever asks for weights
by such a name, or for the base or an adapter on it, takes no answer with another stamp."""

BASE = "base"
"""The stamp of the base once it is back in place of full weights."""

PauseMode = Literal["abort", "retract", "in_place"]

KEPT_S = 4.0
"""How long an idle connection is kept: less than the 5 s after which the engine's server closes it."""

TOLD_S = 10.0
"""How often the log says that the engine does not answer, however many ask."""

JSON = {"Content-Type": "application/json"}

Failures = (aiohttp.ClientError, TimeoutError, OSError)
"""How a network fails."""


class Engine:
    """A server that generates and scores: token ids in, token ids and log-probs out.

    Safe to share between threads and event loops: each loop gets its own pool of connections.
    Every call raises EngineUnavailable when nobody answers, EngineRefused when the engine says no.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        admin_key: str = "",
        timeout_s: float = 300.0,
        spare: Spare | None = None,
    ) -> None:
        """`timeout_s` is the longest silence that is borne; the real SGLang has two keys that do not overlap. `spare`
        answers for the full weights, or the base, that this server does not serve at the time."""
        self.url = url.rstrip("/")
        self.spare = spare
        self.failures = 0
        """How often nobody answered: behind each may stand a server that was started again, and forgot all."""
        self._weights = ""  # as the last answer was stamped
        self._told_at = -TOLD_S
        self._api_key = api_key
        self._admin_key = admin_key or api_key
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=timeout_s)

        def opened() -> aiohttp.ClientSession:
            pool = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S)
            return aiohttp.ClientSession(connector=pool, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())

        self._connections = Connections(opened, close=aiohttp.ClientSession.close, forget=_forget)

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
    ) -> Completion:
        """One whole reply to `prompt_ids`. `adapter` may also name full weights. Raises AdapterMissing when the engine
        has nothing of that name."""
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                return await other.generate(
                    prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority
                )
        answer = await self._post("/generate", self._request(prompt_ids, sampling, adapter, request_id, priority))
        meta = answer["meta_info"]
        finish = _finish(meta)
        self._stamped(meta, adapter)
        ids, logprobs = tuple(answer["output_ids"]), _logprobs(meta["output_token_logprobs"])
        _agree(ids, logprobs)
        return Completion(
            text=storable(answer["text"]),
            ids=ids,
            logprobs=logprobs,
            finish_reason=finish or "stop",
            prompt_tokens=meta["prompt_tokens"],
            cached_tokens=meta.get("cached_tokens", 0),
            weight_version=str(meta.get("weight_version", "")),
            top=_top(meta.get("output_top_logprobs") or (), len(ids)),
        )

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
    ) -> AsyncGenerator[Delta, None]:
        """The reply, piece by piece, as it is sampled. Closing the iterator aborts the request on the engine.

        Pieces hold whole characters and never a part of a stop string; what arrived at once is one piece. The last one
        carries the finish reason.
        """
        if (spare := await self._instead(adapter)) is not None:
            async with spare as other:
                asked = other.stream(prompt_ids, sampling, adapter=adapter, request_id=request_id, priority=priority)
                async with aclosing(asked) as deltas:
                    async for delta in deltas:
                        yield delta
            return
        body = self._request(prompt_ids, sampling, adapter, request_id, priority) | {"stream": True}
        cut = _Cut(sampling.stop)
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
                    meta = event["meta_info"]
                    # The server may send all tokens so far, or only the new ones; the total tells which.
                    total, given = meta["completion_tokens"], len(event["output_ids"])
                    is_cumulative = given == total
                    skip = seen if is_cumulative else 0
                    new = event["output_ids"][skip:] if skip else event["output_ids"]
                    try:
                        finish = _finish(meta)
                        self._stamped(meta, adapter)
                        if not is_cumulative and seen + given != total:
                            raise EngineRefused(f"The stream broke: {seen} + {given} tokens are not {total}.")
                        values = _logprobs(meta["output_token_logprobs"][skip:])
                        _agree(new, values)
                        likely = _top((meta.get("output_top_logprobs") or ())[skip:], len(new))
                    except TalkbackError as error:  # what came before it in the same breath is said first
                        failure = error
                        break
                    ids += new
                    logprobs += values
                    top += likely
                    piece = storable(event["text"])
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
                        prompt_tokens=meta["prompt_tokens"],
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
        meta = await self._read(body, adapter)
        entries = meta["input_token_logprobs"][1:]
        if nameless := _nameless(entries, response_ids):
            # SGLang 0.5.23 calls the last id of the vocabulary 0: it takes ids from there on for places of images.
            # Asked for that id besides, it says the same log-prob again, now by its name.
            again = body | {"rid": uuid4().hex, "token_ids_logprob": sorted(nameless)}
            said = await self._read(again, adapter)
            entries = said["input_token_logprobs"][1:]
            _confirm(entries, (said.get("input_token_ids_logprobs") or [])[1:], response_ids)
        rivals = (meta.get("input_top_logprobs") or [])[1:] if top else []
        return Scored(ids=tuple(response_ids), logprobs=_logprobs(entries), top=_top(rivals, len(response_ids)))

    async def load_adapter(self, name: str, path: str) -> None:
        """Hold the adapter in folder `path` (on the engine's disk) as `name`; no change when it is held already.

        Raises AdapterInvalid when the files cannot be served, or when `name` stands for another folder.
        """
        if (held := (await self.adapters()).get(name)) is not None:
            if held == str(path):
                return
            raise AdapterInvalid(f"{name} is already loaded from another folder; names are never used twice.")
        try:
            await self._post("/load_lora_adapter", {"lora_name": name, "lora_path": str(path)}, admin=True)
        except EngineRefused as refused:
            if (await self.adapters()).get(name) == str(path):
                return  # somebody else loaded it meanwhile
            raise AdapterInvalid(str(refused)) from refused

    async def unload_adapter(self, name: str) -> None:
        """Let go of an adapter, once its running requests have ended. Raises AdapterMissing when it is not held."""
        if name not in await self.adapters():
            raise AdapterMissing(f"The engine does not hold {name}.")
        await self._post("/unload_lora_adapter", {"lora_name": name}, admin=True)

    async def adapters(self) -> dict[str, str]:
        """The adapters that are held: name to folder."""
        models = (await self._get("/v1/models"))["data"]
        return {model["id"]: model["root"] for model in models if model.get("parent")}

    async def update_weights(self, path: str, *, version: str) -> None:
        """Serve the full weights in folder `path` from now on, and stamp each answer with `version`.

        Unless it is paused the server first ends what it is answering, and lets nobody in meanwhile: so no reply has
        tokens of two weights, and none is lost. Raises AdapterInvalid, with nothing changed, for files that cannot be
        served, and EngineUnavailable when it cannot be told whether they are.
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
        """True when the engine takes new requests: not while it is paused, or down. Never raises."""
        try:
            timeout = aiohttp.ClientTimeout(total=5.0)
            async with self._session().get(f"{self.url}/ready", timeout=timeout) as response:
                return response.status == 200
        except Failures:
            return False

    async def info(self) -> dict[str, Any]:
        """The model: its folder, and the version of its weights as `weight_version`."""
        return dict(await self._get("/model_info"))

    async def server_info(self) -> dict[str, Any]:
        """The server's settings. May hold keys: never show it to people."""
        return dict(await self._get("/server_info"))

    async def metrics(self) -> dict[str, float]:
        """Prometheus samples, summed over their labels, without SGLang's prefix; empty when they are switched off."""
        status, content = await self._asked("GET", "/metrics", {})
        return _samples(content.decode(errors="replace")) if status == 200 else {}

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

    async def _read(self, body: Mapping[str, Any], adapter: str | None) -> dict[str, Any]:
        """What the engine says of a prompt; the first entry of each of its lists is of the token before those that were
        asked for."""
        meta: dict[str, Any] = (await self._post("/generate", body))["meta_info"]
        _finish(meta)
        self._stamped(meta, adapter)
        return meta

    def _session(self) -> aiohttp.ClientSession:
        return self._connections.client()

    def _auth(self, admin: bool = False) -> dict[str, str]:
        key = self._admin_key if admin else self._api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def _post(self, path: str, body: Mapping[str, Any], admin: bool = False) -> Any:
        headers = self._auth(admin) | JSON
        return _content(*await self._asked("POST", path, headers, orjson.dumps(body)))

    async def _get(self, path: str) -> Any:
        return _content(*await self._asked("GET", path, self._auth()))

    async def _asked(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """The status and the whole content."""
        try:
            async with self._session().request(method, self.url + path, data=body, headers=headers) as response:
                return response.status, await response.read()
        except Failures as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _streamed(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[tuple[int, AsyncIterable[bytes]], None]:
        """The status, and the content as it arrives. Leaving early closes the connection."""
        async with self._session().post(self.url + path, data=body, headers=headers) as response:
            yield response.status, response.content.iter_any()

    async def _events(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The JSON objects of an SSE stream up to [DONE], all that have arrived at once; an error among them raises."""
        try:
            async with self._streamed(path, self._auth() | JSON, orjson.dumps(body)) as (status, arrivals):
                if status != 200:
                    raise _refusal(status, b"".join([part async for part in arrivals]))
                rest = b""
                async for arrived in arrivals:
                    *lines, rest = (rest + arrived).split(b"\n") if rest else arrived.split(b"\n")
                    events, end = _read(lines)
                    if events:
                        yield events
                    if end is not None:
                        if isinstance(end, Exception):
                            raise end
                        return
        except Failures as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> EngineUnavailable:
        """Where the engine is, and how its network fails, is for the log: the sentence goes to whoever asked."""
        self.failures += 1
        if monotonic() - self._told_at > TOLD_S:
            self._told_at = monotonic()
            log.warning("The engine at %s does not answer (%s).", self.url, str(error) or type(error).__name__)
        return EngineUnavailable("The engine does not answer.")

    def _request(
        self, ids: Sequence[int], sampling: Sampling, adapter: str | None, request_id: str | None, priority: int
    ) -> dict[str, Any]:
        params: dict[str, Any] = {
            "max_new_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "ignore_eos": sampling.ignore_eos,
        }
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        if sampling.stop_token_ids:
            params["stop_token_ids"] = list(sampling.stop_token_ids)
        if sampling.seed is not None:
            params["sampling_seed"] = sampling.seed
        if not sampling.skip_special_tokens:
            params["skip_special_tokens"] = False
        if sampling.json_schema:
            params["json_schema"] = sampling.json_schema
        if sampling.regex:
            params["regex"] = sampling.regex
        body: dict[str, Any] = {
            "input_ids": list(ids),
            "sampling_params": params,
            "return_logprob": True,
            "rid": request_id or uuid4().hex,
        }
        if sampling.top_logprobs:
            body["top_logprobs_num"] = sampling.top_logprobs
        if adapter and not weights_in(adapter):
            body["lora_path"] = adapter
        if priority:
            body["priority"] = priority  # larger is sooner; SGLang ignores it unless launched to heed it
        return body


def weights_in(name: str) -> str:
    """The full weights that a name or a stamp speaks of; empty for the base and for adapters on it.

    >>> weights_in("full:talkback-3-0a1b2c3d"), weights_in("talkback-2-0a1b2c3d"), weights_in("default")
    ('full:talkback-3-0a1b2c3d', '', '')
    """
    return name if name.startswith(FULL) else ""


class _Cut:
    """Text as it grows: gives out what can no longer become a part of a stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = stop
        self._text = ""
        self._given = 0

    def whole(self, text: str) -> str:
        """All text so far; at a stop the server takes the stop string away, so it may become shorter."""
        self._text = text
        held = max(
            (n for s in self._stop for n in range(1, len(s) + 1) if text.endswith(s[:n])),
            default=0,
        )
        return self._give(len(text) - held)

    def more(self, text: str) -> str:
        return self.whole(self._text + text)

    def rest(self) -> str:
        return self._give(len(self._text))

    def _give(self, end: int) -> str:
        start, self._given = self._given, max(self._given, end)
        return self._text[start : self._given]


def _read(lines: Iterable[bytes]) -> tuple[list[dict[str, Any]], Exception | Literal["done"] | None]:
    """The events in these lines, and what ended them: [DONE], or an error among them."""
    events: list[dict[str, Any]] = []
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return events, "done"
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            return events, EngineRefused(f"The engine's stream is not JSON: {data[:200].decode(errors='replace')}")
        if "error" in event:
            error = event["error"]
            code = error.get("code") if isinstance(error, dict) else None
            return events, _failure(code if isinstance(code, int) else 400, _message(event))
        events.append(event)
    return events, None


def _content(status: int, content: bytes) -> Any:
    if status != 200:
        raise _refusal(status, content)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None  # some admin routes answer with a line of text, or with nothing


def _refusal(status: int, content: bytes) -> EngineRefused | EngineUnavailable:
    try:
        message = _message(orjson.loads(content))
    except orjson.JSONDecodeError:
        message = content.decode(errors="replace").strip()
    return _failure(status, message)


def _message(content: Any) -> str:
    """The sentence in any of SGLang's error shapes.

    >>> _message({"error": {"message": "too long"}}), _message({"error": "unknown field"}), _message({"message": "no"})
    ('too long', 'unknown field', 'no')
    """
    if not isinstance(content, dict):
        return str(content)
    error = content.get("error")
    if isinstance(error, dict):
        return str(error.get("message", error))
    for sentence in (error, content.get("message"), content.get("error_message")):
        if sentence:
            return str(sentence)
    return str(content)


_NOT_LOADED = re.compile(r"LoRA adapter.*(not loaded|never been loaded)", re.IGNORECASE)
_NO_ROOM = re.compile(r"adapters are loaded, and no more fit|LoRA adapters when trying to evict", re.IGNORECASE)


def _failure(status: int, message: str) -> EngineRefused | EngineUnavailable:
    if status >= 500 or status in (408, 429):
        return EngineUnavailable(f"The engine failed ({status}): {message}")
    if status in (401, 403):
        return KeyRefused("The engine refuses this key: check ENGINE_API_KEY and ENGINE_ADMIN_KEY.")
    if _NO_ROOM.search(message):
        return NoRoom(message)
    if _NOT_LOADED.search(message):
        return AdapterMissing(message)
    return EngineRefused(message or f"The engine answered {status}.")


def _forget(session: aiohttp.ClientSession) -> None:
    """Let go of connections whose event loop has ended: there is nothing left to close them with."""
    connector = session.connector
    session.detach()
    if connector is not None:
        with suppress(StopIteration):
            next(connector.close().__await__())


def _finish(meta: Mapping[str, Any]) -> str | None:
    """stop, length, abort or None; an abort that carries a status is the server's own failure and raises."""
    reason = meta.get("finish_reason")
    if reason is None:
        return None
    if reason["type"] == "abort" and reason.get("status_code"):
        raise _failure(int(reason["status_code"]), str(reason.get("message", "")))
    return str(reason["type"])


def _logprobs(entries: Sequence[Sequence[Any]]) -> tuple[float, ...]:
    return tuple(float(entry[0]) for entry in entries)


def _top(rows: Sequence[Any], count: int) -> Top:
    """The likeliest tokens beside each of so many; a token that could not come has no log-prob and is left out."""
    if rows and len(rows) != count:
        raise EngineRefused(f"The engine returned {len(rows)} lists of likely tokens for {count} tokens.")
    return tuple(tuple((int(id), float(logprob)) for logprob, id, *_ in row if logprob is not None) for row in rows)


def _agree(ids: Sequence[int], logprobs: Sequence[float]) -> None:
    if len(ids) != len(logprobs):
        raise EngineRefused(f"The engine returned {len(logprobs)} log-probs for {len(ids)} tokens.")


def _nameless(entries: Sequence[Sequence[Any]], ids: Sequence[int]) -> set[int]:
    """The ids that these log-probs call 0. Raises EngineRefused where they are of other tokens.

    >>> _nameless([[-1.5, 8, None], [-2.0, 0, None]], [8, 511])
    {511}
    """
    pairs = list(zip((entry[1] for entry in entries), ids, strict=False))
    if len(entries) != len(ids) or any(said not in (id, 0) for said, id in pairs):
        raise _other_tokens(ids)
    return {id for said, id in pairs if said != id}


def _confirm(entries: Sequence[Sequence[Any]], named: Sequence[Any], ids: Sequence[int]) -> None:
    """Raises EngineRefused unless what is called 0 is, by its own name, as likely as it says."""
    _nameless(entries, ids)
    if len(named) != len(ids):
        raise _other_tokens(ids)
    for (logprob, said, *_), others, id in zip(entries, named, ids, strict=True):
        if said != id and not any(one == id and math.isclose(p, logprob, abs_tol=1e-4) for p, one, *_ in others or ()):
            raise _other_tokens(ids)


def _other_tokens(ids: Sequence[int]) -> EngineRefused:
    return EngineRefused(f"The engine scored other tokens than the {len(ids)} it was given.")


def _samples(text: str) -> dict[str, float]:
    """Prometheus text to name and value, summed over labels.

    >>> _samples('# HELP x\\nsglang:num_running_reqs{model="m"} 2.0\\n')
    {'num_running_reqs': 2.0}
    """
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0].removeprefix("sglang:")
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
