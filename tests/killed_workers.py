"""Workers that die at any of their acts: at a statement to the database, before or after a question to an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

RECOVERS = ("SAVEPOINT", "RELEASE", "ROLLBACK")
"""What a database does by itself when the process that wrote is gone."""


class Killed(BaseException):
    """What no code of ours may catch, as nothing catches SIGKILL."""


class Fate:
    """The worker dies at its `at`-th act, and does nothing any more."""

    def __init__(self, at: int) -> None:
        self.left = at

    def act(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Killed

    @contextmanager
    def upon(self, engine: Any) -> Iterator[None]:
        def execute(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
            if not sql.startswith(RECOVERS):
                self.act()
            return execute(sql, params, many, context)

        def watched(ask: Callable[..., Any]) -> Callable[..., Any]:
            async def asked(*arguments: Any, **options: Any) -> Any:
                self.act()
                answer = await ask(*arguments, **options)
                self.act()
                return answer

            return asked

        kept = engine.generate, engine.score
        engine.generate, engine.score = watched(engine.generate), watched(engine.score)
        try:
            with connection.execute_wrapper(execute):
                yield
        finally:
            engine.generate, engine.score = kept
