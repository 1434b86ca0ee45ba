"""Roles: each includes those before it, what is not known is refused, and one administrator always stays."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.auth.models import AnonymousUser, User

from accounts import roles
from accounts.models import Account, Deed, DeedLocked, Role

pytestmark = pytest.mark.django_db


def person(name: str, role: Role) -> User:
    user = User.objects.create_user(name)
    roles.give(user, role)
    return User.objects.get(pk=user.pk)


@pytest.fixture(autouse=True)
def first(db):
    """An administrator who is there in any case."""
    return User.objects.create_user("first", is_staff=True, is_superuser=True)


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (Role.TALKER, {"talk"}),
        (Role.REVIEWER, {"talk", "console", "review"}),
        (
            Role.OPERATOR,
            {
                *("talk", "console", "review", "policies", "training", "checkpoints"),
                *("engines", "clients", "notices", "worlds", "consent"),
            },
        ),
        (Role.ADMINISTRATOR, set(roles.RIGHTS)),
    ],
)  # fmt: skip
def test_each_role_has_its_rights_and_those_before_it(role, rights):
    ana = person("ana", role)
    assert {what for what in roles.RIGHTS if roles.may(ana, what)} == rights
    assert {what for what in roles.RIGHTS if ana in roles.people_who_may(what)} == rights


def test_what_is_not_known_is_refused():
    ana = person("ana", Role.ADMINISTRATOR)
    assert not roles.may(AnonymousUser(), "talk")
    with pytest.raises(KeyError):
        roles.may(ana, "everything")
    ana.is_active = False
    assert not roles.may(ana, "talk")
    ana.is_active, ana.is_staff = True, False  # the console was closed to her by other means
    assert roles.role_of(ana) == Role.TALKER
    Account.objects.filter(user=ana).delete()
    assert roles.role_of(User.objects.get(pk=ana.pk)) == Role.TALKER
    ben = person("ben", Role.OPERATOR)
    Account.objects.filter(user=ben).update(role="emperor")
    assert roles.role_of(User.objects.get(pk=ben.pk)) == Role.TALKER


def test_an_account_that_is_made_with_a_console_is_an_administrator():
    assert roles.role_of(User.objects.create_superuser("ana")) == Role.ADMINISTRATOR
    assert roles.role_of(User.objects.create_user("ben")) == Role.TALKER


def test_the_last_administrator_cannot_be_demoted(first):
    with pytest.raises(roles.LastAdministrator, match="first is the only administrator"):
        roles.give(first, Role.OPERATOR)
    assert roles.role_of(User.objects.get(pk=first.pk)) == Role.ADMINISTRATOR
    closed = person("closed", Role.ADMINISTRATOR)
    User.objects.filter(pk=closed.pk).update(is_active=False)  # counts for none
    with pytest.raises(roles.LastAdministrator):
        roles.give(first, Role.OPERATOR)
    person("second", Role.ADMINISTRATOR)
    assert roles.give(first, Role.OPERATOR) == Role.ADMINISTRATOR


def test_accounts_from_before_get_their_roles():
    """Staff and superusers become administrators, all others talkers."""
    for name, fields in {"ana": {"is_staff": True}, "ben": {}, "root": {"is_superuser": True}}.items():
        User.objects.create_user(name, **fields)
    Account.objects.all().delete()
    importlib.import_module("accounts.migrations.0002_roles").give_roles(apps, SimpleNamespace())
    found = {user.username: roles.role_of(user) for user in User.objects.exclude(username="first")}
    assert found == {"ana": Role.ADMINISTRATOR, "ben": Role.TALKER, "root": Role.ADMINISTRATOR}


def test_the_audit_log_is_only_added_to(first):
    deed = Deed.objects.create(by=first, kind="people", verb="role changed")
    for change in (deed.save, deed.delete, Deed.objects.all().delete, lambda: Deed.objects.update(verb="nothing")):
        with pytest.raises(DeedLocked):
            change()
    assert Deed.objects.get().verb == "role changed"
