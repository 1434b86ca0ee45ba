"""Show and make API keys: a person sees and makes their own, administrators see all."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts import deeds
from accounts.roles import may
from chat import limits
from chat.api.access import SCOPES
from chat.api.catalog import list_checkpoints
from chat.api_keys import ApiKey, usual_scopes
from chat.forms import check_name
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from webapp.console.doors import marked

ABOUT_SCOPES = {
    "chat": _("ask for replies"),
    "feedback": _("give thumbs and corrections, and read what became of a turn"),
    "episodes": _("have agents play tasks, and say how each attempt ended"),
    "admin": _("administer this Talkback; no route asks for it yet"),
}


PLAYER = {"name": "play", "scopes": ["chat", "episodes"]}
"""What a key is to be with which agents play (docs/reference/worlds.md)."""


class KeyForm(forms.Form):
    """What a new key is to be. Administration is offered to those who run this Talkback."""

    name = forms.CharField(
        max_length=80,
        validators=[check_name],
        label=_("Name"),
        error_messages=dict.fromkeys(("required", "max_length"), _("A key's name has 1 to 80 characters.")),
    )
    scopes = forms.MultipleChoiceField(label=_("Opens"), initial=usual_scopes, widget=forms.CheckboxSelectMultiple)
    learns = forms.BooleanField(
        label=_("Learn from what comes through it"), initial=True, required=False, help_text=_("Off: served only.")
    )
    checkpoint: forms.ModelChoiceField[Checkpoint] = forms.ModelChoiceField(
        label=_("Answered by"),
        queryset=None,
        to_field_name="number",
        required=False,
        empty_label=_("whatever is live"),
        help_text=_("A checkpoint named here answers, whatever is live."),
    )
    requests_per_minute = forms.IntegerField(
        label=_("Requests a minute"), min_value=1, max_value=1_000_000, required=False, help_text=_("Empty: no limit.")
    )
    tokens_per_day = forms.IntegerField(
        label=_("Tokens a day"),
        min_value=1,
        max_value=10**15,
        required=False,
        help_text=_("Prompts and replies together."),
    )
    days = forms.IntegerField(
        label=_("Expires after, in days"), min_value=1, max_value=36_500, required=False, help_text=_("Empty: never.")
    )

    once = forms.CharField(min_length=24, max_length=64, required=False, widget=forms.HiddenInput)
    """This form's own number: however often it is sent, it makes one key. Empty: each time another."""

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.user = user
        self.initial.setdefault("once", secrets.token_urlsafe(24))
        self.initial.setdefault("learns", Consent.by_default(user))
        offered = [scope for scope in SCOPES if scope != "admin" or may(user, "settings")]
        self.fields["scopes"].choices = [(scope, f"{scope}: {ABOUT_SCOPES[scope]}") for scope in offered]  # type: ignore[attr-defined]
        self.fields["checkpoint"].queryset = list_checkpoints(user).order_by("-number")  # type: ignore[attr-defined]

    def issue(self) -> tuple[ApiKey, str]:
        """The new key and its secret, which is known now and never again: empty where this form was sent before.
        The form must be valid."""
        terms = dict(self.cleaned_data)
        days, once = terms.pop("days"), terms.pop("once")
        terms["expires_at"] = timezone.now() + timedelta(days=days) if days else None
        # A browser that loads the answer again sends the form again. Its number gives the same secret, so that the
        # database itself, which holds each secret's digest once, refuses the second key.
        secret = secret_of(self.user, once) if once else ""
        try:
            with transaction.atomic():
                return ApiKey.objects.issue(self.user, terms.pop("name"), secret, **terms)
        except IntegrityError:
            if secret and (key := ApiKey.objects.find_by_secret(secret)):
                return key, ""
            raise


def secret_of(user: User, once: str) -> str:
    """256 bits that only this installation can work out."""
    mac = salted_hmac("talkback.key", f"{user.pk}:{once}", algorithm="sha256").digest()
    return f"tb-{urlsafe_b64encode(mac).decode().rstrip('=')}"


@require_GET
@login_required
@never_cache
def keys(request: HttpRequest) -> HttpResponse:
    """Every key this person may see, those that open something first."""
    rows = ApiKey.objects.visible_to(request.user).select_related("user", "checkpoint").order_by("-created_at")
    shown = list(rows)
    for key in shown:
        key.limits_in_words = limits_in_words(key)  # type: ignore[attr-defined]
    context = {
        "open": [key for key in shown if not key.why_closed],
        "closed": [key for key in shown if key.why_closed],
    }
    return marked(render(request, "system/keys.html", context))


@require_POST
@login_required
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = get_object_or_404(ApiKey.objects.visible_to(request.user).select_related("user"), pk=pk)
    key.revoke()
    deeds.note("key", "key revoked", request=request, whom=key.user, about=str(key))
    said = gettext("“%(name)s” is revoked: it opens nothing any more.") % {"name": key.name}
    messages.success(request, said, extra_tags="good")
    return redirect("connect:keys")


def limits_in_words(key: ApiKey) -> str:
    """What the key may ask for, and how much of today's is gone; empty without limits."""
    said = []
    if n := key.requests_per_minute:
        said.append(ngettext("%(n)s request a minute", "%(n)s requests a minute", n) % {"n": n})
    if key.tokens_per_day:
        spent, most = f"{limits.tokens_spent(key, timezone.now()):,}", f"{key.tokens_per_day:,}"
        said.append(gettext("%(part)s of %(whole)s tokens today") % {"part": spent, "whole": most})
    return ", ".join(said)
