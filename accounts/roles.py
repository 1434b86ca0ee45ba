"""Decide what a person may do: the one place that every page, socket, key and command asks.

What is not known is refused: an account without a row is a talker's, a closed one may do nothing, and a right that is
not in RIGHTS raises.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.signals import post_save
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts import second_factors
from accounts.models import RANKS, Account, Role
from core.errors import TalkbackError

RIGHTS = {
    "talk": Role.TALKER,  # chat, teach, what is one's own
    "console": Role.REVIEWER,  # the overview, and what became of a turn
    "review": Role.REVIEWER,  # hints, rewards, the ledger, comparing judges and checkpoints
    "policies": Role.OPERATOR,  # what is accepted without a person; which judge counts
    "training": Role.OPERATOR,  # runs, recipe, schedule, lines
    "checkpoints": Role.OPERATOR,  # approve, try, roll back, storage
    "engines": Role.OPERATOR,
    "consent": Role.OPERATOR,  # what each person allows to be learned from
    "clients": Role.OPERATOR,
    "notices": Role.OPERATOR,
    "worlds": Role.OPERATOR,  # the attempts of all people's agents
    "people": Role.ADMINISTRATOR,  # accounts, roles, and the keys of all
    "database": Role.ADMINISTRATOR,
    "audit": Role.ADMINISTRATOR,
    "settings": Role.ADMINISTRATOR,
}
"""The least role that each right needs."""

WORDS = {
    Role.TALKER: gettext_lazy("talker"),
    Role.REVIEWER: gettext_lazy("reviewer"),
    Role.OPERATOR: gettext_lazy("operator"),
    Role.ADMINISTRATOR: gettext_lazy("administrator"),
}
"""Each role, as pages name it."""


class NotAllowed(PermissionDenied):
    """A page is closed to this person; the sentence says whom it is for, and is shown."""


class LastAdministrator(TalkbackError):
    """Without this person there would be no administrator left."""

    code, status = "last_administrator", 409


def kept_role(user: User) -> Role:
    """The role that a person's row names, also while their account is closed."""
    try:
        return Role(user.account.role)
    except (Account.DoesNotExist, ValueError):
        return Role.TALKER


def role_of(user: User | AnonymousUser) -> Role | None:
    """The role of a person now; None of a stranger, and of a closed account. Where a role demands a second factor, it
    is a talker's until there is one."""
    if not user.is_authenticated or not user.is_active:
        return None
    role = kept_role(user)
    if not user.is_staff or second_factors.is_missing(user, role):  # a console is closed by either of them
        return Role.TALKER
    return role


def named(words: str) -> list[Role]:
    """The roles that go by this name, in English or in the reader's language."""
    return [role for role, word in WORDS.items() if words.lower() in (role, str(word).lower())]


def may(user: User | AnonymousUser, what: str) -> bool:
    """Whether this person has the right `what`. Raises KeyError for a right that there is not."""
    least = RIGHTS[what]
    role = role_of(user)
    return role is not None and RANKS[role] >= RANKS[least]


def people_who_may(what: str) -> QuerySet[User]:
    """`may`, asked of the database."""
    least = RANKS[RIGHTS[what]]
    people = User.objects.filter(is_active=True)
    if least:
        people = people.filter(is_staff=True, account__role__in=[role for role in Role if RANKS[role] >= least])
    return people


@transaction.atomic
def give(user: User, role: Role) -> Role:
    """Give a person this role; returns the one before. Open pages hear of it by `User`'s signal.

    Raises LastAdministrator where no other person would be one."""
    account = lock(user)
    before = Role(account.role)
    if role != Role.ADMINISTRATOR:
        check_another(user)
    account.role = role
    account.save(update_fields=["role"])
    user.is_staff, user.is_superuser = role != Role.TALKER, role == Role.ADMINISTRATOR
    user.account = account
    user.save(update_fields=["is_staff", "is_superuser"])
    return before


def lock(user: User) -> Account:
    """This person's row, and those of all administrators: of two administrators who demote each other one is told no.
    Call it in a transaction."""
    Account.objects.get_or_create(user=user)
    rows = Account.objects.select_for_update().filter(Q(user=user) | Q(role=Role.ADMINISTRATOR)).order_by("pk")
    return next(row for row in rows if row.user_id == user.pk)


def check_another(user: User) -> None:
    """Raises LastAdministrator where this person is the only active administrator."""
    others = people_who_may("people").exclude(pk=user.pk)
    if may(User.objects.select_related("account").get(pk=user.pk), "people") and not others.exists():
        raise LastAdministrator(
            _("%(who)s is the only administrator: make another person one first, else there would be none.")
            % {"who": user}
        )


def note_born(sender: type[User], instance: User, created: bool, raw: bool = False, **kwargs: Any) -> None:
    """Give a new account its row. Who was made with a console, as by createsuperuser, is an administrator."""
    if created and not raw:
        role = Role.ADMINISTRATOR if instance.is_staff or instance.is_superuser else Role.TALKER
        Account.objects.get_or_create(user=instance, defaults={"role": role})


def connect() -> None:
    post_save.connect(note_born, sender=User, dispatch_uid="accounts.roles")
