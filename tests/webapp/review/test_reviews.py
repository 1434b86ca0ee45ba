"""The review desk for hints, through the front door."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chat.models import Turn
from judge.hints import acceptance, decisions, reviews
from judge.models import Acceptance, Hint, Ruling
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import crowd, fill, make_hint

HTMX = {"HX-Request": "true"}


@pytest.fixture
def hint(talker):
    return make_hint(talker)


@pytest.fixture
def other(db):
    """A second reviewer, at a browser of their own."""
    return get_user_model().objects.create_user("cleo", is_staff=True)


@pytest.fixture
def decide(console):
    """Send a form about a hint, as the page would: with what it showed."""

    def decide(hint, verb, *, htmx=False, seen=None, back="", **said):
        shown = decisions.standing(Hint.objects.get(pk=hint.pk)) if seen is None else seen
        url = reverse("console:hint_decide", args=[hint.pk, verb])
        return console.post(url, {"seen": shown, "back": back, **said}, headers=HTMX if htmx else {})

    return decide


def now(hint):
    return Hint.objects.get(pk=hint.pk)


# Who may


@pytest.mark.parametrize("page", ["hints", "rewards", "audit", "audit_csv", "audit_jsonl"])
def test_the_pages_are_for_those_who_run_this(client, talker, page):
    assert client.get(reverse(f"console:{page}")).status_code == 302
    client.force_login(talker)
    assert client.get(reverse(f"console:{page}")).status_code == 403


@pytest.mark.parametrize("verb", ["accept", "edit", "merge", "reject", "never"])
def test_a_talker_decides_nothing_even_of_their_own(client, talker, hint, verb):
    client.force_login(talker)
    url = reverse("console:hint_decide", args=[hint.pk, verb])
    assert client.post(url, {"text": "Mine is best.", "into": hint.pk}).status_code == 403
    assert now(hint).status == "waiting"
    assert not Ruling.objects.exists()


@pytest.mark.parametrize("page", ["hints_decide", "hint_undo_last", "hint_acceptance"])
def test_a_talker_changes_nothing(client, talker, hint, page):
    client.force_login(talker)
    sent = {"hint": hint.pk, "verb": "accept", "tool": "50"}
    assert client.post(reverse(f"console:{page}"), sent).status_code == 403
    assert now(hint).status == "waiting"
    assert not Acceptance.objects.exists()


def test_a_decision_asks_for_the_token(operator, hint):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(reverse("console:hint_decide", args=[hint.pk, "accept"])).status_code == 403
    assert now(hint).status == "waiting"


def test_decisions_are_posted(console, hint):
    assert console.get(reverse("console:hint_decide", args=[hint.pk, "accept"])).status_code == 405


def test_what_is_no_verb_is_not_found(console, hint):
    assert console.post(reverse("console:hint_decide", args=[hint.pk, "praise"])).status_code == 404


# What the page shows


def test_an_empty_desk_says_where_hints_come_from(console):
    page = text_of(console.get(reverse("console:hints")))
    assert "Nothing waits for you. Hints come from what people say after a reply" in page
    assert "Every hint is decided." in page


def test_the_desk_shows_the_hint_its_turn_its_votes_and_what_it_would_change(console, talker):
    make_hint(
        talker, "Name the city only.", source="tool", waits_because="What comes from a tool waits.", gain=0.42,
        teacher={"tokens": ["Paris", " of course"], "old_logprobs": [-1.0, -1.0], "logprobs": [-0.2, -4.0]},
    )  # fmt: skip
    page = text_of(console.get(reverse("console:hints")))
    assert "Name the city only." in page
    assert "What comes from a tool waits." in page
    assert "What is the capital of France?" in page
    assert "Of 2 tokens the hint would raise 1 and lower 1." in page
    assert '<span class="token down-4" title="−3.00"> of course</span>' in page
    assert "+0.42" in page
    assert "67 %" in page
    assert "prompt trained-1" in page
    assert "44 tokens" in page
    assert "| What is the capital of France?" in page  # the evidence
    assert "Accepting teaches this turn" in page
    assert "0 of 16 lessons. Training starts at 16." in page


def test_what_lasted_longest_is_first_and_what_was_decided_last_is_first(console, talker, operator):
    made = fill([talker], 3)
    page = text_of(console.get(reverse("console:hints")))
    assert f'data-at-hand="{made[0].pk}"' in page
    reviews.accept(made[2], by=operator)
    reviews.accept(made[0], by=operator)
    page = text_of(console.get(reverse("console:hints"), {"status": "accepted"}))
    assert f'data-at-hand="{made[0].pk}"' in page
    assert page.index(f"hint-row-{made[0].pk}") < page.index(f"hint-row-{made[2].pk}")


def test_hostile_words_stay_words(console, talker):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
    hint = make_hint(
        talker, evil, asked=evil, answered=evil, came_back=evil, waits_because=evil,
        conflicts=[{"hint": 1, "sentence": evil}],
    )  # fmt: skip
    for page in (reverse("console:hints"), reverse("console:hint", args=[hint.pk]), reverse("console:rewards")):
        for headers in ({}, HTMX):
            shown = console.get(page, headers=headers).content.decode()
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
    assert "&lt;script&gt;alert(1)" in console.get(reverse("console:hints")).content.decode()


@pytest.mark.parametrize("page", ["hints", "rewards", "audit"])
def test_the_pages_have_no_script_or_style_of_their_own(console, talker, page):
    make_hint(talker)
    shown = console.get(reverse(f"console:{page}")).content.decode()
    assert "<style" not in shown
    assert " style=" not in shown
    assert " onclick=" not in shown
    assert all("src=" in tag.split(">")[0] for tag in shown.split("<script")[1:])


def test_filters_narrow_and_are_counted(console, talker, operator):
    fill([talker, operator], 20)
    page = text_of(console.get(reverse("console:hints"), {"source": "web", "person": "ana"}))
    assert "Mention that green tea" in page
    assert "Explain recursion" not in page
    assert 'waiting <span class="number">2</span>' in page  # of 20, two are web, and both are ana's
    page = text_of(console.get(reverse("console:hints"), {"search": "CANBERRA"}))
    assert "Canberra is Australia" in page
    assert "green tea" not in page
    page = text_of(console.get(reverse("console:hints"), {"search": "nowhere"}))
    assert "No waiting hint has “nowhere” in it." in page


@pytest.mark.parametrize(
    "said",
    ["status=<b>", "source=moon", "after=x~y", "after=2026-01-01T00:00:00%2B00:00~99999999999999999999", "search=%00"],
)
def test_an_address_that_is_unknown_shows_a_list(console, hint, said):
    assert console.get(f"{reverse('console:hints')}?{said}").status_code == 200


def test_a_hint_that_does_not_exist_is_not_found(console, db):
    assert console.get(reverse("console:hint", args=[999])).status_code == 404
    assert console.get(reverse("console:hint", args=[10**30])).status_code == 404
    gone = console.get(reverse("console:hint", args=[999]), headers=HTMX)
    assert gone.status_code == 404
    assert "its conversation was deleted meanwhile" in text_of(gone)


def test_a_list_is_read_to_its_end_a_page_at_a_time(console, talker):
    made = fill([talker], 95)
    url, seen = reverse("console:hints"), []
    for _ in range(3):
        page = console.get(url, headers=HTMX if "after" in url else {}).content.decode()
        seen += [int(part.split('"')[0]) for part in page.split('id="hint-row-')[1:]]
        more = page.partition('<li id="more"')[2]
        url = more.partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert seen == [hint.pk for hint in made]  # 40, 40 and 15, none twice, none left out
    assert url == ""


def test_a_thousand_waiting_hints_cost_no_more_questions_than_ten(console, talker):
    made = fill([talker], 10)
    urls = [reverse("console:hints"), f"{reverse('console:hints')}?status=all", reverse("console:rewards")]
    asked = []
    for more in (0, 990):
        crowd(made[0], more)
        for url in urls:
            console.get(url)  # what one looks at is claimed, and what one had is given back
        for url in urls:
            with CaptureQueriesContext(connection) as queries:
                assert console.get(url).status_code == 200
            asked.append(len(queries))
    assert Hint.objects.filter(status="waiting").count() == 1000
    assert asked[:3] == asked[3:]
    assert max(asked) < 50


def test_a_hint_says_how_many_others_are_decided_with_it(console, talker, operator):
    first, second = make_hint(talker, "Keep it short."), make_hint(talker, "Please use fewer words next time.")
    reviews.merge(second, first, by=operator)
    page = text_of(console.get(reverse("console:hint", args=[first.pk])))
    assert "1 other turn learns with these words" in page
    page = text_of(console.get(reverse("console:hint", args=[second.pk]), {"status": "merged"}))
    assert "into <a href=" in page
    assert "This turn learns with the words of the hint that it was merged into" in page


def test_the_board_counts_what_waits_and_leads_there(console, talker):
    board, link = reverse("console:board"), f'<a id="to-hints" href="{reverse("console:hints")}">'
    assert link not in text_of(console.get(board))
    make_hint(talker)
    assert f'{link}<span class="count">1</span> hint waits for review</a>' in text_of(console.get(board))
    make_hint(talker, "Use a list.")
    assert f'{link}<span class="count">2</span> hints wait for review</a>' in text_of(console.get(board))


def test_the_turn_shows_its_hints_and_leads_to_both_desks(console, hint, operator):
    reviews.overturn(hint.turn, 1, by=operator, reason="it was a joke")
    page = text_of(console.get(reverse("console:turn", args=[hint.turn_id])))
    assert reverse("console:hint", args=[hint.pk]) in page
    assert reverse("console:reward", args=[hint.turn_id]) in page
    assert "ana did: it was a joke" in page


# Deciding by plain forms


@pytest.mark.parametrize(
    ("verb", "said", "status"),
    [
        ("accept", {}, "accepted"),
        ("edit", {"text": "Name the city, and nothing else."}, "edited"),
        ("reject", {"reason": "wrong"}, "rejected"),
    ],
)
def test_every_verb_works_as_a_plain_form(console, decide, talker, operator, verb, said, status):
    first, second = make_hint(talker), make_hint(talker, "Use bullet points.")
    response = decide(first, verb, back="source=user", **said)
    assert response.url == f"{reverse('console:hint', args=[second.pk])}?source=user"  # the next one is on the desk
    assert now(first).status == status
    ruling = Ruling.objects.get()
    assert (ruling.verb, ruling.by, ruling.reason) == (verb, operator, said.get("reason", ""))
    page = text_of(console.get(response.url))
    assert f'data-at-hand="{second.pk}"' in page
    assert "Undo" in page


def test_an_edited_hint_shows_what_was_proposed(console, decide, talker):
    hint = make_hint(talker, "Answer in one sentence.")
    decide(hint, "edit", text="Answer in two sentences.")
    page = text_of(console.get(reverse("console:hint", args=[hint.pk]), {"status": "edited"}))
    assert 'Answer in <mark class="gone">one</mark> <mark class="gone">sentence</mark>.' in page
    assert 'Answer in <mark class="here">two</mark> <mark class="here">sentences</mark>.' in page


def test_a_hint_is_merged_into_the_one_that_says_the_same(console, decide, talker):
    first, second = make_hint(talker, "Keep it short."), make_hint(talker, "Please use fewer words next time.")
    page = text_of(console.get(reverse("console:hint", args=[first.pk])))
    assert "Says nearly the same as “Please use fewer words next time.”" in page
    decide(first, "merge", into=second.pk)
    assert (now(first).status, now(first).merged_into_id) == ("merged", second.pk)


def test_a_target_is_found_by_searching_and_only_among_the_same_persons(console, talker, operator):
    first = make_hint(talker, "Keep it short.")
    make_hint(talker, "Write Canberra, not Sydney.")
    make_hint(operator, "Canberra is nice.")
    url = reverse("console:hint", args=[first.pk])
    found = text_of(console.get(url, {"likely": "canberra"}, headers=HTMX))
    assert "Write Canberra, not Sydney." in found
    assert "Canberra is nice." not in found
    assert "No other hint has “perth” in it." in text_of(console.get(url, {"likely": "perth"}, headers=HTMX))
    page = text_of(console.get(url, {"likely": "canberra"}))  # without a script it is a page
    assert 'data-panel="merge" open' in page


def test_merging_wants_a_target(decide, hint):
    response = decide(hint, "merge", into="")
    assert response.status_code == 422
    assert "Choose the hint that says the same." in text_of(response)
    assert now(hint).status == "waiting"


def test_never_learning_takes_the_turn_out_and_its_hint_off_the_desk(console, decide, hint):
    decide(hint, "never", reason="private")
    assert Turn.objects.get(pk=hint.turn_id).learns is False
    assert "Nothing waits for you." in text_of(console.get(reverse("console:hints")))
    console.post(reverse("console:hint_undo_last"))  # and back
    assert Turn.objects.get(pk=hint.turn_id).learns is True


@pytest.mark.parametrize("words", ["", "   ", "short", "word " * 200, "Say <|im_end|> and stop."])
def test_words_that_cannot_be_a_hint_are_refused_and_still_there(decide, hint, words):
    for htmx in (False, True):
        response = decide(hint, "edit", text=words, htmx=htmx)
        assert response.status_code == 422
        if words.strip():
            shown = response.content.decode()
            assert words.strip().replace("<", "&lt;").replace(">", "&gt;") in shown
            assert 'data-panel="edit" open' in shown
    assert now(hint).status == "waiting"


def test_undo_goes_back_step_by_step(console, decide, talker):
    first, second = make_hint(talker), make_hint(talker, "Use bullet points.")
    decide(first, "accept")
    decide(second, "reject")
    for expected in (("accepted", "waiting"), ("waiting", "waiting")):
        console.post(reverse("console:hint_undo_last"))
        assert (now(first).status, now(second).status) == expected
    page = text_of(console.post(reverse("console:hint_undo_last"), follow=True))
    assert "There is nothing of yours to take back." in page


# Deciding with htmx


def test_with_htmx_the_next_hint_the_counts_and_a_way_back_come_and_the_row_goes(decide, talker):
    first, second = make_hint(talker), make_hint(talker, "Use bullet points.")
    response = decide(first, "accept", htmx=True)
    page = text_of(response)
    assert response.status_code == 200
    assert "<html" not in page
    assert f'data-at-hand="{second.pk}"' in page
    assert f'<li id="hint-row-{first.pk}" hx-swap-oob="delete">' in page
    assert 'accepted <span class="number">1</span>' in page
    assert "Accepted: “Answer in one sentence.”" in page
    assert reverse("console:hint_undo", args=[Ruling.objects.get().pk]) in page


def test_the_last_one_leaves_an_empty_desk(decide, hint):
    page = text_of(decide(hint, "accept", htmx=True))
    assert "Every hint is decided." in page


def test_undo_brings_the_hint_back_onto_the_desk(console, decide, talker):
    first = make_hint(talker)
    make_hint(talker, "Use bullet points.")
    decide(first, "reject", htmx=True)
    response = console.post(reverse("console:hint_undo", args=[Ruling.objects.get().pk]), headers=HTMX)
    page = text_of(response)
    assert f'data-at-hand="{first.pk}"' in page
    assert 'id="queue"' in page
    assert f'id="hint-row-{first.pk}"' in page
    assert now(first).status == "waiting"


def test_a_hint_set_aside_by_another_of_its_turn_leaves_the_list_as_well(decide, talker):
    first = make_hint(talker)
    beside = Hint.objects.create(turn=first.turn, source="user", proposed="Use a list.", text="Use a list.")
    page = text_of(decide(first, "accept", htmx=True))
    assert f'<li id="hint-row-{beside.pk}" hx-swap-oob="delete">' in page
    assert now(beside).status == "rejected"


# Two reviewers


@pytest.mark.parametrize("htmx", [True, False])
def test_a_collision_says_who_did_what_and_keeps_what_was_typed(decide, hint, other, htmx):
    seen = decisions.standing(hint)
    reviews.reject(hint, by=other)
    response = decide(hint, "edit", seen=seen, htmx=htmx, text="Name the city, and nothing else.", reason="clearer")
    page = text_of(response)
    assert response.status_code == 409
    assert "cleo rejected this hint" in page.lower()
    assert "What you typed is still here." in page
    assert "Name the city, and nothing else.</textarea>" in page
    assert 'value="clearer"' in page
    assert f'data-at-hand="{hint.pk}"' in page
    assert now(hint).status == "rejected"
    assert Ruling.objects.count() == 1
    if htmx:
        assert f'id="hint-row-{hint.pk}" class="queue-row" hx-swap-oob="true"' in page
        assert "rejected by cleo" in page


def test_after_a_collision_the_form_knows_what_stands_now(console, decide, hint, other):
    seen = decisions.standing(hint)
    reviews.reject(hint, by=other)
    page = decide(hint, "accept", seen=seen, htmx=True).content.decode()
    fresh = page.partition('name="seen" value="')[2].partition('"')[0]
    assert fresh == decisions.standing(now(hint))
    decide(hint, "accept", seen=fresh)
    assert now(hint).status == "accepted"


def test_a_hint_whose_conversation_was_deleted_says_so(console, hint):
    url = reverse("console:hint_decide", args=[hint.pk, "accept"])
    hint.turn.session.delete()
    response = console.post(url, headers=HTMX)
    assert response.status_code == 404
    assert f'<li id="hint-row-{hint.pk}" hx-swap-oob="delete">' in text_of(response)
    assert "deleted meanwhile" in text_of(console.post(url, follow=True))


def test_an_undo_that_was_overtaken_changes_nothing(console, decide, hint, other):
    decide(hint, "accept")
    reviews.reject(now(hint), by=other)
    ruling = Ruling.objects.get(verb="accept")
    response = console.post(reverse("console:hint_undo", args=[ruling.pk]), {"at": hint.pk}, headers=HTMX)
    assert response.status_code == 409
    assert "cleo rejected this hint" in text_of(response).lower()
    assert now(hint).status == "rejected"


# Many at once


def selected(*hints):
    return [f"{hint.pk}~{decisions.standing(hint)}" for hint in hints]


@pytest.mark.parametrize(("verb", "status"), [("accept", "accepted"), ("reject", "rejected")])
@pytest.mark.parametrize("htmx", [True, False])
def test_many_are_decided_and_taken_back_together(console, talker, verb, status, htmx):
    made = fill([talker], 5)
    headers = HTMX if htmx else {}
    sent = {"verb": verb, "hint": selected(*made[1:4]), "at": made[1].pk}
    response = console.post(reverse("console:hints_decide"), sent, headers=headers)
    page = text_of(response if htmx else console.get(response.url))
    assert f'data-at-hand="{made[4].pk}"' in page
    assert [now(hint).status for hint in made] == ["waiting", status, status, status, "waiting"]
    assert len({ruling.bulk for ruling in Ruling.objects.all()}) == 1
    console.post(reverse("console:hint_undo_last"), headers=headers)
    assert {now(hint).status for hint in made} == {"waiting"}


def test_one_that_cannot_be_decided_keeps_no_other_back(console, talker, other):
    made = fill([talker], 3)
    sent = {"verb": "accept", "hint": selected(*made)}
    reviews.reject(made[1], by=other)
    page = text_of(console.post(reverse("console:hints_decide"), sent, headers=HTMX))
    assert [now(hint).status for hint in made] == ["accepted", "rejected", "accepted"]
    assert "Accepted: 2 hints." in page
    assert "cleo rejected this hint" in page.lower()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"verb": "accept"}, "Select hints first"),
        ({"verb": "edit", "hint": "1~x"}, "Say what is to be done with them"),
        ({"verb": "accept", "hint": "x~y"}, "Select hints first"),
    ],
)
def test_many_of_nothing_is_refused_in_words(console, hint, sent, said):
    assert said in text_of(console.post(reverse("console:hints_decide"), sent, follow=True))
    assert now(hint).status == "waiting"


# Hints that are accepted without a person


def test_the_policy_is_brought_once_its_panel_is_opened_and_without_a_script_by_a_link(console, hint):
    address, field = reverse("console:hint_acceptance"), 'name="tool"'
    page = text_of(console.get(reverse("console:hints")))
    assert f'hx-get="{address}?"' in page
    assert field not in page
    panel = text_of(console.get(address, headers=HTMX))
    assert field in panel
    assert "hint-text" not in panel
    whole = text_of(console.get(address))
    assert field in whole
    assert "hint-text" not in whole  # the desk is a link away
    assert f'<h1><a href="{reverse("console:hints")}' in whole


def test_the_policy_is_set_source_by_source_and_says_who_set_it(console, operator):
    response = console.post(reverse("console:hint_acceptance"), {"tool": "90", "user": "80", "web": ""}, headers=HTMX)
    page = text_of(response)
    assert acceptance.threshold("tool") == 0.9
    assert acceptance.threshold("user") == 0.8
    assert not Acceptance.objects.filter(source="web").exists()  # it waits already: nothing was changed
    assert "Saved, for tool, user." in page or "Saved, for user, tool." in page
    assert "ana, 0 s ago" in page
    assert Ruling.objects.filter(verb="policy", by=operator).count() == 2


@pytest.mark.parametrize("share", ["101", "-1", "most", "nan", "inf"])
def test_a_share_that_is_none_is_refused_and_still_there(console, db, share):
    response = console.post(reverse("console:hint_acceptance"), {"tool": share}, headers=HTMX)
    assert response.status_code == 422
    assert f'value="{share}"' in text_of(response)
    assert "is no share of votes" in text_of(response)
    assert acceptance.threshold("tool") is None
    assert "is no share of votes" in text_of(
        console.post(reverse("console:hint_acceptance"), {"tool": share}, follow=True)
    )
