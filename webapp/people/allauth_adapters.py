"""Tell django-allauth how accounts are here: who gets one by OpenID Connect, and how second factors are kept.

Passwords, sign-in links, invitations and roles are ours; allauth does second factors and OpenID Connect.
"""

from __future__ import annotations

from typing import Any

import requests
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from accounts import deeds, roles
from accounts.models import RANKS, Role
from core.sealed import seal, unseal

FACTORS = "second factors"
"""What their secrets are sealed for."""


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Accounts are made by our own pages."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """What the server says, which knows the proxies that it may believe."""
        return str(request.META.get("REMOTE_ADDR", "")) or "unknown"

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        messages.error(request, _("This account is closed. An administrator can open it again."), extra_tags="bad")
        return redirect("login")


class SecondFactorAdapter(DefaultMFAAdapter):
    def get_totp_issuer(self) -> str:
        return "Talkback"

    def encrypt(self, text: str) -> str:
        """What the database holds of a secret opens nothing without SECRET_KEY."""
        return seal(text, FACTORS)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text, FACTORS)


class OpenIdAdapter(DefaultSocialAccountAdapter):
    """Let in who the provider of OIDC_ISSUER vouches for: by the domain of a verified address, or by a role."""

    def get_requests_session(self) -> requests.Session:
        session = super().get_requests_session()
        session.trust_env = False  # what is set up is spoken to, and no proxy between
        return session

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True  # pre_social_login has looked

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse who may not come in, and bring the role of who may up to date."""
        claims = claims_of(sociallogin)
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            return
        role = role_by_claims(claims)
        if role is None and not is_of_our_domain(claims) and not (sociallogin.is_existing and not settings.OIDC_ROLES):
            deeds.note("sign-in", "sign-in by OpenID Connect refused", request=request, refused=True)
            raise ImmediateHttpResponse(render(request, "people/oidc_refused.html", status=403))
        if sociallogin.is_existing and settings.OIDC_ROLES:
            give(request, sociallogin.user, role or Role.TALKER)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        user: User = super().save_user(request, sociallogin, form)
        roles.give(user, role_by_claims(claims_of(sociallogin)) or Role.TALKER)
        about = f"by OpenID Connect, {roles.kept_role(user)}"
        deeds.note("people", "account made", request=request, by=user, whom=user, about=about)
        return user


def give(request: HttpRequest, user: User, role: Role) -> None:
    """The role that the provider says; the last administrator stays one."""
    before = roles.kept_role(user)
    if before == role:
        return
    try:
        roles.give(user, role)
    except roles.LastAdministrator:
        return
    about = f"{before} to {role}, by OpenID Connect"
    deeds.note("people", "role changed", request=request, whom=user, about=about)


def claims_of(sociallogin: SocialLogin) -> dict[str, Any]:
    """What the provider's signed token says of this person."""
    data: dict[str, Any] = sociallogin.account.extra_data or {}
    token: dict[str, Any] = data.get("id_token") or data
    return token


def is_of_our_domain(claims: dict[str, Any]) -> bool:
    """Whether the provider has verified an address of one of OIDC_DOMAINS."""
    domain = str(claims.get("email", "")).rpartition("@")[2].lower()
    return claims.get("email_verified") is True and bool(domain) and domain in settings.OIDC_DOMAINS


def role_by_claims(claims: dict[str, Any]) -> Role | None:
    """The highest role that OIDC_ROLES gives for what the claim OIDC_ROLE_CLAIM holds; None for none.

    The claim is a text or a list of texts."""
    held = claims.get(settings.OIDC_ROLE_CLAIM, [])
    values = [held] if isinstance(held, str) else held if isinstance(held, list) else []
    found = [Role(settings.OIDC_ROLES[value]) for value in values if value in settings.OIDC_ROLES]
    return max(found, key=lambda role: RANKS[role], default=None)
