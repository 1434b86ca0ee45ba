"""Run the scripted engine: `python -m benchmarks.scripted --model DIR`; the package says how it is scripted."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from benchmarks import scripted
from benchmarks.scripted.connection import Connection
from benchmarks.scripted.engine import Engine


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scripted", description=(scripted.__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--model", "--model-path", required=True, help="a model folder; its tokenizer and window count")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--script", help="a file of lines, see above")
    parser.add_argument("--otherwise", default="I see.", help="what is said to a prompt that no line fits")
    parser.add_argument("--tokens-per-second", type=float, default=50.0, help="for each stream; 0: as fast as it goes")
    parser.add_argument("--first-token-s", type=float, default=0.0, help="from a request's arrival to its first token")
    parser.add_argument("--context-length", type=int, default=0, help="0: as the model's config.json says")
    parser.add_argument("--weight-version", default="base")
    parser.add_argument("--keep", type=int, default=100, help="how many prompts GET /calls still knows")
    parser.add_argument("--api-key", default=os.environ.get("ENGINE_API_KEY", ""))
    parser.add_argument("--admin-api-key", default=os.environ.get("ENGINE_ADMIN_KEY", ""))
    return parser.parse_args(arguments)


async def serve(options: argparse.Namespace) -> None:
    """Answer until SIGTERM or SIGINT."""
    loop, engine, ended = asyncio.get_running_loop(), Engine(options), asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, ended.set)
    server = await loop.create_server(lambda: Connection(engine), options.host, options.port, backlog=2048)
    await ended.wait()
    server.close()


def main(arguments: Sequence[str]) -> int:
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(parse(arguments)))
    else:
        uvloop.run(serve(parse(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
