"""Show operators what each person allows to be learned from: no words of theirs, and nothing to change."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET

from chat.models import Session
from webapp.console.doors import needs

PAGE = 50
LONGEST = 150


@needs("consent")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """A page at a time by name, as far as `q` narrows it; the counts are of all people."""
    wanted, after = (request.GET.get(name, "").strip()[:LONGEST] for name in ("q", "after"))
    people = with_consent().select_related("account", "membership__line").order_by("username")
    people = people.filter(username__icontains=wanted) if wanted else people
    shown = list((people.filter(username__gt=after) if after else people)[: PAGE + 1])
    context = {
        "people": shown[:PAGE],
        "more": shown[PAGE - 1].username if len(shown) > PAGE else "",
        "q": wanted,
        "counts": counts(),
        "by_default": settings.LEARN_BY_DEFAULT,
    }
    return render(request, "people/consent.html", context)


def with_consent() -> QuerySet[User]:
    """Each person with `learns` (their new chats may teach), `said_at` (when they last said so, None: never) and `off`
    (how many of their chats are off the record)."""
    off = off_the_record().filter(user=OuterRef("pk")).order_by().values("user").annotate(n=Count("pk")).values("n")
    return User.objects.annotate(
        learns=Coalesce(F("consent__learns"), Value(settings.LEARN_BY_DEFAULT)),
        said_at=F("consent__changed_at"),
        off=Coalesce(Subquery(off), 0),
    )


def counts() -> dict[str, int]:
    """Of all people: how many there are, whose new chats teach, and who lets a line of their own teach the shared one
    too; and how many chats are off the record, as each person's own page counts them."""
    found = with_consent().aggregate(
        all=Count("pk"),
        teaching=Count("pk", filter=Q(learns=True)),
        pooling=Count("pk", filter=Q(membership__pools=True)),
    )
    return found | {"off": off_the_record().count()}


def off_the_record() -> QuerySet[Session]:
    """Conversations that nothing is learned from, without those in the bin and those of attempts."""
    return Session.objects.filter(learns=False, deleted_at=None, episode=None)


app_name = "consent"
urlpatterns = [path("", home, name="home")]
