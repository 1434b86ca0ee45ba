"""Answer everything but /generate: health, models, adapters, weights, the script, what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from benchmarks.scripted.engine import Engine
from benchmarks.scripted.errors import Refused
from benchmarks.scripted.script import Line


class Routes:
    """`do_NAME` answers the path /NAME with a status and a body."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        route = path.strip("/").replace("/", "_")
        handle = cast(Callable[[str, Any], tuple[int, Any]] | None, getattr(self, f"do_{route}", None))
        if handle is None:
            return 404, {"detail": "Not Found"}
        try:
            return handle(method, body if isinstance(body, dict) else {})
        except Refused as refused:
            return 400, {"error": {"message": str(refused)}}

    def do_v1_models(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
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

        cards = [card(self.engine.model, self.engine.model, None, self.engine.context_length)]
        cards += [card(name, path, self.engine.model, None) for name, path in self.engine.adapters.items()]
        return 200, {"object": "list", "data": cards}

    def do_model_info(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {
            "model_path": self.engine.model,
            "served_model_name": self.engine.model,
            "tokenizer_path": self.engine.model,
            "is_generation": True,
            "has_image_understanding": self.engine.picture_id is not None,
            "weight_version": self.engine.version,
        }

    def do_server_info(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, {
            "engine": "talkback-scripted",
            "model_path": self.engine.model,
            "served_model_name": self.engine.model,
            "weight_version": self.engine.version,
            "context_length": self.engine.context_length,
            "max_total_num_tokens": 1 << 22,
            "max_running_requests": 4096,
            "enable_lora": True,
            "enable_priority_scheduling": True,
            "internal_states": [{}],
        }

    def do_ready(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return (503 if self.engine.paused else 200), ""

    def do_health(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, ""

    def do_metrics(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        figures = {
            "num_running_reqs": len(self.engine.running),
            "num_queue_reqs": 0,
            "prompt_tokens_total": self.engine.prompt_tokens,
            "cached_tokens_total": self.engine.cached_tokens,
            "generation_tokens_total": self.engine.tokens,
            "num_requests_total": self.engine.asked,
            "num_aborted_requests_total": len(self.engine.aborted),
        }
        return 200, "".join(f"sglang:{name} {float(value)}\n" for name, value in figures.items())

    def do_load_lora_adapter(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        name, path = body.get("lora_name"), body.get("lora_path")
        if not name or not path:
            raise Refused("lora_name and lora_path are needed")
        if name in self.engine.adapters:
            return self._loaded(f"Failed to load LoRA adapter {name} because it is already loaded")
        self.engine.adapters[str(name)] = str(path)
        return self._loaded(None)

    def do_unload_lora_adapter(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        name = body.get("lora_name")
        if self.engine.adapters.pop(str(name), None) is None:
            return self._loaded(f"LoRA with name {name} does not exist. Loaded LoRAs: {list(self.engine.adapters)}")
        return self._loaded(None)

    def _loaded(self, problem: str | None) -> tuple[int, Any]:
        content = {"success": problem is None, "error_message": problem or "", "loaded_adapters": self.engine.adapters}
        return (400 if problem else 200), content

    def do_update_weights_from_disk(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.engine.version = str(body.get("weight_version") or self.engine.version)
        return 200, {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}

    def do_pause_generation(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.engine.paused = body.get("mode", "abort")
        for reply in list(self.engine.running.values()):
            reply.abort() if self.engine.paused == "abort" else reply.rest()
        return 200, {"message": "Generation paused successfully.", "status": "ok"}

    def do_continue_generation(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.engine.paused = None
        for reply in list(self.engine.running.values()):
            reply.go_on()
        return 200, {"message": "Generation continued successfully.", "status": "ok"}

    def do_flush_cache(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self.engine.running:
            return 400, "Flush cache failed.\n"
        self.engine.forget_prompts()
        return 200, "Cache flushed.\n"

    def do_abort_request(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        for rid, reply in list(self.engine.running.items()):
            if body.get("abort_all") or rid == body.get("rid"):
                reply.abort()
        return 200, ""

    def do_script(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "DELETE":
            self.engine.script.lines.clear()
        elif method == "POST":
            self.engine.script.lines.append(Line.read(body))
        return 200, {"lines": len(self.engine.script.lines)}

    def do_calls(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        calls = [{name: value for name, value in call.items() if name != "ids"} for call in self.engine.calls]
        prompts = [self.engine.decoded(call["ids"]) for call in self.engine.calls]
        return 200, {
            "asked": self.engine.asked,
            "scored": self.engine.scored,
            "running": len(self.engine.running),
            "aborted": list(self.engine.aborted),
            "prompts": prompts,
            "calls": calls,
        }
