"""How turns are sorted, seen and corrected through the front door."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from chat import clients
from chat.clients import files
from chat.models import Turn
from chat.operator_rules import ClientRules
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from judge.models import Judgement
from tests.webapp.conftest import text_of
from webapp.console import client_pages

OPENCLAW = {"role": "system", "content": "<!-- openclaw:attempt -->"}
TITLE = [{"role": "system", "content": "Generate a concise session title"}, {"role": "user", "content": "About Paris"}]
OWN = """title = "My agent"
[[known]]
where = "system"
starts = "You are mine"
[[side]]
name = "summary"
where = "last_user"
starts = "Sum up"
"""


@pytest.fixture(autouse=True)
def looked_again():
    files.forget()
    yield
    files.forget()


@pytest.fixture
def mine(make_turn):
    """A turn of an agent that only the generic rules know."""
    said = [{"role": "system", "content": "You are mine"}, {"role": "user", "content": "Sum up the day"}]
    return make_turn(messages=said, rule="generic/main", kind="main")


def sorted_now(*messages):
    return clients.sort_request(Ask(messages, Sampling(), Checkpoint(number=0)))


@pytest.mark.parametrize("page", ["clients", "client_new"])
def test_the_page_is_for_those_who_run_this(client, talker, page):
    assert client.get(reverse(f"console:{page}")).status_code == 302
    client.force_login(talker)
    assert client.get(reverse(f"console:{page}")).status_code == 403


@pytest.mark.parametrize("action", ["client_try", "client_save", "client_delete", "client_undo", "resort"])
def test_a_talker_changes_nothing(client, talker, make_turn, action):
    turn = make_turn(rule="openclaw/title", kind="title", line="side")
    ClientRules.objects.create(name="mine", source=OWN)
    client.force_login(talker)
    arguments = {"client_delete": ["mine"], "client_undo": ["mine"], "resort": [turn.pk]}.get(action, [])
    said = {"name": "mine", "source": "x", "line": "main"}
    assert client.post(reverse(f"console:{action}", args=arguments), said).status_code == 403
    assert ClientRules.objects.get().source == OWN
    assert Turn.objects.get().line == "side"


def test_a_correction_asks_for_the_token(operator, make_turn):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    turn = make_turn(rule="openclaw/title", line="side")
    assert strict.post(reverse("console:resort", args=[turn.pk]), {"line": "main"}).status_code == 403


def test_without_clients_the_page_says_how_to_connect_one(console):
    page = text_of(console.get(reverse("console:clients")))
    assert "No client has asked for a reply yet." in page
    assert "OpenClaw" in page
    assert "runtime line, runtime key, affinity header, prompt cache key" in page


def test_each_turn_is_shown_with_the_rule_that_sorted_it(console, make_turn):
    turn = make_turn(messages=TITLE, rule="openclaw/title", kind="title", line="side")
    make_turn(rule="openclaw/main", kind="main")
    page = text_of(console.get(reverse("console:clients")))
    assert reverse("console:turn", args=[turn.pk]) in page
    assert "About Paris" in page
    assert 'title <span class="number">1</span>' in page
    narrow = text_of(console.get(reverse("console:clients"), {"rule": "openclaw/title"}))
    assert "About Paris" in narrow
    assert "capital of France" not in narrow


def test_the_list_reads_as_people_spoke(console, make_turn):
    said = "[Fri 2026-11-20 10:04 UTC] Hello\n\nRuntime: agent=main | session=agent:main:main | sessionId=s1"
    note = {"role": "user", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> none"}
    make_turn(messages=[OPENCLAW, {"role": "user", "content": said}, note], rule="openclaw/main")
    page = text_of(console.get(reverse("console:clients")))
    assert ">Hello</a>" in page
    assert "INTERNAL_CONTEXT" not in page


def test_one_click_puts_a_turn_on_the_other_line(console, operator, make_turn):
    turn = make_turn(messages=TITLE, rule="openclaw/title", kind="title", line="side")
    htmx = {"HX-Request": "true"}
    row = text_of(console.post(reverse("console:resort", args=[turn.pk]), {"line": "main"}, headers=htmx))
    assert row.startswith(f'<tr id="sorted-{turn.pk}">')
    assert "corrected by ana" in row
    assert "It is side" in row
    turn.refresh_from_db()
    assert (turn.line, turn.sorted_by, turn.rule) == ("main", operator, "openclaw/title")

    page = text_of(console.get(reverse("console:turn", args=[turn.pk])))
    assert "ana put it on the main line; as title it was sorted by" in page


def test_taking_a_turn_off_the_main_line_has_it_judged_anew(console, make_lesson):
    turn = make_lesson().turn
    Turn.objects.filter(pk=turn.pk).update(rule="openclaw/main")
    console.post(reverse("console:resort", args=[turn.pk]), {"line": "side", "back": "turn"})
    turn.refresh_from_db()
    assert (turn.line, turn.status) == ("side", "observed")
    assert Judgement.objects.get(turn=turn).sample.status == "ready"  # the judge takes it back


def test_a_turn_that_is_being_written_is_left_alone(console, make_turn):
    turn = make_turn("answering", rule="openclaw/main")
    page = text_of(console.post(reverse("console:resort", args=[turn.pk]), {"line": "side"}, follow=True))
    assert "This reply is still being written" in page
    assert Turn.objects.get().line == "main"


def test_a_line_that_does_not_exist_is_refused(console, make_turn):
    turn = make_turn(rule="openclaw/main")
    assert console.post(reverse("console:resort", args=[turn.pk]), {"line": "else"}).status_code == 400


def test_rules_are_tried_on_past_turns_before_they_stand(console, mine, make_turn):
    make_turn(rule="generic/main", kind="main")
    page = text_of(console.post(reverse("console:client_try"), {"name": "mine", "source": OWN}))
    assert "Of the newest 2 turns these rules would sort 1." in page
    assert "1 would be sorted otherwise than now, 1 of them on the other line" in page
    assert "mine/summary" in page
    assert not ClientRules.objects.exists()


def test_a_trial_says_what_past_turns_did_not_keep(console, mine):
    source = OWN.replace('where = "system"', 'where = "header:x-mine"')
    page = text_of(console.post(reverse("console:client_try"), {"name": "mine", "source": source}))
    assert "Past turns did not keep x-mine" in page
    assert "Nothing would change." in page


def test_wrong_rules_are_told_where_and_not_kept(console):
    wrong = OWN.replace("starts", "begins")
    for action in ("client_try", "client_save"):
        response = console.post(reverse(f"console:{action}"), {"name": "mine", "source": wrong})
        assert response.status_code == 422
        assert "mine.toml" in text_of(response)
    assert "begins" in text_of(response)  # what was written is still there
    assert not ClientRules.objects.exists()


def test_saved_rules_sort_the_next_request(console, operator):
    messages = ({"role": "system", "content": "You are mine"}, {"role": "user", "content": "Sum up"})
    assert sorted_now(*messages).rule == "generic/main"
    source = OWN.replace("\n", "\r\n")  # as browsers send it
    page = text_of(console.post(reverse("console:client_save"), {"name": "mine", "source": source}, follow=True))
    assert "mine is saved" in page
    assert sorted_now(*messages).rule == "mine/summary"
    kept = ClientRules.objects.get()
    assert (kept.source, kept.changed_by) == (OWN, operator)


def test_a_shipped_file_can_be_changed_and_comes_back_when_that_is_deleted(console):
    page = text_of(console.get(reverse("console:client", args=["openclaw"])))
    assert "This comes with Talkback." in page
    assert "runtime line" in page
    console.post(reverse("console:client_save"), {"name": "openclaw", "known": "1", "source": OWN})
    assert sorted_now(*TITLE).client == "generic"
    page = text_of(console.post(reverse("console:client_delete", args=["openclaw"]), follow=True))
    assert "The file that comes with Talkback stands again." in page
    assert sorted_now(*TITLE).client == "openclaw"


def test_a_change_can_be_undone(console):
    for source in (OWN, OWN.replace("My agent", "Ours")):
        console.post(reverse("console:client_save"), {"name": "mine", "source": source})
    assert "Undo the last change" in text_of(console.get(reverse("console:client", args=["mine"])))
    console.post(reverse("console:client_undo", args=["mine"]))
    assert ClientRules.objects.get().source == OWN
    console.post(reverse("console:client_undo", args=["mine"]))  # an undo can be undone
    assert "Ours" in ClientRules.objects.get().source


def test_undoing_without_a_change_changes_nothing(console):
    page = text_of(console.post(reverse("console:client_undo", args=["mine"]), follow=True))
    assert "There is no change of mine to take back." in page


def test_hostile_rules_and_words_stay_text(console, make_turn):
    make_turn(messages=[{"role": "user", "content": "<script>alert(1)</script>"}], rule="generic/main")
    source = OWN.replace("My agent", "<script>alert(2)</script>")
    console.post(reverse("console:client_save"), {"name": "mine", "source": source})
    for page in (reverse("console:clients"), reverse("console:client", args=["mine"])):
        assert "<script>alert" not in console.get(page).content.decode()


def test_of_the_turns_that_a_rule_sorted_the_newest_are_listed_in_order(console, make_turn, monkeypatch):
    monkeypatch.setattr(client_pages, "SHOWN", 2)
    rules = ("generic/main", "openclaw/title", "", "openclaw/title", "generic/main")
    made = [make_turn(rule=rule) for rule in rules]

    def listed(query=""):
        return [turn.pk for turn in console.get(reverse("console:clients") + query).context["turns"]]

    assert listed() == [made[4].pk, made[3].pk]
    assert listed("?rule=openclaw/title") == [made[3].pk, made[1].pk]
    assert listed("?rule=nothing") == []


@pytest.mark.django_db
@pytest.mark.database("sqlite")  # PostgreSQL plans by how many rows there are: here are none
def test_which_turns_those_are_is_read_out_of_an_index_alone():
    assert "COVERING INDEX turns_by_time" in client_pages.first_of(client_pages.newest(), 2).explain()
