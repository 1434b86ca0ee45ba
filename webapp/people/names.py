"""Check a new account's name and password: one form for an invitation, sign-up and what an administrator makes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import UsernameField
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_text_html, validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core.visible import name_fault


def check_name(name: str) -> str:
    """The name as it is kept. Raises ValidationError for one that is taken, or cannot be."""
    name = User.normalize_username(name).strip()
    if fault := name_fault(name):
        raise ValidationError(fault)
    User._meta.get_field("username").clean(name, None)
    if User.objects.filter(username__iexact=name).exists():
        raise ValidationError(_("The name %(name)s is taken: choose another.") % {"name": name})
    return name


class NewAccount(forms.Form):
    """A name, and a password twice."""

    username = UsernameField(
        label=gettext_lazy("Name"),
        max_length=150,
        help_text=gettext_lazy("Others see it. Letters, digits and @ . + - _"),
    )
    password = forms.CharField(
        label=gettext_lazy("Password"), strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    again = forms.CharField(
        label=gettext_lazy("The same password again"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})

    @property
    def rules(self) -> str:
        """What a password must be, as a list."""
        return password_validators_help_text_html()

    def clean_username(self) -> str:
        return check_name(self.cleaned_data["username"])

    def clean(self) -> dict[str, Any]:
        said = self.cleaned_data
        password = said.get("password", "")
        if password and said.get("again") is not None and password != said["again"]:
            self.add_error("again", _("The two passwords differ."))
        if password:
            try:
                validate_password(password, User(username=said.get("username", "")))
            except ValidationError as fault:
                self.add_error("password", fault)
        return said
