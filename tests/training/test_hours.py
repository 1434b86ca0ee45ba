"""When learning may begin: ranges, quiet, budget and pauses, and what a person reads of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.core import checks
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from chat import quiet
from tests.training.test_runs import again
from training import batches, hours, runs, tasks
from training.checks import hours_can_be_read
from training.config import Recipe
from training.hours import HoursInvalid, Known, Range, Rules, Wait, minutes_of_day, parse, wait
from training.models import Pause, Run, Sample

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")  # put forward on 29 March 2026 at 02:00, back on 25 October at 03:00
NEW_YORK = ZoneInfo("America/New_York")

minutes = st.integers(0, hours.DAY_MIN - 1)
ranges = st.tuples(minutes, minutes).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: Range(*pair))
instants = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))
zones = st.sampled_from([UTC, BERLIN, ZoneInfo("Asia/Kolkata"), NEW_YORK])


def at(clock: str, day: datetime = MONDAY) -> datetime:
    hour, minute = map(int, clock.split(":"))
    return day.replace(hour=hour, minute=minute)


# Ranges


@given(ranges, instants)
def test_a_range_holds_the_minutes_from_its_start_on_as_many_as_it_is_long(one, instant):
    minute = instant.hour * 60 + instant.minute
    # Walked round the clock from the start: midnight is a minute like any other.
    assert one.holds(instant) == ((minute - one.start) % hours.DAY_MIN < (one.end - one.start) % hours.DAY_MIN)


@given(ranges, instants)
def test_a_range_and_the_same_the_other_way_round_make_a_day(one, instant):
    assert one.holds(instant) != Range(one.end, one.start).holds(instant)


@given(st.lists(ranges, min_size=1, max_size=3), instants, zones)
def test_it_opens_at_the_first_open_minute_and_not_before(some, instant, zone):
    rules, moment = Rules(tuple(some)), instant.astimezone(zone)

    opens = rules.opens(moment)

    assert opens >= moment
    assert rules.open_at(opens)
    # Every quarter of an hour from now until then is closed, by the clock on the wall.
    probe = moment.astimezone(UTC)
    while probe < opens.astimezone(UTC):
        assert not rules.open_at(probe.astimezone(zone))
        probe += timedelta(minutes=15)


@pytest.mark.parametrize(
    ("hours_of_day", "now", "opens"),
    [
        # 02:30 is left out that night: at 01:00 UTC the clock goes from 02:00 to 03:00, which is within.
        ("02:30-05:00", datetime(2026, 3, 29, 0, tzinfo=BERLIN), datetime(2026, 3, 29, 1, tzinfo=UTC)),
        # All but its last minute is left out.
        ("02:01-03:01", datetime(2026, 3, 8, 0, tzinfo=NEW_YORK), datetime(2026, 3, 8, 7, tzinfo=UTC)),
        # Wholly left out: the next night's, now at UTC+2.
        ("02:15-02:45", datetime(2026, 3, 29, 0, tzinfo=BERLIN), datetime(2026, 3, 30, 0, 15, tzinfo=UTC)),
        # 02:30 comes twice: at 00:30 UTC and again at 01:30 UTC.
        ("02:30-02:45", datetime(2026, 10, 25, 2, 50, tzinfo=BERLIN), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_it_opens_where_the_clock_is_changed(hours_of_day, now, opens):
    assert Rules(parse(hours_of_day)).opens(now).astimezone(UTC) == opens


def test_several_ranges_are_read():
    assert parse(" 22:00-07:00,12:30 - 13:15 ") == (Range(1320, 420), Range(750, 795))
    assert parse("") == ()
    assert parse("0:00-24:00") == (Range(0, 1440),)
    assert Rules(parse("00:00-24:00")).open_at(at("23:59"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("22-7", "'22-7': a range of hours looks like 22:00-07:00"),
        ("22:00-25:00", "a day goes from 00:00 to 24:00"),
        ("24:00-07:00", "a day goes from 00:00 to 24:00"),
        ("22:60-07:00", "a day goes from 00:00 to 24:00"),
        ("07:00-07:00", "no time at all"),
    ],
)
def test_what_is_no_range_is_refused_in_a_sentence(text, said):
    with pytest.raises(HoursInvalid, match=said):
        parse(text)


def test_a_start_says_which_setting_cannot_be_read(settings):
    assert hours_can_be_read() == []

    settings.LEARN_HOURS = "at night"
    assert [(error.id, error.msg) for error in checks.run_checks() if error.id == "training.E001"] == [
        ("training.E001", "LEARN_HOURS holds 'at night': a range of hours looks like 22:00-07:00.")
    ]
    settings.LEARN_HOURS, settings.LEARN_BUDGET_MIN = "", "an hour"
    assert "LEARN_BUDGET_MIN is 'an hour': it takes a number of minutes" in hours_can_be_read()[0].msg
    settings.LEARN_BUDGET_MIN, settings.LEARN_IDLE_S = "", "-5"
    assert "LEARN_IDLE_S is '-5'" in hours_can_be_read()[0].msg


# Budget


spans = st.lists(
    st.tuples(st.integers(-3000, 1500), st.integers(0, 600)).map(
        lambda pair: (MONDAY + timedelta(minutes=pair[0]), MONDAY + timedelta(minutes=sum(pair)))
    ),
    max_size=4,
)


@given(spans, st.integers(0, hours.DAY_MIN - 1))
def test_the_minutes_of_a_day_are_those_that_a_minute_hand_counts(worked, minute):
    now = MONDAY + timedelta(minutes=minute)
    counted = sum(start <= MONDAY + timedelta(minutes=passed) < to for start, to in worked for passed in range(minute))
    assert minutes_of_day(worked, now) == pytest.approx(counted)


def test_a_day_on_which_the_clock_is_put_forward_is_an_hour_shorter():
    now = datetime(2026, 3, 29, 4, tzinfo=BERLIN)  # three hours after midnight
    assert minutes_of_day([(now - timedelta(days=1), now)], now) == 180.0


@given(st.floats(0, 2000), st.floats(1, 1000), instants)
def test_nothing_begins_once_the_budget_is_used_up_and_it_goes_on_at_midnight(spent, budget, instant):
    held = wait(Rules(budget_min=budget), Known(instant, spent_min=spent))

    assert (held is not None) == (spent >= budget)
    if held is not None:
        assert held.until == instant.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


@pytest.mark.django_db
def test_the_minutes_of_a_day_come_from_the_runs(settings):
    settings.LEARN_BUDGET_MIN = "60"
    now = timezone.localtime()
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0)

    def ran(status, **minutes_before_noon):
        moments = {f"{name}_at": noon - timedelta(minutes=before) for name, before in minutes_before_noon.items()}
        Run.objects.create(recipe={}, status=status, **moments)

    ran("finished", started=60, heartbeat=41, finished=40)  # 20
    ran("failed", started=30, heartbeat=25, finished=1)  # 5: its worker died then, and it was seen later
    ran("queued", started=20, heartbeat=18)  # 2: its worker died, and it is to begin again
    ran("running", started=10, heartbeat=5)  # 10: it is at work
    ran("finished", started=13 * 60, heartbeat=13 * 60 - 80, finished=13 * 60 - 90)  # 30, since it began at 23:00
    ran("failed", finished=3)  # it never began

    assert minutes_of_day(hours._worked(noon), noon) == pytest.approx(20 + 5 + 2 + 10 + 30)


# What a person reads


NIGHT = Rules(parse("22:00-07:00"))
ANNA = User(username="anna")


@pytest.mark.parametrize(
    ("rules", "known", "said"),
    [
        (NIGHT, Known(at("14:00")), "it may run from 22:00"),
        (
            Rules(idle_s=600),
            Known(at("14:00"), chatted_at=at("13:55")),
            "a person is chatting. It goes on after 10 min of quiet, not before 14:05",
        ),
        (
            Rules(budget_min=60),
            Known(at("14:00"), spent_min=63),
            "the 60 minutes of today are used up. It goes on at 00:00",
        ),
        # Tomorrow's minutes begin at midnight, which lies in the night's hours.
        (
            Rules(NIGHT.ranges, budget_min=60),
            Known(at("23:00"), spent_min=60),
            "the 60 minutes of today are used up. It goes on at 00:00",
        ),
        # And where it does not, they wait for the hours.
        (
            Rules(parse("09:00-17:00"), budget_min=60),
            Known(at("10:00"), spent_min=60),
            "the 60 minutes of today are used up. It goes on at 09:00",
        ),
        (Rules(), Known(at("14:00"), pause=Pause()), "paused until a person resumes it"),
        (
            NIGHT,
            Known(at("14:00"), pause=Pause(by=ANNA, reason="A {benchmark}.")),
            "paused by anna (A {benchmark}) until a person resumes it",
        ),
        (
            NIGHT,
            Known(at("14:00"), pause=Pause(by=ANNA, until=at("08:00", MONDAY + timedelta(days=4)))),
            "paused by anna. It goes on at 22:00 on Friday 6 March",
        ),
    ],
)
def test_the_first_reason_is_told_and_when_all_of_them_end(rules, known, said):
    assert wait(rules, known).why == said


def test_nothing_holds_it_back():
    assert wait(Rules(), Known(at("14:00"))) is None
    assert wait(NIGHT, Known(at("23:00"))) is None
    assert wait(Rules(idle_s=600), Known(at("14:00"), chatted_at=at("13:50"))) is None
    assert wait(Rules(idle_s=600), Known(at("14:00"))) is None  # no person has ever chatted


def test_what_a_person_asked_for_waits_for_a_pause_alone():
    everything = Rules(parse("22:00-07:00"), idle_s=600, budget_min=1)
    busy = Known(at("14:00"), chatted_at=at("14:00"), spent_min=9)
    assert wait(everything, busy, exempt=True) is None

    until = at("15:00")
    held = wait(everything, Known(at("14:00"), pause=Pause(until=until)), exempt=True)
    assert held == Wait("paused. It goes on at 15:00", until)


def test_the_sentence_counts_what_is_ready():
    assert Wait("it may run from 22:00", None).sentence(1) == (
        "Training waits: it may run from 22:00. 1 lesson is ready."
    )


# What the rows do


@pytest.fixture
def clock(monkeypatch):
    """Sets what the clock says to the rules."""

    def clock(moment):
        monkeypatch.setattr(hours.timezone, "localtime", lambda timezone=None: moment)

    return clock


RECIPE = Recipe(batch_size=2, distillation="vocabulary", lr=1e-2)


@pytest.fixture
def night(settings, home):
    settings.LEARN_HOURS, settings.RECIPE = "22:00-07:00", str(home / "recipe.json")
    (home / "recipe.json").write_text('{"batch_size": 2, "updates": 1}')


def test_a_full_batch_is_not_claimed_before_the_hours_and_is_by_the_first_nudge_in_them(ready, night, clock):
    samples = [ready(), ready()]

    clock(at("21:59"))
    tasks.fill_batch(str(samples[0].pk))
    assert not Run.objects.exists()
    assert set(Sample.objects.values_list("status", flat=True)) == {"ready"}  # a later word may still change them

    clock(at("22:00"))
    tasks.fill_batch(str(samples[0].pk))
    assert Run.objects.get().status == "queued"


def test_a_queued_run_waits_for_its_hours_and_begins_in_them(ready, night, clock):
    ready(), ready()
    run = batches.fill(RECIPE)

    clock(at("14:00"))
    assert runs.train(again(run)) is None
    assert (again(run).status, again(run).attempts) == ("queued", 0)

    clock(at("22:30"))
    assert runs.train(again(run)) is not None


def test_learn_now_does_not_wait_for_the_hours(ready, night, clock):
    ready()
    clock(at("14:00"))

    assert runs.train(batches.learn_now(RECIPE)) is not None


def test_a_run_that_lost_its_worker_goes_on_whatever_the_clock_says(ready, night, clock):
    ready(), ready()
    run = batches.fill(RECIPE)
    long_ago = timezone.now() - timedelta(seconds=runs.SILENCE_S + 1)
    Run.objects.filter(pk=run.pk).update(status="running", attempts=1, started_at=long_ago, moved_at=long_ago)
    assert runs.recover() == [run]

    clock(at("14:00"))
    assert runs.train(again(run)) is not None


def test_learning_waits_while_a_person_chats(ready, home, settings, monkeypatch):
    settings.LEARN_IDLE_S = "600"
    ready(), ready()
    run = batches.fill(RECIPE)
    monkeypatch.setattr(quiet, "last_chat", timezone.now)
    assert runs.train(again(run)) is None
    assert hours.waiting(run).why.startswith("a person is chatting. It goes on after 10 min of quiet, not before ")

    monkeypatch.setattr(quiet, "last_chat", lambda: timezone.now() - timedelta(seconds=601))
    assert runs.train(again(run)) is not None


def test_a_pause_holds_back_even_what_a_person_asked_for(ready, home):
    anna = User.objects.create_user("anna")
    hours.pause(by=anna, reason="benchmarks")
    ready()
    run = batches.learn_now(RECIPE)

    assert runs.train(run) is None
    assert hours.waiting(run).why == "paused by anna (benchmarks) until a person resumes it"

    assert hours.resume() == 1
    assert runs.train(again(run)) is not None


@pytest.mark.django_db
def test_a_pause_ends_by_itself_and_with_the_next_one():
    soon = timezone.now() + timedelta(hours=1)
    first = hours.pause(until=soon)
    assert hours.current() == first
    assert hours.current(soon) is None

    second = hours.pause()
    assert hours.current() == second
    assert Pause.objects.get(pk=first.pk).ended_at is not None
    assert (hours.resume(), hours.resume()) == (1, 0)
    with pytest.raises(HoursInvalid, match="ends in the future"):
        hours.pause(until=timezone.now())
