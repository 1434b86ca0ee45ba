"""Show the glossary."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET

from webapp import glossary

app_name = "help"


@require_GET
@login_required
def home(request: HttpRequest) -> HttpResponse:
    return render(request, "people/glossary.html", {"parts": glossary.parts()})


urlpatterns = [path("help/glossary/", home, name="glossary")]
