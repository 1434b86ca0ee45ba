"""No page makes more than twelve queries, and none makes more of them when there are twice as many rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.page_paths import addresses
from benchmarks.seeding.amounts import Amounts, shares
from benchmarks.seeding.whole import seed

MOST = 12

HALF = Amounts(turns=400, chats=20, checkpoints=20, people=12, episodes=96, deeds=60)
WHOLE = Amounts(turns=800, chats=40, checkpoints=40, people=24, episodes=192, deeds=120)


def counted(amounts: Amounts, *, may: dict[str, int]) -> dict[str, int]:
    """How many queries each page makes for the administrator, over so many rows, which are gone afterwards. Each that
    makes more than it may at first is asked for twice: some things are kept for a while, and whether they are is no
    matter of the rows."""
    with transaction.atomic():
        person = seed(amounts).administrator
        browser = Client()
        browser.force_login(person)
        found = dict(_count(browser, addresses(person), may))
        transaction.set_rollback(True)
    return found


def _count(browser: Client, pages: dict[str, str], may: dict[str, int]) -> Iterator[tuple[str, int]]:
    for name, path in pages.items():
        for _ in range(2):
            with CaptureQueriesContext(connection) as asked:
                answer = browser.get(path)
            if answer.status_code != 200 or len(asked) <= may.get(name, 0):
                break
        assert answer.status_code in (200, 302, 405), (path, answer.status_code)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            yield name, len(asked)


@pytest.fixture
def model(tiny_model, settings, tmp_path):
    settings.MODEL, settings.DATA_DIR = str(tiny_model), tmp_path


@pytest.mark.django_db
def test_no_page_makes_more_queries_over_twice_as_many_rows_nor_more_than_it_may(engine, model):
    half = counted(HALF, may={})
    whole = counted(WHOLE, may={name: min(n, MOST) for name, n in half.items()})
    assert len(whole) > 90
    grown = {name: (half[name], n) for name, n in whole.items() if name in half and n > half[name]}
    many = {name: n for name, n in whole.items() if n > MOST}
    assert (grown, many) == ({}, {})


def test_the_longest_chats_have_the_most_turns_and_none_is_empty():
    parts = shares(100_000, 1_000)
    assert sum(parts) == 100_000
    assert parts[0] > 700
    assert min(parts) > 0
