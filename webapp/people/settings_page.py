"""Show a person's own settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.languages import chosen_by
from accounts.roles import may
from webapp.console.doors import needs, person
from webapp.notifications.models import Choice, Event, wanted_by

app_name = "settings"


class NoticesForm(forms.Form):
    """Where to write to, and of each event by which way it is told."""

    email = forms.EmailField(required=False)
    browser = forms.MultipleChoiceField(choices=Event.choices, required=False)
    by_email = forms.MultipleChoiceField(choices=Event.choices, required=False)

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if said.get("by_email") and not said.get("email") and "email" not in self.errors:
            self.add_error("email", _("Write your e-mail address, or choose no event by e-mail."))
        return said


def page(request: HttpRequest, form: NoticesForm | None = None, status: int = 200) -> HttpResponse:
    user = person(request)
    browser, email = (wanted_by(user, way) for way in ("browser", "email")) if may(user, "notices") else (set(), set())
    if form is not None:  # as the person left it
        browser, email = (set(request.POST.getlist(name)) for name in ("browser", "by_email"))
    rows = [(event, event.label, event in browser, event in email) for event in Event]
    shown = {"rows": rows, "form": form, "languages": settings.LANGUAGES, "language": chosen_by(user)}
    return render(request, "people/settings.html", shown, status=status)


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    return page(request)


@needs("notices")
@require_POST
def notices(request: HttpRequest) -> HttpResponse:
    """Keep how this person wants to hear of each event."""
    form = NoticesForm(request.POST)
    if not form.is_valid():
        return page(request, form, 422)
    user, said = person(request), form.cleaned_data
    with transaction.atomic():
        user.email = said["email"]
        user.save(update_fields=["email"])
        for event in Event.values:
            ways = {"browser": event in said["browser"], "email": event in said["by_email"]}
            Choice.objects.update_or_create(person=user, event=event, defaults=ways)
    messages.success(request, _("Saved."), extra_tags="good")
    return redirect("settings:home")


urlpatterns = [path("settings/", home, name="home"), path("settings/notices/", notices, name="notices")]
