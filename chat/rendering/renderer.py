"""Render messages to token ids and back: the model's own tokenizer and chat template, without torch or transformers.

What a person, a tool or a client writes can never become a control token. Where it spells one
(`<|im_end|>`), those characters are encoded as the plain text they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson
from django.utils.translation import gettext as _
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from tokenizers import Tokenizer

from chat.rendering import calling, picturing
from chat.rendering.arrangements import ARRANGEMENTS, Message, holds, orders, spelled_out
from chat.rendering.template import ModelUnreadable, compile_template, read, template_of
from chat.rendering.tokens import Tokens, pieces, spelling
from core.errors import TalkbackError
from gpu_workers.types import DEEPEST, storable

FILES = ("tokenizer.json", "tokenizer_config.json", "config.json", "chat_template.jinja", *picturing.FILES)
SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

USUAL_TOKEN = 8
"""Characters: a text that has more for each token there is room for is looked at from its beginning first."""

SPARSE = 16
"""Characters for each token there is room for, beyond which nothing is tokenised: no text fits that has so many, and
what does, a few million blanks, would take many seconds."""

BRIM = 16
"""Tokens that the beginning of a text may have more than they are in the whole: it may end within a word."""


class MessagesRefused(TalkbackError):
    """The model's chat template cannot lay these messages out."""

    code, status = "invalid_messages", 400


class Overlong(Exception):
    """A prompt takes `tokens` tokens or more, and fewer were allowed."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"at least {tokens} tokens")
        self.tokens = tokens


class Renderer:
    """Render conversations with one model's tokenizer and chat template."""

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
        self._tokens, self._plain_tokens = Tokens(self._tokenizer, added), Tokens(self._plain)
        self._controls = spelling(token["content"] for token in added)
        self._control_ids = {token["id"] for token in added}
        self._specials = spelling(token["content"] for token in added if token.get("special"))
        source = template_of(folder, options)
        self._template = compile_template(source)
        self._wants_parts = False
        self._special_names = {
            name: value["content"] if isinstance(value, dict) else value
            for name in SPECIAL_NAMES
            if (value := options.get(name))
        }
        self._wants_parts = picturing.wants_parts(self._rendered)
        self.picture = picturing.placeholder(folder, config, self._laid_plain)
        """What the template writes for a picture, control tokens of its own; empty: this model sees none."""
        self.count_picture = picturing.Counter(folder, config).tokens
        """About how many tokens a picture of this width and height becomes."""
        self.knows_developer = "developer" in source
        style = calling.style_of(source)
        self.takes_tools = bool(style) and self._takes_tools(source)
        """Whether the template has a place for tools, and teaches a way to call them that is read here; where it has
        none they are described in the system message."""
        self.style = style if self.takes_tools else calling.USUAL
        """How this model writes a tool call: a name in chat.rendering.calling.STYLES."""
        self.opening = self._opening()
        """What the template itself writes of the reply: an opened <think>, or one that is closed at once."""
        self.thinks = calling.THINK in source
        """Whether the model may think before it speaks: clients are told, and then give its thoughts back."""
        window = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
        if not window:
            raise ModelUnreadable(f"{folder / 'config.json'} does not say max_position_embeddings.")
        self.context_length: int = int(window)
        """The most tokens that prompt and reply may have together."""

    @classmethod
    def for_model(cls, model: str | Path) -> Renderer:
        """The renderer of a model folder, or of a name on the Hugging Face hub; built once a process."""
        return renderer(str(model))

    def prompt_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        opened: str = "",
        *,
        reply: bool = True,
        most: int | None = None,
    ) -> list[int]:
        """Token ids of the conversation, up to where the reply begins, or goes on from `opened`, which is ours and
        may hold control tokens; without `reply`, up to the end of its last message. Raises MessagesRefused.

        With `most`, raises Overlong as soon as it is clear that there would be more ids than that; for what is far
        too long this takes no longer than for what is twice too long.
        """
        if most is not None:
            self._hold(count_least(messages, self._longest_token), most)
        pictures = sum(len(message.get("pictures") or ()) for message in messages)
        mark = picturing.BROKEN if pictures else pick_unused(messages, tools)
        try:
            shielded = [self._shield(message, mark) for message in messages]
            tools = [self._shielded(tool, self._controls, mark) for tool in tools] if tools else None
            if not self.takes_tools:
                shielded, tools = spelled_out(shielded, tools or ()), None
            text = self._seen(self._laid_out(shielded, tools, reply=reply), pictures) + opened
        except RecursionError as error:
            raise MessagesRefused(_("Lists and objects in these messages are nested too deeply.")) from error
        if most is None:
            return self._ids(text, mark)
        if len(text) > (beginning := most * USUAL_TOKEN):
            self._hold(len(self._ids(text[:beginning], mark)) - BRIM, most)
            if len(text) > most * SPARSE:
                said = _("These messages have %(n)s characters, more than %(sparse)s for each of %(most)s tokens.")
                raise MessagesRefused(said % {"n": len(text), "sparse": SPARSE, "most": most})
        ids = self._ids(text, mark)
        self._hold(len(ids), most)
        return ids

    def reply_ids(
        self, messages: Sequence[Message], reply: str, tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """Token ids of a reply that a person wrote, as the model would have given them after the `prompt_ids` of these
        messages: what the template wants before it and has not written yet, the words, and the end of a reply, where
        the template has one. Raises MessagesRefused.
        """
        mark = pick_unused(messages, tools, reply)
        shielded = [self._shield(message, mark) for message in messages]
        tools = [self._shielded(tool, self._controls, mark) for tool in tools] if tools else None
        if not self.takes_tools:
            shielded, tools = spelled_out(shielded, tools or ()), None
        prompt = self._laid_out(shielded, tools)
        # The mark stands for the words: what a template has around them may spell the same as they do.
        whole = self._laid_out([*shielded, {"role": "assistant", "content": mark}], tools, reply=False)
        before, found, after = whole.rpartition(mark)
        if not found:
            raise MessagesRefused(_("The model's chat template leaves out what a reply says."))
        opened = before[len(prompt) :] if before.startswith(prompt) else calling.end_thinking(self.opening)
        ends = self._controls.match(after, len(after) - len(after.lstrip())) if self._controls else None
        words = self._shielded(reply.strip(), self._controls, mark)
        return self._ids(opened + words + (after[: ends.end()] if ends else ""), mark)

    @staticmethod
    def _hold(tokens: int, most: int) -> None:
        if tokens > most:
            raise Overlong(tokens)

    @cached_property
    def _longest_token(self) -> int:
        """Characters that one token stands for at most."""
        return max(map(len, self._tokenizer.get_vocab()))

    def _laid_out(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None, *, reply: bool = True
    ) -> str:
        """The conversation as the template has it, or as the template can bear it."""
        refusal: Exception | None = None
        fallback = ""
        for arrange in ARRANGEMENTS:
            arranged = arrange(messages)
            try:
                text = self._rendered(arranged, tools, reply)
            except (TemplateError, SecurityError, TypeError, KeyError, ValueError) as error:
                refusal = refusal or error
                continue
            if holds(text, orders(arranged)):
                return text
            fallback = fallback or text  # some templates pass over a second system message
        if fallback:
            return fallback
        said = _("The model's chat template refuses these messages: %(why)s")
        raise MessagesRefused(said % {"why": refusal}) from refusal

    def _seen(self, text: str, pictures: int) -> str:
        """The laid-out text with the template's own words for each picture. Raises MessagesRefused."""
        if not pictures:
            return text
        if not self.picture:
            said = _("There are pictures in this conversation, and this model reads text only: start a new one.")
            raise MessagesRefused(said)
        if text.count(picturing.HERE) != pictures:
            raise MessagesRefused(_("The model's chat template leaves out a picture of these messages."))
        return text.replace(picturing.HERE, self.picture)

    def _rendered(self, messages: Sequence[Message], tools: Any = None, reply: bool = True) -> str:
        return self._laid_plain(picturing.as_parts(messages) if self._wants_parts else messages, tools, reply)

    def _laid_plain(self, messages: Sequence[Message], tools: Any = None, reply: bool = True) -> str:
        return str(
            self._template.render(
                messages=messages, tools=tools, documents=None, add_generation_prompt=reply, **self._special_names
            )
        )

    def _takes_tools(self, source: str) -> bool:
        ask = [{"role": "user", "content": "Hello"}]
        tool = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {}}}
        try:
            return self._rendered(ask, [tool]) != self._rendered(ask)
        except (TemplateError, SecurityError, TypeError, KeyError, ValueError):
            return "tools" in source

    def _opening(self) -> str:
        ask = [{"role": "user", "content": "Hello"}]
        try:
            asked, begun = self._rendered(ask, reply=False), self._rendered(ask)
        except (TemplateError, SecurityError, TypeError, KeyError, ValueError):
            return ""
        at = begun.find(calling.THINK, len(asked) if begun.startswith(asked) else 0)
        return begun[at:] if at >= 0 else ""

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: what spells a control token stays text."""
        mark = pick_unused(text)
        return self._ids(self._shielded(text, self._controls, mark), mark)

    def decode(self, ids: Sequence[int], *, controls: bool = False) -> str:
        """The text of these ids; control tokens are left out, unless `controls` are asked for."""
        return storable(self._tokenizer.decode(list(ids), skip_special_tokens=not controls))

    def _ids(self, text: str, mark: str) -> list[int]:
        if mark == picturing.BROKEN or mark not in text:
            return self._tokens.ids(text)
        ids: list[int] = []
        for piece in pieces(text, self._controls):
            if mark in piece:
                plain = self._plain_tokens.ids(piece.replace(mark, ""))
                if not self._control_ids.isdisjoint(plain):
                    raise MessagesRefused(_("The tokenizer cannot write a control token in this text as plain text."))
                ids += plain
            else:
                ids += self._tokens.ids(piece)
        return ids

    def _shield(self, message: Message, mark: str) -> dict[str, Any]:
        # The model itself writes tokens such as <think> that are no control tokens: in its own messages they stay.
        pattern = self._specials if message["role"] == "assistant" else self._controls
        apart = ("tool_calls", "pictures")
        given = {key: value for key, value in message.items() if value is not None and key not in apart}
        if mark == picturing.BROKEN:
            words = str(given.get("content") or "").replace(picturing.HERE, "\ufffd")
            given["content"] = picturing.set_in(words, message.get("pictures") or ())
        shielded: dict[str, Any] = {key: self._shielded(value, pattern, mark) for key, value in given.items()}
        shielded["content"] = shielded.get("content") or ""
        if message.get("tool_calls"):  # some templates look whether the key is there
            calls = [parse_call(call) for call in message["tool_calls"]]
            shielded["tool_calls"] = self._shielded(calls, self._controls, mark)
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


def parse_call(call: Any) -> dict[str, Any]:
    """A tool call of a client with its arguments as an object: that is what templates want. Raises MessagesRefused."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise MessagesRefused(_("A tool call in these messages has no function with a name."))
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = make_storable(json.loads(arguments))
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}  # cut short, or too deep for a template: nothing of it is lost
    if not isinstance(arguments, Mapping):
        arguments = {"arguments": arguments}
    return {
        "id": str(call.get("id") or ""),
        "type": "function",
        "function": {"name": function["name"], "arguments": dict(arguments)},
    }


def make_storable(value: Any, depth: int = 0) -> Any:
    """A JSON value with every text in it storable: an escape may spell what no text of a client holds. Raises
    ValueError for nesting beyond DEEPEST."""
    if depth > DEEPEST:
        raise ValueError(f"lists and objects are nested more than {DEEPEST} deep")
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(key): make_storable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [make_storable(inner, depth + 1) for inner in value]
    return value


def count_least(messages: Sequence[Message], longest: int) -> int:
    """Tokens that these messages take at least, where one stands for `longest` characters at most. Blanks around a
    message and thoughts of an earlier reply do not count: templates leave them out."""
    told = (message.get("content") or "" for message in messages if message["role"] != "assistant")
    characters = sum(len(text.strip()) for text in told if isinstance(text, str))
    return max(len(messages), -(-characters // longest))


@lru_cache
def renderer(model: str) -> Renderer:
    folder = Path(model)
    if folder.is_dir():
        return Renderer(folder)
    from huggingface_hub import snapshot_download

    return Renderer(Path(snapshot_download(model, allow_patterns=list(FILES))))


FIRST_MARKS = "\ufdd0".encode()[:2]
"""How the characters begin, in UTF-8, that `pick_unused` chooses from; nearly no text holds even one of their row."""


def pick_unused(*values: object) -> str:
    """A character that no text has a use for, and that these values do not hold. Raises MessagesRefused."""
    try:
        if FIRST_MARKS not in orjson.dumps(values):
            return "\ufdd0"
    except TypeError:
        pass  # half a character, or values that the careful way takes as text
    try:
        held = json.dumps(values, ensure_ascii=False, default=str)
    except RecursionError as error:
        raise MessagesRefused(_("Lists and objects in these messages are nested too deeply.")) from error
    mark = next((mark for mark in map(chr, range(0xFDD0, 0xFDF0)) if mark not in held), None)
    if mark is None:
        raise MessagesRefused(_("These messages hold every one of the characters U+FDD0 to U+FDEF, which are no text."))
    return mark
