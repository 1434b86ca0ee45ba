"""Connect a client: a key, what to paste, a test, and a light that says whether what comes can teach."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts import deeds
from chat.api_keys import ApiKey
from chat.rendering.renderer import Renderer
from chat.rendering.template import ModelUnreadable
from webapp import trying
from webapp.connecting import PLACEHOLDER, Place, blocks
from webapp.console import key_pages as keys
from webapp.console.doors import person
from webapp.console.light import light as lit


def place(address: str, secret: str = PLACEHOLDER) -> Place:
    """This installation as a client finds it. A model that cannot be read is assumed to be small."""
    try:
        renderer = Renderer.for_model(settings.MODEL)
    except ModelUnreadable:
        return Place(address, secret, settings.MODEL_NAME)
    return Place(address, secret, settings.MODEL_NAME, renderer.context_length, renderer.thinks)


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """The newest key that opens something; how to make one where there is none."""
    own = ApiKey.objects.of_people().filter(user=request.user).select_related("user", "checkpoint")
    key = next((key for key in own.order_by("-created_at") if not key.why_closed), None)
    return page(request, key) if key else page(request, None, form=keys.KeyForm(person(request)))


@require_GET
@login_required
@never_cache
def with_key(request: HttpRequest, pk: int) -> HttpResponse:
    return page(request, found(request, pk))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    """A new key. The page that answers is the only one that ever shows its secret; the same form makes no second."""
    wanted = keys.PLAYER if request.GET.get("for") == "worlds" else {}
    form = keys.KeyForm(person(request), request.POST if request.method == "POST" else None, initial=dict(wanted))
    if request.method != "POST":
        return page(request, None, form=form)
    if not form.is_valid():
        return page(request, None, form=form, status=422)
    key, secret = form.issue()
    if not secret:
        return redirect("connect:key", key.pk)
    deeds.note("key", "key made", request=request, whom=key.user, about=f"{key}, for {', '.join(key.scopes)}")
    response = page(request, key, secret=secret)
    response["HX-Push-Url"] = reverse("connect:key", args=[key.pk])
    return response


@require_GET
@login_required
@never_cache
def light(request: HttpRequest, pk: int) -> HttpResponse:
    """The light alone; 204 while it is as the page has it (`seen`)."""
    context = light_of(found(request, pk))
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    return render(request, "system/_connection_light.html", context)


@require_POST
@login_required
@never_cache
async def try_out(request: HttpRequest, pk: int) -> HttpResponse:
    """One token through the real door, with a key of one's own."""
    user = await request.auser()
    key = await sync_to_async(get_object_or_404)(ApiKey.objects.of_people().filter(user=user), pk=pk)
    trial = await trying.try_out(key)
    return await sync_to_async(render)(request, "system/_test_request.html", {"trial": trial})


def page(
    request: HttpRequest, key: ApiKey | None, *, secret: str = "", form: keys.KeyForm | None = None, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {"key": key, "secret": secret, "form": form}
    if key:
        there = place(f"{request.scheme}://{request.get_host()}", secret or PLACEHOLDER)
        others = ApiKey.objects.visible_to(request.user).select_related("user", "checkpoint").order_by("-created_at")
        context |= light_of(key) | {
            "place": there,
            "blocks": blocks(there),
            "keys": [other for other in others if not other.why_closed or other.pk == key.pk],
            "limits": keys.limits_in_words(key),
        }
    return render(request, "system/connect.html", context, status=status)


def light_of(key: ApiKey) -> dict[str, Any]:
    """What the light's fragment is drawn from. `seen` names how it looks."""
    shown = lit(key)
    return {"key": key, "light": shown, "seen": sha256(repr(shown).encode()).hexdigest()[:16]}


def found(request: HttpRequest, pk: int) -> ApiKey:
    keys = ApiKey.objects.visible_to(request.user).select_related("user", "checkpoint")
    return get_object_or_404(keys, pk=pk)


app_name = "connect"
urlpatterns = [
    path("", home, name="home"),
    path("new/", new, name="new"),
    path("keys/", keys.keys, name="keys"),
    path("<row:pk>/", with_key, name="key"),
    path("<row:pk>/light/", light, name="light"),
    path("<row:pk>/try/", try_out, name="try"),
    path("<row:pk>/revoke/", keys.revoke, name="revoke"),
]
