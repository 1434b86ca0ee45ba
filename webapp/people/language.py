"""Keep which language a person reads, and give scripts their words in it."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import path
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET, require_POST
from django.views.i18n import JavaScriptCatalog

from accounts.languages import CODES, asked_for
from accounts.models import Account
from webapp.console.doors import needs, person

catalogue = JavaScriptCatalog.as_view(domain="djangojs")


@needs("talk")
@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Show pages in this language from now on; without a code as the browser asks. Another code is a 404."""
    code = request.POST.get("language", "")
    if code and code not in CODES:
        raise Http404("There is no such language here.")
    Account.objects.update_or_create(user=person(request), defaults={"language": code})
    with translation.override(code or asked_for(request.headers.get("Accept-Language", ""))):
        messages.success(request, _("Saved."), extra_tags="good")
    return redirect("settings:home")


@require_GET
@cache_control(max_age=300, private=True)
def words(request: HttpRequest, code: str) -> HttpResponseBase:
    """What scripts say, in this language."""
    if code not in CODES:
        raise Http404("There is no such language here.")
    with translation.override(code):
        return catalogue(request)


urlpatterns = [
    path("language/", choose, name="language"),
    path("words/<slug:code>.js", words, name="words"),
]
