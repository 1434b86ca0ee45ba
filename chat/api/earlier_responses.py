"""Find earlier replies of a key, by the ids that OpenAI's Responses give them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from chat.api import response_items
from chat.api.access import key_of
from chat.api.response_items import ResponsesItem
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.turns import TurnUnfinished
from core.errors import TalkbackError
from gpu_workers.types import storable


class ResponseNotFound(TalkbackError):
    """The key has no such response."""

    code, status = "response_not_found", 404


class PreviousNotFound(TalkbackError):
    """The reply that a request continues is none of this key's. OpenAI's status: it is the request that is wrong."""

    code, status, param = "previous_response_not_found", 400, "previous_response_id"


def turns_of_key(key: ApiKey) -> QuerySet[Turn]:
    return Turn.objects.filter(session__key=key, session__deleted_at=None)


def history(key: ApiKey, previous: str | None) -> list[dict[str, Any]]:
    """The conversation up to and with the reply that is continued, without the instructions it was given."""
    if not previous:
        return []
    turn = turns_of_key(key).filter(completion_id=storable(previous)).first()
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
    turn = turns_of_key(key).filter(completion_id=f"resp_{core}").first() if core else None
    if turn is not None:
        for item in response_items.output(turn, summed_up=False):
            if item["id"] == item_id:
                return [ResponsesItem.model_validate(item)]
        if kind in ("msg", "rs") and number:
            return []
    raise ResponseNotFound(f"There is no item {item_id!r} of this key. Send the item itself.")


async def find_turn(request: HttpRequest, response_id: str) -> Turn:
    """Raises ResponseNotFound for an unknown id, or one that belongs to another key."""
    named = turns_of_key(key_of(request)).filter(protocol="responses", completion_id=storable(response_id))
    turn = await named.select_related("checkpoint", "session").afirst()
    if turn is None:
        raise ResponseNotFound(f"There is no response {response_id!r} of this key.")
    return turn
