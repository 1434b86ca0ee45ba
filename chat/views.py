"""Show the chat's pages. A message is stored when its POST is answered; the reply is a task that needs no page."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from chat import asking, branches
from chat.composing import terms
from chat.composing.files import TextFile, split_files, with_files
from chat.forms import EditForm, MessageForm
from chat.listing import pages
from chat.models import Session, Turn
from chat.pictures import sight
from chat.pictures.picture import Picture
from chat.replying import continuing, replies
from chat.requests import Ask, Message, PageSession
from chat.tools import calls, leases, offering, rounds
from chat.turns import ContextTooLong
from chat.usual_consent import Consent
from core import stores
from core.errors import TalkbackError
from core.htmx import is_htmx
from gpu_workers import engines

STARTERS = (
    gettext_lazy("What is a rainbow?"),
    gettext_lazy("Write a short poem about rain."),
    gettext_lazy("Give me three ideas for a quick dinner."),
    gettext_lazy("Explain gravity to a child."),
)


@require_GET
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """The newest conversation; an empty one, of which nothing is stored yet, when there is none."""
    session = Session.objects.visible_to(request.user).filter(key=None, archived_at=None).first()
    return redirect(session_url(session)) if session else show_page(request, None)


@require_GET
@login_required
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    return show_page(request, None)


@require_GET
@login_required
@never_cache
def session(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """A conversation; where `at` names a turn of it, that part of it, in that turn's branch."""
    found = Session.objects.visible_to(request.user).select_related("key", "checkpoint")
    return show_page(request, get_object_or_404(found, pk=pk), at=request.GET.get("at", ""))


@require_http_methods(["GET", "POST"])
@login_required
async def start(request: HttpRequest) -> HttpResponse:
    """The first message of a conversation makes it. A person who opens the address is shown what / shows."""
    if request.method == "GET":
        return redirect("chat:home")
    user, form = await request.auser(), MessageForm(request.POST, request.FILES)
    return (
        await sync_to_async(show_refusal)(request, None, form)
        if not await sync_to_async(form.is_valid)()  # in a thread, for it may ask the engine whether it sees
        else await ask_and_show(request, user, None, form)
    )


@require_POST
@login_required
async def say(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """One message more."""
    user, form = await request.auser(), MessageForm(request.POST, request.FILES)
    session = await sync_to_async(get_object_or_404)(Session.objects.visible_to(user), pk=pk)
    if not await sync_to_async(form.is_valid)():
        return await sync_to_async(show_refusal)(request, session, form)
    return await ask_and_show(request, user, session, form)


async def ask_and_show(
    request: HttpRequest, user: User | AnonymousUser, session: Session | None, form: Form
) -> HttpResponse:
    try:
        turn = await rounds.open_and_answer(lambda: open_message(user, session, **form.cleaned_data), engines.policy())
    except Exception as error:
        if (failure := stores.name_failure(error)) is None:
            raise
        form.add_error(None, str(failure))
        return await sync_to_async(show_refusal)(request, session, form, failure.status)
    if session is None or not is_htmx(request):
        return go_to(request, session_url(turn.session))
    return await sync_to_async(show_sent)(request, turn)


@require_POST
@login_required
async def again(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Another try at a reply, in a branch of its own. It says nothing against the one before: a thumb does."""
    user = await request.auser()
    old = await sync_to_async(get_object_or_404)(Turn.objects.visible_to(user).select_related("session"), pk=pk)
    return await answer_in_branch(request, lambda: retry_reply(user, old))


@require_POST
@login_required
async def edit(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Other words in place of a message that was sent, in a branch of their own."""
    user, form = await request.auser(), EditForm(request.POST)
    old = await sync_to_async(get_object_or_404)(Turn.objects.visible_to(user).select_related("session"), pk=pk)
    if not form.is_valid():
        return await sync_to_async(show_refusal)(request, old.session, form)
    return await answer_in_branch(request, lambda: edit_message(user, old, form.cleaned_data["text"]))


async def answer_in_branch(request: HttpRequest, open_turn: Callable[[], Turn]) -> HttpResponse:
    """Open a turn, have it answered, and show it where the page stands."""
    try:
        turn = await rounds.open_and_answer(open_turn, engines.policy())
    except Exception as error:
        if (failure := stores.name_failure(error)) is None:
            raise
        return await sync_to_async(show_complaint)(request, str(failure), failure.status)
    return go_to(request, session_url(turn.session), again=True)


@require_POST
@login_required
async def continue_reply(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Have the rest of a reply written that was cut at its length limit."""
    user = await request.auser()
    cut = await sync_to_async(get_object_or_404)(Turn.objects.visible_to(user).select_related("session"), pk=pk)
    return await answer_in_branch(
        request, lambda: continuing.reopen_cut(cut, terms.sampling_of(cut.session).max_new_tokens)
    )


@require_POST
@login_required
def show_branch(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Show the branch that this turn is in, from now on."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session"), pk=pk)
    Session.objects.filter(pk=turn.session_id).update(head=turn.pk)
    return redirect(session_url(turn.session))


@require_POST
@login_required
async def stop(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """End the reply that is being written, if one is."""
    user = await request.auser()
    session = await sync_to_async(get_object_or_404)(Session.objects.visible_to(user), pk=pk)
    async for turn in Turn.objects.filter(session=session, status=Turn.Status.ANSWERING):
        await replies.stop(turn, engines.policy())
    await rounds.stop(session)
    return HttpResponse(status=204) if is_htmx(request) else redirect(session_url(session))


def open_message(
    user: Any,
    session: Session | None,
    *,
    text: str,
    message_id: uuid.UUID,
    after: uuid.UUID | None,
    off_record: bool | None = None,
    attached: Sequence[TextFile | Picture] = (),
) -> Turn:
    """The turn this message makes, or made when it was sent before. `message_id` comes with the page. `off_record`
    says how a new session begins; None: as this person's sessions do. It continues the turn `after`, which its person
    saw last; where that is gone or not known, the branch that is shown."""
    if session is not None:
        leases.check_idle(session)
    last = session.turns.filter(pk=after).first() if session and after and branches.has_branches(session) else None
    last = last or (branches.last_shown(session) if session is not None else None)
    learns = None if off_record is None else not off_record
    page = PageSession(user, session, last, f"chatcmpl-{message_id.hex}", learns=learns)
    texts = [one for one in attached if isinstance(one, TextFile)]
    pictures = [(one, 0) for one in attached if isinstance(one, Picture)]
    message = {"role": "user", "content": with_files(text, texts)} | ({"pictures": pictures} if pictures else {})
    return ask_on_page(page, [*history_with(last), message])


def retry_reply(user: Any, old: Turn) -> Turn:
    """Another turn on the same messages. Raises WrittenElsewhere."""
    check_branching(old.session)
    leases.check_idle(old.session)
    return ask_on_page(PageSession(user, old.session, old.follows, instead_of=old), old.messages)


def edit_message(user: Any, old: Turn, text: str) -> Turn:
    """A turn on what was said before this one, and these words in place of its own; its files stay. Raises
    WrittenElsewhere."""
    check_branching(old.session)
    leases.check_idle(old.session)
    if old.messages[-1]["role"] != "user":
        raise NotWritten(
            gettext("This reply goes on from a tool's answer, which no person wrote: edit the message before it.")
        )
    page = PageSession(user, old.session, old.follows, instead_of=old)
    _, sent = split_files(old.messages[-1].get("content") or "")
    pictures = old.messages[-1].get("pictures")
    message = {"role": "user", "content": with_files(text, sent)} | ({"pictures": pictures} if pictures else {})
    return ask_on_page(page, [*old.messages[:-1], message])


class WrittenElsewhere(TalkbackError):
    """The session is a client's own: a page does not write in it."""

    code, status = "written_elsewhere", 409


class NotWritten(TalkbackError):
    """What is to be worded anew was not said by a person."""

    code, status = "not_written", 409


class ToolsTooLong(TalkbackError):
    """The conversation does not fit the model's window with the definitions of its tools."""

    code, status = "tools_too_long", 422


def check_branching(session: Session) -> None:
    if not branches.has_branches(session):
        raise WrittenElsewhere(gettext("This chat comes through the API: it is answered, and tried again, there."))


def ask_on_page(page: PageSession, messages: Sequence[Message]) -> Turn:
    """Ask as an API's client does, with the page's own session and settings."""
    given = terms.of_page(page.user, page.session)
    tools = offering.chosen(given)
    told = terms.with_instructions(messages, offering.told(given.instructions, tools))
    answering, defined = terms.answering(page.user, page.session), offering.definitions(tools)
    ask = Ask(told, terms.sampling_of(given), answering, protocol="", tools=defined)
    try:
        (turn,) = asking.open_turns(page, ask)
    except ContextTooLong as refusal:
        if not tools:
            raise
        raise ToolsTooLong(
            gettext(
                "This chat and what its tools say of themselves do not fit the model's window of %(window)d tokens. "
                "Choose fewer tools in this chat's settings, or begin a new chat."
            )
            % {"window": refusal.window}
        ) from refusal
    return turn


def history_with(turn: Turn | None) -> list[dict[str, Any]]:
    """The conversation up to and with this turn, as the next request's history."""
    if turn is None:
        return []
    if turn.finish_reason == "tool_calls":
        return [*turn.messages, rounds.spoken(turn), *calls.results_of(turn.message, turn.calls.all())]
    return [*turn.messages, {"role": "assistant", "content": turn.text}] if turn.text else list(turn.messages)


def show_page(
    request: HttpRequest,
    session: Session | None,
    *,
    form: Form | None = None,
    status: int = 200,
    at: str = "",
) -> HttpResponse:
    before = request.GET.get("before", "")
    end = int(before) if before.isdecimal() and len(before) < 10 else None
    shown, end = shown_of(session, at, end)
    context = {
        "session": session,
        "on_record": session is not None and session.learns and (session.key is None or session.key.learns),
        "begins_off_record": session is None and not Consent.by_default(request.user),
        "turns": shown.turns,
        "earlier": shown.earlier,
        "is_earlier": end is not None,
        **pages.side_list(request.user),
        "gone": in_bin(request),
        "form": form,
        "opened": request.GET.get("open", ""),
        "message_id": uuid.uuid4(),
        "starters": STARTERS,
        "blind": sight.why_blind() if session is None or branches.has_branches(session) else "",
    }
    return render(request, "chat/chat.html", context, status=status)


def shown_of(session: Session | None, at: str, end: int | None) -> tuple[branches.Shown, int | None]:
    """The part of a conversation that a page shows, and the position before which it ends."""
    if session is None:
        return branches.Shown([]), end
    return branches.conversation_at(session, at) if at else (branches.conversation(session, end), end)


def in_bin(request: HttpRequest) -> Session | None:
    """The chat that this person has just put into the bin, which `gone` names."""
    try:
        return Session.objects.in_bin(request.user).filter(pk=uuid.UUID(request.GET.get("gone", ""))).first()
    except ValueError:
        return None


def show_sent(request: HttpRequest, turn: Turn) -> HttpResponse:
    """The new turn, and a fresh id for the next message."""
    shown = branches.draw(branches.Tree.of(turn.session), [turn.pk])
    return render(request, "chat/_sent.html", {"turns": shown, "message_id": uuid.uuid4()})


def show_refusal(request: HttpRequest, session: Session | None, form: Form, status: int = 422) -> HttpResponse:
    """What is wrong with the message, which stays in its box."""
    sentence = " ".join(str(error) for errors in form.errors.values() for error in errors)
    if is_htmx(request):
        return show_complaint(request, sentence, status)
    return show_page(request, session, form=form, status=status)


def show_complaint(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    return render(request, "chat/_complaint.html", {"sentence": sentence, "pushed": True}, status=status)


def go_to(request: HttpRequest, url: str, *, again: bool = False) -> HttpResponse:
    """Show `url` next: in whole, or, where the page is there already and its socket shows the rest, not at all."""
    if not is_htmx(request):
        return redirect(url)
    return HttpResponse(status=204) if again else HttpResponse(headers={"HX-Redirect": url})


def session_url(session: Session) -> str:
    return reverse("chat:session", args=[session.pk])
