"""Validate a folder's name."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from chat.forms import check_name


class FolderForm(forms.Form):
    name = forms.CharField(
        max_length=60,
        validators=[check_name],
        error_messages={
            "required": _("A folder needs a name."),
            "max_length": _("A folder’s name has at most %(limit_value)d characters."),
        },
    )
