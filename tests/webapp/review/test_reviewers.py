"""Several reviewers at one desk: claims, second looks, agreement, disagreements."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from judge.annotators import claims, readings, stations
from judge.annotators.stations import Station
from judge.models import Claim, DeskRules, Hint, Overruling, Reading
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import make_hint
from webapp.templatetags.review import percent

HINTS = "/console/hints/"


def browser_of(name):
    user = get_user_model().objects.create_user(name, is_staff=True)
    client = Client()
    client.force_login(user)
    client.user = user
    return client


@pytest.fixture
def ana(db):
    return browser_of("ana")


@pytest.fixture
def bea(db):
    return browser_of("bea")


@pytest.fixture
def hints(db):
    talker = get_user_model().objects.create_user("tom")
    return [make_hint(talker, f"Answer in {n} words.", asked=f"Question {n}?") for n in range(2, 6)]


def at_hand(client, url=HINTS):
    at = client.get(url).context["at"]
    return None if at is None else at.pk


def decide(client, hint, verb="accept"):
    return client.post(reverse("console:hint_decide", args=[hint.pk, verb]), {"back": ""}, follow=True)


class TestClaims:
    """The queue is shared out."""

    def test_two_reviewers_are_not_shown_the_same_hint(self, ana, bea, hints):
        assert at_hand(ana) == hints[0].pk
        assert at_hand(bea) == hints[1].pk
        page = text_of(bea.get(HINTS))
        assert "ana looks at it" in page
        assert "bea looks at it" not in page  # one's own is no news

    def test_what_another_looks_at_is_not_decided(self, ana, bea, hints):
        at_hand(ana)
        response = decide(bea, hints[0], "reject")
        assert "ana is looking at this until" in text_of(response)
        assert Hint.objects.get(pk=hints[0].pk).status == "waiting"
        assert 'id="claimed"' in text_of(bea.get(reverse("console:hint", args=[hints[0].pk])))

    def test_nor_together_with_others(self, ana, bea, hints):
        at_hand(ana)
        sent = {"verb": "reject", "back": "", "hint": [f"{hint.pk}~" for hint in hints[:2]]}
        assert "ana is looking at this" in text_of(bea.post(reverse("console:hints_decide"), sent, follow=True))
        assert set(Hint.objects.values_list("status", flat=True)) == {"waiting"}

    def test_a_decision_goes_on_to_one_that_no_other_looks_at(self, ana, bea, hints):
        at_hand(ana)
        at_hand(bea)
        assert decide(ana, hints[0]).context["at"].pk == hints[2].pk

    def test_it_ends_with_its_time(self, ana, bea, hints):
        at_hand(ana)
        Claim.objects.update(until=timezone.now() - timedelta(seconds=1))
        assert at_hand(bea) == hints[0].pk
        decide(bea, hints[0])
        assert Hint.objects.get(pk=hints[0].pk).status == "accepted"

    def test_it_ends_where_its_reviewer_looks_at_another(self, ana, bea, hints):
        at_hand(ana)
        ana.get(reverse("console:hint", args=[hints[3].pk]))
        assert at_hand(bea) == hints[0].pk

    def test_of_two_at_once_one_has_it(self, ana, bea, hints):
        assert claims.take("hint", 7, ana.user) is None
        assert claims.take("hint", 7, bea.user).by == ana.user
        assert claims.take("hint", 7, ana.user) is None
        assert Claim.objects.count() == 1

    def test_what_one_took_a_moment_ago_is_not_written_again_and_of_two_items_one_is_kept(
        self, ana, bea, django_assert_num_queries
    ):
        assert claims.take("hint", 7, ana.user, claims.of_desk("hint")) is None
        with django_assert_num_queries(1):  # what reviewers have
            assert claims.take("hint", 7, ana.user, claims.of_desk("hint")) is None
        assert claims.take("hint", 7, bea.user, claims.of_desk("hint")).by == ana.user
        assert claims.take("hint", 8, ana.user, claims.of_desk("hint")) is None
        assert list(Claim.objects.values_list("item", "by__username")) == [("8", ana.user.username)]


class TestStation:
    """What a reviewer finds at a desk."""

    def test_it_is_read_in_one_query(self, ana, bea, hints, django_assert_num_queries):
        readings.set_rules("hint", guidelines="Be kind", share=0, by=ana.user)
        claims.take("hint", hints[1].pk, bea.user)
        claims.take("reward", "another desk's", bea.user)
        decide(ana, hints[0])
        with django_assert_num_queries(1):
            found = stations.read("hint", ana.user)
        assert {(one.item, one.by_id, str(one.by)) for one in found.claims} == {
            (one.item, one.by_id, str(one.by)) for one in claims.of_desk("hint")
        }
        assert (found.guidelines, found.last) == ("Be kind", "accept")
        assert all(one.until > timezone.now() for one in found.claims)

    def test_where_there_is_nothing_it_says_so(self, ana):
        assert stations.read("reward", ana.user) == Station(claims=[], guidelines="", last="")


class TestSecondLooks:
    """A share of what was decided is read by another reviewer, who is not told what was said."""

    @pytest.fixture
    def all_of_them(self, ana):
        readings.set_rules("hint", guidelines="# Be *kind*\n<script>", share=100, by=ana.user)
        readings.set_rules("reward", guidelines="", share=100, by=ana.user)

    def test_the_second_reviewer_is_shown_the_hint_and_not_what_became_of_it(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0], "reject")
        page = text_of(bea.get(reverse("console:second_looks", args=["hint"])))
        assert "Answer in 2 words." in page
        body = page.partition('id="second-look"')[2]
        assert "rejected" not in body
        assert "ana" not in body.replace("Canada", "")
        assert "<h1>Be <em>kind</em></h1>" in page
        assert "<script>" not in page.partition("<main")[2]

    def test_it_is_kept_and_changes_nothing(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0], "reject")
        (first,) = Reading.objects.all()
        bea.post(reverse("console:second_look", args=["hint", first.pk]), {"label": "accept"})
        assert list(Reading.objects.values_list("by__username", "label", "is_second")) == [
            ("ana", "reject", False), ("bea", "accept", True),
        ]  # fmt: skip
        assert Hint.objects.get(pk=hints[0].pk).status == "rejected"
        assert "Nothing waits for your second look." in text_of(bea.get(reverse("console:second_looks", args=["hint"])))

    def test_neither_ones_own_nor_what_two_have_read_waits(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0])
        assert readings.waiting("hint", ana.user, 100) == []
        (first,) = readings.waiting("hint", bea.user, 100)
        readings.second("hint", first, "accept", by=bea.user)
        assert readings.waiting("hint", browser_of("cleo").user, 100) == []

    def test_without_a_share_none_waits_and_what_is_off_the_record_never_does(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0])
        assert readings.waiting("hint", bea.user, 0) == []
        hints[0].turn.session.learns = False
        hints[0].turn.session.save()
        assert readings.waiting("hint", bea.user, 100) == []

    def test_undo_takes_ones_word_back(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0], "reject")
        (first,) = readings.waiting("hint", bea.user, 100)
        bea.post(reverse("console:second_look", args=["hint", first]), {"label": "accept"})
        bea.post(reverse("console:second_look_undo", args=["hint"]))
        assert readings.waiting("hint", bea.user, 100) == [first]
        ana.post(reverse("console:hint_undo_last"), {"back": ""})
        assert not Reading.objects.exists()

    def test_an_unknown_desk_or_label_is_refused(self, ana, bea, hints, all_of_them):
        decide(ana, hints[0])
        (first,) = readings.waiting("hint", bea.user, 100)
        assert bea.get(reverse("console:second_looks", args=["nothing"])).status_code == 404
        page = bea.post(reverse("console:second_look", args=["hint", first]), {"label": "1"}, follow=True)
        assert "This one was looked at meanwhile." in text_of(page)

    def test_rewards_are_read_twice_as_well(self, ana, bea, hints, all_of_them):
        turn = hints[0].turn
        sent = {"reward": "1", "reason": "a joke", "back": ""}
        ana.post(reverse("console:overturn", args=[turn.pk]), sent)
        (first,) = readings.waiting("reward", bea.user, 100)
        bea.post(reverse("console:second_look", args=["reward", first]), {"label": "-1"})
        assert list(Reading.objects.values_list("label", flat=True)) == ["1", "-1"]
        assert Overruling.objects.get().reward == 1


class TestAgreement:
    """How far reviewers agree, and what they do not agree about."""

    @pytest.fixture
    def read(self, ana, bea, hints):
        """Two of three the same: of ana's decisions bea would take one back."""
        readings.set_rules("hint", guidelines="", share=100, by=ana.user)
        for hint, verb, label in zip(
            hints, ("accept", "accept", "reject"), ("accept", "reject", "reject"), strict=False
        ):
            decide(ana, hint, verb)
            (first,) = readings.waiting("hint", bea.user, 100)
            readings.second("hint", first, label, by=bea.user)

    def test_the_page_says_how_far_and_of_how_many(self, ana, read):
        page = text_of(ana.get(reverse("console:reviewers")))
        assert '<dt>Items that two or more read</dt><dd class="number">3</dd>' in page
        assert f'<dt>All said the same</dt><dd class="number">{percent(2 / 3)}</dd>' in page
        assert "ana and bea" in page
        # kappa: 2/3 agree; by chance 2/3·1/3 + 1/3·2/3 = 4/9. (6/9 − 4/9) / (5/9) = 0.40
        assert ">0.40 <" in page
        # alpha: one of three differs, Do = 2; three of each of six values, De = 18/5. 1 − 10/18 = 0.44
        assert ">0.44 <" in page
        assert "few items" in page

    def test_a_disagreement_is_settled_by_letting_a_word_stand(self, ana, bea, hints, read):
        page = text_of(ana.get(reverse("console:reviewers")))
        assert page.count('id="disagreement-') == 1
        first = Reading.objects.get(hint=hints[1], by=ana.user)
        ana.post(reverse("console:reviewer_settle", args=["hint", first.pk]), {"label": "reject"})
        assert Hint.objects.get(pk=hints[1].pk).status == "rejected"
        page = text_of(ana.get(reverse("console:reviewers")))
        assert 'id="disagreement-' not in page
        assert '<dd class="number">3</dd>' in page  # it still counts as one on which they differed
        assert set(Reading.objects.filter(hint=hints[1]).values_list("settled_by__username", flat=True)) == {"ana"}

    def test_letting_stand_what_stands_changes_nothing_and_settles_it(self, ana, hints, read):
        first = Reading.objects.get(hint=hints[1], by=ana.user)
        ana.post(reverse("console:reviewer_settle", args=["hint", first.pk]), {"label": "accept"})
        assert Hint.objects.get(pk=hints[1].pk).status == "accepted"
        assert readings.compared("hint").open == []

    def test_settling_a_reward_overturns_it(self, ana, bea, hints):
        turn = hints[0].turn
        for who, label in ((ana, "1"), (bea, "-1")):
            Reading.objects.create(desk="reward", turn=turn, by=who.user, label=label)
        first = Reading.objects.first()
        ana.post(reverse("console:reviewer_settle", args=["reward", first.pk]), {"label": "-1"})
        assert Overruling.objects.get().reward == -1

    def test_guidelines_are_changed_here_and_read_at_the_desk(self, ana, hints):
        sent = {"guidelines": "Accept what holds **tomorrow**.", "share": "25"}
        assert "Saved." in text_of(ana.post(reverse("console:reviewer_rules", args=["hint"]), sent, follow=True))
        assert (DeskRules.objects.get().share, DeskRules.objects.get().changed_by.username) == (25, "ana")
        assert "<strong>tomorrow</strong>" in text_of(ana.get(HINTS))
        for share in ("101", "-1", "x", ""):
            page = ana.post(
                reverse("console:reviewer_rules", args=["hint"]), {"guidelines": "", "share": share}, follow=True
            )
            assert "Of a hundred items 0 to 100 are read twice." in text_of(page)

    def test_the_pages_take_few_queries_however_much_there_is(
        self, ana, bea, hints, read, django_assert_max_num_queries
    ):
        tom = hints[0].turn.session.user
        for n in range(40):
            hint = make_hint(tom, f"Hint {n}.")
            for who, label in ((ana, "accept"), (bea, "reject")):
                Reading.objects.create(desk="hint", turn=hint.turn, hint=hint, by=who.user, label=label)
        with django_assert_max_num_queries(12):
            page = ana.get(reverse("console:reviewers"))
        assert len(page.content) < 200_000
        assert "20 of 41 are shown." in text_of(page)
        with django_assert_max_num_queries(12):
            ana.get(reverse("console:second_looks", args=["hint"]))

    def test_they_are_for_operators_alone(self, db):
        client = Client()
        client.force_login(get_user_model().objects.create_user("tom"))
        assert client.get(reverse("console:reviewers")).status_code == 403
        assert client.get(reverse("console:second_looks", args=["hint"])).status_code == 403
        for name, args in (
            ("reviewer_rules", ["hint"]),
            ("reviewer_settle", ["hint", 1]),
            ("second_look", ["hint", 1]),
        ):
            assert client.post(reverse(f"console:{name}", args=args)).status_code == 403
