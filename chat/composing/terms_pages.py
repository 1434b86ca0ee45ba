"""Show and take the settings of a chat, and those of a person's new chats."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from chat.composing import terms
from chat.composing.defaults import ChatDefaults
from chat.models import Session
from chat.rendering.renderer import Renderer
from chat.tools import offering
from checkpoints.models import Checkpoint
from core.htmx import is_htmx

LONGEST = 4000
"""Characters of instructions: they take their place in the window with every reply."""

OFFERED = 50
"""How many checkpoints a chat may choose from, the newest."""


class TermsForm(forms.Form):
    """Validate a chat's settings; what is left empty is as usual."""

    instructions = forms.CharField(
        required=False,
        max_length=LONGEST,
        error_messages={
            "max_length": _("Instructions may have at most %(limit_value)d characters; these have %(show_value)d.")
        },
    )
    temperature = forms.FloatField(required=False, min_value=0, max_value=2)
    top_p = forms.FloatField(required=False, min_value=0.05, max_value=1)
    max_new_tokens = forms.IntegerField(required=False, min_value=16)
    checkpoint = forms.IntegerField(required=False)
    """By its number; none: the live one."""
    tools = forms.Field(required=False, widget=forms.SelectMultiple)
    """Those that the chat may use (chat.tools.servers.Tool.id)."""

    def __init__(self, *args: Any, user: User | AnonymousUser, **options: Any) -> None:
        super().__init__(*args, **options)
        self.user = user

    def clean_instructions(self) -> str:
        """Line ends as the model knows them: a form sends two characters for each."""
        return str(self.cleaned_data["instructions"]).replace("\r\n", "\n").strip()

    def clean_max_new_tokens(self) -> int | None:
        longest: int | None = self.cleaned_data["max_new_tokens"]
        window = Renderer.for_model(settings.MODEL).context_length
        if longest is not None and longest > window:
            raise forms.ValidationError(
                _("This model reads and writes at most %(window)d tokens at a time.") % {"window": window}
            )
        return longest

    def clean_checkpoint(self) -> Checkpoint | None:
        number = self.cleaned_data["checkpoint"]
        if number is None:
            return None
        found = terms.servable_to(self.user).filter(number=number).first()
        if found is None:
            raise forms.ValidationError(_("This checkpoint does not answer you. Choose one of the list."))
        return found

    def clean_tools(self) -> list[str]:
        """As they are chosen; what is offered no more is left out."""
        said = set(self.cleaned_data["tools"] or [])
        kept = [tool.id for tool in offering.on_offer() if tool.id in said] if said else []
        if len(kept) > offering.MOST:
            raise forms.ValidationError(_("A chat may use at most %(most)d tools.") % {"most": offering.MOST})
        return kept

    @property
    def sampling(self) -> dict[str, Any]:
        """What differs from the usual."""
        said = {name: self.cleaned_data[name] for name in terms.USUAL}
        return {name: value for name, value in said.items() if value is not None and value != terms.USUAL[name]}


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def chat_terms(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """The settings of one chat: in its head, or as a page of their own."""
    session = get_object_or_404(Session.objects.visible_to(request.user).select_related("checkpoint"), pk=pk, key=None)
    form = TermsForm(request.POST if request.method == "POST" else None, user=request.user)
    if form.is_bound and form.is_valid():
        said = {name: form.cleaned_data[name] for name in ("instructions", "tools")} | {"sampling": form.sampling}
        # A tool that is ticked no more is asked about again, should it be ticked once more.
        said["granted"] = [one for one in session.granted if one.rpartition("/")[0] in said["tools"]]
        Session.objects.filter(pk=session.pk).update(**said, checkpoint=form.cleaned_data["checkpoint"])
        return redirect("chat:session", session.pk)
    context = {"session": session, "standing": session, "action": reverse("chat:terms", args=[session.pk])}
    return show(request, form, context | {"checkpoints": offered_in(session, request.user)})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def default_terms(request: HttpRequest) -> HttpResponse:
    """The settings that this person's new chats begin with."""
    form = TermsForm(request.POST if request.method == "POST" else None, user=request.user)
    if form.is_bound and form.is_valid():
        said = {name: form.cleaned_data[name] for name in ("instructions", "tools")} | {"sampling": form.sampling}
        ChatDefaults.objects.update_or_create(user_id=cast(int, request.user.pk), defaults=said)
        return redirect("chat:new")
    context = {"standing": ChatDefaults.of(request.user), "action": reverse("chat:default-terms")}
    return show(request, form, context)


def show(request: HttpRequest, form: TermsForm, context: dict[str, Any]) -> HttpResponse:
    is_panel = is_htmx(request)
    template = "chat/composing/_terms.html" if is_panel else "chat/composing/terms.html"
    context |= {"form": form, "usual": terms.USUAL, "tools": offering.by_server(context["standing"], form.data)}
    return render(request, template, context, status=422 if form.errors else 200)


def offered_in(session: Session, user: User | AnonymousUser) -> list[Checkpoint]:
    """What this chat may be answered by: the newest, and the one that it asks for now."""
    found = list(terms.servable_to(user)[:OFFERED])
    chosen = session.checkpoint
    return found if chosen is None or chosen in found else [*found, chosen]
