"""Serve OpenAI's Responses, plain and streaming. docs/reference/protocols.md says what becomes of every parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from chat import asking, turns
from chat.api import response_items, streaming
from chat.api.access import Bearer, key_of
from chat.api.addressing import Addressed, set_session_header
from chat.api.aside import Router, opens, turns_of
from chat.api.catalog import choose_checkpoint
from chat.api.protocol_shapes import ResponseAnswer, events_of
from chat.api.request import MOST_TOOLS, NAME, Schema
from chat.api.response_events import ResponseEvents, ending, response, usage
from chat.api.response_items import ResponsesItem
from chat.api.sent import NotOffered, Sent, check_not_begun
from chat.api.streaming import encode_event
from chat.api.wire import Quick, few
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.replying import replies
from chat.requests import Ask
from chat.turns import TurnUnfinished
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.types import Sampling, storable

NoteName = Annotated[str, Field(max_length=64)]
Note = Annotated[str, Field(max_length=512)]


class ResponseNotFound(TalkbackError):
    """The key has no such response."""

    code, status = "response_not_found", 404


class PreviousNotFound(TalkbackError):
    """The reply that a request continues is none of this key's. OpenAI's status: it is the request that is wrong."""

    code, status, param = "previous_response_not_found", 400, "previous_response_id"


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


NOT_OFFERED = {
    "background": "send the request and read the stream",
    "conversation": "send previous_response_id, or the whole input",
    "context_management": "shorten the input, or start a new conversation",
    "prompt": "send instructions and input",
    "top_logprobs": "ask /v1/chat/completions for logprobs",
}


EXAMPLE = encode_event({"type": "response.output_text.delta", "item_id": "msg_…", "delta": "A rainbow"})


def history(key: ApiKey, previous: str | None) -> list[dict[str, Any]]:
    """The conversation up to and with the reply that is continued, without the instructions it was given."""
    if not previous:
        return []
    turn = Turn.objects.filter(session__key=key, session__deleted_at=None, completion_id=storable(previous)).first()
    if turn is None:
        raise PreviousNotFound(f"There is no response {previous!r} of this key. Send the whole conversation as input.")
    if turn.status == Turn.Status.ANSWERING:
        raise TurnUnfinished("That reply is still being written: it can be continued when it is whole.")
    said = list(turn.messages)
    if turn.protocol == "responses" and said and said[0]["role"] == "system":
        said = said[1:]
    return [*said, turn.message or {"role": "assistant", "content": turn.text}]


def find_item(key: ApiKey, item_id: str) -> list[ResponsesItem]:
    """The item of an earlier reply to this key that goes by this id. Raises ResponseNotFound.

    Words that a stream gave in two items, with a call between them, are kept as the first of them.
    """
    kind, _, rest = item_id.partition("_")
    core, _, number = rest.partition("_")
    of_key = Turn.objects.filter(session__key=key, session__deleted_at=None)
    turn = of_key.filter(completion_id=f"resp_{core}").first() if core else None
    if turn is not None:
        for item in response_items.output(turn, summed_up=False):
            if item["id"] == item_id:
                return [ResponsesItem.model_validate(item)]
        if kind in ("msg", "rs") and number:
            return []
    raise ResponseNotFound(f"There is no item {item_id!r} of this key. Send the item itself.")


def echo_of(turn: Turn) -> dict[str, Any]:
    """What a kept answer repeats of its request, as far as that was kept."""
    asked: Mapping[str, Any] = turn.asked
    first: Iterable[Mapping[str, Any]] = turn.messages[:1]
    choice = str(asked.get("tool_choice") or "auto")
    format = {"type": "json_schema", "name": "reply", "schema": asked["schema"]} if "schema" in asked else None
    return {
        "instructions": next((said["content"] for said in first if said["role"] == "system"), None),
        "max_output_tokens": turn.sampling.get("max_new_tokens"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous") or None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": turn.sampling.get("temperature"),
        "text": {"format": format or {"type": "text"}},
        "tool_choice": {"type": "function", "name": choice[1:]} if choice.startswith("=") else choice,
        "tools": [{"type": "function", **tool["function"]} for tool in turn.tools],
        "top_p": turn.sampling.get("top_p"),
        "truncation": "disabled",
        "user": asked.get("user") or None,
    }


def answer(turn: Turn, echo: Mapping[str, Any], *, summed_up: bool = False, thinking: int = 0) -> dict[str, Any]:
    """A turn as it was kept, as a response."""
    if turn.status == Turn.Status.ANSWERING:
        return response(turn, echo, "in_progress", [])
    output = response_items.output(turn, summed_up=summed_up)
    if turn.finish_reason == "error":
        ended: dict[str, Any] = {"status": "failed", "error": {"code": "server_error", "message": turn.error}}
    else:
        ended = ending(turn.finish_reason)
    if ended["status"] == "completed" and turn.served_at:
        ended["completed_at"] = int(turn.served_at.timestamp())
    ended["usage"] = usage(len(turn.prompt_ids), len(turn.response_ids), turn.cached_tokens, thinking)
    return response(turn, echo, ended.pop("status"), output, **ended)


router = Router(auth=Bearer(), tags=["chat"])


def open_turns(request: HttpRequest, body: ResponsesRequest) -> list[Turn]:
    """Store the request as a turn of the session it belongs to."""
    key = key_of(request)
    return asking.open_turns(key, body.ask(request, key))


@router.post(
    "/responses",
    summary="One reply, as OpenAI's Responses give it",
    response=ResponseAnswer,
    openapi_extra=events_of("its events, as OpenAI names them.", EXAMPLE),
)
@opens(open_turns)
async def create(request: HttpRequest, body: ResponsesRequest) -> HttpResponseBase:
    """Answer as OpenAI does. `model` in the answer is name@number: the checkpoint that wrote it.

    A reader that leaves stops the engine, whether it waits for a stream or for the whole.
    """
    turns = turns_of(request)
    done = body.address(request)["session_done"]
    events = ResponseEvents(turns[0], body.echo(turns[0]), summed_up=body.summed_up)
    if body.stream:
        given: HttpResponseBase = await streaming.stream(turns, events, done=done)
    else:
        (kept,) = await streaming.answer_whole(turns, done=done, heard=events.heard)
        given = JsonResponse(answer(kept, events.echo, summed_up=body.summed_up, thinking=events.thinking))
    return set_session_header(given, turns[0].session)


@router.get("/responses/{response_id}", summary="An answer that was given before", response=ResponseAnswer)
async def stored(request: HttpRequest, response_id: str) -> JsonResponse:
    """Of this key's own turns."""
    turn = await find_turn(request, response_id)
    return JsonResponse(answer(turn, echo_of(turn)))


@router.post("/responses/{response_id}/cancel", summary="Stop an answer that is being written", response=ResponseAnswer)
async def cancel(request: HttpRequest, response_id: str) -> JsonResponse:
    """It keeps what was said, and never teaches. One that is whole stays as it is."""
    await replies.stop(await find_turn(request, response_id), engines.policy())
    turn = await find_turn(request, response_id)
    return JsonResponse(answer(turn, echo_of(turn)))


async def find_turn(request: HttpRequest, response_id: str) -> Turn:
    """Raises ResponseNotFound for an unknown id, or one that belongs to another key."""
    own = Turn.objects.filter(session__key=key_of(request), session__deleted_at=None)
    named = own.filter(protocol="responses", completion_id=storable(response_id))
    turn = await named.select_related("checkpoint", "session").afirst()
    if turn is None:
        raise ResponseNotFound(f"There is no response {response_id!r} of this key.")
    return turn
