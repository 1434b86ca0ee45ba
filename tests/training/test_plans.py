"""What is asked of samples on every page of the console is found by an index, and not among all that were learned."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from training import batches
from training.config import Recipe


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL plans by how many rows there are: here are none")
def test_whether_a_person_wrote_since_the_last_run_is_looked_up_among_what_was_learned_since():
    with CaptureQueriesContext(connection) as asked:
        batches.fillings({"shared": Recipe()})
    (query,) = asked
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
        plan = [row[-1] for row in cursor.fetchall()]
    assert any("samples_learned_in_lines (line_id=? AND run_id>?)" in step for step in plan), plan
