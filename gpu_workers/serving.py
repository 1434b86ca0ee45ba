"""Become the engine that the profile asks for: what the supervisor runs.

    python -m gpu_workers.serving embedded|gpu --model MODEL --port PORT

Keys come from ENGINE_API_KEY and ENGINE_ADMIN_KEY, so that no file of the supervisor holds them. SGLANG names the
program of SGLang's own environment, SGLANG_ARGS what it is told besides.
"""

from __future__ import annotations

import argparse
import os
import shlex

from gpu_workers.processes import embedded_command, sglang_command


def command(profile: str, model: str, port: int, host: str = "127.0.0.1") -> list[str]:
    """The launch line of this profile's engine."""
    if profile == "embedded":
        return embedded_command(model, port, host=host)
    keys = {"api_key": os.environ["ENGINE_API_KEY"], "admin_key": os.environ["ENGINE_ADMIN_KEY"]}
    more = shlex.split(os.environ.get("SGLANG_ARGS", ""))
    _, *arguments = sglang_command(model, port, host=host, more=more, **keys)
    return [os.environ.get("SGLANG") or "sglang", *arguments]


def main() -> None:
    parser = argparse.ArgumentParser(description="Become the engine that the profile asks for.")
    parser.add_argument("profile", choices=("embedded", "gpu"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    asked = parser.parse_args()
    line = command(asked.profile, asked.model, asked.port)
    os.execvp(line[0], line)  # the same process from here on, so that the supervisor stops the engine itself


if __name__ == "__main__":
    main()
