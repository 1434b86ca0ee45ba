"""Delete what a person said, show how far that is, and have it taken out of the weights."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.roles import may
from chat.models import Turn
from checkpoints import notices
from checkpoints.models import Checkpoint
from checkpoints.notice_rows import Notice
from privacy import erasures
from privacy.models import Erasure
from training.provenance import taints
from webapp.console.checkpoints import cleanings
from webapp.console.doors import person
from webapp.people.own_data.decided import note, tell

SURE = "delete"
"""What a person types who means it."""


@require_POST
@login_required
def delete(request: HttpRequest) -> HttpResponse:
    """Forget every conversation of this person. The page has asked, and said what stays in weights.

    Few of them are gone with this request; of many a worker deletes the rest, and the page says how far it is.
    """
    user = person(request)
    if request.POST.get("sure", "").strip().lower() != SURE:
        said = _("Nothing was deleted: type “%(sure)s” to say that you are sure.") % {"sure": SURE}
        messages.error(request, said, extra_tags="bad")
        return redirect("privacy:home")
    erasure = erasures.ask(user, revokes_keys=request.POST.get("keys") == "revoke")
    note(request, "all conversations deleted", about=str(erasure))
    erasures.go_on(erasure, slices=erasures.AT_ONCE)
    return redirect(f"{reverse('privacy:home')}#erasure")


@require_GET
@login_required
@never_cache
def erasing(request: HttpRequest) -> HttpResponse:
    """How far the deleting is."""
    return render(request, "privacy/_erasure.html", {"erasure": erasure_of(person(request))})


def erasure_of(user: User) -> dict[str, Any] | None:
    """The newest wish of this person to have everything deleted, as the page shows it."""
    row = Erasure.objects.filter(user=user).first()
    if row is None:
        return None
    gone = row.gone
    said, waited = gone.get("feedback", 0), gone.get("samples", 0)
    chats, replies = gone.get("conversations", 0), gone.get("replies", 0)
    what = [
        ngettext("%(n)s conversation", "%(n)s conversations", chats) % {"n": chats},
        ngettext("%(n)s reply", "%(n)s replies", replies) % {"n": replies},
    ]
    if said:
        what.append(ngettext("%(n)s thumb or correction", "%(n)s thumbs and corrections", said) % {"n": said})
    if waited:
        what.append(ngettext("%(n)s waiting lesson", "%(n)s waiting lessons", waited) % {"n": waited})
    tainted = Checkpoint.objects.filter(number__in=row.checkpoints).order_by("-number")
    return {
        "row": row,
        "is_done": row.status == Erasure.Status.DONE,
        "done": gone.get("conversations", 0),
        "total": max(row.total, gone.get("conversations", 0)),
        "what": _("%(first)s and %(last)s") % {"first": ", ".join(what[:-1]), "last": what[-1]},
        "keys": gone.get("keys", 0),
        "learned": gone.get("learned", 0),
        "badges": format_html_join(" ", '<span class="badge">{}</span>', ((one,) for one in tainted)),
        "wishes": taints.to_be_replaced(tainted) is not None,
    }


@require_POST
@login_required
def learn_again(request: HttpRequest) -> HttpResponse:
    """Have what this person took back be taken out of the weights: operators begin it, for others they are asked.
    `turn` names one reply; without it all of theirs that was deleted is meant."""
    user = person(request)
    back, tainted = reverse("privacy:home"), []
    if given := request.POST.get("turn"):
        turn = get_object_or_404(Turn.objects.visible_to(user), pk=uuid_of(given))
        back, tainted = reverse("chat:session", args=[turn.session_id]), taints.tainted_by(turn.pk)
    elif (row := Erasure.objects.filter(user=user).first()) is not None:
        tainted = list(Checkpoint.objects.filter(number__in=row.checkpoints).order_by("-number"))
    target = taints.to_be_replaced(tainted)
    if target is None:
        messages.error(request, _("Nothing of what you took back is in weights that could answer."), extra_tags="bad")
    elif may(user, "checkpoints"):
        return cleanings.begin(request, target)
    else:
        wished = taints.SAYS["wished"] % {"who": user, "checkpoint": target}
        text = f"{wished} {taints.SAYS['wished, then']}"
        notices.tell(f"wish {user.pk} {target.line_id}", text, level=Notice.Level.INFO, checkpoint=target)
        said = _("Those who run this Talkback read now that you want %(checkpoint)s learned again without it.")
        tell(request, said % {"checkpoint": target})
    return redirect(back)


def uuid_of(given: str) -> uuid.UUID:
    try:
        return uuid.UUID(given)
    except ValueError as error:
        raise Http404 from error
