"""Serve OpenAI's chat completions, plain and streaming."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from chat import asking
from chat.api import streaming
from chat.api.access import Bearer, key_of
from chat.api.addressing import set_session_header
from chat.api.answer_shapes import STREAMED, Answer
from chat.api.aside import Router, opens, turns_of
from chat.api.catalog import choose_checkpoint
from chat.api.chunks import Chunks, answer, start_counts
from chat.api.request import ChatRequest
from chat.models import Turn

router = Router(auth=Bearer(), tags=["chat"])


def open_turns(request: HttpRequest, body: ChatRequest) -> list[Turn]:
    """Store the request as turns of the session it belongs to."""
    key = key_of(request)
    return asking.open_turns(key, body.ask(request, choose_checkpoint(body.model or "", key)))


@router.post(
    "/chat/completions",
    summary="One reply, plain or streaming",
    response=Answer,
    by_alias=True,
    openapi_extra=STREAMED,
)
@opens(open_turns)
async def complete(request: HttpRequest, body: ChatRequest) -> HttpResponseBase:
    """Answer as OpenAI does. `model` in the answer is name@number: the checkpoint that wrote it.

    A reader that leaves stops the engine, whether it waits for a stream or for the whole.
    """
    turns = turns_of(request)
    counted = start_counts(turns, logprobs=bool(body.logprobs or body.top_logprobs))
    done = body.address(request)["session_done"]
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        chunks = Chunks(turns, counted, usage=usage)
        response: HttpResponseBase = await streaming.stream(turns, chunks, done=done)
    else:
        kept = await streaming.answer_whole(turns, done=done, heard=lambda choice, spoken: counted[choice].add(spoken))
        response = JsonResponse(answer(kept, counted))
    return set_session_header(response, turns[0].session)
