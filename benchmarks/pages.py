"""How fast every page is with many rows: python -m benchmarks.pages [--seed] [--data FOLDER] [--json]

With --seed it first fills an empty database with 100,000 turns, 1,000 chats, 500 checkpoints and what goes with them:
a SQLite of its own in FOLDER, or --database (PostgreSQL: an empty one). Then each page that the urlconf names is asked
for as an administrator and as a talker, through Django's own client, without Redis and without an engine: milliseconds
until it is there, by the clock and of a processor, its queries and the size of its HTML. Fails where a page takes more
than 150 ms of a processor in one of twenty times, 12 queries or 200 kB.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from core import pipes

MOST_MS, MOST_QUERIES, MOST_KB = 150.0, 12, 200.0
ROUNDS = 20
MOST_SPENT_MS = 10_000.0
"""A page that has taken so long in all is not asked for again."""


@dataclass
class Figures:
    """What one page took."""

    role: str
    page: str
    status: int
    median: float
    p95: float
    cpu_p95: float
    queries: int
    kb: float

    @property
    def misses(self) -> list[str]:
        return [
            said
            for said, beyond in (
                (f"{self.cpu_p95:.0f} ms", self.cpu_p95 > MOST_MS),
                (f"{self.queries} queries", self.queries > MOST_QUERIES),
                (f"{self.kb:.0f} kB", self.kb > MOST_KB),
                (f"answers {self.status}", self.status not in (200, 405)),
            )
            if beyond
        ]


class Counter:
    """Keeps the queries that pass through it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, execute, sql, params, many, context):
        self.asked.append(sql)
        return execute(sql, params, many, context)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--seed", action="store_true", help="fill the database first; it must be empty")
    parser.add_argument("--data", help="a folder of its own, which is kept; without one it is seeded and thrown away")
    parser.add_argument("--database", default="", help="a database of its own, as DATABASE_URL names one")
    for name, usual in (("turns", 100_000), ("chats", 1_000), ("checkpoints", 500)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="pages whose route has this in its name")
    parser.add_argument("--queries", action="store_true", help="show the queries of each page")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(said.data or made)
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, said.database)
        if said.seed or not said.data:
            seed(said.turns, said.chats, said.checkpoints)
        figures = measure(said.rounds, said.only, shows_queries=said.queries)
    return report(figures, as_json=said.json)


def prepare(folder: Path, database: str) -> None:
    """Set Django up over this folder, whatever the environment or an installation's own settings say."""
    os.environ |= {
        "DATA_DIR": str(folder),
        "ENV_FILE": os.devnull,
        "DATABASE_URL": database or f"sqlite:///{folder}/talkback.sqlite3",
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "SECRET_KEY": "of-a-yardstick",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "ENGINE_URL": "http://127.0.0.1:1",
        "MODEL": str(folder / "models" / "tiny"),
    }
    import django

    django.setup()
    logging.disable(logging.CRITICAL)  # what is no page would say so each time


def seed(turns: int, chats: int, checkpoints: int) -> None:
    """Fill the database. Refuses one in which there is a person already."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from benchmarks.seeding.amounts import Amounts
    from benchmarks.seeding.whole import seed
    from benchmarks.tiny import write_tiny_model

    began = time.monotonic()
    call_command("migrate", verbosity=0)
    if User.objects.exists():
        raise SystemExit("There are people in this database: only an empty one is seeded.")
    write_tiny_model(Path(settings.MODEL))
    seed(Amounts(turns=turns, chats=chats, checkpoints=checkpoints))
    call_command("migrate", verbosity=0)  # as each start does: the database looks at its rows
    print(f"seeded in {time.monotonic() - began:.0f} s", file=sys.stderr)


def measure(rounds: int, only: str, *, shows_queries: bool = False) -> list[Figures]:
    """Ask for each page as an administrator and as a talker, so many times after a first one."""
    from django.contrib.auth.models import User
    from django.test import Client

    from benchmarks.page_paths import addresses

    figures = []
    for role, name in (("administrator", "ana"), ("talker", "ben")):
        person = User.objects.get(username=name)
        browser = Client(HTTP_HOST="localhost")
        browser.force_login(person)
        for page, path in addresses(person).items():
            if only in page:
                found = ask(browser, role, page, path, rounds, shows_queries=shows_queries)
                figures += [found] if found else []
                if found and found.misses:
                    print(role, page, *found.misses, sep="  ", file=sys.stderr, flush=True)
    return figures


def ask(browser, role: str, page: str, path: str, rounds: int, *, shows_queries: bool = False) -> Figures | None:
    """What this page takes; None of what is no page for this person: it is posted to, led away from, or closed."""
    from django.db import connection

    asked = Counter()
    first = browser.get(path)  # what is kept between requests is kept from now on
    if first.status_code in (301, 302, 403, 405) or not first.get("Content-Type", "").startswith("text/html"):
        return None
    with connection.execute_wrapper(asked):
        answer = browser.get(path)
    if shows_queries:
        print(f"-- {role} {page} {path}", *map(shorten, asked.asked), sep="\n   ")
    times = [_timed(lambda: browser.get(path))]
    while len(times) < rounds and sum(spent for spent, _ in times) < MOST_SPENT_MS:
        times.append(_timed(lambda: browser.get(path)))
    clock, cpu = zip(*times, strict=True)
    return Figures(
        role,
        page,
        answer.status_code,
        statistics.median(clock),
        _p95(clock),
        _p95(cpu),
        len(asked.asked),
        len(answer.content) / 1000,
    )


def shorten(sql: str) -> str:
    """A query without the columns that it asks for."""
    return re.sub(r"SELECT (?:DISTINCT )?[^()]*? FROM ", "SELECT … FROM ", sql).replace('"', "")[:400]


def _p95(values) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _timed(act) -> tuple[float, float]:
    """Milliseconds by the clock, and of a processor."""
    start, spent = time.perf_counter(), time.process_time()
    act()
    return (time.perf_counter() - start) * 1000, (time.process_time() - spent) * 1000


def report(figures: list[Figures], *, as_json: bool) -> int:
    """Print them, the slowest last; how many are beyond a limit."""
    missed = [one for one in figures if one.misses]
    if as_json:
        print(json.dumps([asdict(one) for one in figures]))
    else:
        print(f"{'page':<62}{'median':>8}{'p95':>8}{'its cpu':>9}{'queries':>9}{'kB':>6}")
        for one in sorted(figures, key=lambda one: one.cpu_p95):
            row = f"{one.median:>8.0f}{one.p95:>8.0f}{one.cpu_p95:>9.0f}{one.queries:>9}{one.kb:>6.0f}"
            print(f"{one.role + ' ' + one.page:<62}{row}  {', '.join(one.misses)}".rstrip())
    print(f"{len(figures) - len(missed)} of {len(figures)} pages are within the limits.", file=sys.stderr)
    return min(len(missed), 100)


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main())
