"""What people taught, exported as rows: which rows, which never, and what stands beside them."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import SHARED, Checkpoint, Line, Member
from evaluation import exports
from evaluation.datasets import exporting, gathering
from evaluation.datasets.columns import digest
from evaluation.datasets.filters import ExportRefused, Filters
from evaluation.models import BlindChoice, Choice, Comparison, Export, Shadow
from feedback.models import Feedback
from judge.models import Judgement
from judge.samples import exam_questions
from privacy import consent

ASKED, REPLY, BETTER = "What is 2 and 2?", "Two and two are five.", "Four."


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    return made


def rows_of(folder, **asked):
    """The rows of an export, and what is said of it."""
    filters = Filters.read({"state": "any"} | asked)
    made = exporting.write(filters, folder)
    lines = (folder / f"{filters.kind}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines], made


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_a_rewrite_becomes_a_prompt_and_a_completion(serve, say, folder):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    rows, made = rows_of(folder)
    assert rows == [{"prompt": [user(ASKED)], "completion": [assistant(BETTER)]}]
    assert made == {"rows": 1, "left_out": {}, "sources": {"rewrite": 1}}


def test_sft_may_be_one_list_of_messages(serve, say, folder):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    rows, _ = rows_of(folder, shape="messages")
    assert rows == [{"messages": [user(ASKED), assistant(BETTER)]}]


def test_a_reply_with_a_thumb_up_is_a_completion_and_one_with_a_thumb_down_is_none(serve, say, folder):
    say(serve(ASKED, "Four."), "thumb", value=1)
    say(serve("And 3?", "Nine."), "thumb", value=-1)
    rows, made = rows_of(folder)
    assert [row["completion"] for row in rows] == [[assistant("Four.")]]
    assert list(made["left_out"].values()) == [1]


def test_a_rewrite_is_preferred_to_the_reply(serve, say, folder):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    rows, _ = rows_of(folder, kind="dpo")
    assert rows == [{"prompt": [user(ASKED)], "chosen": [assistant(BETTER)], "rejected": [assistant(REPLY)]}]


def test_thumbs_and_the_verdicts_of_tests_are_labels(serve, say, folder):
    say(serve(ASKED, "Four."), "thumb", value=1)
    say(serve("And 3?", "Nine."), "thumb", value=-1)
    say(serve("Run it.", "Done."), "verdict", value=-1)
    rows, made = rows_of(folder, kind="kto")
    assert [(row["completion"][0]["content"], row["label"]) for row in rows] == [
        ("Four.", True), ("Nine.", False), ("Done.", False),
    ]  # fmt: skip
    assert made["sources"] == {"thumb": 2, "test": 1}


def test_a_reviewers_word_outranks_the_thumb(serve, say, folder, person):
    from judge.models import Overruling

    turn = serve(ASKED, REPLY)
    say(turn, "thumb", value=1)
    Overruling.objects.create(turn=turn, reward=-1, reason="wrong", by=person)
    rows, made = rows_of(folder, kind="kto")
    assert [row["label"] for row in rows] == [False]
    assert made["sources"] == {"reviewer": 1}


def test_judges_words_count_as_far_as_they_are_learned_and_not_where_only_people_are_asked_for(serve, folder, ready):
    turn = serve(ASKED, REPLY, status="judged")
    sample = ready(reward=-1.0, origin=turn.pk, teacher_prompt_ids=None)
    Judgement.objects.create(turn=turn, reward=-1, reward_from="votes", confidence=0.8, sample=sample)
    rows, _ = rows_of(folder, kind="kto")
    assert [row["label"] for row in rows] == [False]
    origin = json.loads((folder / "provenance.jsonl").read_text())
    assert (origin["source"], origin["judged_by"], origin["confidence"]) == ("votes", "judges", 0.8)

    assert rows_of(folder, kind="kto", explicit=True)[0] == []


def a_try(session, text, position, follows=None, request="r1", asked=ASKED):
    return Turn.objects.create(
        session=session, position=position, status="observed", checkpoint=Checkpoint.live(), text=text,
        messages=[user(asked)], response_ids=[8, 2], finish_reason="stop", follows=follows, request_chain=request,
    )  # fmt: skip


def test_the_try_that_a_person_went_on_from_is_preferred_to_each_other(person, folder, db):
    session = Session.objects.create(user=person)
    first, kept, third = (a_try(session, text, at) for at, text in enumerate(("Five.", "Four.", "Six.")))
    a_try(session, "You are welcome.", 3, follows=kept, request="r2", asked="Thanks.")
    for turn in (first, kept, third):
        Feedback.objects.create(turn=turn, by=person, kind="thumb", value=-1)
    rows, made = rows_of(folder, kind="dpo")
    pairs = [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows]
    assert pairs == [("Four.", "Five."), ("Four.", "Six.")]
    assert made["sources"] == {"kept try": 2}


def test_tries_of_which_none_was_chosen_are_no_pair(person, folder, db):
    session = Session.objects.create(user=person)
    for at, text in enumerate(("Five.", "Four.")):
        Feedback.objects.create(turn=a_try(session, text, at), by=person, kind="thumb", value=-1)
    assert rows_of(folder, kind="dpo")[0] == []


def test_blind_choices_are_pairs_and_skipped_ones_are_none(serve, person, folder):
    chosen, skipped = serve(ASKED, REPLY), serve("And 3?", "Nine.")
    for turn, picked in ((chosen, "shadow"), (skipped, "skipped")):
        shadow = Shadow.objects.create(turn=turn, checkpoint=Checkpoint.live(), text=BETTER, finish_reason="stop")
        BlindChoice.objects.create(shadow=shadow, by=person, picked=picked)
    rows, made = rows_of(folder, kind="dpo")
    assert rows == [{"prompt": [user(ASKED)], "chosen": [assistant(BETTER)], "rejected": [assistant(REPLY)]}]
    assert made["sources"] == {"blind choice": 1}


def test_a_comparisons_choice_is_a_pair_unless_its_prompt_is_of_the_exam(person, folder, db):
    base = Checkpoint.live()
    other = Checkpoint.objects.create(number=1, parent=base, status="passed")
    exam = exam_questions.questions()[0].prompt
    replies = [{"prompt": prompt, "first": "One.", "second": "Two.", "is_swapped": False} for prompt in (ASKED, exam)]
    comparison = Comparison.objects.create(first=base, second=other, replies=replies, status="answered")
    for place in (0, 1):
        Choice.objects.create(comparison=comparison, place=place, picked="second", by=person)
    rows, made = rows_of(folder, kind="dpo")
    assert rows == [{"prompt": [user(ASKED)], "chosen": [assistant("Two.")], "rejected": [assistant("One.")]}]
    assert made["left_out"] == {"its prompt belongs to the exam of candidates, which never trains": 1}


def test_off_the_record_and_withdrawn_never_leave(serve, say, folder, person):
    off = serve(ASKED, REPLY, learns=False)
    say(off, "rewrite", BETTER)
    quiet = Session.objects.create(user=person, learns=False)
    say(serve("Off?", "Yes.", session=quiet), "rewrite", "No.")
    say(serve("Back?", "Yes."), "rewrite", "No.", withdrawn_at=timezone.now())
    for kind in ("sft", "dpo", "kto"):
        rows, made = rows_of(folder, kind=kind)
        assert rows == []
        assert made["left_out"]["it is off the record"] == 2


def test_what_is_kept_for_examining_candidates_never_leaves(serve, say, folder):
    turn = serve(ASKED, REPLY)
    say(turn, "rewrite", BETTER)
    Judgement.objects.create(turn=turn, reward=-1, hint="x", held_out=True)
    for kind in ("sft", "dpo"):
        rows, made = rows_of(folder, kind=kind)
        assert (rows, made["left_out"]) == ([], {"it is kept for examining candidates": 1})


def test_personal_data_leaves_a_prompt_and_a_reply_with_some_is_left_out(serve, say, folder):
    say(serve("Write to ana@example.com.", "Done."), "rewrite", "Sent.")
    say(serve("Who is it?", "I do not know."), "rewrite", "It is bo@example.com.")
    rows, made = rows_of(folder)
    assert rows == [{"prompt": [user("Write to [email 1].")], "completion": [assistant("Sent.")]}]
    assert made["left_out"] == {"its reply holds personal data": 1}
    origin = json.loads((folder / "provenance.jsonl").read_text())
    assert origin["removed"] == [{"where": "request", "kind": "email", "count": 1}]


def test_tool_calls_and_pictures_are_left_out_and_counted(serve, say, folder):
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    tools = [user("Look."), {"role": "assistant", "content": None, "tool_calls": [call]}]
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
    parts = [{"role": "user", "content": [{"type": "text", "text": ASKED}]}]
    for messages in (tools, picture, parts):
        turn = serve()
        Turn.objects.filter(pk=turn.pk).update(messages=messages)
        say(turn, "rewrite", BETTER)
    rows, made = rows_of(folder)
    assert [row["prompt"] for row in rows] == [[user(ASKED)]]
    assert list(made["left_out"].values()) == [2]


def test_filters_narrow_by_time_person_and_what_became_of_it(serve, say, folder, ready):
    old, new = serve("Old?", "Yes."), serve("New?", "Yes.")
    other = get_user_model().objects.create_user("ben")
    Turn.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=9))
    for turn in (old, new):
        say(turn, "rewrite", "No.")
    sample = ready(rewrite_ids=[4, 2], origin=old.pk)
    Judgement.objects.create(turn=old, sample=sample)

    def asked(**filters):
        return [row["prompt"][0]["content"] for row in rows_of(folder, **filters)[0]]

    today = timezone.localdate()
    assert asked() == ["Old?", "New?"]
    assert asked(since=str(today - timedelta(days=1))) == ["New?"]
    assert asked(until=str(today - timedelta(days=1))) == ["Old?"]
    assert asked(person="ana") == ["Old?", "New?"]
    assert asked(person=other.username) == []
    assert asked(state="ready") == asked(state="lessons") == ["Old?"]
    assert asked(state="learned") == []
    sample.move("claimed")
    sample.move("trained")
    assert asked(state="learned") == ["Old?"]
    type(sample).objects.filter(pk=sample.pk).update(drop_reason="withdrawn after it was learned")
    assert asked(state="learned") == []


def test_what_a_person_gives_to_a_line_of_their_own_leaves_for_that_line_alone(serve, say, folder, person):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    member = Member.objects.create(user=person, line=Line.objects.create(name="hers", start=Checkpoint.live()))
    assert len(rows_of(folder, line=SHARED)[0]) == 0
    assert len(rows_of(folder, line="hers")[0]) == 1
    member.pools = True
    member.save()
    assert len(rows_of(folder, line=SHARED)[0]) == 1


def test_hostile_text_stays_in_its_row(serve, say, folder):
    nasty = 'He said "\u2028{}\n</script><|im_end|>\u0000'.replace("\u0000", "\x1b[2J")
    say(serve(nasty, REPLY), "rewrite", nasty)
    rows, _ = rows_of(folder)
    assert rows == [{"prompt": [user(nasty)], "completion": [assistant(nasty)]}]
    assert len((folder / "sft.jsonl").read_text("utf-8").splitlines()) == 1  # U+2028 ends a line for Python


def test_the_manifest_says_what_left_and_its_hashes_are_those_of_the_files(serve, say, folder):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    say(serve("And 3?", "Nine."), "thumb", value=-1)
    rows, _ = rows_of(folder, licence="CC BY 4.0")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["version"], manifest["rows"], manifest["licence"]) == (1, 1, "CC BY 4.0")
    assert manifest["filters"]["state"] == "any"
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        assert (file["sha256"], file["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    (origin,) = [json.loads(line) for line in (folder / "provenance.jsonl").read_text().splitlines()]
    turn = Turn.objects.get(position=0)
    assert (origin["row"], origin["turn"], origin["source"]) == (0, str(turn.pk), "rewrite")
    assert (origin["judged_by"], origin["checkpoint"]) == (f"person:{turn.session.user_id}", "talkback@0")
    assert (origin["sha256"], origin["licence"]) == (digest(rows[0]), "CC BY 4.0")
    assert "ana" not in json.dumps(origin)  # a name is personal data


def test_unknown_choices_are_refused_in_a_sentence(db):
    for asked in ({"kind": "ppo"}, {"since": "yesterday"}, {"line": "nowhere"}, {"format": "csv"}):
        with pytest.raises(ExportRefused, match=str(*asked.values())):
            Filters.read(asked)


def test_as_many_turns_as_there_are_take_a_fixed_number_of_queries_each_fifty(
    serve, say, folder, django_assert_max_num_queries
):
    for at in range(60):
        say(serve(f"Question {at}?", REPLY), "rewrite", BETTER)
    with django_assert_max_num_queries(9):  # keys, count, off record, line; two batches of turns, feedback each
        rows, _ = rows_of(folder)
    assert len(rows) == 60


class TestJob:
    """An export that a worker makes."""

    @pytest.fixture
    def asked(self, serve, say, person, settings, tmp_path):
        settings.DATA_DIR = tmp_path
        self.turn = serve(ASKED, REPLY)
        self.said = say(self.turn, "rewrite", BETTER)
        return exporting.ask(Filters(state="any"), by=person)

    def test_its_files_are_there_for_a_stated_time(self, asked):
        exporting.make(asked.pk)
        asked.refresh_from_db()
        assert (asked.status, asked.made["rows"]) == ("ready", 1)
        assert sorted(one["name"] for one in asked.made["files"]) == ["manifest.json", "provenance.jsonl", "sft.jsonl"]
        assert timedelta(days=6) < asked.expires_at - timezone.now() <= timedelta(days=7)
        file = exports.file_of(asked, "sft.jsonl")
        with pytest.raises(exports.ExportGone):
            exports.file_of(asked, "../env")

        Export.objects.filter(pk=asked.pk).update(expires_at=timezone.now())
        assert exports.prune() == 1
        asked.refresh_from_db()
        assert asked.status == "gone"
        assert not file.exists()

    def test_made_twice_is_made_once(self, asked):
        exporting.make(asked.pk)
        before = Export.objects.get(pk=asked.pk).moved_at
        exporting.make(asked.pk)
        assert Export.objects.get(pk=asked.pk).moved_at == before

    def test_cancelled_before_it_begins_it_is_never_made(self, asked):
        exports.cancel(asked)
        exporting.make(asked.pk)
        assert Export.objects.get(pk=asked.pk).status == "cancelled"
        assert not asked.folder.exists()

    def test_cancelled_while_it_is_written_nothing_is_left(self, asked, monkeypatch):
        monkeypatch.setattr(exports, "BEAT_S", 0)
        look = exporting.gathering.count

        def cancelled_meanwhile(filters):
            exports.cancel(Export.objects.get(pk=asked.pk))
            return look(filters)

        monkeypatch.setattr(exporting.gathering, "count", cancelled_meanwhile)
        exporting.make(asked.pk)
        assert Export.objects.get(pk=asked.pk).status == "cancelled"
        assert list(asked.folder.parent.iterdir()) == []

    def test_a_worker_that_died_leaves_it_to_the_next(self, asked):
        asked.move("writing", heartbeat_at=timezone.now() - timedelta(minutes=4))
        left = asked.folder.with_name(f".{asked.pk}.dead")
        left.mkdir(parents=True)
        exports.prune()
        assert not left.exists()
        exporting.make(asked.pk)
        assert Export.objects.get(pk=asked.pk).status == "ready"

    @pytest.mark.parametrize("how", ["withdrawn", "off the record", "deleted"])
    def test_what_is_taken_back_after_it_was_written_deletes_the_files(self, asked, how, person):
        exporting.make(asked.pk)
        asked.refresh_from_db()
        exporting.check(asked)  # all stands
        if how == "withdrawn":
            Feedback.objects.withdraw(self.turn, by=person, kind="rewrite")
        elif how == "deleted":
            self.turn.session.delete()
        else:
            consent.set_turn(self.turn, False)
        with pytest.raises(exports.ExportGone, match="1 of its rows were taken back"):
            exporting.check(asked)
        assert Export.objects.get(pk=asked.pk).status == "gone"
        assert not asked.folder.exists()

    def test_without_a_download_it_is_seen_within_the_hour(self, asked, person):
        exporting.make(asked.pk)
        exporting.check_again()  # all stands
        Feedback.objects.withdraw(self.turn, by=person, kind="rewrite")
        exporting.check_again()
        assert asked.folder.exists()  # it was looked at a moment ago
        Export.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=61))
        exporting.check_again()
        assert Export.objects.get().status == "gone"
        assert not asked.folder.exists()


def test_the_command_writes_the_same_files(serve, say, tmp_path, capsys):
    say(serve(ASKED, REPLY), "rewrite", BETTER)
    say(serve("And 3?", "Nine."), "thumb", value=-1)
    out = tmp_path / "sft"
    call_command("datasets", "export", str(out), "--state", "any")
    said = capsys.readouterr().out
    assert f"1 rows are in {out / 'sft.jsonl'}." in said
    assert "Left out: 1: no better reply is known" in said
    assert {file.name for file in out.iterdir()} == {"sft.jsonl", "provenance.jsonl", "manifest.json"}
    with pytest.raises(CommandError, match="is there already"):
        call_command("datasets", "export", str(out))


@pytest.mark.django_db
def test_what_became_of_turns_is_looked_up_once_and_not_for_each_turn_among_all_samples():
    """Else a preview of everything that was judged takes minutes over a thousand turns."""
    for state in ("lessons", "learned", "ready", "any"):
        assert "CORRELATED" not in gathering.turns(Filters(state=state)).explain(), state
