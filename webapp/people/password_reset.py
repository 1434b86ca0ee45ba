"""Set a new password by a link: one that an administrator made, or that was mailed to who asked for it."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import deeds
from accounts.languages import language_of
from accounts.link_tokens import LinkTokens
from core.brake import Brake, Rule
from core.network.addresses import network
from webapp.people import closing, mailing, signin

ASKED = Rule(free=5, first_s=60, most_s=3600, forget_s=24 * 3600)
"""Of one name, and of one address: each is a mail to a person who may not have asked for it."""
brake = Brake("password links")


class ResetTokens(LinkTokens):
    """Signed with SECRET_KEY over the password and the last sign-in: setting a password, or signing in, spends it."""

    key_salt = "webapp.people.password_reset"


tokens = ResetTokens()


def link_for(user: User) -> str:
    """A path that lets its reader set this person's password once, within PASSWORD_RESET_TIMEOUT seconds."""
    return reverse("reset", args=[tokens.token_for(user)])


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def reset(request: HttpRequest, token: str) -> HttpResponse:
    """The form; what it sets signs this person out everywhere, and in nowhere: they sign in with it."""
    with transaction.atomic():
        user = tokens.holder(token, lock=request.method == "POST")
        if user is None:
            response = render(request, "people/reset_closed.html", {"hours": hours()}, status=410)
            response._has_been_logged = True  # type: ignore[attr-defined]  # its path would be the link
            return response
        form: SetPasswordForm[User] = SetPasswordForm(user, request.POST if request.method == "POST" else None)
        if not form.is_valid():
            shown: dict[str, Any] = {"form": form, "who": user}
            return render(request, "people/reset.html", shown, status=422 if form.errors else 200)
        form.save()
        closing.sign_out(user)
    signin.note("password set by link", request, user)
    messages.success(request, _("Your new password is set. Sign in with it."), extra_tags="good")
    return redirect("login")


def hours() -> int:
    return round(settings.PASSWORD_RESET_TIMEOUT / 3600)


class Forgot(forms.Form):
    who = forms.CharField(label=gettext_lazy("Your name or e-mail address"), max_length=254)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def forgot(request: HttpRequest) -> HttpResponse:
    """Ask for a link by e-mail. The answer is the same whether there is such a person or not."""
    form = Forgot(request.POST if request.method == "POST" and mailing.is_set_up() else None, label_suffix="")
    shown: dict[str, Any] = {"form": form, "mails": mailing.is_set_up(), "hours": hours()}
    if not form.is_valid():
        return render(request, "people/forgot.html", shown, status=422 if form.errors else 200)
    who = form.cleaned_data["who"].strip()
    rules = {f"name {who.lower()}": ASKED, f"address {network(request.META.get('REMOTE_ADDR', ''))}": ASKED}
    counted = brake.count(settings.REDIS_URL, rules)  # each mail counts: none is forgiven
    if counted.wait_s:
        wait = _("Too many links were asked for. Wait %(time)s, then try again.")
        form.add_error(None, wait % {"time": signin.in_words(counted.wait_s)})
        return render(request, "people/forgot.html", shown, status=429)
    mailing.later(mail, who, f"{request.scheme}://{request.get_host()}")
    deeds.note("sign-in", "password link asked for", request=request)
    return render(request, "people/forgot.html", shown | {"sent": True})


@shared_task(name="webapp.mail_password_link")
def mail(who: str, address: str) -> int:
    """Send the link to each active person of this name or e-mail address who has one, in their own language;
    how many mails went. `address`: where the person who asked reached this Talkback."""
    people = User.objects.filter(is_active=True).exclude(email="")
    found = people.filter(username=who) | people.filter(email__iexact=who)
    number = 0
    for user in found.distinct()[:5]:
        link = address + link_for(user)
        with translation.override(language_of(user)):
            text = render_to_string("people/reset_mail.txt", {"who": user, "link": link, "hours": hours()})
            number += send_mail(_("Set a new password for Talkback"), text, None, [user.email])
    return number


urlpatterns = [
    path("forgot/", forgot, name="forgot"),
    path("reset/<str:token>", reset, name="reset"),
]
