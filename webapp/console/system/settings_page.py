"""Show this installation's settings, which are changed on its machine and nowhere else."""

from __future__ import annotations

from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET

from webapp.console.doors import needs
from webapp.console.system.settings_source import Setting, known
from webapp.console.system.settings_values import value_of

LONGEST = 100


@needs("engines")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("q", "").strip()[:LONGEST]
    found = [value_of(one) for one in known() if matches(one, wanted)]
    groups = [(group, list(values)) for group, values in groupby(found, lambda one: one.setting.group)]
    changed = sum(1 for one in found if not one.is_default)
    context = {"q": wanted, "groups": groups, "found": len(found), "changed": changed}
    return render(request, "system/settings.html", context)


def matches(setting: Setting, wanted: str) -> bool:
    """Whether each word stands in its name, its part or its meaning. Values are not looked in: some are secret."""
    text = f"{setting.name} {setting.group} {setting.meaning}".casefold()
    return all(word in text for word in wanted.casefold().split())


urls = [path("settings/", home, name="settings")]
