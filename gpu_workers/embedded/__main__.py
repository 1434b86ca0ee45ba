"""`python -m gpu_workers.embedded --model DIR`: the CPU engine as a process of its own."""

from __future__ import annotations

import argparse
import logging
import os
import sys

# Before torch is imported: more than one thread on shared cores costs far more than it gives.
THREADS = os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", THREADS)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

import uvicorn  # noqa: E402

from core import process_memory  # noqa: E402

log = logging.getLogger("gpu_workers.embedded")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.embedded", description=__doc__)
    parser.add_argument("--model", "--model-path", required=True, help="a Hugging Face folder or hub name")
    parser.add_argument("--served-model-name", default="", help="default: the model's path")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--api-key", default=os.environ.get("ENGINE_API_KEY", ""))
    parser.add_argument("--admin-api-key", default=os.environ.get("ENGINE_ADMIN_KEY", ""))
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--max-running-requests", type=int, default=16)
    parser.add_argument("--max-total-tokens", type=int, default=0, help="room for keys and values; 0: by free memory")
    parser.add_argument(
        "--memory",
        type=int,
        default=os.environ.get("ENGINE_MEMORY_MB") or "0",
        help="MiB that it holds when nothing runs; 0: a sixteenth of the machine's",
    )
    parser.add_argument("--chunked-prefill-size", type=int, default=0, help="prompt tokens beside replies; 0: few")
    parser.add_argument("--max-lora-rank", type=int, default=64)
    parser.add_argument("--max-loaded-loras", type=int, default=16)
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--incremental-streaming-output", action="store_true", help="stream only what is new")
    parser.add_argument("--stream-interval", type=int, default=1, help="tokens from one event of a stream to the next")
    parser.add_argument("--log-level", default="info")
    options = parser.parse_args(arguments)
    if options.stream_interval < 1:
        parser.error("--stream-interval must be at least 1")
    return options


SHARE = 16
"""An engine holds one in so many bytes of the machine when nothing runs, unless --memory says otherwise."""


LEFT_BEHIND = 160 << 20
"""Bytes that requests leave behind wherever they go: compiled grammars, and pages of the heap that are half empty."""


CONVERSATION = 8192
"""Tokens of the longest conversation that it keeps whatever its memory, where the model's window takes one so long."""


def room_for_tokens(bytes_per_token: int, share: float = 0.25, ceiling: int = 65536) -> int:
    """Count the tokens whose keys and values fit into a share of the memory that is free now."""
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        free = 4 << 30
    return max(1024, min(ceiling, int(free * share / bytes_per_token)))


def kept_bytes(asked_mib: int, conversation_bytes: int) -> int:
    """Bound the bytes that prefixes and adapters may take together, beside all that this process holds as it begins to
    serve: what is left of the `asked_mib`, or of a SHARE of the machine. A whole conversation fits in any case, or each
    of its messages would be computed from its beginning."""
    limit = asked_mib << 20 or process_memory.machine_bytes() // SHARE
    return max(limit - process_memory.resident_bytes() - LEFT_BEHIND, conversation_bytes)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    process_memory.limit_arenas()
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    import torch

    torch.set_num_threads(int(THREADS))
    from transformers import AutoTokenizer
    from transformers.utils import logging as transformers_logging

    from gpu_workers.embedded.batching import Batcher
    from gpu_workers.embedded.model import Model, Unservable
    from gpu_workers.embedded.server import Server, Settings

    transformers_logging.disable_progress_bar()
    try:
        model = Model(options.model, options.dtype)
    except (Unservable, OSError, ValueError) as error:
        log.error("cannot serve %s: %s", options.model, error)
        return 1
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    max_tokens = options.max_total_tokens or room_for_tokens(model.bytes_per_token)
    process_memory.trim()  # what reading the weights took
    conversation = min(CONVERSATION, max_tokens, model.context_length)
    kept = kept_bytes(options.memory, conversation * model.bytes_per_token)
    batcher = Batcher(
        model,
        lambda ids, skip, spaces: str(
            tokenizer.decode(list(ids), skip_special_tokens=skip, spaces_between_special_tokens=spaces)
        ),
        max_running=options.max_running_requests,
        max_tokens=max_tokens,
        kept_bytes=kept,
        weight_version=options.weight_version,
        chunk=options.chunked_prefill_size,
        original_logprobs=os.environ.get("SGLANG_RETURN_ORIGINAL_LOGPROB", "") in ("1", "true", "True"),
    )
    shown = {name: value for name, value in vars(options).items() if "key" not in name}
    settings = Settings(
        served_name=options.served_model_name or options.model,
        api_key=options.api_key,
        admin_api_key=options.admin_api_key,
        max_lora_rank=options.max_lora_rank,
        max_loaded_loras=options.max_loaded_loras,
        incremental=options.incremental_streaming_output,
        stream_interval=options.stream_interval,
        arguments=shown,
    )
    config = uvicorn.Config(
        Server(model, tokenizer, batcher, settings).app(),
        host=options.host,
        port=options.port,
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    # An adapter is read in a thread of its own while others are answered. At the usual 5 ms the model's thread, which
    # lets go of the interpreter at every operation, would wait as long each time to have it back.
    sys.setswitchinterval(0.0005)
    batcher.on_failure = lambda: setattr(server, "should_exit", True)
    batcher.start()
    log.info(
        "serving %s in %s on %s:%d: %d tokens of room, %d MiB of them kept, %d sequences at once",
        options.model,
        str(model.dtype).removeprefix("torch."),
        options.host,
        options.port,
        max_tokens,
        kept >> 20,
        options.max_running_requests,
    )
    server.run()
    batcher.stop()
    return 1 if batcher.failed is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
