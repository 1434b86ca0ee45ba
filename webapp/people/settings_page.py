"""Show a person's own settings."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

app_name = "settings"


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "people/settings.html")


urlpatterns = [path("settings/", home, name="home")]
