"""Show whether all that a reply and a lesson need answers, as /readyz says it."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from webapp import health
from webapp.console.doors import needs


@needs("engines")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    checks = async_to_sync(health.look)()
    missing = sum(1 for check in checks.values() if not check.ok)
    return render(
        request,
        "system/health.html",
        {"checks": [(gettext(name), check) for name, check in checks.items()], "missing": missing},
    )


urls = [path("health/", home, name="health")]
