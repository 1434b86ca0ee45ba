"""Lineage both ways: a checkpoint lists what taught it and what it goes back to, a turn lists where it came to be."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from checkpoints.models import Checkpoint, Line, Taint
from tests.webapp.conftest import text_of, unfolded
from training.provenance import lineage, receipt_checks, receipts
from webapp.console.checkpoints import descent

pytestmark = pytest.mark.django_db


@pytest.fixture
def grown(make_checkpoint, make_lesson, settings, tmp_path):
    """1 learned two turns and 2 one; of the first of them its chat was deleted since."""
    settings.DATA_DIR, settings.MODEL = tmp_path, str(tmp_path / "smol")
    first, second = make_checkpoint(1, "retired"), make_checkpoint(2)
    Checkpoint.objects.filter(pk=second.pk).update(parent=first)
    lessons = [make_lesson("trained", run=first.run), make_lesson("trained", run=first.run)]
    lessons.append(make_lesson("trained", run=second.run))
    for lesson in lessons:
        lesson.sample.origin = lesson.turn_id
        lesson.sample.save()
    lessons[0].turn.session.delete()
    return first, second, lessons


def test_a_checkpoint_counts_what_taught_it_and_all_it_goes_back_to(console, grown, django_assert_num_queries):
    second = grown[1]
    told = lineage.ancestry(second)
    # 2 learned one sample; 1 two, of which one was taken back; the base none
    assert [(one.checkpoint.number, one.samples, one.taken_back) for one in told] == [
        (2, 1, 0),
        (1, 2, 1),
        (0, 0, 0),
    ]
    with django_assert_num_queries(3):  # parents, ancestors, counts: however many there are
        assert descent.panel(lineage.ancestors(second))["whole"].people == 1
    page = unfolded(console, 2)
    assert "with its 2 ancestors" in page
    assert "taken back since" in page


def test_every_sample_is_listed_with_its_turn_and_a_deleted_one_as_taken_back(console, grown, talker):
    page = text_of(console.get(reverse("console:checkpoint_lineage", args=[1])))
    assert "What is the capital of France?" in page
    assert "taken back" in page
    assert "Its person deleted it: only that it was learned is kept." in page
    assert str(grown[0].run.seed) in page
    assert '<strong class="number">2</strong> samples of <strong class="number">1</strong> turn by' in page

    whole = text_of(console.get(reverse("console:checkpoint_lineage", args=[2]) + "?of=all"))
    assert '<strong class="number">3</strong> samples of <strong class="number">2</strong> turns by' in whole


def test_a_long_list_has_pages(console, make_checkpoint, make_lesson, monkeypatch):
    made = make_checkpoint(1)
    console.get(reverse("console:checkpoint_lineage", args=[1]))
    monkeypatch.setattr("webapp.console.checkpoints.lineage_pages.PAGE", 2)
    for _ in range(3):
        make_lesson("trained", run=made.run)
    first = text_of(console.get(reverse("console:checkpoint_lineage", args=[1])))
    assert "page 1 of 2" in first
    assert first.count("capital of France") == 2
    second = text_of(console.get(reverse("console:checkpoint_lineage", args=[1]) + "?page=2"))
    assert second.count("capital of France") == 1


def test_a_turn_lists_the_checkpoints_it_reached(console, grown):
    lessons = grown[2]
    page = text_of(console.get(reverse("console:turn", args=[lessons[1].turn_id])))
    assert "It is in the weights of" in page
    assert "talkback@1</a>" in page
    assert 'talkback@2</a> <span class="quiet">passed, by descent</span>' in page


def test_the_receipt_is_a_click_away_and_holds(console, grown):
    answer = console.get(reverse("console:checkpoint_receipt", args=[2]))
    told = receipts.parsed(answer.content)
    assert receipt_checks.holds(receipt_checks.check(told))
    assert told["parts"]["examination"]["passed"] is True
    assert "France" not in answer.content.decode()
    assert json.loads(answer.content)["written"] == "afterwards"  # these rows are older than receipts


def test_the_tree_draws_every_checkpoint_beneath_its_children(console, grown, make_checkpoint):
    third = make_checkpoint(3, "rejected")  # from 1 as well
    Checkpoint.objects.filter(pk=third.pk).update(parent=grown[0])
    assert Taint.objects.filter(checkpoint=grown[0]).exists()  # of what was deleted
    line = Line.objects.create(name="ana", title="Ana's", start=Checkpoint.objects.get(number=0))
    fourth = make_checkpoint(4, "candidate", line=line)
    Checkpoint.objects.filter(pk=fourth.pk).update(parent=Checkpoint.objects.get(number=0))

    rows = list(Checkpoint.objects.order_by("-number"))
    nodes = [
        (node.checkpoint.number, node.lane, [one.lane for one in node.through], [one.lane for one in node.above])
        for node in lineage.tree(rows)
    ]
    # 4 goes down lane 0 to the base; 3 begins lane 1, 2 lane 2; both end in 1, which goes on in the leftmost of them.
    assert nodes == [(4, 0, [], []), (3, 1, [0], []), (2, 2, [0, 1], []), (1, 1, [0], [1, 2]), (0, 0, [], [0, 1])]

    page = text_of(console.get(reverse("console:checkpoint_tree")))
    for said in ("talkback@4", "tainted", "rejected", "Ana&#x27;s", "from talkback@1", "the base"):
        assert said in page
    assert "talkback@4" not in text_of(console.get(reverse("console:checkpoint_tree") + "?line=shared"))


def test_only_staff_sees_where_weights_come_from(client, talker, grown):
    client.force_login(talker)
    for name, args in (("lineage", [1]), ("receipt", [1]), ("tree", [])):
        assert client.get(reverse(f"console:checkpoint_{name}", args=args)).status_code == 403
    assert client.get(reverse("console:storage")).status_code == 403
    assert client.post(reverse("console:pin", args=[1])).status_code == 403
