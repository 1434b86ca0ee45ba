"""Validate the feedback that a person gives on a page."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from feedback import reasons
from feedback.models import Feedback

LONGEST = 8000
"""Characters of a correction. Longer ones would not fit beside the reply in a small model's window."""

KINDS = [(kind, kind.label) for kind in (Feedback.Kind.THUMB, Feedback.Kind.REWRITE, Feedback.Kind.GUIDANCE)]
"""A test has a program to speak for it."""


class TagsField(forms.Field):
    """Any number of short words. None where the form does not speak of tags; an empty one says that there are none."""

    widget = forms.SelectMultiple

    def clean(self, value: list[str] | None) -> list[str] | None:
        try:
            return reasons.tidy_tags(value) if value else None
        except ValueError as error:
            words = str(error)
            raise forms.ValidationError(f"{words[:1].upper()}{words[1:]}.") from error


class FeedbackForm(forms.Form):
    """Validate one thumb with its reasons, or one correction. An empty correction takes the standing one back, and so
    does thumb 0."""

    kind = forms.ChoiceField(choices=KINDS)
    value = forms.TypedChoiceField(choices=[("1", "up"), ("-1", "down"), ("0", "none")], coerce=int, required=False)
    tags = TagsField(required=False)
    text = forms.CharField(
        required=False,
        max_length=LONGEST,
        error_messages={
            "max_length": _("A correction may have at most %(limit_value)d characters; this has %(show_value)d.")
        },
    )

    def clean_text(self) -> str:
        """Line ends as the model knows them: a form sends two characters for each."""
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("kind") == Feedback.Kind.THUMB:
            if cleaned.get("value") in (None, ""):
                raise forms.ValidationError(_("A thumb is up (1), down (-1) or taken back (0)."))
            cleaned["text"] = cleaned.get("text", "").strip() if "text" in self.data else None
        else:
            cleaned["value"], cleaned["tags"] = 0, None
        return cleaned


class MarkForm(forms.Form):
    """Validate a mark on one stretch of a reply: good (1), bad (-1), or no mark from now on (0)."""

    start = forms.IntegerField(min_value=0)
    end = forms.IntegerField(min_value=1)
    value = forms.TypedChoiceField(choices=[("1", "good"), ("-1", "bad"), ("0", "none")], coerce=int)
    words = forms.CharField(required=False, strip=False)
    """What the person saw selected: it must be what stands there."""
    plain = forms.BooleanField(required=False)
    """Counted in the reply as a text box holds it, every line end one character."""


def unfold(text: str, at: int) -> int:
    """Where character `at` of `text` as a text box holds it stands in `text` itself.

    >>> unfold("a\\r\\nb", 2), unfold("ab", 1)
    (3, 1)
    """
    place = 0
    for _character in range(at):
        place += 2 if text.startswith("\r\n", place) else 1
    return place
