"""The review desk for rewards, through the front door."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from chat.models import Turn
from feedback.models import Feedback
from judge.hints import decisions, reviews
from judge.models import Judgement, Overruling, Ruling
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import fill, make_hint

HTMX = {"HX-Request": "true"}


@pytest.fixture
def make_turn(talker):
    """A judged turn with these score votes."""

    def make_turn(*scores, asked="What is the capital of France?", **fields):
        return make_hint(talker, asked=asked, scores=scores, **fields).turn

    return make_turn


@pytest.fixture
def other(db):
    """A second reviewer."""
    return get_user_model().objects.create_user("cleo", is_staff=True)


@pytest.fixture
def overturn(console):
    def overturn(turn, reward, reason="the judge misread it", *, htmx=False, seen=None, back=""):
        shown = decisions.standing(turn) if seen is None else seen
        sent = {"reward": reward, "reason": reason, "seen": shown, "back": back}
        return console.post(reverse("console:overturn", args=[turn.pk]), sent, headers=HTMX if htmx else {})

    return overturn


def test_a_talker_overturns_nothing(client, talker, make_turn):
    turn = make_turn(-1, 0, 1)
    client.force_login(talker)
    sent = {"reward": "1", "reason": "mine"}
    assert client.post(reverse("console:overturn", args=[turn.pk]), sent).status_code == 403
    assert client.get(reverse("console:reward", args=[turn.pk])).status_code == 403
    assert not Overruling.objects.exists()


def test_unclear_ones_are_shown_first_and_say_why(console, make_turn, operator):
    make_turn(1, 1, 1, asked="the clear one")
    tie = make_turn(-1, 0, 1, asked="the tie")
    disputed = make_turn(1, 1, 1, asked="the disputed one")
    Feedback.objects.give(disputed, by=operator, kind="thumb", value=-1)
    Judgement.objects.filter(turn=disputed).update(reward=-1, reward_from="thumb")
    Turn.objects.filter(pk=disputed.pk).update(status="judged")  # the judge has been there again

    page = text_of(console.get(reverse("console:rewards")))

    assert f"reward-row-{tie.pk}" in page
    assert f"reward-row-{disputed.pk}" in page
    assert page.count('class="queue-row"') == 2
    assert "tie" in page
    assert "thumb against votes" in page
    everything = text_of(console.get(reverse("console:rewards"), {"show": "all"}))
    assert everything.count('class="queue-row"') == 3


def test_everybody_who_could_decide_is_shown_in_order_with_the_rule(console, make_turn, operator):
    turn = make_turn(1, -1, -1)
    Feedback.objects.give(turn, by=operator, kind="thumb", value=1)
    page = text_of(console.get(reverse("console:reward", args=[turn.pk])))
    assert "outranks what is inferred. The first of these that spoke decides" in page
    places = [page.index(f">{source}</span> <span>") for source in ("reviewer", "thumb", "test", "rule", "votes")]
    assert places == sorted(places)
    assert "+1 by ana" in page
    assert "1 × +1, 2 × −1" in page


@pytest.mark.parametrize(("name", "reward"), [("1", 1), ("0", 0), ("-1", -1), ("none", None)])
@pytest.mark.parametrize("htmx", [True, False])
def test_a_reward_is_overturned_and_the_next_is_shown(overturn, make_turn, operator, name, reward, htmx):
    later, turn = make_turn(-1, 0, 1, asked="the later one"), make_turn(-1, 0, 1)
    response = overturn(turn, name, "it was a joke", htmx=htmx)
    word = Overruling.objects.get(turn=turn)
    assert (word.reward, word.reason, word.by) == (reward, "it was a joke", operator)
    if htmx:
        page = text_of(response)
        assert f'data-at-hand="{later.pk}"' in page
        assert f'<li id="reward-row-{turn.pk}" hx-swap-oob="delete">' in page
        assert reverse("console:reward_undo", args=[Ruling.objects.get().pk]) in page
    else:
        assert response.url == reverse("console:reward", args=[later.pk])


@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize(
    ("reward", "reason", "said"),
    [("1", "  ", "Say in a few words why"), ("", "because", "Choose what the reward should be"), ("5", "x", "Choose")],
)
def test_a_word_without_a_reason_or_a_reward_is_refused_and_still_there(
    overturn, make_turn, reward, reason, said, htmx
):
    turn = make_turn(-1, 0, 1)
    response = overturn(turn, reward, reason, htmx=htmx)
    assert response.status_code == 422
    assert said in text_of(response)
    if reason.strip():
        assert f'value="{reason}"' in text_of(response)
    assert not Overruling.objects.exists()


@pytest.mark.parametrize("htmx", [True, False])
def test_a_collision_says_who_did_what_and_keeps_the_reason(overturn, make_turn, other, htmx):
    turn = make_turn(-1, 0, 1)
    seen = decisions.standing(turn)
    reviews.overturn(turn, 1, by=other, reason="it is right")
    response = overturn(turn, "-1", "it is wrong", seen=seen, htmx=htmx)
    page = text_of(response)
    assert response.status_code == 409
    assert "cleo overturned" in page.lower()
    assert 'value="it is wrong"' in page
    assert "it is right" in page
    assert Overruling.objects.get(turn=turn).reward == 1


def test_an_overturning_is_undone(console, overturn, make_turn):
    turn = make_turn(-1, 0, 1)
    overturn(turn, "1")
    overturn(turn, "-1")
    page = text_of(console.post(reverse("console:reward_undo_last"), headers=HTMX))
    assert Overruling.objects.get(turn=turn).reward == 1
    assert f'data-at-hand="{turn.pk}"' in page
    console.post(reverse("console:reward_undo_last"))
    assert not Overruling.objects.exists()
    assert "nothing of yours" in text_of(console.post(reverse("console:reward_undo_last"), follow=True))


def test_a_decision_on_a_hint_is_undone_from_here_as_well(console, make_turn, operator):
    hint = make_turn(1, 1, 1).hints.get()
    reviews.accept(hint, by=operator)
    page = text_of(console.post(reverse("console:reward_undo_last"), headers=HTMX))
    hint.refresh_from_db()
    assert hint.status == "waiting"
    assert "Taken back" in page


def test_filters_narrow(console, make_turn):
    make_turn(1, 1, 1, asked="the good one", answered="Good.")
    make_turn(-1, -1, -1, asked="the bad one", answered="Bad.")
    url = reverse("console:rewards")
    page = text_of(console.get(url, {"show": "all", "reward": "-1"}))
    assert "the bad one" in page
    assert "the good one" not in page
    assert "the good one" in text_of(console.get(url, {"show": "all", "search": "GOOD ONE"}))
    assert "No turn matches." in text_of(console.get(url, {"show": "all", "by": "thumb"}))
    assert "No reward has been overturned." in text_of(console.get(url, {"show": "overturned"}))


def test_an_empty_desk_says_so(console):
    assert "Nothing is unclear" in text_of(console.get(reverse("console:rewards")))


def test_a_turn_that_is_not_there_is_not_found(console, db):
    unknown = reverse("console:reward", args=[uuid.uuid4()])
    assert console.get(unknown).status_code == 404
    assert "deleted meanwhile" in text_of(console.get(unknown, headers=HTMX))
    assert console.post(reverse("console:overturn", args=[uuid.uuid4()]), headers=HTMX).status_code == 404


def test_the_list_is_read_to_its_end_a_page_at_a_time(console, talker):
    made = fill([talker], 50)
    url, seen = f"{reverse('console:rewards')}?show=all", []
    for number in range(2):
        page = console.get(url, headers=HTMX if number else {}).content.decode()
        seen += [part.split('"')[0] for part in page.split('id="reward-row-')[1:]]
        url = page.partition('<li id="more"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert sorted(seen) == sorted(str(hint.turn_id) for hint in made)  # 40 and 10, none twice
    assert url == ""


@pytest.mark.parametrize("of", ["turn", "session"])
def test_what_is_off_the_record_is_not_listed_found_or_overturned(console, overturn, make_turn, of):
    turn = make_turn(1, 1, 1, asked="What did I earn?", answered="Seventy thousand.")
    row = turn if of == "turn" else turn.session
    row.learns = False
    row.save()
    page = text_of(console.get(reverse("console:rewards"), {"show": "all", "search": "Seventy"}))
    assert "Seventy thousand" not in page
    assert console.get(reverse("console:reward", args=[turn.pk])).status_code == 404
    answer = overturn(turn, "-1", htmx=True)
    assert answer.status_code == 404
    assert "taken off the record" in text_of(answer)
    assert not Overruling.objects.exists()
