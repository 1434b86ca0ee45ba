"""Show, add, change and remove saved prompts, and list them for the composer."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.roles import may
from chat.composing.prompts import LONGEST, MOST, SavedPrompt
from chat.forms import check_name


class PromptForm(forms.Form):
    """Validate a prompt: a name of its own, a text, and whether it is shared, which is for staff to say."""

    name = forms.CharField(
        max_length=60,
        validators=[check_name],
        error_messages={
            "required": _("A prompt needs a name."),
            "max_length": _("A prompt’s name has at most %(limit_value)d characters."),
        },
    )
    text = forms.CharField(
        max_length=LONGEST,
        error_messages={
            "required": _("A prompt needs a text."),
            "max_length": _("A prompt may have at most %(limit_value)d characters; this one has %(show_value)d."),
        },
    )
    is_shared = forms.BooleanField(required=False)

    def __init__(self, *args: Any, user: User | AnonymousUser, prompt: SavedPrompt | None = None, **options: Any):
        super().__init__(*args, **options)
        self.user, self.prompt = user, prompt

    def clean_text(self) -> str:
        """Line ends as the model knows them: a form sends two characters for each."""
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    def clean_is_shared(self) -> bool:
        return bool(self.cleaned_data["is_shared"]) and may(self.user, "policies")

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        owner = self.prompt.user_id if self.prompt else self.user.pk
        alike = SavedPrompt.objects.filter(user=owner, name__iexact=name)
        if (alike.exclude(pk=self.prompt.pk) if self.prompt else alike).exists():
            raise ValidationError(_("There is a prompt of this name already: change that one, or choose another name."))
        return name

    def clean(self) -> dict[str, Any]:
        if self.prompt is None and SavedPrompt.objects.filter(user=self.user.pk).count() >= MOST:
            raise ValidationError(
                _("You have %(most)d prompts already: remove one that you do not use.") % {"most": MOST}
            )
        return super().clean() or {}

    def save(self) -> None:
        """Write the prompt as it was given."""
        fields = {name: self.cleaned_data[name] for name in ("name", "text", "is_shared")}
        fields["changed_at"] = timezone.now()
        if self.prompt is None:
            SavedPrompt.objects.create(user_id=cast(int, self.user.pk), **fields)
        else:
            SavedPrompt.objects.filter(pk=self.prompt.pk).update(**fields)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def prompts(request: HttpRequest) -> HttpResponse:
    """A person's prompts and the shared ones, with a form for another."""
    form = PromptForm(request.POST if request.method == "POST" else None, user=request.user)
    if form.is_bound and form.is_valid():
        form.save()
        messages.success(request, _("Saved. Type / in an empty message to use it."), extra_tags="good")
        return redirect("chat:prompts")
    return show(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def prompt(request: HttpRequest, pk: int) -> HttpResponse:
    """Change one prompt."""
    found = get_object_or_404(SavedPrompt.objects.changeable_by(request.user), pk=pk)
    given = {"name": found.name, "text": found.text, "is_shared": found.is_shared}
    form = PromptForm(request.POST if request.method == "POST" else given, user=request.user, prompt=found)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, _("Saved."), extra_tags="good")
        return redirect("chat:prompts")
    return show(request, form, found)


def show(request: HttpRequest, form: PromptForm, changed: SavedPrompt | None = None) -> HttpResponse:
    found = SavedPrompt.objects.visible_to(request.user)
    context = {
        "form": form,
        "changed": changed,
        "own": [one for one in found if not one.is_shared],
        "shared": [one for one in found if one.is_shared],
        "may_share": may(request.user, "policies"),
    }
    is_refused = request.method == "POST" and bool(form.errors)
    return render(request, "chat/composing/prompts.html", context, status=422 if is_refused else 200)


@require_POST
@login_required
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(SavedPrompt.objects.changeable_by(request.user), pk=pk).delete()
    messages.success(request, _("Removed."), extra_tags="good")
    return redirect("chat:prompts")


@require_GET
@login_required
@never_cache
def pick(request: HttpRequest) -> HttpResponse:
    """The prompts that this person can use, as the composer lists them: one's own first."""
    found = sorted(SavedPrompt.objects.visible_to(request.user), key=lambda one: one.is_shared)
    return render(request, "chat/composing/_pick.html", {"prompts": found})
