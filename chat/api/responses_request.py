"""What OpenAI's Responses are asked for, as far as it is understood."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from chat import turns
from chat.api import response_items
from chat.api.addressing import Addressed
from chat.api.catalog import choose_checkpoint
from chat.api.earlier_responses import find_item, history
from chat.api.request import MOST_TOOLS, NAME, Schema
from chat.api.response_items import ResponsesItem
from chat.api.sent import NotOffered, Sent, check_not_begun
from chat.api.wire import Quick, few
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.requests import Ask
from gpu_workers.types import Sampling

NoteName = Annotated[str, Field(max_length=64)]
Note = Annotated[str, Field(max_length=512)]

NOT_OFFERED = {
    "background": "send the request and read the stream",
    "conversation": "send previous_response_id, or the whole input",
    "context_management": "shorten the input, or start a new conversation",
    "prompt": "send instructions and input",
    "top_logprobs": "ask /v1/chat/completions for logprobs",
}


class ResponsesTool(Sent):
    model_config = ConfigDict(extra="allow")

    type: str = "function"
    name: str | None = Field(None, pattern=NAME)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @model_validator(mode="after")
    def _named(self) -> ResponsesTool:
        if self.type == "function" and not self.name:
            raise ValueError("a function needs a name")
        return self

    def plain(self, at: str) -> dict[str, Any]:
        """In chat completions' shape. Raises NotOffered for what OpenAI's own servers bring."""
        if self.type != "function":
            raise NotOffered(f"Tools of type {self.type!r} are not offered here: only functions are.", f"{at}.type")
        return {"type": "function", "function": self.model_dump(exclude_none=True, exclude={"type"})}


class ResponsesAllowed(Sent):
    model_config = ConfigDict(extra="ignore")

    type: str = "function"
    name: str | None = None


class ResponsesToolChoice(ResponsesAllowed):
    """The one function that must be called, or those that may be."""

    mode: Literal["auto", "required"] = "auto"
    tools: Quick[ResponsesAllowed] | None = None

    @model_validator(mode="after")
    def _whole(self) -> ResponsesToolChoice:
        if self.type == "function" and not self.name:
            raise ValueError("tool_choice of type 'function' needs a name")
        return self


class TextFormat(Sent):
    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema_: Schema | None = Field(None, alias="schema")
    """With `json_object` too, as other servers have it."""

    @model_validator(mode="after")
    def _has_its_schema(self) -> TextFormat:
        if self.type == "json_schema" and self.schema_ is None:
            raise ValueError("a format of type 'json_schema' needs a schema")
        if self.type == "text" and self.schema_ is not None:
            raise ValueError("schema belongs to type 'json_schema' or 'json_object'")
        return self


class ResponsesText(Sent):
    model_config = ConfigDict(extra="allow")

    format: TextFormat | None = None


class ResponsesReasoning(Sent):
    model_config = ConfigDict(extra="allow")

    effort: str | None = None
    summary: str | None = None


class ResponsesRequest(Addressed):
    """OpenAI's Responses request, as far as it is understood."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"model": "talkback", "input": "What is a rainbow?"}]}
    )

    input: str | Quick[ResponsesItem] = Field(min_length=1)
    model: str | None = ""
    instructions: str | None = None
    previous_response_id: str | None = Field(None, max_length=200)
    tools: Quick[ResponsesTool] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: Literal["auto", "none", "required"] | ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = True
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    text: ResponsesText | None = None
    reasoning: ResponsesReasoning | None = None
    stream: bool | None = False
    store: bool | None = True
    metadata: Annotated[dict[NoteName, Note], BeforeValidator(few)] | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    truncation: Literal["auto", "disabled"] | None = None

    @field_validator("tool_choice")
    @classmethod
    def _is_offered(cls, choice: str | ResponsesToolChoice | None, others: Any) -> str | ResponsesToolChoice | None:
        names = {tool.name for tool in others.data.get("tools") or ()}
        if choice == "required" and not names:
            raise ValueError("a tool must be called, and no tools are given")
        if isinstance(choice, ResponsesToolChoice) and choice.type == "function" and choice.name not in names:
            raise ValueError(f"there is no tool {choice.name!r} among the tools")
        return choice

    def check_offered(self) -> None:
        """Raises NotOffered for what would silently be something else than was asked for."""
        for name, instead in NOT_OFFERED.items():
            if (self.model_extra or {}).get(name):
                raise NotOffered(f"{name} cannot be honoured here: {instead}.", name)
        check_not_begun(self.model_extra)
        if self.truncation == "auto":
            raise NotOffered(
                "truncation 'auto' cannot be honoured here, since nothing is dropped unseen: leave it out, and shorten "
                "the input where it is too long.",
                "truncation",
            )
        if isinstance(self.tool_choice, ResponsesToolChoice) and self.tool_choice.type not in (
            "function",
            "allowed_tools",
        ):
            raise NotOffered(f"tool_choice of type {self.tool_choice.type!r} is not offered here.", "tool_choice.type")
        tools = self.functions()
        if self.schema_ is not None and tools and self.chosen_tool != "none":
            raise NotOffered(
                "A reply cannot be held to a schema while it may call tools: leave text.format out, or send "
                "tool_choice none.",
                "text.format",
            )

    @property
    def schema_(self) -> Schema | None:
        """What the reply's text must satisfy."""
        format = self.text.format if self.text else None
        if format is None or format.type == "text":
            return None
        return {"type": "object"} if format.schema_ is None else format.schema_

    @property
    def chosen_tool(self) -> str:
        """tool_choice in `Ask`'s words."""
        if isinstance(self.tool_choice, ResponsesToolChoice):
            return f"={self.tool_choice.name}" if self.tool_choice.type == "function" else self.tool_choice.mode
        return self.tool_choice or "auto"

    @property
    def summed_up(self) -> bool:
        return bool(self.reasoning and self.reasoning.summary)

    def functions(self) -> list[dict[str, Any]]:
        """The tools that may be called, in chat completions' shape. Raises NotOffered."""
        allowed = None
        if isinstance(self.tool_choice, ResponsesToolChoice) and self.tool_choice.type == "allowed_tools":
            allowed = {tool.name for tool in self.tool_choice.tools or ()}
        shown = enumerate(self.tools or ())
        return [tool.plain(f"tools.{n}") for n, tool in shown if allowed is None or tool.name in allowed]

    def ask(self, request: HttpRequest, key: ApiKey) -> Ask:
        """The request in every protocol's terms. Raises NotOffered, PreviousNotFound and TurnUnfinished."""
        self.check_offered()
        items = [ResponsesItem(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        before = [{"role": "system", "content": self.instructions}] if self.instructions else []
        told = response_items.messages(items, partial(find_item, key))
        tools = {f"tool {tool.name}": f"tools.{n}.parameters" for n, tool in enumerate(self.tools or ())}
        return Ask(
            messages=[*before, *history(key, self.previous_response_id), *told],
            sampling=self.sampling(),
            checkpoint=choose_checkpoint(self.model or "", key),
            protocol="responses",
            prefix="resp_",
            tools=self.functions(),
            tool_choice=self.chosen_tool,
            parallel_tool_calls=self.parallel_tool_calls is not False,
            schema=self.schema_,
            user=self.user or "",
            prompt_cache_key=self.prompt_cache_key or "",
            previous=self.previous_response_id or "",
            metadata=self.metadata or {},
            places=tools | {"messages": "input", "schema": "text.format.schema"},
            **self.address(request),
        )

    def sampling(self) -> Sampling:
        given: dict[str, Any] = {
            "max_new_tokens": self.max_output_tokens or turns.MAX_NEW_TOKENS,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }
        return Sampling(**{name: value for name, value in given.items() if value is not None})

    def echo(self, turn: Turn) -> dict[str, Any]:
        """What the answer repeats of the request."""
        said = {"reasoning", "text", "tool_choice", "tools"}
        sent = self.model_dump(include=said, by_alias=True, exclude_none=True)
        return {
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": self.previous_response_id,
            "prompt_cache_key": self.prompt_cache_key,
            "reasoning": {"effort": None, "summary": None} | sent.get("reasoning", {}),
            "store": self.store is not False,
            "temperature": turn.sampling["temperature"],
            "text": {"format": {"type": "text"}} | sent.get("text", {}),
            "tool_choice": sent.get("tool_choice", "auto"),
            "tools": sent.get("tools", []),
            "top_p": turn.sampling["top_p"],
            "truncation": "disabled",
            "user": self.user,
        }
