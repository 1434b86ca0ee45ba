"""What a person may say of a reply."""

from __future__ import annotations

from typing import Any

from django import forms

from feedback.models import Feedback

LONGEST = 8000
"""Characters of a correction. Longer ones would not fit beside the reply in a small model's window."""


class FeedbackForm(forms.Form):
    """One thumb, or one correction. An empty correction takes the standing one back, and so does thumb 0."""

    kind = forms.ChoiceField(choices=Feedback.Kind)
    value = forms.TypedChoiceField(choices=[("1", "up"), ("-1", "down"), ("0", "none")], coerce=int, required=False)
    text = forms.CharField(
        required=False,
        max_length=LONGEST,
        error_messages={
            "max_length": "A correction may have at most %(limit_value)d characters; this has %(show_value)d."
        },
    )

    def clean_text(self) -> str:
        """Line ends as the model knows them: a form sends two characters for each."""
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("kind") == Feedback.Kind.THUMB:
            if cleaned.get("value") in (None, ""):
                raise forms.ValidationError("A thumb is up (1), down (-1) or taken back (0).")
            cleaned["text"] = ""
        else:
            cleaned["value"] = 0
        return cleaned
