"""Show a person what is stored of them and what of it teaches; try what is removed from a text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from core.counting import count_rows
from core.htmx import is_htmx
from evaluation.models import BlindChoice, Shadow
from feedback.models import Feedback
from judge.models import Hint, Judgement
from judge.samples import redaction
from judge.samples.personal.kinds import KINDS
from privacy import bin as chat_bin
from privacy import consent, membership
from training.models import Sample
from training.provenance import lineage
from webapp.console.doors import person
from webapp.people.own_data import consent_decisions, erasure_pages, own_export
from webapp.people.own_data.readers import readers

LONGEST = 100_000
"""Characters of a text that can be tried: more than any conversation that a small model can hold."""


IN_WORDS = {
    "key": gettext_lazy("keys and tokens of known services, private keys, bearer tokens"),
    "password": gettext_lazy(
        "passwords and secrets: what is called one, and what stands between a name and @ in an address"
    ),
    "card": gettext_lazy("numbers of payment cards, by issuer and check digit"),
    "iban": gettext_lazy("bank accounts (IBAN), by check digits"),
    "email": gettext_lazy("e-mail addresses"),
    "phone": gettext_lazy("telephone numbers, by the numbering plans"),
    "ip": gettext_lazy("public addresses of machines"),
}
"""Every kind that can be removed, as a person reads it."""


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, **more: Any) -> HttpResponse:
    user = person(request)
    wanted = redaction.wanted()
    line, made = membership.line_of(user), lessons_of(user)
    learned = learned_in(made)
    members = [] if line.is_shared else list(line.members.select_related("user").order_by("pk"))
    context = {
        "line": line,
        "answers": Checkpoint.for_user(user),
        "beside": [member.user for member in members if member.user_id != user.pk],
        "pools": any(member.pools for member in members if member.user_id == user.pk),
        "learns": consent.by_default(user),
        "stored": stored(user, made),
        "checkpoints": learned,
        "learned_names": ", ".join(str(one) for one, _number in learned),
        "readers": readers(),
        "kinds": [(kind, IN_WORDS.get(kind, _("a pattern of this installation"))) for kind in wanted.all_kinds],
        "left": "; ".join(str(IN_WORDS[kind]) for kind in KINDS if kind not in wanted.kinds),
        "is_on": redaction.is_on(wanted),
        "keys": ApiKey.objects.of_people().filter(user=user, revoked_at=None).order_by("name", "pk"),
        "off": Session.objects.visible_to(user).filter(learns=False, episode=None).select_related("key"),
        "sample_text": SAMPLE_TEXT,
        "erasure": erasure_pages.erasure_of(user),
        "sure": erasure_pages.SURE,
    }
    return render(request, "privacy/privacy.html", context | more)


SAMPLE_TEXT = "I am ana@example.com, call me at +1 415 555 2671. My password is hunter2!"


@dataclass(frozen=True)
class Made:
    """Of a person's lessons, those of one state and run."""

    status: str
    run: int | None
    all: int
    binned: int
    """Of those, how many are of conversations in the bin."""


def lessons_of(user: User) -> list[Made]:
    """How many lessons were made of this person's turns. One query: a sample names its turn, or, an old one, its
    verdict does."""
    turns = Turn.objects.filter(session__user=user).order_by()
    verdicts = Judgement.objects.filter(turn__session__user=user).order_by()
    named, old = Sample.objects.exclude(origin=None), Sample.objects.filter(origin=None)
    parts = (
        _counted(named, _named(turns), _named(turns.exclude(session__deleted_at=None))),
        _counted(old, _judged(verdicts, old), _judged(verdicts.exclude(turn__session__deleted_at=None), old)),
    )
    found: Counter[tuple[str, int | None]] = Counter()
    binned: Counter[tuple[str, int | None]] = Counter()
    for status, run, every, in_bin in parts[0].union(parts[1], all=True):
        found[status, run] += every
        binned[status, run] += in_bin
    return [Made(status, run, n, binned[status, run]) for (status, run), n in found.items()]


def _counted(samples: QuerySet[Sample], which: Q, binned: Q) -> QuerySet[Sample, Any]:
    """Of `which` of these samples how many there are of each state and run, and how many are `binned`."""
    rows = samples.filter(which).order_by().values("status", "run")
    counts = rows.annotate(all=Count("pk"), binned=Count("pk", filter=binned))
    return counts.values_list("status", "run", "all", "binned")


def _named(turns: QuerySet[Turn]) -> Q:
    """Of samples: they name one of these turns."""
    return Q(origin__in=turns.values("pk"))


def _judged(verdicts: QuerySet[Judgement], samples: QuerySet[Sample]) -> Q:
    """Of samples: one of these verdicts came to them. Each way is asked by itself, from the few `samples` on."""
    sample, learned = (
        verdicts.filter(**{f"{name}__in": samples.values("pk")}).values(name) for name in ("sample", "learned")
    )
    return Q(pk__in=sample) | Q(pk__in=learned)


def stored(user: User, made: list[Made]) -> list[tuple[str, int, str]]:
    """(what, how many, what becomes of it) for every kind of row that holds words of this person."""
    sessions, turns = Session.objects.visible_to(user), Turn.objects.visible_to(user)
    waits = (Sample.Status.READY, Sample.Status.CLAIMED)
    found = count_rows(
        sessions=sessions,
        off=sessions.filter(learns=False),
        in_bin=Session.objects.in_bin(user),
        turns=turns,
        on_record=turns.filter(learns=True, session__learns=True, line=Turn.Line.MAIN),
        feedback=Feedback.objects.filter(by=user),
        verdicts=Judgement.objects.filter(turn__session__user=user).exclude(evidence=""),
        hints=Hint.objects.filter(turn__session__user=user),
        shadows=Shadow.objects.filter(turn__session__user=user),
        choices=BlindChoice.objects.filter(by=user),
        keys=ApiKey.objects.of_people().filter(user=user),
    )
    return [
        (_("conversations"), found["sessions"], _("%(n)s off the record") % {"n": found["off"] or _("none")}),
        (
            _("conversations in the bin"),
            found["in_bin"],
            _("nothing of them teaches; deleted for good after %(days)s days") % {"days": chat_bin.KEPT.days},
        ),
        (
            _("replies, with what you asked"),
            found["turns"],
            _("%(n)s of them may teach") % {"n": found["on_record"]},
        ),
        (
            _("thumbs, marks and corrections"),
            found["feedback"],
            _("your word on a reply; it outranks every judge"),
        ),
        (
            _("verdicts"),
            found["verdicts"],
            _("with what a judge read of the conversation"),
        ),
        (
            _("hints"),
            found["hints"],
            _("what you seem to want, in a sentence"),
        ),
        (
            _("lessons that wait"),
            sum(one.all for one in made if one.status in waits),
            _("runs to come learn from them, or a person's “Learn now”"),
        ),
        (
            _("lessons that were learned"),
            sum(one.all for one in made if one.status == Sample.Status.TRAINED),
            _("they are in weights: see below"),
        ),
        (
            _("answers of the frozen control"),
            found["shadows"],
            _("what the base would have replied; it teaches nothing"),
        ),
        (
            _("choices between two answers"),
            found["choices"],
            _("they say whether talking helped, and teach nothing"),
        ),
        (
            _("keys"),
            found["keys"],
            _("kept as a hash: they cannot be read back"),
        ),
    ]


def learned_in(made: list[Made]) -> list[tuple[Checkpoint, int]]:
    """The checkpoints that learned from this person, the newest first, and from how many replies outside the bin."""
    trained = (one for one in made if one.status == Sample.Status.TRAINED)
    counts = {one.run: n for one in trained if (n := one.all - one.binned)}
    rows = Checkpoint.objects.filter(run__in=counts).select_related("run").defer(*lineage.LONG).order_by("-number")
    return [(one, counts[one.run.pk]) for one in rows]


@require_POST
@login_required
@never_cache
def try_it(request: HttpRequest) -> HttpResponse:
    """What would be removed from a text. Nothing of it is stored."""
    text = request.POST.get("text", "")[:LONGEST].replace("\r\n", "\n")
    before, removed = redaction.tried(text)
    tried = {"text": text, "before": before, "removed": removed, "number": redaction.number(removed)}
    if is_htmx(request):
        return render(request, "privacy/_redaction_tried.html", {"tried": tried})
    return page(request, tried=tried)


app_name = "privacy"
urlpatterns = [
    path("privacy/", home, name="home"),
    path("privacy/default/", consent_decisions.default, name="default"),
    path("privacy/pool/", consent_decisions.pool, name="pool"),
    path("privacy/everything-off/", consent_decisions.everything_off, name="everything_off"),
    path("privacy/try/", try_it, name="try"),
    path("privacy/export/", own_export.export, name="export"),
    path("privacy/delete/", erasure_pages.delete, name="delete"),
    path("privacy/erasing/", erasure_pages.erasing, name="erasing"),
    path("privacy/learn-again/", erasure_pages.learn_again, name="learn_again"),
    path("privacy/keys/<row:pk>/", consent_decisions.key, name="key"),
    path("chats/<uuid:pk>/learning/", consent_decisions.session, name="session"),
    path("turns/<uuid:pk>/learning/", consent_decisions.turn, name="turn"),
]
