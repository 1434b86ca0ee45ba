"""Show webhooks with what came of their last messages; add, test and remove them."""

from __future__ import annotations

import uuid

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from webapp.console.doors import needs, person
from webapp.notifications import sending
from webapp.notifications.addresses import AddressRefused, resolve
from webapp.notifications.models import Announcement, Delivery, Event, Webhook

SHOWN = 5
"""How many of its latest messages a webhook shows."""


TOLD = {
    Event.CANDIDATE: _("a candidate waits for a yes"),
    Event.ROLLED_BACK: _("an earlier checkpoint answers again"),
    Event.STUCK: _("learning is stuck"),
    Event.DISK: _("the disk is filling up"),
}
"""Of what a webhook is told, within a sentence."""


class WebhookForm(forms.Form):
    url = forms.CharField(max_length=500, widget=forms.URLInput)
    events = forms.MultipleChoiceField(
        choices=Event.choices, error_messages={"required": _("Choose at least one event.")}
    )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        try:
            resolve(url)
        except AddressRefused as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return url


def page(request: HttpRequest, form: WebhookForm, made: Webhook | None = None, status: int = 200) -> HttpResponse:
    hooks = list(Webhook.objects.select_related("made_by"))
    latest: dict[int, list[Delivery]] = {hook.pk: [] for hook in hooks}
    for one in Delivery.objects.filter(webhook__isnull=False).select_related("announcement").order_by("-due_at")[:200]:
        mine = latest.get(one.webhook_id or 0, [])
        if len(mine) < SHOWN:
            mine.append(one)
    context = {
        "hooks": [(hook, [str(TOLD[Event(name)]) for name in hook.events], latest[hook.pk]) for hook in hooks],
        "events": Event.choices,
        "form": form,
        "made": made,
    }
    return render(request, "system/webhooks.html", context, status=status)


@needs("notices")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return page(request, WebhookForm(initial={"events": Event.values}))


@needs("notices")
@require_POST
def make(request: HttpRequest) -> HttpResponse:
    """Add one; its secret is shown on this answer alone."""
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return page(request, form, status=422)
    made = Webhook.objects.create(**form.cleaned_data, made_by=person(request))
    return page(request, WebhookForm(initial={"events": Event.values}), made)


@needs("notices")
@require_POST
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Post a message to it at once, and say what came of it."""
    hook = get_object_or_404(Webhook, pk=pk)
    said = {"event": "test", "text": "This is a test. Nothing has happened.", "path": request.path}
    announced = Announcement.objects.create(key=f"test {uuid.uuid4()}", **said)
    # Its one try is its last: the person is told at once, and presses again.
    sent = Delivery.objects.create(announcement=announced, webhook=hook, attempts=sending.ATTEMPTS - 1)
    done = sending.deliver(sent.pk)
    is_sent = done is not None and done.status == Delivery.Status.SENT
    said_of_it = done.answer if done else gettext("Another process sends it.")
    (messages.success if is_sent else messages.error)(
        request, f"{hook.url}: {gettext(said_of_it)}", extra_tags="good" if is_sent else "bad"
    )
    return redirect("console:webhooks")


@needs("notices")
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Webhook, pk=pk).delete()
    messages.success(request, gettext("The webhook is gone: nothing more is posted there."), extra_tags="good")
    return redirect("console:webhooks")


urls = [
    path("webhooks/", home, name="webhooks"),
    path("webhooks/make/", make, name="webhook_make"),
    path("webhooks/<row:pk>/test/", test, name="webhook_test"),
    path("webhooks/<row:pk>/remove/", remove, name="webhook_remove"),
]
