"""The pages of lines: made and led in the console, told to whom they answer, and never in the way of the shared one."""

import pytest
from django.core.management import call_command
from django.urls import reverse

from chat.models import Session
from checkpoints import lines
from checkpoints.models import SHARED, Checkpoint, Line, Member
from privacy import membership
from tests.rows import made_by
from training import line_recipes
from training.models import Run, Sample
from webapp.console import board
from webapp.journeys.known import journeys
from webapp.people.own_data import own_export


@pytest.fixture
def line(talker):
    made = lines.make("Ben’s")
    membership.join(made, talker)
    return made


@pytest.fixture
def do(console):
    """A press of a button in the console, and what the next page says."""

    def do(name, *args, **fields):
        answer = console.post(reverse(f"console:{name}", args=args), fields, follow=True)
        assert answer.redirect_chain[-1][0] == reverse("console:lines")
        return " ".join(str(message) for message in answer.context["messages"])

    return do


def own(number, line, status="live", **fields):
    return Checkpoint.objects.create(
        number=number, line=line, status=status, adapter=f"talkback-{number}-x", path="x", **fields
    )


def test_a_line_is_made_for_people_and_answers_them(do, talker, console):
    assert "begins with talkback@0" in do("line_make", title="The team", people="ben, ana")
    line = Line.objects.get(name="the-team")
    assert set(line.members.values_list("user__username", flat=True)) == {"ana", "ben"}
    page = console.get(reverse("console:lines")).content.decode()
    assert all(words in page for words in ("The team", "ben", "talkback@0", "for everybody without another"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"title": "X", "people": "unknown"}, "No person here is called"),
        ({"title": "shared"}, "take another name"),
        ({"title": "…"}, "letters or digits"),
    ],
)
def test_a_line_that_cannot_be_made_is_refused_with_a_sentence(do, fields, said):
    assert said in do("line_make", **fields)
    assert Line.objects.count() == 1


def test_people_are_added_and_sent_back(do, talker):
    line = lines.make("Team")
    assert "writes the next reply to ben" in do("line_join", line.name, person="ben")
    assert Line.of(talker) == "team"
    do("line_leave", line.name, talker.pk)
    assert Line.of(talker) == SHARED
    assert "No person here is called" in do("line_join", line.name, person="eve")


def test_learn_now_takes_the_lines_samples_alone(do, line, make_lesson):
    hers, theirs = make_lesson().sample, make_lesson().sample
    Sample.objects.filter(pk=hers.pk).update(line=line)
    assert "learns from 1 lesson" in do("line_learn", line.name)
    run = Run.objects.get()
    assert (run.line_id, list(run.samples.all())) == (line.name, [hers])
    theirs.refresh_from_db()
    assert theirs.status == "ready"


def test_a_line_steps_back_and_the_shared_one_stays(do, line, talker, operator, engine):
    own(1, line).decisions.create(verb="promote")
    assert "talkback@0 is not live any more" in do("line_step_back", line.name, instead_of="0")
    assert "talkback@0 writes the next reply" in do("line_step_back", line.name, instead_of="1")
    assert (Checkpoint.for_user(talker).number, Checkpoint.objects.get(number=1).status) == (0, "retired")


def test_a_retired_line_is_shown_as_such_and_its_people_talk_to_the_shared_one(do, line, talker, console):
    own(1, line)
    assert "is retired" in do("line_retire", line.name)
    assert Checkpoint.for_user(talker).number == 0
    assert 'chip">retired' in console.get(reverse("console:lines")).content.decode()
    assert "cannot be retired" in do("line_retire", SHARED)


def test_the_pages_are_for_staff(client, talker, line):
    client.force_login(talker)
    assert client.get(reverse("console:lines")).status_code == 403
    assert client.post(reverse("console:line_retire", args=[line.name])).status_code == 403


def test_checkpoints_say_whose_they_are(console, line, make_checkpoint):
    make_checkpoint(1)
    Checkpoint.objects.filter(number=1).update(line=line)
    for page in (reverse("console:checkpoints"), reverse("console:checkpoint", args=[1])):
        assert f"#line-{line.name}" in console.get(page).content.decode()
    assert "It is of the line “Ben’s”." in " ".join(station.sentence for station in board.read().stations)


def test_a_private_candidate_goes_live_in_its_line_alone(console, line, talker, make_checkpoint, engine):
    candidate = make_checkpoint(1)
    Checkpoint.objects.filter(number=1).update(line=line)
    console.post(reverse("console:approve", args=[1]))
    candidate.refresh_from_db()
    assert candidate.status == "live"
    assert (Checkpoint.live().number, Checkpoint.for_user(talker).number) == (0, 1)


def test_ones_own_page_says_which_model_answers_and_asks_before_it_pools(client, talker, operator, line):
    membership.join(line, operator)
    own(1, line)
    client.force_login(talker)
    page = client.get(reverse("privacy:home")).content.decode()
    assert all(
        words in page for words in ("“Ben’s”", "talkback@1", "it answers ana and you", "teaches this line alone")
    )
    said = client.post(reverse("privacy:pool"), {"pools": "on"}, follow=True).content.decode()
    assert "teaches the shared model too" in said
    assert Member.objects.get(user=talker).pools
    assert not Member.objects.get(user=operator).pools
    client.post(reverse("privacy:pool"), {"pools": "off"})
    assert not Member.objects.get(user=talker).pools


def test_who_has_no_line_of_their_own_is_told_so_and_asked_nothing(client, talker):
    client.force_login(talker)
    assert 'id="pool"' not in client.get(reverse("privacy:home")).content.decode()
    said = client.post(reverse("privacy:pool"), {"pools": "on"}, follow=True).content.decode()
    assert "The shared model answers you" in said


def test_the_export_names_the_line_and_the_word_given(talker, line):
    def account():
        return next(iter(own_export.exported(talker)))

    assert (account()["line"], account()["teaches_the_shared_line"]) == (line.name, False)
    membership.pool(talker, may=True)
    assert account()["teaches_the_shared_line"] is True


def test_what_went_into_the_shared_line_too_is_counted_and_told(client, talker, line, make_lesson, make_run):
    judgement = make_lesson("trained", run=make_run(line=line))
    made_by(judgement.sample.run, Checkpoint.objects.create(number=1, line=line, adapter="a1"))
    second = judgement.sample
    second.pk, second.line_id, second.origin, second.run = None, SHARED, judgement.turn_id, make_run()
    second._state.adding = True
    second.save()
    made_by(second.run, Checkpoint.objects.create(number=2, adapter="a2"))
    client.force_login(talker)
    page = client.get(reverse("privacy:home"))
    assert [checkpoint.number for checkpoint, _ in page.context["checkpoints"]] == [2, 1]
    assert ("lessons that were learned", 2) in [row[:2] for row in page.context["stored"]]


def test_a_place_in_the_batch_is_one_in_its_own_line(line, make_lesson):
    first, second, third = (make_lesson() for _ in range(3))
    Sample.objects.filter(pk=second.sample_id).update(line=line)
    line_recipes.set_recipe(line, {"batch_size": 4})
    told = journeys([each.turn for each in (first, second, third)])
    assert [told[each.turn_id].label for each in (second, third)] == ["lesson 1 of 4", "lesson 2 of 16"]


def test_the_chat_shows_who_answers_this_person(client, talker, line):
    own(1, line)
    client.force_login(talker)
    session = Session.objects.create(user=talker)
    assert "talkback@1" in client.get(reverse("chat:session", args=[session.pk])).content.decode()


def test_scripts_list_whose_a_checkpoint_is_step_a_line_back_and_learn(line, capsys, engine, make_lesson):
    own(1, line).decisions.create(verb="promote")
    call_command("checkpoints", "list")
    assert f"[{line.name}]" in capsys.readouterr().out
    call_command("checkpoints", "rollback", "--line", line.name)
    assert Checkpoint.live(line.name).number == 0
    Sample.objects.filter(pk=make_lesson().sample_id).update(line=line)
    call_command("learn_now", "--line", line.name)
    assert Run.objects.get().line_id == line.name
