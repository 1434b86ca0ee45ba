"""Show administrators the people of this Talkback: add, invite, change a role, close, open and remove accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from accounts import deeds, invitations, roles, second_factors
from accounts.models import Deed, Invitation, Role
from chat.api_keys import ApiKey
from checkpoints.models import Line
from core.errors import TalkbackError
from webapp.console.doors import needs, person, said_aloud
from webapp.people import closing
from webapp.people.names import check_name
from webapp.people.password_reset import link_for

PAGE = 50
INVITATIONS = 20

ABOUT = {
    Role.TALKER: gettext_lazy("talks, teaches, and sees what is their own"),
    Role.REVIEWER: gettext_lazy("also decides on hints and rewards"),
    Role.OPERATOR: gettext_lazy("also runs the learning: recipe, runs, checkpoints, engines"),
    Role.ADMINISTRATOR: gettext_lazy("also says who the others are, and reads the audit log"),
}


def answer(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    """The list, as far as `q` narrows it, a page at a time by name."""
    wanted, after = request.GET.get("q", "").strip()[:150], request.GET.get("after", "")[:150]
    people = User.objects.select_related("account").order_by("username")
    if wanted:
        people = people.filter(Q(username__icontains=wanted) | Q(account__role__in=roles.named(wanted)))
    shown = list((people.filter(username__gt=after) if after else people)[: PAGE + 1])
    counts = User.objects.aggregate(all=Count("pk"), active=Count("pk", filter=Q(is_active=True)))
    context = {
        "people": shown[:PAGE],
        "more": shown[PAGE - 1].username if len(shown) > PAGE else "",
        "q": wanted,
        "counts": counts,
        "invitations": invitations.open_ones().select_related("made_by")[:INVITATIONS],
        "roles": ABOUT.items(),
        "days": invitations.DAYS,
        "most_days": invitations.MOST_DAYS,
    }
    return render(request, "people/people.html", context | more, status=status)


@needs("people")
@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    return answer(request)


@needs("people")
@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """A new account without a password; the page that answers is the only one that shows the link that sets one."""
    said, role = request.POST.get("name", ""), request.POST.get("role", Role.TALKER)
    try:
        name = check_name(said)
    except ValidationError as fault:
        return answer(request, 422, fault=" ".join(fault.messages), name=said[:150])
    if role not in Role.values:
        return answer(request, 422, fault=_("Choose a role."), name=name)
    user = User(username=name, email=request.POST.get("email", "").strip()[:254])
    user.set_unusable_password()
    user.save()
    roles.give(user, Role(role))
    deeds.note("people", "account made", request=request, whom=user, about=role)
    return answer(request, 201, made=user, link=request.build_absolute_uri(link_for(user)))


@needs("people")
@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """An invitation; the page that answers is the only one that ever shows its link."""
    days = request.POST.get("days", "")
    try:
        row, secret = invitations.invite(
            request.POST.get("role", ""),
            by=person(request),
            note=request.POST.get("note", ""),
            days=int(days) if days.isdecimal() and len(days) < 4 else 0,
        )
    except TalkbackError as fault:
        return answer(request, 422, invitation_fault=str(fault))
    deeds.note("people", "invitation made", request=request, about=f"{row}, {row.role}")
    return answer(request, 201, invited=row, link=request.build_absolute_uri(reverse("join", args=[secret])))


@needs("people")
@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Invitation, pk=pk)
    invitations.withdraw(row)
    deeds.note("people", "invitation withdrawn", request=request, about=str(row))
    messages.success(request, _("The invitation opens nothing any more."), extra_tags="good")
    return redirect("people:list")


def found(pk: int) -> User:
    return get_object_or_404(User.objects.select_related("account", "consent"), pk=pk)


def page(request: HttpRequest, who: User, **more: Any) -> HttpResponse:
    """One person: what they may do, where they are signed in, and what was decided about them."""
    context = {
        "who": who,
        "role": roles.kept_role(who),
        "roles": ABOUT.items(),
        "is_last": roles.may(who, "people") and not roles.people_who_may("people").exclude(pk=who.pk).exists(),
        "devices": who.devices.all()[:PAGE],
        "has_second": second_factors.has(who),
        "keys": ApiKey.objects.of_people().filter(user=who, revoked_at=None).count(),
        "line": Line.of(who),
        "learns": who.consent.learns if hasattr(who, "consent") else settings.LEARN_BY_DEFAULT,
        "deeds": Deed.objects.filter(Q(whom=who) | Q(by=who)).select_related("by", "whom").order_by("-at", "-pk")[:10],
    }
    return render(request, "people/person.html", context | more)


@needs("people")
@require_GET
def one(request: HttpRequest, pk: int) -> HttpResponse:
    return page(request, found(pk))


@needs("people")
@require_POST
def give_role(request: HttpRequest, pk: int) -> HttpResponse:
    who, role = found(pk), request.POST.get("role", "")
    if role not in Role.values:
        messages.error(request, _("Choose a role."), extra_tags="bad")
        return redirect("people:one", pk=pk)
    done = _("%(who)s: now %(role)s.") % {"who": who.get_username(), "role": roles.WORDS[Role(role)]}
    return decided(request, who, "role changed", lambda: f"{roles.give(who, Role(role))} to {role}", done)


@needs("people")
@require_POST
def deactivate(request: HttpRequest, pk: int) -> HttpResponse:
    who = found(pk)
    done = _("%(who)s: signed out and closed.") % {"who": who.get_username()}
    return decided(request, who, "account closed", lambda: closing.deactivate(who), done)


@needs("people")
@require_POST
def activate(request: HttpRequest, pk: int) -> HttpResponse:
    who = found(pk)
    done = _("%(who)s: open again.") % {"who": who.get_username()}
    return decided(request, who, "account opened", lambda: closing.activate(who), done)


def decided(request: HttpRequest, who: User, verb: str, act: Callable[[], str | None], done: str) -> HttpResponse:
    """Do it, write it into the audit log, and go back to the person's page, which says `done`."""
    about = said_aloud(request, lambda: act() or "")
    deeds.note("people", verb, request=request, whom=who, about=about or "", refused=about is None)
    if about is not None:
        messages.success(request, done, extra_tags="good")
    return redirect("people:list" if who.pk == person(request).pk else reverse("people:one", args=[who.pk]))


@needs("people")
@require_POST
def reset(request: HttpRequest, pk: int) -> HttpResponse:
    """A link by which this person sets a new password; the page that answers is the only one that shows it."""
    who = found(pk)
    deeds.note("people", "password link made", request=request, whom=who)
    return page(request, who, link=request.build_absolute_uri(link_for(who)))


@needs("people")
@require_POST
def sign_out(request: HttpRequest, pk: int) -> HttpResponse:
    who = found(pk)
    number = closing.sign_out(who)
    deeds.note("people", "signed out everywhere", request=request, whom=who, about=f"browsers: {number}")
    said = _("%(who)s is signed out in all browsers.") % {"who": who.get_username()}
    messages.success(request, said, extra_tags="good")
    return redirect("people:one", pk=pk)


@needs("people")
@require_POST
def remove_factors(request: HttpRequest, pk: int) -> HttpResponse:
    """Take away the second factors of a person who lost theirs: they sign in by the password alone, until the next."""
    who = found(pk)
    number = closing.remove_factors(who)
    deeds.note("people", "second factor removed", request=request, whom=who, refused=not number)
    said = _("%(who)s has no second factor now, and is signed out.") % {"who": who.get_username()}
    messages.success(request, said, extra_tags="good")
    return redirect("people:one", pk=pk)


@needs("people")
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """The account and all of its person's. The form has asked for the name, so that it is no slip."""
    who = found(pk)
    if request.POST.get("sure", "").strip() != who.get_username():
        said = _("Nothing was removed: type the person’s name to say that you are sure.")
        messages.error(request, said, extra_tags="bad")
        return redirect("people:one", pk=pk)
    name = who.get_username()
    gone = said_aloud(request, lambda: closing.remove(who))
    if gone is None:
        deeds.note("people", "account removed", request=request, whom=who, refused=True)
        return redirect("people:one", pk=pk)
    deeds.note("people", "account removed", request=request, whom=None if gone else who)
    if gone:
        done = _("%(who)s is removed, with all conversations.")
    else:
        done = _("%(who)s is closed, and is removed as soon as all conversations are.")
    messages.success(request, done % {"who": name}, extra_tags="good")
    return redirect("people:list")


app_name = "people"
urlpatterns = [
    path("", listed, name="list"),
    path("add/", add, name="add"),
    path("invite/", invite, name="invite"),
    path("invitations/<row:pk>/withdraw/", withdraw, name="withdraw"),
    path("<row:pk>/", one, name="one"),
    path("<row:pk>/role/", give_role, name="role"),
    path("<row:pk>/deactivate/", deactivate, name="deactivate"),
    path("<row:pk>/activate/", activate, name="activate"),
    path("<row:pk>/reset/", reset, name="reset"),
    path("<row:pk>/sign-out/", sign_out, name="sign_out"),
    path("<row:pk>/second-factor/remove/", remove_factors, name="remove_factors"),
    path("<row:pk>/remove/", remove, name="remove"),
]
