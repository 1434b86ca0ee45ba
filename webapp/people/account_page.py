"""Settings of one's own account: name and e-mail, password, and the browsers in which one is signed in."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from accounts import deeds, devices, roles, second_factors
from accounts.models import Device
from webapp.console.doors import for_signed_in, person
from webapp.people import closing, mailing, signin

MOST = 50
"""Browsers that the page lists, newest first."""


class EmailForm(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes none
    class Meta:
        model = User
        fields = ("email",)


def page(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    who = person(request)
    context = {
        "who": who,
        "role": roles.kept_role(who),
        "email": EmailForm(instance=who, label_suffix=""),
        "password": password_form(who),
        "has_password": who.has_usable_password(),
        "mails": mailing.is_set_up(),
        "devices": who.devices.all()[:MOST],
        "here": request.session.session_key,
        "has_second": second_factors.has(who),
        "second_demanded": second_factors.is_demanded(roles.kept_role(who)),
        "oidc": settings.OIDC_ISSUER and settings.OIDC_NAME,
        "connected": bool(settings.OIDC_ISSUER) and SocialAccount.objects.filter(user=who).exists(),
    }
    return render(request, "people/account.html", context | more, status=status)


def password_form(who: User, said: Any = None) -> SetPasswordForm[User]:
    """Asks for the present password of who has one."""
    form = PasswordChangeForm if who.has_usable_password() else SetPasswordForm
    made: SetPasswordForm[User] = form(who, said)
    made.label_suffix = ""
    for field in made.fields.values():
        field.widget.attrs.pop("autofocus", None)  # the page begins with more than this form
    return made


@for_signed_in
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return page(request)


@for_signed_in
@require_POST
def email(request: HttpRequest) -> HttpResponse:
    form = EmailForm(request.POST, instance=User.objects.get(pk=person(request).pk), label_suffix="")
    if not form.is_valid():
        return page(request, 422, email=form)
    form.save()
    deeds.note("people", "e-mail address changed", request=request, whom=person(request))
    messages.success(request, _("Your e-mail address is saved."), extra_tags="good")
    return redirect("account:home")


@for_signed_in
@require_POST
def password(request: HttpRequest) -> HttpResponse:
    """A new password. All other browsers are signed out; guesses at the present one are slowed as sign-ins are."""
    who = person(request)
    form = password_form(User.objects.get(pk=who.pk), request.POST)
    try:
        with signin.attempt(request, who.get_username()):
            if "old_password" in form.errors:
                raise forms.ValidationError(_("The present password is another."))
    except signin.Wait as wait:
        form.add_error(None, wait)
        return page(request, wait.status, password=form)
    except forms.ValidationError:
        return page(request, 422, password=form)
    if not form.is_valid():
        return page(request, 422, password=form)
    user = form.save()
    update_session_auth_hash(request, user)
    devices.remember(request, user)
    closing.sign_out(user, but=request.session.session_key or "")
    deeds.note("sign-in", "password changed", request=request, whom=user)
    messages.success(request, _("Your new password is set. All other browsers are signed out."), extra_tags="good")
    return redirect("account:home")


@for_signed_in
@require_POST
def sign_out_one(request: HttpRequest, pk: int) -> HttpResponse:
    """End one session of one's own."""
    device = get_object_or_404(Device.objects.select_related("session"), pk=pk, user=person(request))
    session: Session = device.session
    deeds.note("sign-in", "signed out", request=request, whom=person(request), about=device.browser)
    session.delete()
    messages.success(request, _("That browser is signed out."), extra_tags="good")
    return redirect("account:home")


@for_signed_in
@require_POST
def sign_out_others(request: HttpRequest) -> HttpResponse:
    """End all sessions of one's own but this one."""
    number = closing.sign_out(person(request), but=request.session.session_key or "")
    about = f"browsers: {number}"
    deeds.note("sign-in", "signed out elsewhere", request=request, whom=person(request), about=about)
    messages.success(request, _("All other browsers are signed out."), extra_tags="good")
    return redirect("account:home")


app_name = "account"
urlpatterns = [
    path("", home, name="home"),
    path("email/", email, name="email"),
    path("password/", password, name="password"),
    path("devices/others/", sign_out_others, name="sign_out_others"),
    path("devices/<row:pk>/sign-out/", sign_out_one, name="sign_out"),
]
