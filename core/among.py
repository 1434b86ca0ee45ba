"""Ask for rows by many keys that Python knows: as one parameter, which takes no longer to compose than one key."""

from __future__ import annotations

import json
from collections.abc import Iterable

from django.db.models import BigIntegerField, Func, Value


class Among(Func):
    """The right side of `__in`, of numbers: `filter(run__in=Among(runs))`."""

    template = "SELECT value FROM json_each(%(expressions)s)"
    output_field = BigIntegerField()

    def __init__(self, numbers: Iterable[int]) -> None:
        super().__init__(Value(json.dumps(sorted(set(numbers)))))

    def as_postgresql(self, compiler, connection, **more):  # type: ignore[no-untyped-def]  # as Django calls it
        template = "SELECT value::bigint FROM jsonb_array_elements_text(%(expressions)s::jsonb)"
        return super().as_sql(compiler, connection, template=template, **more)
