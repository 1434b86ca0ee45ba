"""Write hostile text into every field that holds what people, programs, models or tools said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.apps import apps
from django.db.models import CharField, Field, JSONField, Model, TextField, UniqueConstraint, Value
from django.db.models.functions import Cast, Concat

from tests.webapp.payloads import texts

NOT_OURS = {"admin", "auth.Group", "auth.Permission", "contenttypes", "sessions", "socialaccount", "mfa", "account"}
"""Tables of libraries, of which no page of ours shows text: but for the people of `auth`."""

CODES = {
    "accounts.Account": {"language"},
    "accounts.Deed": {"kind", "verb"},
    "accounts.Invitation": {"digest"},
    "auth.User": {"password"},
    "chat.ApiKey": {"digest", "scopes"},
    "chat.Import": {"kind"},
    "chat.Passage": {"words"},
    "chat.Session": {"imported_as", "named_by"},
    "chat.ToolServer": {"token"},
    "chat.Turn": {
        *("completion_id", "protocol", "request_key", "chain", "request_chain", "prompt_ids", "response_ids"),
        *("logprobs", "finish_reason", "writer"),
    },
    "checkpoints.Checkpoint": {"path"},
    "chat.ClientRules": {"name"},
    "checkpoints.Line": {"name", "recipe", "policy"},
    "checkpoints.Notice": {"key"},
    "evaluation.Import": {"sha256"},
    "evaluation.Imported": {"digest"},
    "evaluation.Shadow": {"finish_reason", "response_ids"},
    "feedback.Receipt": {"key", "body"},
    "judge.Claim": {"item"},
    "judge.GoldReading": {"gold", "role"},
    "judge.Judgement": {"reward_from", "hint_from", "topic", "reason_code", "evidence"},
    "judge.Reading": {"label"},
    "judge.Sitting": {"matter"},
    "judge.Vote": {"role", "topic", "evidence"},
    "judge.Hint": {"evidence"},
    "notifications.Announcement": {"event", "key", "path"},
    "notifications.PutAway": {"name"},
    "notifications.Webhook": {"secret", "events"},
    "training.Rehearsal": {"prompt_ids", "response_ids", "logprobs"},
    "training.Run": {"recipe", "agents"},
    "training.Sample": {
        *("person", "prompt_ids", "response_ids", "mask", "behaviour_logprobs", "sampled_logprobs"),
        *("teacher_prompt_ids", "rewrite_ids", "rewards"),
    },
}
"""Fields that hold one of a program's own words, digits of a digest, a secret or a path of ours: no text comes in."""

JSON_CODES = re.compile(
    r"role|type|kind|status|state|phase|key|id|.*_id|name_of|form|format|shape|via|method|source|at|.*_at|"
    r"protocol|verdict|outcome|choice|decision|desk|world|difficulty|mode|finish_reason|precision|device|dtype"
)
"""Keys within JSON, of which the values are such words."""
DIGITS = re.compile(r"[\d\s.:+TZ-]*|[0-9a-f-]{16,}")


def fields(model: type[Model]) -> Iterator[Field[Any, Any]]:
    """Those of this model that hold text."""
    label = model._meta.label
    if label in NOT_OURS or model._meta.app_label in NOT_OURS:
        return
    for field in model._meta.concrete_fields:
        of_text = isinstance(field, CharField | TextField | JSONField)
        if of_text and not field.choices and field.attname not in CODES.get(label, ()):
            yield field


def is_told_apart(model: type[Model], field: Field[Any, Any]) -> bool:
    """Whether no two rows may say the same in this field, alone or with others."""
    rules = [one for one in model._meta.constraints if isinstance(one, UniqueConstraint)]
    return field.unique or any(field.attname in (*one.fields, *NAMED.findall(str(one.expressions))) for one in rules)


NAMED = re.compile(r"F\((\w+)\)")


def spoil(start: str) -> set[str]:
    """Write it into each of them, begun with `start`, in every row there is; the fields' names."""
    written = set()
    for model in apps.get_models():
        for field in fields(model):
            name = f"{model._meta.label}.{field.attname}"
            if isinstance(field, JSONField):
                spoil_json(model, field, partial(texts.text, start, name, lines=True))
            else:
                said: Any = Value(texts.text(start, name, lines=isinstance(field, TextField)))
                if is_told_apart(model, field):
                    said = Concat(said, Cast("pk", TextField()), output_field=TextField())
                model._base_manager.update(**{field.attname: said})
            if model._base_manager.exists():
                written.add(name)
    return written


def fail() -> None:
    """Have all that can fail have failed, so that pages say why."""
    for model in apps.get_models():
        state = next((field for field in model._meta.concrete_fields if field.attname == "status"), None)
        if state is not None and "failed" in dict(state.choices or ()):
            model._base_manager.update(status="failed")


def spoil_json(model: type[Model], field: Field[Any, Any], say: Any) -> None:
    """Likewise for each text within what it holds, but for a program's own words."""
    rows = list(model._base_manager.only("pk", field.attname))
    for row in rows:
        setattr(row, field.attname, spoiled(getattr(row, field.attname), say()))
    model._base_manager.bulk_update(rows, [field.attname], batch_size=50)


def spoiled(value: Any, said: str, key: str = "") -> Any:
    """The same with `said` for each text.

    >>> spoiled({"role": "user", "content": ["Hello", 3]}, "!")
    {'role': 'user', 'content': ['!', 3]}
    """
    if isinstance(value, dict):
        return {name: spoiled(one, said, name) for name, one in value.items()}
    if isinstance(value, list):
        return [spoiled(one, said, key) for one in value]
    is_text = isinstance(value, str) and not JSON_CODES.fullmatch(key) and not DIGITS.fullmatch(value)
    return said if is_text else value
