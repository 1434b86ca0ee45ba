"""Show operators the rows as they are, for reading alone: Django's admin without adding, changing and deleting.

No secret is in it, and no word of a conversation: a turn's own page shows those where they are on the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn
from django.db.models import BooleanField, Field, ForeignKey, JSONField, Model, QuerySet, TextField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from accounts.roles import may
from webapp.console.doors import needs

SECRET = {
    "account.emailaddress": {"email"},
    "account.emailconfirmation": {"key"},
    "accounts.device": {"session"},
    "accounts.invitation": {"digest"},
    "auth.user": {"password", "email"},
    "chat.apikey": {"digest"},
    "chat.folder": {"name"},
    "chat.savedprompt": {"name"},
    "chat.session": {"title", "external_id", "imported_as"},
    "chat.toolcall": {"call_id", "tool", "grant", "name"},
    "chat.toolserver": {"url"},
    "chat.turn": {"chain", "request_chain", "request_key", "completion_id"},
    "feedback.receipt": {"key", "body"},
    "judge.hint": {"evidence"},
    "judge.vote": {"evidence"},
    "socialaccount.socialaccount": {"uid"},
    "socialaccount.socialapp": {"secret", "key", "client_id"},
    "notifications.webhook": {"url", "secret"},
    "sessions.session": {"session_key", "session_data"},
}
"""Columns of short text that open something, or from which words could be guessed; by model."""

OPERATORS = {
    *("chat.clientrules", "judge.acceptance", "judge.measuring", "training.run", "training.runnote"),
    *("checkpoints.line", "checkpoints.checkpoint", "checkpoints.decision", "checkpoints.trial", "checkpoints.notice"),
    *("checkpoints.taint", "checkpoints.cleaning"),
}
"""Models whose long texts and JSON are operators' or the machine's own. Those of all others are people's words, or hold
them as tokens."""

UNUSED = {"admin.logentry"}
"""What is never written."""

LEFT_OUT = {"login", "logout", "password_change", "password_change_done", "autocomplete", "view_on_site"}
"""The admin's own addresses for signing in and the like: one signs in at Talkback's."""

COLUMNS = 8
"""How many columns a list shows."""


class RawSite(admin.AdminSite):
    """The rows behind the console's own door."""

    site_header = site_title = "Talkback: the database"
    index_title = "Every table, read only"
    empty_value_display = "–"

    def has_permission(self, request: HttpRequest) -> bool:
        return may(request.user, "database")

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """A page as the console shows one: for administrators, never cached, every character seen; and never a POST."""

        def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            response = view(request, *args, **kwargs)
            return response.render() if isinstance(response, TemplateResponse) else response

        return needs("database")(require_safe(shown))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        return [one for one in super().get_urls() if getattr(one, "name", None) not in LEFT_OUT]


class Rows(admin.ModelAdmin):  # type: ignore[type-arg]  # at run time it takes none
    """One model's rows, without the columns that are kept from view."""

    shown: tuple[Field[Any, Any], ...] = ()
    actions = None
    list_per_page = 50
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        hidden = set(self.opts.concrete_fields) - {*self.shown, self.opts.pk}
        return super().get_queryset(request).defer(*(field.name for field in hidden))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only what can be filtered by on the page: else an address could guess at what no page shows."""
        return lookup.split("__")[0] in self.list_filter

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return not isinstance(obj, SignIn)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        named = {"subtitle": f"{self.opts.verbose_name} {object_id}"}  # a chat calls itself by its title
        return super().change_view(request, object_id, form_url, named | (extra_context or {}))

    def get_urls(self) -> list[URLPattern]:
        return [one for one in super().get_urls() if str(one.name).endswith(("_changelist", "_change"))]


def is_shown(field: Field[Any, Any]) -> bool:
    """Whether a column may be seen: not a secret, and not people's words."""
    model = field.model._meta.label_lower
    if field.name in SECRET.get(model, ()):
        return False
    return model in OPERATORS or not isinstance(field, (TextField, JSONField))


def column(field: Field[Any, Any]) -> Any:
    """How a column is shown: another row by its key, since what a row calls itself may be a chat's title."""
    if not isinstance(field, ForeignKey) or field.related_model is User:
        return field.name
    to = field.related_model._meta

    @admin.display(description=str(field.verbose_name), ordering=field.attname)
    def linked(row: Model) -> str | None:
        key = getattr(row, field.attname)
        if key is None:
            return None
        url = reverse(f"admin:{to.app_label}_{to.model_name}_change", args=[key])
        return format_html('<a href="{}">{}</a>', url, key)

    linked.__name__ = f"{field.name}_key"
    return linked


def listed(model: type[Model]) -> dict[str, Any]:
    """What of a model its pages show, as the admin's options."""
    shown = tuple(field for field in model._meta.concrete_fields if is_shown(field))
    short = [field for field in shown if not isinstance(field, (TextField, JSONField))]
    columns = [column(field) for field in shown]
    options: dict[str, Any] = {
        "shown": shown,
        "fields": columns,
        "readonly_fields": columns,
        "list_display": [column(field) for field in short[:COLUMNS]],
        "list_filter": [field.name for field in short if field.choices or isinstance(field, BooleanField)],
        "list_select_related": [field.name for field in short if field.related_model is User],
        "ordering": ("-pk",),
    }
    if model is SignIn:  # its address would be the cookie that signs in
        options |= {"list_display_links": None, "ordering": ("-expire_date",)}
    return options


site = RawSite()
for model in apps.get_models():
    if model._meta.label_lower not in UNUSED:
        site.register(model, Rows, **listed(model))
