"""SQLite is told how its rows lie."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection


@pytest.mark.database("sqlite")  # PostgreSQL looks at its rows by itself
@pytest.mark.django_db
def test_after_a_migrate_sqlite_knows_how_many_rows_an_index_finds():
    User.objects.bulk_create([User(username=f"person-{n}") for n in range(30)])
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT stat FROM sqlite_stat1 WHERE tbl = 'auth_user' AND idx IS NOT NULL")
        [(stat,)] = cursor.fetchall()
    assert stat == "30 1"  # rows, and how many of them have one name
