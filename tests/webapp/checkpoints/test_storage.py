"""Retention: weights that something needs stay, by rules that a person can read; the rest goes, and only its files."""

from __future__ import annotations

import shutil
from collections import namedtuple
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from chat.api_keys import ApiKey
from checkpoints import checksums, promotion
from checkpoints.checksums import WeightsChanged
from checkpoints.models import Checkpoint, Decision
from checkpoints.notice_rows import Notice
from core.errors import IllegalMove
from training.models import Run
from training.provenance import retention
from training.running import orphans

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(make_checkpoint, settings, tmp_path):
    """Checkpoints with a KiB each: 1 to 6 retired in turn, long ago, 7 live."""
    settings.DATA_DIR, settings.RETAIN_LAST, settings.RETAIN_DAYS = tmp_path, 1, 30
    long_ago = timezone.now() - timedelta(days=90)
    for number in range(1, 8):
        made = make_checkpoint(number, "retired")
        made.folder.mkdir(parents=True)
        (made.folder / "adapter_model.safetensors").write_bytes(bytes(1024))
        Checkpoint.objects.filter(pk=made.pk).update(
            moved_at=long_ago + timedelta(days=number), created_at=long_ago, files=checksums.of(made.folder)
        )
    Checkpoint.objects.filter(number=0).update(status="retired", moved_at=long_ago)
    Checkpoint.objects.filter(number=7).update(status="live")
    return {row.number: row for row in Checkpoint.objects.all()}


def going(**options):
    return sorted(one.checkpoint.number for one in retention.plan(**options) if one.goes)


def test_the_live_one_the_warm_ones_the_last_ones_and_what_is_needed_stay(stored, operator, talker):
    # 5 and 6 are warm (holding.WARM is 2), 6 is the last retired one, 7 is live: 1 to 4 have no reason to stay.
    assert going() == [1, 2, 3, 4]

    retention.pin(stored[1], by=operator, reason="the paper's figures")
    Run.objects.create(recipe={}, parent=stored[2])
    ApiKey.objects.create(user=talker, name="a", prefix="p", digest="d", checkpoint=stored[3])
    assert going() == [4]
    reasons = {one.checkpoint.number: one.reasons for one in retention.plan()}
    assert reasons[1] == ["pinned"]
    assert reasons[2] == ["a run goes on from it"]
    assert reasons[3] == ["a key asks for it"]


def test_rejected_weights_go_sooner_and_young_ones_stay(stored, settings):
    now = timezone.now()
    Checkpoint.objects.filter(number=1).update(status="rejected", moved_at=now - timedelta(days=8))
    Checkpoint.objects.filter(number=2).update(status="rejected", moved_at=now - timedelta(days=6))
    Checkpoint.objects.filter(number=3).update(moved_at=now - timedelta(days=29))
    Checkpoint.objects.filter(number=4).update(status="passed", moved_at=now - timedelta(days=300))
    assert going() == [1, 5]  # 3 and 6 were the last to retire, and are warm
    settings.RETAIN_LAST = 0
    assert 3 not in going()  # it retired 29 days ago, and 30 are kept


def test_what_is_let_go_of_loses_its_files_and_nothing_else(stored, tmp_path):
    assert [row.number for row in retention.sweep()] == [4, 3, 2, 1]
    kept = sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir())
    assert kept == ["5", "6", "7"]
    gone = Checkpoint.objects.get(number=1)
    assert (gone.status, gone.let_go_at is None, Run.that_made(gone) is None) == ("retired", False, False)
    assert Decision.objects.filter(checkpoint=gone, verb="let go").get().reason.endswith("1.0 KiB were freed")
    with pytest.raises(WeightsChanged, match="let go of"):
        checksums.verify(gone)
    with pytest.raises(IllegalMove, match=r"talkback@1 was let go of on .*: its weights are not on this disk any more"):
        async_to_sync(promotion.roll_back)(to=gone)
    assert retention.sweep() == []


def test_one_that_is_needed_at_the_last_moment_stays(stored, operator):
    found = [one for one in retention.plan() if one.goes]
    retention.pin(stored[4], by=operator, reason="wait")
    assert [retention.let_go(one.checkpoint) for one in found] == [0, 1024, 1024, 1024]
    assert stored[4].folder.exists()


def test_a_process_that_died_between_row_and_files_leaves_nothing_for_long(stored, tmp_path):
    Checkpoint.objects.filter(number=1).update(let_go_at=timezone.now())  # and its files are still there
    (tmp_path / "checkpoints" / ".half.123").mkdir()  # and a run was killed while it saved
    (tmp_path / "checkpoints" / "whole").mkdir()  # or after, before its row; or the database is one put back
    run = Run.objects.create(recipe={}, status="running", heartbeat_at=timezone.now())
    assert retention.clear_leftovers() == []  # its weights have no row yet
    run.delete()
    assert sorted(retention.clear_leftovers()) == [".half.123", "1"]
    assert orphans.clear_orphans() == ["whole"]  # as the next run begins


def test_the_disk_is_foreseen_and_told_of_before_it_hurts(stored, monkeypatch):
    usage = namedtuple("usage", "total used free")
    Checkpoint.objects.filter(number__gte=6).update(created_at=timezone.now() - timedelta(days=2))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100 * 1024, 0, 50 * 1024))
    # 7 KiB are used, 1 KiB a run, 2 runs in 2 days: 50 KiB last 50 days.
    disk = retention.watch()
    assert (disk.used, disk.growth, round(disk.runs_a_day, 2), round(disk.days_left)) == (7168, 1024, 1.0, 50)
    assert not Notice.objects.exists()
    assert "full in 50 days" in disk.sentence

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100 * 1024, 0, 5 * 1024))
    retention.watch(), retention.watch()
    assert "full in 5 days" in Notice.objects.get().text  # said once


def test_a_dry_run_says_what_would_go_and_removes_nothing(stored, capsys):
    call_command("retention", "--dry-run")
    said = capsys.readouterr().out
    assert "would go" in said
    assert "live" in said
    assert not Checkpoint.objects.exclude(let_go_at=None).exists()
    with pytest.raises(CommandError, match="Say in a few words"):
        call_command("retention", "--pin", "1")
    call_command("retention", "--pin", "1", "--reason", "the paper")
    call_command("retention")
    assert set(Checkpoint.objects.exclude(let_go_at=None).values_list("number", flat=True)) == {2, 3, 4}
    with pytest.raises(CommandError, match="there are no weights to keep"):
        call_command("retention", "--pin", "2", "--reason", "too late")


def test_the_page_shows_the_disk_why_each_stays_and_what_goes_next(console, stored):
    page = " ".join(console.get(reverse("console:storage")).content.decode().split())
    assert "4 checkpoints would go next." in page
    assert "what a roll back goes to" in page or "warm: the engine has it loaded" in page
    console.post(reverse("console:pin", args=[1]), {"reason": "the paper's figures"})
    assert Checkpoint.objects.get(number=1).pinned == "the paper's figures"
    console.post(reverse("console:let_go"))
    assert set(Checkpoint.objects.exclude(let_go_at=None).values_list("number", flat=True)) == {2, 3, 4}
    console.post(reverse("console:pin", args=[1]), {"unpin": "1", "back": "checkpoint"})
    assert list(Decision.objects.filter(checkpoint__number=1).values_list("verb", flat=True)) == ["unpin", "pin"]
