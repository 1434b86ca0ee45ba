"""Sign in by a link that works once: how the administrator of a fresh installation gets in."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.link_tokens import LinkTokens
from webapp.people import signin

ADMINISTRATOR = "admin"


class EntryTokens(LinkTokens):
    """Signed with SECRET_KEY over the last sign-in, so that signing in spends every link made before it."""

    key_salt = "webapp.people.enter"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        last = user.last_login.isoformat() if user.last_login else ""
        return f"{user.pk}{user.password}{last}{user.is_active}{timestamp}"


tokens = EntryTokens()


def administrator() -> User:
    """The first administrator, made on the first call; it has no password until an operator gives it one."""
    user, born = User.objects.get_or_create(username=ADMINISTRATOR, defaults={"is_staff": True, "is_superuser": True})
    if born:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def link_for(user: User) -> str:
    """A path that signs `user` in once, within PASSWORD_RESET_TIMEOUT seconds."""
    return reverse("enter", args=[tokens.token_for(user)])


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def enter(request: HttpRequest, token: str) -> HttpResponse:
    """A page with one button, which spends the link: what previews a link asks for the page, and presses nothing. A
    spent, old or made-up link says how to get another."""
    if request.method == "HEAD":
        return HttpResponse()
    if request.method == "POST":
        return spend(request, token)
    user = tokens.holder(token)
    return spent(request) if user is None else render(request, "people/enter.html", {"who": user})


def spend(request: HttpRequest, token: str) -> HttpResponse:
    """Sign the link's person in and show the chat."""
    with transaction.atomic():  # the row is locked, so of two that spend one link only one gets in
        user = tokens.holder(token, lock=True)
        if user is None:
            return spent(request)
        login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
    signin.note("signed in with a link", request, user)
    response = HttpResponseRedirect(settings.LOGIN_REDIRECT_URL)
    signin.remember(request, response)
    return response


def spent(request: HttpRequest) -> HttpResponse:
    signin.log.info("a spent or made-up sign-in link was opened from %s", signin.address(request))
    lifetime = timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    response = render(request, "people/entry_spent.html", {"hours": round(lifetime.total_seconds() / 3600)}, status=410)
    response._has_been_logged = True  # type: ignore[attr-defined]  # just now, without the link
    return response


urlpatterns = [path("enter/<str:token>", enter, name="enter")]
