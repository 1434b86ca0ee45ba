"""Many keys as one parameter."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from core.among import Among

pytestmark = pytest.mark.django_db


def test_rows_are_found_by_many_keys_as_one_parameter():
    ana, ben, eva = (User.objects.create_user(name) for name in ("ana", "ben", "eva"))

    found = User.objects.filter(pk__in=Among([eva.pk, ana.pk, ana.pk, *range(10_000, 50_000)]))

    assert set(found) == {ana, eva}  # more keys than SQLite takes parameters
    assert len(found.query.sql_with_params()[1]) == 1
    assert not User.objects.filter(pk__in=Among([])).exists()
    assert set(User.objects.exclude(pk__in=Among([ben.pk]))) == {ana, eva}
