"""Show what checkpoints take of the disk, what stays and why, and what is deleted next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, Window
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from chat.pictures import keeping
from checkpoints.models import Checkpoint
from training.provenance import retention
from webapp.console.doors import needs, person, said_aloud

MOST_GONE = 40
"""How many of those that were let go of are listed, the newest."""

WIDTH = 1000
"""Of a bar, in its own units: it grows with the page."""


STRETCHES: Mapping[str, Promise] = {
    "stays": gettext_lazy("checkpoints that stay"),
    "goes": gettext_lazy("checkpoints that go next"),
    "other": gettext_lazy("everything else on it"),
    "free": gettext_lazy("free"),
}


@dataclass(frozen=True)
class Stretch:
    """A part of the disk's bar."""

    name: str
    said: str
    """Its name in words."""
    bytes: int
    x: float
    width: float


@needs("checkpoints")
@require_GET
def storage(request: HttpRequest) -> HttpResponse:
    stored = retention.plan()
    disk = retention.disk(stored)
    largest = max((one.bytes for one in stored), default=0) or 1
    gone = Checkpoint.objects.exclude(let_go_at=None).order_by("-let_go_at").annotate(of=Window(Count("*")))
    newest = list(gone[:MOST_GONE])
    context = {
        "rows": [(one, round(WIDTH * one.bytes / largest, 1)) for one in stored],
        "goes": [one for one in stored if one.goes],
        "disk": disk,
        "stretches": stretches(disk),
        "gone": newest,
        "gone_count": newest[0].of if newest else 0,
        "rules": rules(),
        "pictures": keeping.bytes_held(),
    }
    return render(request, "checkpoints/storage.html", context)


def stretches(disk: retention.Disk) -> list[Stretch]:
    """The disk from left to right: checkpoints that stay, those that go next, everything else, what is free."""
    shares = (
        ("stays", disk.used - disk.goes),
        ("goes", disk.goes),
        ("other", max(0, disk.total - disk.free - disk.used)),
        ("free", disk.free),
    )
    whole, x, found = sum(share for _, share in shares) or 1, 0.0, []
    for name, share in shares:
        width = WIDTH * share / whole
        found.append(Stretch(name, str(STRETCHES[name]), share, round(x, 2), round(width, 2)))
        x += width
    return found


def rules() -> list[str]:
    """What is kept, as this installation is set."""
    return [
        _(
            "What is live, what waits for a decision, what is on trial, and what the engine keeps warm for the way "
            "back."
        ),
        _("What is pinned, what a line began with, what a key asks for, and what a run or a cleaning goes on from."),
        _("The last %(number)s retired ones of each line (RETAIN_LAST).") % {"number": settings.RETAIN_LAST},
        _("Whatever retired less than %(days)s days ago (RETAIN_DAYS); rejected ones for %(rejected)s days.")
        % {"days": settings.RETAIN_DAYS, "rejected": min(settings.RETAIN_DAYS, retention.REJECTED_DAYS)},
    ]


@needs("checkpoints")
@require_POST
def pin(request: HttpRequest, number: int) -> HttpResponse:
    """Pin, or with `unpin` let the rules decide again."""
    shown = get_object_or_404(Checkpoint, number=number)
    by, reason = person(request), request.POST.get("reason", "")
    if "unpin" in request.POST:
        said_aloud(request, lambda: retention.unpin(shown, by=by, reason=reason))
    else:
        said_aloud(request, lambda: retention.pin(shown, by=by, reason=reason))
    back = request.POST.get("back", "")
    return redirect("console:checkpoint", number=number) if back == "checkpoint" else redirect("console:storage")


@needs("checkpoints")
@require_POST
def let_go(request: HttpRequest) -> HttpResponse:
    """Now what the next sweep would do: remove the files of all that nothing holds."""
    by = person(request)
    freed = [done for one in retention.plan() if one.goes and (done := retention.let_go(one.checkpoint, by=by))]
    if freed:
        said = ngettext("%(n)s deleted, %(size)s freed.", "%(n)s deleted, %(size)s freed.", len(freed))
        said %= {"n": len(freed), "size": retention.size(sum(freed))}
        messages.success(request, said, extra_tags="good")
    else:
        messages.info(request, _("Something holds every one of them: nothing was removed."))
    return redirect("console:storage")


urls = [
    path("storage/", storage, name="storage"),
    path("storage/let-go/", let_go, name="let_go"),
    path("checkpoints/<row:number>/pin/", pin, name="pin"),
]
