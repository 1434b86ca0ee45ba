"""Families map a model to SGLang's parsers for its tool calls and its thoughts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

THINKS = "</think>"
"""Stands in the chat template of a model that thinks aloud. A reasoning parser on one that does not would take its
whole answer for a thought."""


class Parsers(NamedTuple):
    """SGLang's names of two parsers; empty: none."""

    tools: str = ""
    reasoning: str = ""


FAMILIES = {
    "qwen2": Parsers("qwen25"),
    "qwen3": Parsers("qwen25", "qwen3"),
    "qwen3_moe": Parsers("qwen25", "qwen3"),
    "mistral": Parsers("mistral"),
    "deepseek_v3": Parsers("deepseekv3", "deepseek-r1"),
    "gpt_oss": Parsers("gpt-oss", "gpt-oss"),
    "glm4_moe": Parsers("glm45", "glm45"),
}
"""By `model_type` of config.json; Llama by its template, which other families share the type of."""

LLAMA_3 = ("<|python_tag|>", Parsers("llama3"))


def parsers(model: str) -> Parsers:
    """Find the parsers of the model in this folder; none for a family that is not known, or a folder that cannot be
    read."""
    folder = Path(model)
    try:
        kind = str(json.loads((folder / "config.json").read_text()).get("model_type", ""))
    except (OSError, ValueError):
        return Parsers()
    template = _template(folder)
    tag, llama = LLAMA_3
    found = llama if kind == "llama" and tag in template else FAMILIES.get(kind, Parsers())
    speaks_harmony = found.reasoning == "gpt-oss"  # its thoughts are a channel of their own, without that mark
    return found if speaks_harmony or THINKS in template else found._replace(reasoning="")


def _template(folder: Path) -> str:
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        try:
            return (folder / name).read_text(errors="replace")
        except OSError:
            continue
    return ""
