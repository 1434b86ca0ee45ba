"""The page of standing wishes: a person's own, and for staff any person's."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from judge import verdicts
from judge.hints import reviews
from judge.models import Hint, Judgement, Ruling
from judge.samples.sample_rows import Reason
from judge.votes import judges
from tests.webapp.conftest import text_of
from training.config import Recipe
from training.models import Sample

OWN = reverse("preferences:own")


@pytest.fixture
def ask(make_turn):
    def ask(text, **fields):
        fields = {"source": "user", "status": "accepted"} | fields
        return Hint.objects.create(turn=make_turn("judged"), proposed=text, text=text, **fields)

    return ask


@pytest.fixture
def own(client, talker):
    client.force_login(talker)
    return client


def test_an_empty_page_says_what_to_do(own):
    page = text_of(own.get(OWN))
    assert "What I’ve taught" in page
    assert "Nothing yet. Say how a reply should have been" in page
    assert reverse("chat:home") in page


def test_a_wish_is_shown_once_with_its_turns_and_its_opposite(own, ask):
    hint = ask("Keep it short.")
    ask("keep it short")
    ask("Explain it in more detail.", source="person")
    page = text_of(own.get(OWN))
    assert page.count('class="card wish"') == 2
    assert "Asked for 2 times since" in page
    assert "Asks for the opposite of “Explain it in more detail.”, which was said later" in page
    assert f"#turn-{hint.turn_id}" in page
    assert "1 other wording" in page
    assert "in your own words beside a reply" in page


def test_words_are_shown_as_words(own, ask):
    ask("<script>alert(1)</script> is not what I want to see, please.")
    assert b"<script>alert" not in own.get(OWN).content


def test_not_any_more_and_back(own, ask, talker):
    hint, other = ask("Keep it short."), ask("Use fewer words.")
    page = text_of(own.post(reverse("preferences:forgo"), {"hint": [hint.pk, other.pk]}, follow=True))
    assert "Stopped: 2 replies will not teach it. Below you can undo that." in page
    assert set(Hint.objects.values_list("status", "decided_by")) == {("rejected", talker.pk)}
    ruling = Ruling.objects.first()
    page = text_of(own.post(reverse("preferences:undo", args=[ruling.pk]), follow=True))
    assert "It is asked for again, as before." in page
    assert set(Hint.objects.values_list("status", flat=True)) == {"accepted"}


def test_what_was_taken_back_already_is_said(own, ask):
    hint = ask("Keep it short.", status="rejected")
    page = text_of(own.post(reverse("preferences:forgo"), {"hint": [hint.pk]}, follow=True))
    assert "it was taken back already" in page


def test_an_undo_that_was_overtaken_says_by_whom(own, ask, operator, talker):
    hint = ask("Keep it short.")
    own.post(reverse("preferences:forgo"), {"hint": [hint.pk]})
    ruling = Ruling.objects.get()
    reviews.accept(hint, by=operator)
    page = text_of(own.post(reverse("preferences:undo", args=[ruling.pk]), follow=True))
    assert "ana accepted this hint" in page
    assert Hint.objects.get().status == "accepted"


@pytest.mark.parametrize("bad", ["", "x", "-1", "9" * 30])
def test_nonsense_takes_nothing_back(own, ask, bad):
    ask("Keep it short.")
    own.post(reverse("preferences:forgo"), {"hint": bad})
    assert Hint.objects.get().status == "accepted"


def test_no_person_sees_or_touches_anothers(client, ask, talker):
    hint = ask("Keep it short.")
    stranger = get_user_model().objects.create_user("cleo")
    client.force_login(stranger)
    assert "Keep it short." not in text_of(client.get(OWN))
    client.post(reverse("preferences:forgo"), {"hint": [hint.pk]})
    assert Hint.objects.get().status == "accepted"
    assert client.get(reverse("preferences:of", args=[talker.pk])).status_code == 403
    assert client.get(reverse("preferences:people")).status_code == 403
    client.force_login(talker)
    client.post(reverse("preferences:forgo"), {"hint": [hint.pk]})
    client.force_login(stranger)
    assert client.post(reverse("preferences:undo", args=[Ruling.objects.get().pk])).status_code == 404


@pytest.mark.parametrize("name", ["own", "people"])
def test_strangers_are_asked_to_sign_in(client, db, name):
    assert reverse("login") in client.get(reverse(f"preferences:{name}"))["Location"]


def test_staff_see_everybodys_and_may_take_back(console, ask, talker):
    hint = ask("Keep it short.")
    page = text_of(console.get(reverse("preferences:people")))
    of = reverse("preferences:of", args=[talker.pk])
    assert of in page
    page = text_of(console.get(of))
    assert "What ben keeps asking for" in page
    assert reverse("console:turn", args=[hint.turn_id]) in page
    answer = console.post(reverse("preferences:forgo"), {"hint": [hint.pk]})
    assert answer["Location"] == of
    assert "ana" not in text_of(console.get(of)).split('id="forgone-title"')[1]  # it was you
    console.post(reverse("preferences:undo", args=[Ruling.objects.get().pk]))
    assert Hint.objects.get().status == "accepted"


def test_without_a_wish_the_page_is_empty_for_staff(console):
    assert "No standing wishes." in text_of(console.get(reverse("preferences:people")))


def test_the_navigation_leads_there(own):
    page = text_of(own.get(reverse("chat:home")))
    assert f'href="{OWN}"' in page


def test_from_a_word_beside_a_reply_to_a_wish_taken_back_and_asked_for_again(own, talker, engine, tiny_model, settings):
    settings.MODEL = str(tiny_model)
    renderer = Renderer.for_model(tiny_model)
    said = [{"role": "user", "content": "What is 2 and 2?"}]
    turn = Turn.objects.create(
        session=Session.objects.create(user=talker),
        position=0,
        status="served",
        finish_reason="stop",
        messages=said,
        prompt_ids=renderer.prompt_ids(said),
        response_ids=[*renderer.encode("Four, I think."), 2],
        logprobs=[-0.5] * (len(renderer.encode("Four, I think.")) + 1),
        text="Four, I think.",
        sampling={"temperature": 0.7},
        checkpoint=Checkpoint.live(),
    )

    def judged():
        verdicts.judge(str(turn.pk), who=judges.panel(), engine=engine, renderer=renderer, recipe=Recipe())
        return Judgement.objects.get(turn=turn)

    own.post(reverse("feedback:give", args=[turn.pk]), {"kind": "guidance", "text": "Say it without doubt."})
    assert judged().sample.status == "ready"
    page = text_of(own.get(OWN))
    assert "Write without doubt." in page
    assert "1 reply waits for a batch" in page

    own.post(reverse("preferences:forgo"), {"hint": [turn.hints.get().pk]})
    assert Sample.objects.get().status == "stale"  # at once, before a judge votes
    assert (judged().sample, judged().reason) == (None, Reason.HINT_REJECTED)
    assert "Nothing yet." in text_of(own.get(OWN))

    own.post(reverse("preferences:undo", args=[Ruling.objects.get().pk]))
    assert judged().sample.status == "ready"
    assert judged().hint == "Write without doubt."
