"""Load a model's own chat template into a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core.errors import TalkbackError


class ModelUnreadable(TalkbackError):
    """The model's folder has no tokenizer, chat template or window that could be read."""

    code, status = "model_unreadable", 500


def read(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def template_of(folder: Path, options: Mapping[str, Any]) -> str:
    """The chat template: its own file, else the tokenizer's options, where the one named "default" counts."""
    template = read(folder / "chat_template.jinja") or options.get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
    if not template:
        raise ModelUnreadable(f"MODEL={folder} has no chat template: it is not a model that was taught to chat.")
    return str(template)


class Generation(Extension):
    """`{% generation %}` marks a reply in training templates; when prompting it means nothing."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def compile_template(source: str) -> Any:
    """The template in a sandbox, with the same filters and functions that transformers offers."""

    def to_json(value: object, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ModelUnreadable(f"The model's chat template does not compile: {error}") from error
