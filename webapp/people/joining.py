"""Make an account by an invitation, or by signing up where this Talkback lets strangers do so."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import deeds, invitations
from accounts.invitations import InvitationClosed
from core.brake import Brake, Rule
from core.network.addresses import network
from webapp.people import signin
from webapp.people.names import NewAccount

SIGN_UPS = Rule(free=10, first_s=60, most_s=900, forget_s=3600)
"""Of one address, when strangers may sign up: behind it may be a whole school."""
brake = Brake("sign-up")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def join(request: HttpRequest, secret: str) -> HttpResponse:
    """The invitation's page: a name and a password make the account. Looking at it spends nothing."""
    try:
        invitation = invitations.find(secret)
    except InvitationClosed:
        return closed(request)
    form = NewAccount(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            user = invitations.accept(secret, form.cleaned_data["username"], form.cleaned_data["password"])
        except InvitationClosed:
            return closed(request)
        except IntegrityError:  # another person took the name in this very moment
            form.add_error("username", _("The name is taken: choose another."))
        else:
            verb = "joined by invitation"
            deeds.note("people", verb, request=request, by=user, whom=user, about=str(invitation))
            return welcome(request, user)
    shown = {"form": form, "invitation": invitation}
    return render(request, "people/join.html", shown, status=422 if form.errors else 200)


def closed(request: HttpRequest) -> HttpResponse:
    response = render(request, "people/invitation_closed.html", status=410)
    response._has_been_logged = True  # type: ignore[attr-defined]  # its path would be the link
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def sign_up(request: HttpRequest) -> HttpResponse:
    """A stranger makes themselves a talker's account. Closed unless SIGN_UP says otherwise."""
    if not settings.SIGN_UP:
        raise Http404
    form = NewAccount(request.POST if request.method == "POST" else None)
    if form.is_valid():
        rules = {f"address {network(request.META.get('REMOTE_ADDR', ''))}": SIGN_UPS}
        counted = brake.count(settings.REDIS_URL, rules)  # each account counts: none is forgiven
        if counted.wait_s:
            wait = _("Many accounts were made from your address. Wait %(time)s, then try again.")
            form.add_error(None, wait % {"time": signin.in_words(counted.wait_s)})
        else:
            user = User.objects.create_user(form.cleaned_data["username"], password=form.cleaned_data["password"])
            deeds.note("people", "signed up", request=request, by=user, whom=user)
            return welcome(request, user)
    return render(request, "people/join.html", {"form": form}, status=422 if form.errors else 200)


def welcome(request: HttpRequest, user: User) -> HttpResponse:
    """Sign the new person in."""
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
    response = HttpResponseRedirect(settings.LOGIN_REDIRECT_URL)
    signin.remember(request, response)
    return response


urlpatterns = [
    path("join/<str:secret>", join, name="join"),
    path("sign-up/", sign_up, name="sign_up"),
]
