"""The rows as they are, through the front door: for operators, to read, without secrets and without people's words."""

from __future__ import annotations

from datetime import date

import pytest
from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import deeds
from accounts import models as accounts
from chat.api_keys import ApiKey
from chat.composing.defaults import ChatDefaults
from chat.composing.prompts import SavedPrompt
from chat.imports.import_rows import Import
from chat.listing.folders import Folder
from chat.models import Session, Turn
from chat.operator_rules import ClientRules
from chat.search import keeping
from chat.spendings import Spending
from chat.tools.calls import ToolCall, ToolLease
from chat.tools.servers import ToolServer
from chat.usual_consent import Consent
from checkpoints import models as checkpoints
from checkpoints.cleaning_rows import Cleaning
from checkpoints.notice_rows import Notice
from episodes import models as episodes
from evaluation import models as evaluation
from feedback.models import Feedback, Receipt
from gate import models as gate
from judge import models as judge
from judge.hints import acceptance, reviews
from privacy import models as privacy
from tests.rows import made_by
from tests.webapp.desk_cast import make_hint
from training import models as training
from webapp.console import raw
from webapp.notifications import models as notifications

SHOWN = sorted(raw.site._registry, key=lambda model: model._meta.label)
WORDS = "Sesame-Street-47"
"""What a person wrote, in every column that takes words."""


def url_of(model, page="changelist", *args):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def rows(operator, talker, console, make_lesson):
    """One row at least of every model, a talker's words in those of a conversation."""
    hint = make_hint(talker, WORDS, asked=WORDS, answered=WORDS, came_back=WORDS)
    turn, base = hint.turn, checkpoints.Checkpoint.live()
    Session.objects.filter(pk=turn.session_id).update(title=WORDS, external_id=WORDS, instructions=WORDS)
    key, secret = ApiKey.objects.issue(talker, "laptop")
    shared = checkpoints.Line.objects.get(pk=checkpoints.SHARED)
    user = {"by": operator}
    Folder.objects.create(user=talker, name=WORDS)
    Import.objects.create(user=talker, kind="chatgpt", found={"chats": WORDS}, error=WORDS)
    keeping.keep_title(Session.objects.get(pk=turn.session_id))
    Spending.objects.create(key=key, day=date(2026, 11, 28), tokens=7)
    Consent.objects.create(user=talker, learns=True)
    ChatDefaults.objects.create(user=talker, instructions=WORDS)
    SavedPrompt.objects.create(user=talker, name=WORDS, text=WORDS)
    server = ToolServer.objects.create(name="shop", url=f"https://example.org/{WORDS}", token=WORDS, fault=WORDS)
    asked = {"name": WORDS, "tool": WORDS, "grant": WORDS, "call_id": WORDS, "arguments": WORDS, "result": WORDS}
    ToolCall.objects.create(turn=turn, place=0, server=server, **asked)
    ToolLease.objects.create(turn=turn)
    ClientRules.objects.create(name="mine", source="[[rules]]")
    Feedback.objects.give(turn, by=talker, kind="guidance", text=WORDS)
    Receipt.objects.create(turn=turn, key=WORDS, body=WORDS)
    Group.objects.create(name="reviewers")
    reviews.overturn(Turn.objects.get(pk=turn.pk), 1, reason=WORDS, **user)
    acceptance.accept_from("tool", 0.9, **user)
    run = training.Run.objects.create(line=shared, parent=base, recipe={"batch_size": 47}, seed=1)
    candidate = checkpoints.Checkpoint.objects.create(number=1, parent=base, status="passed", reason="it holds on")
    made_by(run, candidate)
    own = checkpoints.Line.objects.create(name="hers", title="Hers", start=base)
    checkpoints.Member.objects.create(user=talker, line=own)
    candidate.decide("approved", reason="shorter", **user)
    make_lesson()
    training.Rehearsal.objects.create(model="m", prompt_ids=[1], response_ids=[2], logprobs=[-1.0])
    training.RunNote.objects.create(run=run, text="shorter replies", **user)
    training.RunTag.objects.create(run=run, name="baseline", **user)
    training.Pause.objects.create(reason="lunch", **user)
    checkpoints.Trial.objects.create(checkpoint=candidate, against=base, line=shared, share=10, **user)
    Notice.objects.create(level="info", key="k", text="the disk fills")
    checkpoints.Taint.objects.create(checkpoint=candidate, samples=1, reason="taken back")
    Cleaning.objects.create(line=shared, ancestor=base, replaces=candidate, **user)
    exam = gate.Examination.objects.create(checkpoint=candidate, against=base, pairs=[{"words": WORDS}])
    gate.AskedAgain.objects.create(examination=exam, turn=turn, live=WORDS, candidate=WORDS)
    judge.Sitting.objects.create(matter="gate", until=timezone.now())
    shadow = evaluation.Shadow.objects.create(turn=turn, checkpoint=base, text=WORDS)
    evaluation.BlindChoice.objects.create(shadow=shadow, by=talker, picked="a")
    comparison = evaluation.Comparison.objects.create(first=base, second=candidate, prompts=[WORDS], **user)
    evaluation.Choice.objects.create(comparison=comparison, place=0, picked="a", **user)
    evaluation.Export.objects.create(what="dataset", asked={"kind": "sft"}, **user)
    brought = evaluation.Import.objects.create(name="examples.jsonl", sha256="0", found={"first": [WORDS]}, **user)
    evaluation.Imported.objects.create(source=brought, line=shared, digest="0")
    privacy.Erasure.objects.create(user=talker, total=1)
    group = episodes.Group.objects.create(
        user=talker, checkpoint=base, name="g", world="till", task="t1", split="train"
    )
    episode = episodes.Episode.objects.create(
        group=group, attempt=1, checks={"said": WORDS}, reason=WORDS, lease_s=60, lease_until=timezone.now()
    )
    episodes.Action.objects.create(episode=episode, turn=turn, call="c")
    episodes.Exam.objects.create(user=talker, world="till", candidate=candidate, live=base, tasks=9, attempts=4, seed=1)
    accounts.Invitation.objects.create(prefix="abc", digest=WORDS, ends_at=timezone.now())
    deeds.note("people", "role changed", whom=talker, **user)
    Authenticator.objects.create(user=operator, type="totp", data={"secret": WORDS})
    address = EmailAddress.objects.create(user=operator, email=f"{WORDS}@example.org")
    EmailConfirmation.objects.create(email_address=address, key=WORDS)
    app = SocialApp.objects.create(provider="openid_connect", name="id", client_id=WORDS, secret=WORDS)
    account = SocialAccount.objects.create(user=operator, provider="oidc", uid=WORDS, extra_data={"sub": WORDS})
    SocialToken.objects.create(app=app, account=account, token=WORDS, token_secret=WORDS)
    notifications.Choice.objects.create(person=talker, event="disk", email=True)
    notifications.PutAway.objects.create(person=operator, name="welcome")
    hook = notifications.Webhook.objects.create(url=f"https://example.org/{WORDS}", secret=WORDS, events=["disk"])
    announced = notifications.Announcement.objects.create(event="disk", key="notice 1", text="full", path="/")
    notifications.Delivery.objects.create(announcement=announced, webhook=hook)
    judge.Claim.objects.create(desk="hint", item="1", until=timezone.now(), **user)
    judge.DeskRules.objects.create(desk="hint", guidelines=WORDS)
    judge.Reading.objects.create(desk="hint", turn=turn, hint=hint, label="accept", **user)
    judge.Measuring.objects.create(judge="one", votes=3, total=9)
    judge.GoldReading.objects.create(item="1", gold="g", judge="one", prompt_version="v", expected=1)
    return {"secret": secret, "key": ApiKey.objects.get(pk=key.pk)}


def test_the_console_leads_to_the_rows(console):
    assert f'href="{reverse("admin:index")}"' in console.get(reverse("console:storage")).content.decode()
    assert console.get(reverse("admin:index")).status_code == 200


@pytest.mark.parametrize("page", ["admin:index", "admin:chat_turn_changelist", "admin:auth_user_changelist"])
def test_rows_are_for_operators_alone(client, talker, page):
    assert client.get(reverse(page)).url == f"{reverse('login')}?next={reverse(page)}"
    talker.is_superuser = True  # which gives no right to the console either
    talker.save()
    client.force_login(talker)
    assert client.get(reverse(page)).status_code == 403


def test_every_list_and_row_opens_and_shows_neither_secrets_nor_words(console, rows, operator):
    kept = {WORDS, rows["key"].digest, operator.password, console.cookies[next(iter(console.cookies))].value}
    assert len(SHOWN) == len(list(apps.get_models())) - 1  # all but the admin's own log, which is never written
    for model in SHOWN:
        shown = console.get(url_of(model))
        assert shown.status_code == 200, model
        page = shown.content.decode()
        assert page.count('<td class="field-') + page.count('<th class="field-') > 0, f"no row of {model}"
        pages = [page]
        if model is not raw.SignIn:
            one = console.get(url_of(model, "change", model._default_manager.first().pk))
            assert one.status_code == 200, model
            pages.append(one.content.decode())
        for page in pages:
            assert not [word for word in kept if word in page], model


def test_operators_own_texts_are_shown(console, rows):
    """The rest of the long texts are people's words: each model that is none of those must be named as it is called."""
    labels = {model._meta.label_lower for model in apps.get_models()}
    assert raw.OPERATORS | set(raw.SECRET) | raw.UNUSED <= labels
    run, candidate = training.Run.objects.get(), checkpoints.Checkpoint.objects.get(number=1)
    assert "batch_size" in console.get(url_of(training.Run, "change", run.pk)).content.decode()
    assert "it holds on" in console.get(url_of(checkpoints.Checkpoint, "change", candidate.pk)).content.decode()


def test_a_sign_in_has_no_page_of_its_own(console, rows):
    cookie = raw.SignIn.objects.first().session_key
    assert cookie not in console.get(url_of(raw.SignIn)).content.decode()
    assert console.get(url_of(raw.SignIn, "change", cookie)).status_code == 403


@pytest.mark.parametrize(
    ("model", "guess"),
    [
        (User, "password__startswith=p"), (ApiKey, "digest__startswith=a"), (Turn, "text__contains=S"),
        (Turn, "session__user__password__startswith=p"), (Session, "title__contains=S"),
    ],
)  # fmt: skip
def test_no_address_guesses_at_what_is_not_shown(console, rows, model, guess):
    assert console.get(f"{url_of(model)}?{guess}").status_code == 400


def test_a_list_is_filtered_by_what_it_shows(console, rows):
    found = console.get(f"{url_of(checkpoints.Checkpoint)}?status__exact=approved").content.decode()
    assert 'class="field-number">1<' in found
    assert 'class="field-number">0<' not in found


def test_no_post_changes_a_row(console, rows):
    for model in SHOWN:
        before = list(model._default_manager.order_by("pk").values())
        pk = model._default_manager.first().pk
        sent = {"action": "delete_selected", "_selected_action": pk, "post": "yes", "username": "eve", "name": "eve"}
        base = url_of(model)
        for url in (base, f"{base}add/", f"{base}{pk}/change/", f"{base}{pk}/delete/"):
            assert console.post(url, sent).status_code in (403, 404, 405), url
        assert list(model._default_manager.order_by("pk").values()) == before, model


def test_pages_load_only_local_files_and_run_nothing_inline(console, rows):
    for url in (reverse("admin:index"), url_of(Turn), url_of(Turn, "change", Turn.objects.first().pk)):
        response = console.get(url)
        page = response.content.decode()
        assert "script-src 'self'" in response.headers["Content-Security-Policy"]
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick=" not in page
        assert all(part.startswith("/") and part[1] != "/" for part in page.split('src="')[1:])
        assert all("src=" in tag.split(">")[0] or "json" in tag.split(">")[0] for tag in page.split("<script")[1:])


def test_a_forged_form_is_refused_like_any(operator, rows):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(url_of(User)).status_code in (403, 405)
