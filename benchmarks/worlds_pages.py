"""How fast the pages of worlds are with many attempts: python -m benchmarks.worlds_pages [--episodes 10000] [--json]

Each page is asked for 40 times through Django's own client, on a SQLite of its own that holds so many attempts with
all their steps. Milliseconds until the whole page is there. Fails where one in twenty takes longer than 300.
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds_pages", description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--keep", help="a DATA_DIR in which the rows stay, to be looked at")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(said.keep or made)
        os.environ |= {"DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        os.environ.setdefault("SECRET_KEY", "of-a-yardstick")
        figures = _measure(said.episodes, said.rounds)
    if said.json:
        print(json.dumps(figures))
    else:
        print(f"{said.episodes} attempts, {said.rounds} times each; milliseconds")
        print(f"{'page':<34}{'median':>8}{'p95':>8}{'queries':>9}{'KB':>7}")
        for name, row in figures.items():
            print(f"{name:<34}{row['median']:>8.0f}{row['p95']:>8.0f}{row['queries']:>9.0f}{row['kb']:>7.0f}")
    slow = [name for name, row in figures.items() if row["p95"] > AIM_MS]
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
    from django.test.utils import CaptureQueriesContext

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
        with CaptureQueriesContext(connection) as asked:
            page = browser.get(path)
        if page.status_code != 200:
            raise SystemExit(f"{path} answered {page.status_code}")
        took = [_timed(lambda path=path: browser.get(path)) for _ in range(rounds)]
        figures[name] = {
            "median": statistics.median(took),
            "p95": statistics.quantiles(took, n=20)[-1],
            "queries": len(asked),
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


def _timed(act) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    pipes.end_with_reader()
    sys.exit(main())
