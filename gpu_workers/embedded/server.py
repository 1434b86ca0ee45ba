"""The server answers SGLang's native HTTP interface from the batcher. The event loop never touches a tensor."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpu_workers.embedded.adapters import read_adapter
from gpu_workers.embedded.batching import Batcher
from gpu_workers.embedded.generate_requests import Ask, Body, Limits, Malformed, UnknownParameter, read_body
from gpu_workers.embedded.grammar import Grammar, Grammars
from gpu_workers.embedded.model import Model, Unservable
from gpu_workers.embedded.reply_streams import Reply
from gpu_workers.embedded.sequences import StepOutput
from gpu_workers.embedded.server_keys import Keys
from gpu_workers.errors import AdapterInvalid

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The settings that the command line gave."""

    served_name: str
    api_key: str = ""
    admin_api_key: str = ""
    max_lora_rank: int = 64
    max_loaded_loras: int = 16
    incremental: bool = False
    stream_interval: int = 1
    arguments: Mapping[str, Any] | None = None


class Server:
    """Serve the routes over one batcher."""

    def __init__(self, model: Model, tokenizer: Any, batcher: Batcher, settings: Settings) -> None:
        self.model, self.tokenizer, self.batcher, self.settings = model, tokenizer, batcher, settings
        self.served_name, self.model_path = settings.served_name, model.folder
        self.limits = Limits(model.vocabulary, model.context_length, batcher.max_tokens)
        self.grammars = Grammars(tokenizer, model.vocabulary, model.eos_ids)
        self._loading = asyncio.Lock()

    def app(self) -> Any:
        """The ASGI application."""
        both, post = ["GET", "POST"], ["POST"]
        routes = [
            Route("/generate", self.generate, methods=["POST", "PUT"]),
            Route("/v1/models", self.models),
            Route("/model_info", self.model_info),
            Route("/server_info", self.server_info),
            Route("/ready", self.ready),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/load_lora_adapter", self.load_adapter, methods=post),
            Route("/unload_lora_adapter", self.unload_adapter, methods=post),
            Route("/update_weights_from_disk", self.update_weights, methods=post),
            Route("/pause_generation", self.pause, methods=post),
            Route("/continue_generation", self.resume, methods=post),
            Route("/flush_cache", self.flush, methods=both),
            Route("/abort_request", self.abort, methods=post),
        ]
        return Keys(
            Starlette(routes=routes, exception_handlers={Malformed: _malformed}),
            self.settings.api_key,
            self.settings.admin_api_key,
        )

    # Generating and scoring

    async def generate(self, request: Request) -> Response:
        streams = False
        try:
            content = await _json(request)
            streams = isinstance(content, dict) and bool(content.get("stream"))
            body = read_body(
                content,
                self.limits,
                lambda text: self.tokenizer.encode(text, add_special_tokens=True),
                interval=self.settings.stream_interval,
            )
            replies = self._start(body, await self._grammars(body))
        except UnknownParameter as error:
            return JSONResponse({"error": str(error)}, 400)
        except Malformed:
            raise
        except ValueError as error:
            return _stream_refusal(str(error)) if streams else _refusal(str(error))
        if body.stream:
            return StreamingResponse(self._stream(replies, body), media_type="text/event-stream")
        return await self._whole(request, replies, body)

    async def _grammars(self, body: Body) -> list[Grammar | None]:
        """One an ask. Raises ValueError when one cannot be used."""

        def start(ask: Ask) -> Grammar | None:
            if not ask.params.is_constrained:
                return None
            return self.grammars.start(json_schema=ask.params.json_schema, regex=ask.params.regex)

        if not any(ask.params.is_constrained for ask in body.asks):
            return []
        return await asyncio.to_thread(lambda: [start(ask) for ask in body.asks])

    def _start(self, body: Body, grammars: list[Grammar | None]) -> list[Reply]:
        loop = asyncio.get_running_loop()
        arrivals: asyncio.Queue[tuple[Reply, StepOutput]] = asyncio.Queue()
        replies = [Reply(ask, arrivals, self.tokenizer) for ask in body.asks]
        try:
            sequences = self.batcher.submit([(reply.ask, reply.sink(loop)) for reply in replies], grammars)
        except KeyError as missing:
            loaded = list(self.batcher.adapters())
            raise ValueError(
                f"The following requested LoRA adapters are not loaded: {missing.args[0]}\nLoaded adapters: {loaded}."
            ) from missing
        for reply, sequence in zip(replies, sequences, strict=True):
            reply.sequence = sequence
        return replies

    async def _arrivals(self, replies: list[Reply]) -> AsyncGenerator[Reply, None]:
        """Each reply, whenever something came to it, until all are finished. Leaving early aborts them."""
        open_ = len(replies)
        try:
            while open_:
                reply, output = await replies[0].arrivals.get()
                reply.take(output)
                if output.finish is not None:
                    open_ -= 1
                yield reply
        finally:
            if open_:
                self.batcher.abort([reply.sequence for reply in replies if reply.sequence and reply.finish is None])

    async def _stream(self, replies: list[Reply], body: Body) -> AsyncIterator[bytes]:
        arrivals = self._arrivals(replies)
        try:
            async for reply in arrivals:
                event = reply.answer(self.settings.incremental)
                if body.is_list:
                    event["index"] = replies.index(reply)
                yield b"data: " + _dump(event) + b"\n\n"
            yield b"data: [DONE]\n\n"
        finally:
            await arrivals.aclose()

    async def _whole(self, request: Request, replies: list[Reply], body: Body) -> Response:
        async def collect() -> None:
            arrivals = self._arrivals(replies)
            try:
                async for _ in arrivals:
                    pass
            finally:
                await arrivals.aclose()

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        collecting, watching = asyncio.create_task(collect()), asyncio.create_task(watch())
        try:
            await asyncio.wait((collecting, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            if not collecting.done():
                collecting.cancel()
            with suppress(asyncio.CancelledError):
                await collecting
        if collecting.cancelled():
            return Response(status_code=499)  # no reader is left
        for reply in replies:
            if reply.finish and reply.finish.get("status_code"):
                return _refusal(str(reply.finish["message"]), int(reply.finish["status_code"]))
        answers = [reply.answer() for reply in replies]
        return Response(_dump(answers if body.is_list else answers[0]), media_type="application/json")

    # What is served

    async def models(self, request: Request) -> Response:
        def card(name: str, root: str, parent: str | None, length: int | None) -> dict[str, Any]:
            return {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "sglang",
                "root": root,
                "parent": parent,
                "max_model_len": length,
            }

        cards = [card(self.served_name, self.served_name, None, self.limits.context_length)]
        cards += [card(name, path, self.served_name, None) for name, path in self.batcher.adapters().items()]
        return JSONResponse({"object": "list", "data": cards})

    async def model_info(self, request: Request) -> Response:
        return JSONResponse(
            {
                "model_path": self.model_path,
                "served_model_name": self.served_name,
                "tokenizer_path": self.settings.served_name,
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": self.batcher.weight_version,
                "model_type": getattr(self.model.config, "model_type", None),
                "architectures": getattr(self.model.config, "architectures", None),
            }
        )

    async def server_info(self, request: Request) -> Response:
        return JSONResponse(
            {
                **(self.settings.arguments or {}),
                "engine": "talkback-embedded",
                "model_path": self.model_path,
                "served_model_name": self.served_name,
                "weight_version": self.batcher.weight_version,
                "dtype": str(self.model.dtype).removeprefix("torch."),
                "context_length": self.limits.context_length,
                "max_total_num_tokens": self.batcher.max_tokens,
                "max_running_requests": self.batcher.max_running,
                "enable_lora": True,
                "enable_priority_scheduling": True,
                "internal_states": [self.batcher.counts()],
            }
        )

    async def ready(self, request: Request) -> Response:
        """503 while paused, as SGLang has it: no place to send new requests to, and no reason to kill it."""
        takes_requests = self.batcher.failed is None and not self.batcher.is_paused
        return Response(status_code=200 if takes_requests else 503)

    async def health(self, request: Request) -> Response:
        return Response(status_code=200 if self.batcher.failed is None else 503)

    async def metrics(self, request: Request) -> Response:
        gauges = self.batcher.counts() | self.batcher.holdings() | {"grammars_kept": len(self.grammars)}
        return PlainTextResponse(self.batcher.metrics.text(gauges, self.settings.served_name))

    # Adapters and weights

    async def load_adapter(self, request: Request) -> Response:
        name, path = await _fields(request, "lora_name", "lora_path")
        async with self._loading:
            loaded = self.batcher.adapters()
            problem = None
            if name in loaded:
                problem = f"Failed to load LoRA adapter {name} because it is already loaded"
            elif len(loaded) >= self.settings.max_loaded_loras:
                problem = f"{len(loaded)} adapters are loaded, and no more fit: unload one first."
            else:
                layers = {
                    layer: (linear.in_features, linear.out_features)
                    for layer, linear in self.model.linears.items()
                    if layer in self.model.adaptable
                }
                try:
                    adapter = await asyncio.to_thread(read_adapter, name, path, layers, self.settings.max_lora_rank)
                    await asyncio.wrap_future(self.batcher.add_adapter(adapter))
                except AdapterInvalid as error:
                    problem = f"Failed to load LoRA adapter {name}: {error}"
        return self._adapters_answer(problem)

    async def unload_adapter(self, request: Request) -> Response:
        (name,) = await _fields(request, "lora_name")
        try:
            await asyncio.wrap_future(self.batcher.remove_adapter(name))
        except KeyError:
            loaded = list(self.batcher.adapters())
            return self._adapters_answer(f"LoRA with name {name} does not exist. Loaded LoRAs: {loaded}")
        return self._adapters_answer(None)

    def _adapters_answer(self, problem: str | None) -> Response:
        content = {
            "rid": None,
            "http_worker_ipc": None,
            "success": problem is None,
            "error_message": problem or "",
            "loaded_adapters": self.batcher.adapters(),
        }
        return JSONResponse(content, 200 if problem is None else 400)

    async def update_weights(self, request: Request) -> Response:
        content = await _json(request)
        path = content.get("model_path") if isinstance(content, dict) else None
        if not isinstance(path, str):
            raise Malformed("model_path is missing")
        async with self._loading:
            try:
                state = await asyncio.to_thread(self.model.read_weights, path)
                version = content.get("weight_version")
                paused = await asyncio.wrap_future(
                    self.batcher.update(
                        state,
                        path,
                        None if version is None else str(version),
                        abort=bool(content.get("abort_all_requests", False)),
                    )
                )
            except Unservable as error:
                return JSONResponse({"success": False, "message": str(error), "num_paused_requests": 0}, 400)
        self.model_path = self.served_name = path  # SGLang renames itself too: do not know a server by its name
        return JSONResponse(
            {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": paused}
        )

    # Running and standing still

    async def pause(self, request: Request) -> Response:
        content = await _json(request, empty={})
        mode = content.get("mode", "abort") if isinstance(content, dict) else None
        if mode not in ("abort", "retract", "in_place"):
            raise Malformed("mode must be abort, retract or in_place")
        await asyncio.wrap_future(self.batcher.pause(mode))
        return JSONResponse({"message": "Generation paused successfully.", "status": "ok"})

    async def resume(self, request: Request) -> Response:
        await asyncio.wrap_future(self.batcher.resume())
        return JSONResponse({"message": "Generation continued successfully.", "status": "ok"})

    async def flush(self, request: Request) -> Response:
        try:
            timeout_s = float(request.query_params.get("timeout", 0))
        except ValueError:
            raise Malformed("timeout must be a number of seconds") from None
        if await asyncio.wrap_future(self.batcher.flush(timeout_s)):
            return PlainTextResponse("Cache flushed.\n")
        return PlainTextResponse("Flush cache failed.\n", 400)

    async def abort(self, request: Request) -> Response:
        content = await _json(request, empty={})
        if isinstance(content, dict):
            if content.get("abort_all"):
                self.batcher.abort(None)
            elif content.get("rid"):
                self.batcher.abort_id(str(content["rid"]))
        return Response()


async def _json(request: Request, empty: Any = None) -> Any:
    raw = await request.body()
    if not raw and empty is not None:
        return empty
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not JSON ({error})") from error


async def _fields(request: Request, *names: str) -> list[str]:
    content = await _json(request)
    values = [content.get(name) if isinstance(content, dict) else None for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str) or not value:
            raise Malformed(f"{name} is missing")
    return [str(value) for value in values]


def _dump(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _refusal(message: str, status: int = 400) -> Response:
    return JSONResponse({"error": {"message": message}}, status)


async def _malformed(request: Request, error: Exception) -> Response:
    content = {"object": "error", "message": str(error), "type": "Bad Request", "param": None, "code": 400}
    return JSONResponse(content, 400)


def _stream_refusal(message: str) -> Response:
    error = {"message": message, "type": "invalid_request_error", "code": 400, "retryable": False}
    lines = [b"data: " + _dump({"error": error}) + b"\n\n", b"data: [DONE]\n\n"]
    return Response(b"".join(lines), media_type="text/event-stream")
