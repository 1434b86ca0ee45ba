"""Which tests run on PostgreSQL, too."""

from __future__ import annotations

from django.apps import apps

from installation.places import ROOT
from tests import postgres


def test_what_is_named_to_run_on_postgresql_as_well_is_there():
    own = postgres.of_its_own(ROOT / "tests")
    assert {str(ROOT / "tests" / name) for name in postgres.ALSO} <= set(own)


def test_every_room_with_tables_is_tested_on_postgresql():
    rooms = {app.label for app in apps.get_app_configs() if app.path == str(ROOT / app.label)}
    assert {"checkpoints", "evaluation"} <= rooms
    assert rooms <= {*postgres.ROOMS, *postgres.PAGES}
