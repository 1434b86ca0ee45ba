"""Compose the SQL of every request's queries and writes once, and reuse it.

Django composes SQL anew each time, which takes many times as long as a small database takes to answer. A prepared
query is composed once a process, and then asked with other values; so are `insert` and `update`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connections, models, router, transaction
from django.db.models.base import ModelState
from django.db.models.query import get_related_populators

Row = TypeVar("Row", bound=models.Model)

EPOCH = datetime(1971, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Written:
    """A query as SQL, and how its rows become instances."""

    sql: str
    params: tuple[Any, ...]
    places: tuple[int | None, ...]
    """For each parameter which of the values stands there; None: always the same."""
    model: type[models.Model]
    names: list[str]
    first: int
    end: int
    converters: list[tuple[int, list[Callable[..., Any]], Any]]
    populators: list[Any]
    annotations: dict[str, int]


class Prepared(Generic[Row]):
    """A queryset that is composed once for each kind of values: text, UUIDs, numbers, moments, and lists of them.

    `build` makes the queryset of the values. It must use each of them as a parameter of the query and for nothing
    else: ValueError says which it did not. None, True and False are part of the query.
    """

    def __init__(self, build: Callable[..., models.QuerySet[Row]]) -> None:
        self.build = build
        self._written: dict[tuple[Any, ...], Written] = {}

    def first(self, *values: Any) -> Row | None:
        """The first row; the order is the queryset's own, and so is its limit."""
        return next(iter(self.ask(*values)), None)

    def ask(self, *values: Any) -> list[Row]:
        """The rows for these values, as the queryset would give them."""
        flat, shape = flatten_values(values)
        alias = router.db_for_read(models.Model)
        connection = connections[alias]
        key = (connection.vendor, *shape)
        written = self._written.get(key)
        if written is None:
            written = self._written[key] = self._compose(values, alias)
        adapted = [store_value(value, connection) for value in flat]
        params = [
            constant if place is None else adapted[place]
            for place, constant in zip(written.places, written.params, strict=True)
        ]
        with connection.cursor() as cursor:
            cursor.execute(written.sql, params)
            rows = [list(row) for row in cursor.fetchall()]
        return [self._instance(written, row, connection, alias) for row in rows]

    def _compose(self, values: Sequence[Any], alias: str) -> Written:
        connection = connections[alias]
        count = 0

        def sample(value: Any) -> Any:
            nonlocal count
            if isinstance(value, (list, tuple)):
                return [sample(one) for one in value]
            if value is None or isinstance(value, bool):
                return value
            count += 1
            return sample_value(value, count)

        samples = [sample(value) for value in values]
        compiler = self.build(*samples).using(alias).query.get_compiler(using=alias)
        sql, params = compiler.as_sql()
        stands = [store_value(one, connection) for one in flatten_values(samples)[0]]
        places = tuple(next((n for n, one in enumerate(stands) if same(one, param)), None) for param in params)
        if missing := [n for n in range(len(stands)) if n not in places]:
            raise ValueError(f"values {missing} of a prepared query are not parameters of it: {sql}")
        info = compiler.klass_info
        chosen = info["select_fields"]
        first, end = chosen[0], chosen[-1] + 1
        return Written(
            sql=sql,
            params=tuple(params),
            places=places,
            model=info["model"],
            names=[column[0].target.attname for column in compiler.select[first:end]],
            first=first,
            end=end,
            converters=[
                (place, functions, expression)
                for place, (functions, expression) in compiler.get_converters(
                    [column[0] for column in compiler.select]
                ).items()
            ],
            populators=get_related_populators(info, compiler.select, alias),  # type: ignore[call-arg]  # of Django 6
            annotations=dict(compiler.annotation_col_map),
        )

    def _instance(self, written: Written, row: list[Any], connection: Any, alias: str) -> Row:
        for place, functions, expression in written.converters:
            value = row[place]
            for function in functions:
                value = function(value, expression, connection)
            row[place] = value
        # As from_db() leaves it, which goes through all fields of the model for each row, deferred ones too.
        made: Any = written.model.__new__(written.model)
        made._state = ModelState()
        made._state.adding, made._state.db = False, alias
        made.__dict__.update(zip(written.names, row[written.first : written.end], strict=True))
        for populator in written.populators:
            populator.populate(row, made)
        for name, place in written.annotations.items():
            setattr(made, name, row[place])
        return made  # type: ignore[no-any-return]


def insert(row: models.Model) -> None:
    """Store a new row whose primary key is its own, as `save()` would; no signal is sent."""
    model, alias = type(row), router.db_for_write(type(row))
    connection = connections[alias]
    fields: list[Any] = list(model._meta.local_concrete_fields)
    key = (connection.vendor, model)
    if (sql := _statements.get(key)) is None:
        table, *columns = quote_names(connection, model, fields)
        places = ", ".join(["%s"] * len(columns))
        sql = _statements[key] = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
    written = [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]
    with transaction.mark_for_rollback_on_error(using=alias), connection.cursor() as cursor:
        cursor.execute(sql, written)
    row._state.adding, row._state.db = False, alias


def update(model: type[models.Model], where: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """`filter(**where).update(**values)`: how many rows there were. Each name is a field's, each value a plain one;
    of `where` none is None."""
    alias = router.db_for_write(model)
    connection = connections[alias]
    names = (*values, *where)
    fields: list[Any] = [model._meta.pk if name == "pk" else model._meta.get_field(name) for name in names]
    key = (connection.vendor, model, len(values), *names)
    if (sql := _statements.get(key)) is None:
        table, *columns = quote_names(connection, model, fields)
        equal = [f"{column} = %s" for column in columns]
        changes, conditions = ", ".join(equal[: len(values)]), " AND ".join(equal[len(values) :])
        sql = _statements[key] = f"UPDATE {table} SET {changes} WHERE {conditions}"  # noqa: S608
    given = [value.pk if isinstance(value, models.Model) else value for value in (*values.values(), *where.values())]
    written = [field.get_db_prep_save(value, connection) for field, value in zip(fields, given, strict=True)]
    with transaction.mark_for_rollback_on_error(using=alias), connection.cursor() as cursor:
        cursor.execute(sql, written)
        return int(cursor.rowcount)


def quote_names(connection: Any, model: type[models.Model], fields: Sequence[Any]) -> list[str]:
    """The names of the table and of these fields' columns, as SQL has them."""
    return [connection.ops.quote_name(name) for name in (model._meta.db_table, *(field.column for field in fields))]


_statements: dict[tuple[Any, ...], str] = {}


def flatten_values(values: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """The values one behind the other, lists opened; and what the SQL depends on: their kinds.

    >>> flatten_values(["a", ["b", "c"], None])
    (['a', 'b', 'c'], (<class 'str'>, (<class 'str'>, <class 'str'>), None))
    """
    flat: list[Any] = []
    shape: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            inner, kinds = flatten_values(value)
            flat += inner
            shape.append(kinds)
        elif value is None or isinstance(value, bool):
            shape.append(value)
        else:
            flat.append(value)
            shape.append(type(value))
    return flat, tuple(shape)


def sample_value(value: Any, number: int) -> Any:
    """A value of the same kind that stands nowhere else in the query."""
    if isinstance(value, str):
        return f"\ue000{number}\ue001"
    if isinstance(value, UUID):
        return UUID(int=(0xABCDEF << 96) + number)
    if isinstance(value, datetime):
        return EPOCH + timedelta(microseconds=number)
    if isinstance(value, int):
        return 1_900_000_000 + number
    raise TypeError(f"a prepared query takes text, UUIDs, numbers and moments, not {type(value).__name__}")


def store_value(value: Any, connection: Any) -> Any:
    """A value as this database takes it as a parameter."""
    if isinstance(value, UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return str(value) if isinstance(value, str) else value


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
