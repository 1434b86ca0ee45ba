"""Validate what a person sends on a chat page: a message, a title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext_lazy as _

from chat.composing.files import TextFile, read_files
from chat.pictures.picture import Picture
from core.visible import name_fault

LONGEST = 20_000
"""Characters of one message; more than the small model's window, so the window's own sentence comes first."""


def check_name(name: str) -> None:
    """For the names of chats and keys: each character of one is seen. Raises ValidationError."""
    if fault := name_fault(name):
        raise ValidationError(fault)


class SeveralFiles(forms.FileInput):
    """A file input that gives all of its files."""

    allow_multiple_selected = True

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[UploadedFile]:
        return files.getlist(name) if hasattr(files, "getlist") else []


class EditForm(forms.Form):
    """Validate other words in place of a message that was sent."""

    text = forms.CharField(
        max_length=LONGEST,
        error_messages={
            "required": _("Write something first."),
            "max_length": _("A message may have at most %(limit_value)d characters; this one has %(show_value)d."),
        },
    )

    def clean_text(self) -> str:
        """Line ends as the model knows them: a form sends two characters for each."""
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")


class FilesField(forms.Field):
    """The files of a message, read."""

    widget = SeveralFiles

    def clean(self, value: Sequence[UploadedFile]) -> list[TextFile | Picture]:
        return read_files(value or ())


class MessageForm(EditForm):
    """Validate one message with its files, and the id by which a second sending is known."""

    attached = FilesField(required=False)

    message_id = forms.UUIDField(
        error_messages={"required": _("This page is out of date: reload it, then send again.")}
    )
    after = forms.UUIDField(required=False)
    """The turn that the page shows last; none where it shows none."""
    off_record = forms.CharField(required=False)
    """on or no; nothing where the page did not ask."""

    def clean_off_record(self) -> bool | None:
        """Whether a new conversation is to begin off the record; None: as this person's do."""
        return {"on": True, "no": False}.get(self.cleaned_data["off_record"])


class TitleForm(forms.Form):
    """Validate a chat's new name."""

    title = forms.CharField(
        max_length=120,
        validators=[check_name],
        error_messages={
            "required": _("A chat needs a name."),
            "max_length": _("A chat’s name has at most %(limit_value)d characters."),
        },
    )
