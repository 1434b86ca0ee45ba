"""A second factor beside the password: codes of an app (TOTP), passkeys, and codes to recover with.

The pages are django-allauth's views, with our templates, our doors and our audit log around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.account.views import reauthenticate
from allauth.mfa import signals
from allauth.mfa.base import views as base
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.cache import never_cache

from accounts import deeds, second_factors
from webapp.console.doors import for_signed_in, person
from webapp.people import signin

View = Callable[..., Any]

WORDS = {
    Authenticator.Type.TOTP: gettext_noop("codes of an app"),
    Authenticator.Type.WEBAUTHN: gettext_noop("passkey"),
    Authenticator.Type.RECOVERY_CODES: gettext_noop("recovery codes"),
}


def own(view: View) -> View:
    """A page of one's own account."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return rendered(view(request, *args, **kwargs))

    return for_signed_in(shown)


def guarded(view: View) -> View:
    """One that asks again that it is this person: who has nothing to say it with sets a password first."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        who = person(request)
        if not who.has_usable_password() and not second_factors.has(who):
            messages.warning(request, _("Set a password first: a second factor stands beside it."), extra_tags="warn")
            return redirect("account:home")
        return rendered(view(request, *args, **kwargs))

    return for_signed_in(shown)


def entrance(what: str) -> Callable[[View], View]:
    """A step of signing in: who is signed in by it is remembered and written into the audit log."""

    def guard(view: View) -> View:
        @wraps(view)
        def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            was = request.user.pk
            response = rendered(never_cache(view)(request, *args, **kwargs))
            if request.user.is_authenticated and request.user.pk != was:
                signin.note(what, request, request.user)
                signin.remember(request, response)
            return response

        return shown

    return guard


def rendered(response: Any) -> HttpResponse:
    """Our doors read what a page shows."""
    return response.render() if isinstance(response, TemplateResponse) else response


def note_change(verb: str) -> Callable[..., None]:
    def note(sender: Any, request: HttpRequest, user: User, authenticator: Authenticator, **kwargs: Any) -> None:
        deeds.note("sign-in", verb, request=request, whom=user, about=words(authenticator))

    return note


def note_failure(sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
    deeds.note("sign-in", "second factor failed", request=request, by=AnonymousUser(), whom=user, refused=True)


def words(authenticator: Authenticator | None) -> str:
    return WORDS[Authenticator.Type(authenticator.type)] if authenticator is not None else ""


CHANGES = {
    signals.authenticator_added: note_change("second factor added"),
    signals.authenticator_removed: note_change("second factor removed"),
    signals.authenticator_reset: note_change("second factor renewed"),
    signals.authentication_failed: note_failure,
}


def connect() -> None:
    for number, (signal, note) in enumerate(CHANGES.items()):
        signal.connect(note, weak=False, dispatch_uid=f"second factors {number}")


by_code = entrance("signed in with a second factor")
by_passkey = entrance("signed in with a passkey")

urlpatterns = [
    path("login/second/", by_code(base.authenticate), name="mfa_authenticate"),
    path("login/passkey/", by_passkey(webauthn.login_webauthn), name="mfa_login_webauthn"),
    path("account/confirm/", guarded(reauthenticate), name="account_reauthenticate"),
    path("account/confirm/code/", guarded(base.reauthenticate), name="mfa_reauthenticate"),
    path("account/confirm/passkey/", guarded(webauthn.reauthenticate_webauthn), name="mfa_reauthenticate_webauthn"),
    path("account/two-factor/", own(base.index), name="mfa_index"),
    path("account/two-factor/app/", guarded(totp.activate_totp), name="mfa_activate_totp"),
    path("account/two-factor/app/remove/", guarded(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path("account/two-factor/recovery/", guarded(recovery.view_recovery_codes), name="mfa_view_recovery_codes"),
    path(
        "account/two-factor/recovery/new/",
        guarded(recovery.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("account/two-factor/passkeys/", own(webauthn.list_webauthn), name="mfa_list_webauthn"),
    path("account/two-factor/passkeys/add/", guarded(webauthn.add_webauthn), name="mfa_add_webauthn"),
    path("account/two-factor/passkeys/<row:pk>/remove/", guarded(webauthn.remove_webauthn), name="mfa_remove_webauthn"),
]
