"""Take a person's word on what of theirs may be learned from."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from core.errors import TalkbackError
from core.htmx import is_htmx
from privacy import consent, membership
from training.models import Sample
from training.provenance import taints
from webapp.console.doors import person
from webapp.people.own_data.decided import note, tell


@require_POST
@login_required
def default(request: HttpRequest) -> HttpResponse:
    """How this person's new conversations and keys begin."""
    learns = request.POST.get("learns") == "on"
    consent.set_default(person(request), learns)
    note(request, "new chats may teach" if learns else "new chats may not teach")
    on = _("From now on, new chats and new keys begin on the record.")
    off = _("From now on, new chats and new keys begin off the record.")
    tell(request, on if learns else off, _("What there is already, keys too, stays as it is."))
    return redirect("privacy:home")


@require_POST
@login_required
def pool(request: HttpRequest) -> HttpResponse:
    """Whether what a person with a line of their own gives may teach the shared model as well."""
    may = request.POST.get("pools") == "on"
    try:
        taken = membership.pool(person(request), may=may)
        note(
            request,
            "teaches the shared line too" if may else "teaches their own line alone",
        )
    except TalkbackError as refusal:
        messages.error(request, str(refusal), extra_tags="bad")
        return redirect("privacy:home")
    if may:
        tell(
            request, _("From now on what you say of replies teaches the shared model too. You can take that back here.")
        )
    else:
        said = [_("What you give teaches your own line alone.")]
        if taken:
            went = ngettext(
                "%(n)s lesson that waited there is put away.", "%(n)s lessons that waited there are put away.", taken
            )
            said.append(went % {"n": taken})
        learned = membership.pooled(person(request)).filter(status=Sample.Status.TRAINED)
        tainted = taints.learned_in(set(learned.values_list("run", flat=True)) - {None})
        names = ", ".join(str(one) for one in tainted)
        if tainted:
            stays = _("What was learned is in the weights of %(names)s: those who run this Talkback are told.")
            said.append(stays % {"names": names})
        tell(request, *said)
    return redirect("privacy:home")


@require_POST
@login_required
def session(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Put a conversation on or off the record."""
    found = get_object_or_404(Session.objects.visible_to(request.user), pk=pk)
    learns = request.POST.get("learns") == "on"
    taken = consent.set_session(found, learns)
    note(request, "chat put on the record" if learns else "chat taken off the record")
    if learns:
        tell(
            request,
            _("On the record: what is said from now on may be learned from. What was said meanwhile stays out."),
        )
    else:
        tell(request, _("Off the record: nothing said here is learned from."), taken.sentences)
    return redirect("privacy:home" if request.POST.get("back") == "privacy" else reverse("chat:session", args=[pk]))


@require_POST
@login_required
def turn(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Put one message and its reply on or off the record."""
    found = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session"), pk=pk)
    learns = request.POST.get("learns") == "on"
    try:
        said, status = consent.set_turn(found, learns).sentences, 200
    except TalkbackError as refusal:
        said, status = str(refusal), refusal.status
    if not is_htmx(request):
        if said:
            tell(request, said)
        return redirect("chat:session", pk=found.session_id)
    return render(request, "chat/_record.html", {"turn": found, "said": said}, status=status)


@require_POST
@login_required
def key(request: HttpRequest, pk: int) -> HttpResponse:
    """Let what comes through a key be learned from, or serve it only."""
    found = get_object_or_404(ApiKey.objects.visible_to(request.user).select_related("user"), pk=pk)
    learns = request.POST.get("learns") == "on"
    taken = consent.set_key(found, learns)
    note(request, "key may teach" if learns else "key is served only", about=str(found))
    if learns:
        tell(request, _("“%(key)s”: what comes through it from now on may be learned from.") % {"key": found.name})
    else:
        only = _("“%(key)s” is served only: nothing that came through it, or will, is learned from.")
        tell(request, only % {"key": found.name}, taken.sentences)
    return redirect("privacy:home" if request.POST.get("back") == "privacy" else "connect:keys")


@require_POST
@login_required
def everything_off(request: HttpRequest) -> HttpResponse:
    """Take every conversation of this person off the record, and have new ones begin so."""
    user = person(request)
    consent.set_default(user, False)
    note(request, "everything taken off the record")
    ApiKey.objects.filter(user=user).update(learns=False)  # what comes through them begins new conversations too
    Session.objects.in_bin(user).update(was_learning=False)  # what is taken back stays off the record too
    taken = [consent.set_session(one, False) for one in Session.objects.visible_to(user).filter(learns=True)]
    learned = sum(one.learned for one in taken)
    waited = sum(one.waiting for one in taken)
    went = ngettext("%(n)s lesson that waited went.", "%(n)s lessons that waited went.", waited) % {"n": waited}
    said = [_("Everything is off the record."), went]
    if learned:
        left = ngettext(
            "%(n)s reply had been learned from: see below.", "%(n)s replies had been learned from: see below.", learned
        )
        said.append(left % {"n": learned})
    tell(request, *said)
    return redirect("privacy:home")
