"""Sign in by the OpenID Connect provider that the settings name; without one these pages are not there."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialAccount, SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts import deeds
from webapp.console.doors import for_signed_in, person
from webapp.people import signin

PROVIDER = "oidc"


class Verified(OpenIDConnectOAuth2Adapter):
    """Read who a person is from the provider's ID token, and check its signature even where TLS already vouches."""

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwtkit.verify_and_decode(
                credential=id_token,
                keys_url=self.openid_config["jwks_uri"],
                issuer=self.openid_config["issuer"],
                audience=app.client_id,
                lookup_kid=jwtkit.lookup_kid_jwk,
            )
        except (KeyError, ValueError) as error:
            raise OAuth2Error("The ID token cannot be checked.") from error
        if self.openid_config["issuer"].rstrip("/") != settings.OIDC_ISSUER:
            raise OAuth2Error("The provider calls itself by another name.")
        return claims

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> Any:
        if not kwargs["response"].get("id_token"):
            raise OAuth2Error("The provider sent no ID token.")
        return super().complete_login(request, app, token, **kwargs)


def check_there(provider_id: str) -> None:
    if not settings.OIDC_ISSUER or provider_id != PROVIDER:
        raise Http404


@require_GET
@never_cache
def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """To the provider. Who is signed in already connects their account with it (`?process=connect`)."""
    check_there(provider_id)
    response: HttpResponse = OAuth2LoginView.adapter_view(Verified(request, provider_id))(request)
    return response


@require_GET
@never_cache
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back from the provider: signed in, asked for a second factor, or refused."""
    check_there(provider_id)
    was = request.user.pk
    response: HttpResponse = OAuth2CallbackView.adapter_view(Verified(request, provider_id))(request)
    if request.user.is_authenticated and request.user.pk != was:
        signin.note("signed in by OpenID Connect", request, request.user)
        signin.remember(request, response)
    return response


@require_GET
def cancelled(request: HttpRequest) -> HttpResponse:
    messages.info(request, _("Signing in was cancelled."))
    return redirect("login")


@require_GET
@for_signed_in
def connections(request: HttpRequest) -> HttpResponse:
    """Where allauth leads after an account was connected."""
    return redirect("account:home")


@require_POST
@for_signed_in
def disconnect(request: HttpRequest) -> HttpResponse:
    """Sign in by the provider no more. Who has no password sets one first."""
    who = person(request)
    if not who.has_usable_password():
        messages.error(request, _("Set a password first: you could not sign in without one."), extra_tags="bad")
    elif SocialAccount.objects.filter(user=who).delete()[0]:
        deeds.note("people", "OpenID Connect disconnected", request=request, whom=who)
        messages.success(request, _("You sign in by your password alone now."), extra_tags="good")
    return redirect("account:home")


urlpatterns = [
    path("oidc/cancelled/", cancelled, name="socialaccount_login_cancelled"),
    path("oidc/connections/", connections, name="socialaccount_connections"),
    path("oidc/disconnect/", disconnect, name="oidc_disconnect"),
    path("oidc/<str:provider_id>/login/", login, name="openid_connect_login"),
    path("oidc/<str:provider_id>/callback/", callback, name="openid_connect_callback"),
]
