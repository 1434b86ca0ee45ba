"""Show what is stored of a person and what of it teaches; take their consent; export and delete their data."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts import deeds, roles
from accounts.languages import chosen_by
from accounts.models import Deed
from accounts.roles import may
from chat.models import ApiKey, ChatDefaults, SavedPrompt, Session, ToolServer, Turn
from checkpoints import notices
from checkpoints.models import SHARED, Checkpoint, Line, Member, Notice
from core.counting import count_rows
from core.errors import TalkbackError
from core.htmx import is_htmx
from core.textfiles import escape_separators
from evaluation.models import BlindChoice, Shadow
from feedback.models import Feedback
from gate.models import AskedAgain
from gpu_workers import engines
from judge.models import Hint, Judgement
from judge.samples import personal, redaction
from judge.samples.origins import made_of
from judge.votes import judges, naming
from privacy import bin as chat_bin
from privacy import consent, erasures, membership
from privacy.models import Erasure
from training import outside
from training.models import Sample
from training.provenance import lineage, taints
from webapp.console.checkpoints import cleanings
from webapp.serving import streams

LONGEST = 100_000
"""Characters of a text that can be tried: more than any conversation that a small model can hold."""

CHUNK = 20
"""How many rows the export reads at once; each may hold a whole conversation."""

PART = 20
"""How many it sends at once."""

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


@dataclass(frozen=True)
class Reader:
    """A judge, an engine or a server of tools that reads what this person writes."""

    name: str
    does: str
    """answers | judges | passes on | learns | tools"""
    host: str
    leaves_machine: bool

    @property
    def deed(self) -> str:
        """What it does, for its person."""
        words = {
            "answers": _("answers, and scores what is learned"),
            "judges": pgettext("what it does", "judges"),
            "passes on": _("passes prompts on to those"),
            "learns": pgettext("what it does", "learns"),
            "tools": _("runs tools that you choose, on what the model writes for them"),
        }
        return words[self.does]


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, **more: Any) -> HttpResponse:
    user = person(request)
    wanted = redaction.wanted()
    line, learned = membership.line_of(user), learned_in(user)
    members = [] if line.is_shared else list(line.members.select_related("user").order_by("pk"))
    context = {
        "line": line,
        "answers": Checkpoint.for_user(user),
        "beside": [member.user for member in members if member.user_id != user.pk],
        "pools": any(member.pools for member in members if member.user_id == user.pk),
        "learns": consent.by_default(user),
        "stored": stored(user),
        "checkpoints": learned,
        "learned_names": ", ".join(str(one) for one, _number in learned),
        "readers": readers(),
        "kinds": [(kind, IN_WORDS.get(kind, _("a pattern of this installation"))) for kind in looked_for(wanted)],
        "left": "; ".join(str(IN_WORDS[kind]) for kind in personal.KINDS if kind not in wanted.kinds),
        "is_on": redaction.is_on(wanted),
        "keys": ApiKey.objects.of_people().filter(user=user, revoked_at=None).order_by("name", "pk"),
        "off": Session.objects.visible_to(user).filter(learns=False, episode=None).select_related("key"),
        "sample_text": SAMPLE_TEXT,
        "erasure": erasure_of(user),
        "sure": SURE,
    }
    return render(request, "privacy/privacy.html", context | more)


SAMPLE_TEXT = "I am ana@example.com, call me at +1 415 555 2671. My password is hunter2!"


def stored(user: User) -> list[tuple[str, int, str]]:
    """(what, how many, what becomes of it) for every kind of row that holds words of this person."""
    sessions, turns = Session.objects.visible_to(user), Turn.objects.visible_to(user)
    samples = Sample.objects.filter(made_of(Turn.objects.filter(session__user=user).values("pk")))
    found = count_rows(
        sessions=sessions,
        off=sessions.filter(learns=False),
        in_bin=Session.objects.in_bin(user),
        turns=turns,
        on_record=turns.filter(learns=True, session__learns=True, line=Turn.Line.MAIN),
        feedback=Feedback.objects.filter(by=user),
        verdicts=Judgement.objects.filter(turn__session__user=user).exclude(evidence=""),
        hints=Hint.objects.filter(turn__session__user=user),
        waiting=samples.filter(status__in=(Sample.Status.READY, Sample.Status.CLAIMED)),
        learned=samples.filter(status=Sample.Status.TRAINED),
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
            found["waiting"],
            _("runs to come learn from them, or a person's “Learn now”"),
        ),
        (
            _("lessons that were learned"),
            found["learned"],
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


def learned_in(user: User) -> list[tuple[Checkpoint, int]]:
    """The checkpoints that learned from this person, the newest first, and from how many replies."""
    samples = consent.learned_from(Turn.objects.visible_to(user))
    counts = dict(samples.order_by().values("run").annotate(n=Count("pk")).values_list("run", "n"))
    rows = Checkpoint.objects.filter(run__in=counts).select_related("run").defer(*lineage.LONG).order_by("-number")
    return [(one, counts[one.run.pk]) for one in rows]


def readers() -> list[Reader]:
    """Who reads what is written here: engines, judges, a learner elsewhere, and servers of tools."""
    answering = [
        Reader(settings.MODEL_NAME, "answers", host_of(url), naming.leaves_machine(url)) for url in engines.addresses()
    ]
    if settings.ROUTER_URL:
        away = naming.leaves_machine(settings.ROUTER_URL)
        answering.append(Reader(_("the router"), "passes on", host_of(settings.ROUTER_URL), away))
    try:
        judging = [Reader(who.name, "judges", who.host, who.leaves_machine) for who in judges.roster()]
    except TalkbackError:  # the setting cannot be read: no judge votes until it can
        judging = []
    if outside.is_outside():
        judging.append(Reader("Tinker", "learns", naming.host_of(settings.TINKER_URL), True))
    # A program of the file runs here, and may send on what it is given.
    tools = [
        Reader(server.name, "tools", host_of(server.url), server.is_program or naming.leaves_machine(server.url))
        for server in ToolServer.objects.all()
    ]
    return [*answering, *judging, *tools]


def host_of(url: str) -> str:
    return urlsplit(url).netloc or url


def looked_for(wanted: personal.Wanted) -> list[str]:
    return [*wanted.kinds, *(kind for kind, _ in wanted.patterns)]


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


@require_GET
@login_required
@never_cache
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Everything this person said and gave, one JSON object a line."""
    deeds.note("export", "own data downloaded", request=request, whom=person(request))
    response = StreamingHttpResponse(lines(person(request)), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="talkback-{timezone.now():%Y-%m-%d}.jsonl"'
    return response


async def lines(user: User) -> AsyncIterator[bytes]:
    """The export, a few rows at a time: a program's conversations may be longer than memory."""
    encoded = (
        escape_separators(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE, default=str).decode()).encode()
        for row in exported(user)
    )
    async for part in streams.parts(encoded, PART):
        yield b"".join(part)


def exported(user: User) -> Iterator[dict[str, Any]]:
    """Conversations, each followed by its replies with what was said of them and what became of them."""
    yield {
        "object": "account",
        "user": user.get_username(),
        "email": user.email,
        "role": roles.kept_role(user),
        "language": chosen_by(user) or None,
        "learns_by_default": consent.by_default(user),
        "line": Line.of(user),
        "teaches_the_shared_line": Line.of(user) == SHARED or Member.objects.filter(user=user, pools=True).exists(),
        "exported_at": at(timezone.now()),
    }
    usual = ChatDefaults.of(user)
    if usual.pk:
        yield {"object": "new_chats", "instructions": usual.instructions, "sampling": usual.sampling}
    for prompt in SavedPrompt.objects.filter(user=user):
        yield {"object": "prompt", "name": prompt.name, "text": prompt.text, "is_shared": prompt.is_shared}
    for one in streams.by_key(Session.objects.visible_to(user).order_by("created_at"), CHUNK):
        yield {
            "object": "session",
            "id": str(one.pk),
            "title": one.title,
            "learns": one.learns,
            "created_at": at(one.created_at),
            "key": one.key_id,
            "instructions": one.instructions,
            "sampling": one.sampling,
        }
        for turn in streams.by_key(one.turns.select_related("checkpoint").order_by("position"), CHUNK):
            yield {
                "object": "turn",
                "id": turn.completion_id,
                "session": str(one.pk),
                "created_at": at(turn.created_at),
                "line": turn.line,
                "learns": turn.learns,
                "model": str(turn.checkpoint),
                "messages": turn.messages,
                "reply": turn.message or {"role": "assistant", "content": turn.text},
            }
        for given in Feedback.objects.filter(turn__session=one).select_related("turn").order_by("pk"):
            yield {
                "object": "feedback",
                "turn": given.turn.completion_id,
                "kind": given.kind,
                "value": given.value,
                "text": given.text,
                "wish": given.wish,
                "tags": given.tags,
                "spans": given.spans,
                "created_at": at(given.created_at),
                "withdrawn_at": at(given.withdrawn_at),
            }
        for hint in Hint.objects.filter(turn__session=one).select_related("turn").order_by("pk"):
            yield {
                "object": "hint",
                "turn": hint.turn.completion_id,
                "status": hint.status,
                "source": hint.source,
                "text": hint.text,
                "created_at": at(hint.created_at),
            }
        beside = Shadow.objects.filter(turn__session=one).select_related("turn", "checkpoint")
        for shadow in streams.by_key(beside.order_by("pk"), CHUNK):
            yield {
                "object": "shadow",
                "turn": shadow.turn.completion_id,
                "model": str(shadow.checkpoint),
                "text": shadow.text,
                "finish_reason": shadow.finish_reason,
                "figures": shadow.figures,
                "created_at": at(shadow.at),
            }
        again = AskedAgain.objects.filter(turn__session=one).select_related("turn", "examination__checkpoint")
        for asked in streams.by_key(again.order_by("pk"), CHUNK):
            yield {
                "object": "asked_again",
                "turn": asked.turn.completion_id,
                "model": str(asked.examination.checkpoint),
                "before": asked.live,
                "text": asked.candidate,
                "created_at": at(asked.at),
            }
        chosen = BlindChoice.objects.filter(by=user, shadow__turn__session=one).select_related("shadow__turn")
        for choice in chosen.order_by("pk"):
            yield {
                "object": "blind_choice",
                "turn": choice.shadow.turn.completion_id,
                "picked": choice.picked,
                "created_at": at(choice.at),
            }
    for device in user.devices.all():
        yield {
            "object": "device",
            "browser": device.browser,
            "address": device.address,
            "signed_in_at": at(device.signed_in_at),
        }
    for deed in streams.by_key(Deed.objects.filter(by=user).order_by("pk"), CHUNK):
        yield {
            "object": "deed",
            "verb": deed.verb,
            "about": deed.about,
            "address": deed.address,
            "outcome": deed.outcome,
            "created_at": at(deed.at),
        }


def at(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


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
        text = f"{user} asks that {target} be learned again without what they took back. Cleanings does that."
        notices.tell(f"wish {user.pk} {target.line_id}", text, level=Notice.Level.INFO, checkpoint=target)
        said = _("Those who run this Talkback read now that you want %(checkpoint)s learned again without it.")
        tell(request, said % {"checkpoint": target})
    return redirect(back)


def uuid_of(given: str) -> uuid.UUID:
    try:
        return uuid.UUID(given)
    except ValueError as error:
        raise Http404 from error


def note(request: HttpRequest, verb: str, about: str = "") -> None:
    """What a person decided about their own data, in the audit log."""
    deeds.note("erasure", verb, request=request, whom=person(request), about=about)


def tell(request: HttpRequest, *sentences: str) -> None:
    messages.success(request, " ".join(sentences).strip(), extra_tags="good")


def person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # login_required let no other in
    return request.user


app_name = "privacy"
urlpatterns = [
    path("privacy/", home, name="home"),
    path("privacy/default/", default, name="default"),
    path("privacy/pool/", pool, name="pool"),
    path("privacy/everything-off/", everything_off, name="everything_off"),
    path("privacy/try/", try_it, name="try"),
    path("privacy/export/", export, name="export"),
    path("privacy/delete/", delete, name="delete"),
    path("privacy/erasing/", erasing, name="erasing"),
    path("privacy/learn-again/", learn_again, name="learn_again"),
    path("privacy/keys/<row:pk>/", key, name="key"),
    path("chats/<uuid:pk>/learning/", session, name="session"),
    path("turns/<uuid:pk>/learning/", turn, name="turn"),
]
