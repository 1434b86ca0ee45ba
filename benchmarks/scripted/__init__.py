"""A scripted engine as a process: SGLang's native HTTP interface with no model behind it, at a steady speed.

    python -m benchmarks.scripted --model DIR --port 30000 [--script FILE.jsonl] [--tokens-per-second 50]

For tests and yardsticks that need an engine whose words, speed and cost are known: the ids are those of DIR's own
tokenizer, the log-probs are made up, and two hundred streams at 50 tokens a second cost a fraction of a core. Output is
incremental, as with --incremental-streaming-output; answers and errors have the shapes of `gpu_workers.embedded`.

Each line of FILE is `{"to": REGEX, "says": TEXT, "times": N or null, "finish_reason": "stop"}`: `TEXT` answers the
next N prompts (null: all) in which REGEX is found (left out: any prompt). The first line that fits answers; where none
does, --otherwise is said. finish_reason may be stop, length, abort, or error: a server that fails after its last word.
`POST /script` adds such a line at the end, and `DELETE /script` forgets all of them.

`GET /calls` tells what was asked: {"asked": generate calls so far, "running": replies under way, "aborted": [{"rid",
"at", "tokens"}], "prompts": [decoded, the last of --keep, oldest first], "calls": [the same with their parameters]}.
Times are seconds since the epoch. Scoring is no generate call, and is counted as "scored".
"""

from __future__ import annotations
