"""Approve, hold, release, reject or roll back a checkpoint from its page."""

from __future__ import annotations

import time
from collections.abc import Callable

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from checkpoints import approvals, promotion
from checkpoints.models import Checkpoint, Decision, Line
from gpu_workers.errors import EngineUnavailable
from training.provenance import discards
from webapp.console.doors import needs, numbered, person, said_aloud

Deed = Callable[..., None]


@needs("checkpoints")
@require_POST
def approve(request: HttpRequest, number: int) -> HttpResponse:
    """A person's yes, and after the last one the swap. Should this process end in between, the pipeline does it."""
    candidate = get_object_or_404(Checkpoint, number=number)
    by, reason = person(request), request.POST.get("reason", "").strip()

    def go_live() -> Checkpoint | None:
        if not approvals.approve(candidate, by=by, reason=reason):
            messages.success(request, _("Yours is the first yes of two: another person says the second."), "good")
            return None
        try:
            return async_to_sync(promotion.promote)(candidate, by=by)
        except EngineUnavailable as away:
            said = f"{_('Approved; it goes live once the engine is back.')} {away}"
            messages.warning(request, said, extra_tags="warn")
            return None

    if live := said_aloud(request, go_live):
        said = _("%(checkpoint)s is live: it writes every new reply.") % {"checkpoint": live}
        messages.success(request, said, extra_tags="good")
    return redirect("console:checkpoint", number=number)


def decided(deed: Deed, sentence: str | Promise) -> Callable[..., HttpResponse]:
    """A view for one deed that takes a reason; the sentence says what came of `%(checkpoint)s`."""

    @needs("checkpoints")
    @require_POST
    def view(request: HttpRequest, number: int) -> HttpResponse:
        checkpoint = get_object_or_404(Checkpoint, number=number)

        def act() -> bool:
            deed(checkpoint, by=person(request), reason=request.POST.get("reason", ""))
            return True

        if said_aloud(request, act):
            messages.success(request, str(sentence) % {"checkpoint": checkpoint}, extra_tags="good")
        return redirect("console:checkpoint", number=number)

    return view


@needs("checkpoints")
@require_POST
def roll_back(request: HttpRequest) -> HttpResponse:
    """Back to `to`, or to what was live before, in `line`; `instead_of` is what this person saw live. With `set_aside`,
    what the one that is left has served teaches nothing."""
    to, seen = (numbered(request.POST.get(name, "")) for name in ("to", "instead_of"))
    line = request.POST.get("line", "")
    if line:
        get_object_or_404(Line, name=line, retired_at=None)
    began = time.monotonic()
    act = async_to_sync(promotion.roll_back)
    live = said_aloud(
        request,
        lambda: act(
            to=to,
            by=person(request),
            reason=request.POST.get("reason", "").strip(),
            instead_of=seen,
            line=line or None,
            set_aside=discards.set_aside if "set_aside" in request.POST else None,
        ),
    )
    if live:
        said = _("%(checkpoint)s is live again: it writes the next reply. That took %(seconds)s s.") % {
            "checkpoint": live,
            "seconds": f"{time.monotonic() - began:.1f}",
        }
        put_away = Decision.objects.filter(verb=Decision.Verb.SET_ASIDE, checkpoint=seen).first() if seen else None
        if put_away and "set_aside" in request.POST:
            aside = _("Of what %(checkpoint)s served was set aside: %(what)s")
            said += " " + aside % {"checkpoint": seen, "what": put_away.reason}
        messages.success(request, said, extra_tags="good")
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "console:board")


@needs("checkpoints")
@require_POST
def set_aside(request: HttpRequest, number: int) -> HttpResponse:
    """Have nothing learn from what this checkpoint served."""
    served = get_object_or_404(Checkpoint, number=number)
    count = discards.set_aside(served, by=person(request), reason=request.POST.get("reason", "").strip())
    said = ngettext(
        "%(n)s sample set aside: no run learns from them.", "%(n)s samples set aside: no run learns from them.", count
    )
    messages.success(request, said % {"n": count}, extra_tags="good")
    return redirect("console:checkpoint", number=number)


urls = [
    path("roll-back/", roll_back, name="roll_back"),
    path("checkpoints/<row:number>/approve/", approve, name="approve"),
    path(
        "checkpoints/<row:number>/reject/",
        decided(approvals.reject, gettext_lazy("%(checkpoint)s is rejected: it will not answer.")),
        name="reject",
    ),
    path(
        "checkpoints/<row:number>/hold/",
        decided(approvals.hold, gettext_lazy("%(checkpoint)s is on hold: it cannot be approved until it is released.")),
        name="hold",
    ),
    path(
        "checkpoints/<row:number>/release/",
        decided(approvals.release, gettext_lazy("%(checkpoint)s waits for a yes again.")),
        name="release",
    ),
    path("checkpoints/<row:number>/set-aside/", set_aside, name="set_aside"),
]
