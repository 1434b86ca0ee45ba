"""Serve OpenAI's Responses, plain and streaming. docs/reference/protocols.md says what becomes of every parameter."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from chat import asking
from chat.api import streaming
from chat.api.access import Bearer, key_of
from chat.api.addressing import set_session_header
from chat.api.aside import Router, opens, turns_of
from chat.api.earlier_responses import find_turn
from chat.api.protocol_shapes import ResponseAnswer, events_of
from chat.api.response_answers import answer, echo_of
from chat.api.response_events import ResponseEvents
from chat.api.responses_request import ResponsesRequest
from chat.api.streaming import encode_event
from chat.models import Turn
from chat.replying import replies
from gpu_workers import engines

EXAMPLE = encode_event({"type": "response.output_text.delta", "item_id": "msg_…", "delta": "A rainbow"})

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
