"""Messages to token ids and back: the model's own tokenizer and chat template, without torch or transformers.

What a person, a tool or a client writes can never become a control token. Where it spells one
(`<|im_end|>`), those characters are encoded as the plain text they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from core.errors import TalkbackError
from gpu_workers.types import storable

Message = Mapping[str, Any]

FILES = ("tokenizer.json", "tokenizer_config.json", "config.json", "chat_template.jinja")
SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class MessagesRefused(TalkbackError):
    """The model's chat template cannot lay these messages out."""

    code, status = "invalid_messages", 400


class ModelUnreadable(TalkbackError):
    """The model's folder has no tokenizer, chat template or window that could be read."""

    code, status = "model_unreadable", 500


class Renderer:
    """How one model wants a conversation laid out."""

    def __init__(self, folder: Path) -> None:
        """Raises ModelUnreadable when `folder` lacks tokenizer.json, a chat template or the window's length."""
        try:
            layout = json.loads((folder / "tokenizer.json").read_text())
            config = json.loads((folder / "config.json").read_text())
            options = json.loads(read(folder / "tokenizer_config.json") or "{}")
        except (OSError, ValueError) as error:
            raise ModelUnreadable(f"MODEL={folder} cannot be read as a model folder: {error}") from error
        self._tokenizer = Tokenizer.from_str(json.dumps(layout | {"truncation": None, "padding": None}))
        added = layout.get("added_tokens") or []
        self._plain = Tokenizer.from_str(
            json.dumps(layout | {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None})
        )
        self._controls = spelling(token["content"] for token in added)
        self._control_ids = {token["id"] for token in added}
        self._specials = spelling(token["content"] for token in added if token.get("special"))
        self._template = compiled(template_of(folder, options))
        self._special_names = {
            name: value["content"] if isinstance(value, dict) else value
            for name in SPECIAL_NAMES
            if (value := options.get(name))
        }
        self.knows_developer = "developer" in template_of(folder, options)
        window = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
        if not window:
            raise ModelUnreadable(f"{folder / 'config.json'} does not say max_position_embeddings.")
        self.context_length: int = int(window)
        """The most tokens that prompt and reply may have together."""

    @classmethod
    def for_model(cls, model: str | Path) -> Renderer:
        """The renderer of a model folder, or of a name on the Hugging Face hub; built once a process."""
        return renderer(str(model))

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None) -> list[int]:
        """Token ids of the conversation, up to where the reply begins. Raises MessagesRefused."""
        mark = unused(messages, tools)
        shielded = [self._shield(message, mark) for message in messages]
        tools = [self._shielded(tool, self._controls, mark) for tool in tools] if tools else None
        try:
            text = self._template.render(
                messages=shielded, tools=tools, documents=None, add_generation_prompt=True, **self._special_names
            )
        except (TemplateError, SecurityError, TypeError, KeyError, ValueError) as error:
            raise MessagesRefused(f"The model's chat template refuses these messages: {error}") from error
        return self._ids(text, mark)

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: what spells a control token stays text."""
        mark = unused(text)
        return self._ids(self._shielded(text, self._controls, mark), mark)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, control tokens left out."""
        return storable(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def _ids(self, text: str, mark: str) -> list[int]:
        if mark not in text:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        ids: list[int] = []
        for piece in pieces(text, self._controls):
            if mark in piece:
                plain = self._plain.encode(piece.replace(mark, ""), add_special_tokens=False).ids
                if not self._control_ids.isdisjoint(plain):
                    raise MessagesRefused("The tokenizer cannot write a control token in this text as plain text.")
                ids += plain
            else:
                ids += self._tokenizer.encode(piece, add_special_tokens=False).ids
        return ids

    def _shield(self, message: Message, mark: str) -> dict[str, Any]:
        # The model itself writes tokens such as <think> that are no control tokens: in its own messages they stay.
        pattern = self._specials if message["role"] == "assistant" else self._controls
        shielded: dict[str, Any] = {key: self._shielded(value, pattern, mark) for key, value in message.items()}
        shielded["content"] = shielded.get("content") or ""
        if message["role"] == "developer" and not self.knows_developer:
            shielded["role"] = "system"
        return shielded

    def _shielded(self, value: Any, pattern: re.Pattern[str] | None, mark: str) -> Any:
        """`value` with `mark` set into every spelling of a control token, so that it no longer spells one."""
        if isinstance(value, str):
            return pattern.sub(lambda match: match[0][:1] + mark + match[0][1:], value) if pattern else value
        if isinstance(value, Mapping):
            return {self._shielded(k, pattern, mark): self._shielded(v, pattern, mark) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._shielded(inner, pattern, mark) for inner in value]
        return value


@lru_cache
def renderer(model: str) -> Renderer:
    folder = Path(model)
    if folder.is_dir():
        return Renderer(folder)
    from huggingface_hub import snapshot_download

    return Renderer(Path(snapshot_download(model, allow_patterns=list(FILES))))


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


def spelling(tokens: Iterator[str] | Sequence[str]) -> re.Pattern[str] | None:
    """A pattern that finds any of these tokens in text, longest first."""
    ordered = sorted(set(tokens), key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in ordered)) if ordered else None


def pieces(text: str, pattern: re.Pattern[str] | None) -> Iterator[str]:
    """The text cut before and after each match of `pattern`; nothing is lost."""
    start = 0
    for match in pattern.finditer(text) if pattern else ():
        if match.start() > start:
            yield text[start : match.start()]
        yield match[0]
        start = match.end()
    if start < len(text):
        yield text[start:]


def unused(*values: object) -> str:
    """A character that no text has a use for, and that these values do not hold."""
    held = json.dumps(values, ensure_ascii=False, default=str)
    return next(mark for mark in map(chr, range(0xFDD0, 0xFDF0)) if mark not in held)


class Generation(Extension):
    """`{% generation %}` marks a reply in training templates; when prompting it means nothing."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def compiled(source: str) -> Any:
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
