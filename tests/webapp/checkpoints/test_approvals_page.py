"""A checkpoint's page is where people decide about it: who must still say yes, what blocks, what one may do."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from checkpoints import lines, notices
from checkpoints.models import SHARED, Checkpoint, Decision, Line, Taint
from gate import tasks
from judge.models import Ruling
from tests.webapp.conftest import text_of
from tests.webapp.console.test_console_board import station
from training.models import Sample

BEN_IS_ASKED = "It passed the gate, and ana said the first yes"


@pytest.fixture
def ben(db):
    """A second operator's browser."""
    client = Client()
    client.force_login(get_user_model().objects.create_user("bea", is_staff=True))
    return client


@pytest.fixture
def rule(db):
    def rule(**policy):
        Line.objects.filter(name=SHARED).update(policy=policy)

    return rule


def page(client, number=1):
    return text_of(client.get(reverse("console:checkpoint", args=[number])))


def test_two_people_say_yes_and_each_sees_where_it_stands(console, ben, make_checkpoint, rule):
    rule(second_approver=True)
    make_checkpoint(1)
    assert "It passed the gate and waits for two people." in page(console)
    approve = reverse("console:approve", args=[1])
    said = text_of(console.post(approve, {"reason": "shorter"}, follow=True))
    assert "Yours is the first yes of two: another person says the second." in said
    assert "Another person must say the second." in said
    assert 'id="approve"' not in said
    assert BEN_IS_ASKED in page(ben)
    assert "waits for a second yes, after ana’s." in text_of(ben.get(reverse("console:board")))
    assert "You said yes to talkback@1 already" in text_of(console.post(approve, follow=True))
    assert "talkback@1 is live" in text_of(ben.post(approve, follow=True))
    assert [d.verb for d in Decision.objects.order_by("pk")] == ["endorse", "approve", "promote"]


def test_a_hold_needs_a_reason_is_seen_by_all_and_is_released(console, ben, make_checkpoint):
    make_checkpoint(1)
    hold = reverse("console:hold", args=[1])
    assert "Say in a few words why" in text_of(console.post(hold, {"reason": " "}, follow=True))
    console.post(hold, {"reason": "wait for Monday"})
    assert "On hold by ana" in page(ben)
    assert "on hold" in text_of(ben.get(reverse("console:checkpoints")))
    refused = text_of(ben.post(reverse("console:approve", args=[1]), follow=True))
    assert "talkback@1 is on hold by ana (wait for Monday): release it first." in refused
    assert "waits for a yes again" in text_of(ben.post(reverse("console:release", args=[1]), follow=True))
    assert "talkback@1 is live" in text_of(ben.post(reverse("console:approve", args=[1]), follow=True))


@pytest.mark.parametrize("deed", ["hold", "release", "set_aside", "policy"])
def test_who_does_not_run_it_decides_nothing(client, talker, make_checkpoint, deed):
    make_checkpoint(1)
    client.force_login(talker)
    assert client.post(reverse(f"console:{deed}", args=["shared" if deed == "policy" else 1])).status_code == 403
    assert not Decision.objects.exists()


def test_what_is_on_hold_is_no_call():
    now = station("approve", checkpoints={"passed": 1}, on_hold=1)
    assert (now.figure, now.mood) == ("1 on hold", "idle")


def test_a_roll_back_says_how_long_it_took_and_can_set_aside_what_was_served(console, make_checkpoint, make_lesson):
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    Sample.objects.filter(pk=make_lesson().sample.pk).update(checkpoint=Checkpoint.live())
    form = {"to": "0", "instead_of": "1", "line": "shared", "set_aside": "on", "back": "/console/runs/"}
    answer = console.post(reverse("console:roll_back"), form)
    assert answer.url == "/console/runs/"
    said = text_of(console.get(answer.url))
    assert "talkback@0 is live again: it writes the next reply. That took " in said
    assert "Of what talkback@1 served was set aside: 1 sample." in said
    assert Sample.objects.get().status == "stale"


def test_what_a_retired_checkpoint_served_can_be_set_aside_later(console, make_checkpoint, make_lesson):
    retired = make_checkpoint(1, "retired")
    Sample.objects.filter(pk=make_lesson().sample.pk).update(checkpoint=retired)
    assert "Set aside 1 sample" in page(console)
    said = text_of(console.post(reverse("console:set_aside", args=[1]), {"reason": "it was bad"}, follow=True))
    assert "1 sample set aside" in said


def test_a_private_line_steps_back_to_where_it_started_and_the_shared_one_stays(console, make_checkpoint):
    mine = lines.make("Ana")
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    own = make_checkpoint(2, line=mine)
    console.post(reverse("console:approve", args=[2]))
    assert Checkpoint.live(mine.name) == own
    assert '<input type="hidden" name="line" value="ana">' in page(console, 2)
    console.post(reverse("console:roll_back"), {"to": "0", "instead_of": "2", "line": "ana"})
    assert Checkpoint.live(mine.name).number == 0
    assert Checkpoint.live().number == 1


def test_every_page_has_the_way_back_once_there_is_one(console, make_checkpoint):
    runs = reverse("console:runs")
    assert "Roll back to talkback@0" not in text_of(console.get(runs))
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    assert "Roll back to talkback@0" in text_of(console.get(runs))


def test_going_back_and_going_forward_again_are_called_what_they_are(console, make_checkpoint):
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    pages = [reverse("console:runs"), reverse("console:board"), reverse("console:lines"), "/console/checkpoints/{}/"]
    for address in pages:  # talkback@1 is live: its page, and every other, leads back
        said = text_of(console.get(address.format(1)))
        assert "Roll back to talkback@0" in said
        assert "live again" not in said
    console.post(reverse("console:roll_back"), {"to": "0", "instead_of": "1", "line": "shared"})
    said = text_of(console.get(reverse("console:checkpoint", args=[1])))
    assert "It was live until" in said
    assert "Make talkback@1 live again" in said
    assert "Roll back to talkback@1" not in said
    answer = console.post(reverse("console:roll_back"), {"to": "1", "instead_of": "0", "line": "shared"}, follow=True)
    assert "talkback@1 is live again" in text_of(answer)


def test_the_list_narrows_and_marks_what_matters(console, make_checkpoint):
    make_checkpoint(1, "rejected")
    marked = make_checkpoint(2, pinned="the paper’s")
    gone = make_checkpoint(3, "retired")
    Checkpoint.objects.filter(pk=gone.pk).update(let_go_at=gone.created_at)
    Taint.objects.create(checkpoint=marked, samples=2, reason="deleted")
    whole = text_of(console.get(reverse("console:checkpoints")))
    assert all(words in whole for words in ("tainted", "pinned", "deleted", "rejected (1)", "all (4)"))
    some = text_of(console.get(reverse("console:checkpoints"), {"status": "passed"}))
    assert "talkback@2</a>" in some
    assert "talkback@1</a>" not in some
    none = text_of(console.get(reverse("console:checkpoints"), {"line": "unknown"}))
    assert "No checkpoint matches." in none


def test_a_policy_says_in_words_what_will_happen_and_is_on_record(console, operator):
    address = reverse("console:policy", args=["shared"])
    assert "Nothing is approved by itself." in text_of(console.get(address))
    form = {"auto_approve": "on", "margin": "0,25", "trial_share": "5", "guard": "roll back", "guard_replies": "40"}
    tried = text_of(console.post(address, form, headers={"HX-Request": "true"}))
    assert "by at least 25% of its limit" in tried
    assert Line.objects.get(name=SHARED).policy == {}  # that was only asked
    console.post(address, form | {"reason": "we trust the gate", "seen": "{}"})
    empty = {f"guard_{name}": None for name in ("thumbs", "errors", "length", "refusals", "repetition")}
    kept = {"auto_approve": True, "margin": 0.25, "trial_share": 5, "guard": "roll back", "guard_replies": 40, **empty}
    assert Line.objects.get(name=SHARED).policy == kept
    ruling = Ruling.objects.get()
    assert (ruling.verb, ruling.by, ruling.reason) == ("policy", operator, "we trust the gate")
    assert "we trust the gate" in text_of(console.get(address))
    assert "approve by itself: yes" in text_of(console.get(reverse("console:audit")))


def test_a_policy_that_cannot_be_or_was_changed_meanwhile_is_refused_and_what_was_typed_stays(console):
    address = reverse("console:policy", args=["shared"])
    form = {"margin": "7", "trial_share": "0", "guard": "tell", "guard_replies": "30"}
    answer = console.post(address, form)
    assert answer.status_code == 422
    assert "margin should be less than or equal to 1" in text_of(answer)
    assert 'name="margin" inputmode="decimal" autocomplete="off" value="7"' in text_of(answer)
    answer = console.post(address, form | {"margin": "0.5", "seen": '{"old": 1}'})
    assert "was changed meanwhile" in text_of(answer)
    assert not Ruling.objects.exists()


def test_what_passed_goes_live_by_itself_where_a_policy_says_so(console, make_checkpoint, rule):
    candidate = make_checkpoint(1)
    rule(auto_approve=True, margin=0.6)
    tasks.consider(str(candidate.pk))  # 12 against a limit of 8 is half of the limit inside it
    assert Checkpoint.objects.get(number=1).status == "passed"
    assert "It passed length by less than 60% of the limit." in page(console)
    rule(auto_approve=True, margin=0.5)
    notice = notices.tell("guard", "It was rolled back.", level="error")
    tasks.consider(str(candidate.pk))
    assert "An error notice is unread." in page(console)
    notice.delete()
    tasks.consider(str(candidate.pk))
    tasks.consider(str(candidate.pk))
    assert [(d.verb, d.by) for d in Decision.objects.all()] == [("approve", None)]
