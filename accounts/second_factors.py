"""Say who must have a second factor, and who has one."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User

from accounts.models import RANKS, Role

FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
"""Recovery codes alone are none."""


def has(user: User) -> bool:
    return Authenticator.objects.filter(user=user, type__in=FACTORS).exists()


def is_demanded(role: Role) -> bool:
    """Whether TWO_FACTOR_FROM demands one of people with this role."""
    least = settings.TWO_FACTOR_FROM
    return bool(least) and RANKS[role] >= RANKS[Role(least)]


def is_missing(user: User, role: Role) -> bool:
    """Whether this person's role waits for a second factor."""
    return is_demanded(role) and not has(user)
