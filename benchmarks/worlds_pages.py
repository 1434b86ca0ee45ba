"""How fast the pages of worlds are with many attempts: python -m benchmarks.worlds_pages [--episodes 10000] [--json]

Each page is asked for 40 times through Django's own client, on a SQLite of its own that holds so many attempts with
all their steps: milliseconds until the whole page is there, by the clock and of a processor. Where others are at work
on the machine only the second says something of the page. Fails where one page in twenty takes a processor longer than
300.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from core import pipes

AIM_MS = 300.0
ROUNDS = 40


class Counter:
    """Counts the queries that pass through it."""

    number = 0

    def __call__(self, execute, sql, params, many, context):
        self.number += 1
        return execute(sql, params, many, context)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds_pages", description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", help="a DATA_DIR in which the rows stay, to be looked at")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(said.keep or made)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ |= {"DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        os.environ.setdefault("SECRET_KEY", "of-a-yardstick")
        figures = _measure(said.episodes, said.rounds)
    if said.json:
        print(json.dumps(figures))
    else:
        print(f"{said.episodes} attempts, {said.rounds} times each; milliseconds")
        print(f"{'page':<28}{'median':>8}{'p95':>8}{'processor':>11}{'its p95':>9}{'queries':>9}{'KB':>6}")
        for name, row in figures.items():
            clock = f"{row['median']:>8.0f}{row['p95']:>8.0f}{row['cpu_median']:>11.0f}{row['cpu_p95']:>9.0f}"
            print(f"{name:<28}{clock}{row['queries']:>9.0f}{row['kb']:>6.0f}")
    slow = [name for name, row in figures.items() if row["cpu_p95"] > AIM_MS]
    if slow:
        print(f"Slower than {AIM_MS:.0f} ms: {', '.join(slow)}.", file=sys.stderr)
    return bool(slow)


def _measure(episodes: int, rounds: int) -> dict[str, dict[str, float]]:
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    from benchmarks.played_episodes import seed
    from episodes.models import Episode

    call_command("migrate", verbosity=0)
    person, is_new = get_user_model().objects.get_or_create(username="ana", defaults={"is_staff": True})
    if is_new:
        seed(person, episodes)
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(person)
    figures = {}
    for name, path in _paths(Episode).items():
        asked = Counter()
        with connection.execute_wrapper(asked):
            page = browser.get(path)
        if page.status_code != 200:
            raise SystemExit(f"{path} answered {page.status_code}")
        clock, cpu = zip(*(_timed(lambda path=path: browser.get(path)) for _ in range(rounds)), strict=True)
        figures[name] = {
            "median": statistics.median(clock),
            "p95": statistics.quantiles(clock, n=20)[-1],
            "cpu_median": statistics.median(cpu),
            "cpu_p95": statistics.quantiles(cpu, n=20)[-1],
            "queries": asked.number,
            "kb": len(page.content) / 1024,
        }
    return figures


def _paths(episodes) -> dict[str, str]:
    """The pages, each where it has the most to do."""
    failed = episodes.objects.filter(ending="failed").order_by("-created_at").select_related("group").first()
    old = episodes.objects.order_by("created_at")[episodes.objects.count() // 10].pk
    task = f"world=till&task={failed.group.task}"
    return {
        "worlds": "/worlds/",
        "attempts": "/worlds/attempts/",
        "attempts, the oldest": f"/worlds/attempts/?before={old}",
        "attempts of one task": f"/worlds/attempts/?{task}",
        "attempts, narrowed": "/worlds/attempts/?world=till&split=heldout&checkpoint=1&ending=failed",
        "attempts, cut off (none)": "/worlds/attempts/?ending=truncated",
        "tasks": "/worlds/tasks/?world=till",
        "groups": "/worlds/groups/",
        "groups that are short": "/worlds/groups/?state=short",
        "a group": f"/worlds/groups/{failed.group_id}/",
        "an attempt": f"/worlds/episodes/{failed.pk}/",
    }


def _timed(act) -> tuple[float, float]:
    """Milliseconds by the clock, and of a processor."""
    start, spent = time.perf_counter(), time.process_time()
    act()
    return (time.perf_counter() - start) * 1000, (time.process_time() - spent) * 1000


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main())
