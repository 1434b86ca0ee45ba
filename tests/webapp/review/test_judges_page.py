"""Who judges and how well, as a page: for staff, with its empty states, and with its rules and prompts."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import date, timedelta

import pytest
from django.utils import timezone

from judge.calibration import gold, scales, vote_floor
from judge.calibration import measuring as calibration
from judge.calibration.agreement import agreement
from judge.models import GoldReading, Judgement, Measuring, Ruling, Vote
from judge.votes import judges
from judge.votes.engine_judge import EngineJudge
from tests.judge.calibration.test_agreement import readings
from webapp.charts import accuracy

HERE = "/console/judges/"


@pytest.fixture(autouse=True)
def fresh():
    vote_floor.forget()
    yield
    vote_floor.forget()


@pytest.fixture
def who(engine, settings):
    settings.JUDGES = '[{"kind": "base"}]'
    return judges.judge()


@pytest.fixture
def read_gold(who):
    """So many gold follow-ups were read, and of these so many wrongly, some days ago."""

    def read_gold(measured: int, wrong: int, days: int = 0, version: str = "") -> None:
        for n, item in enumerate(gold.items()[:measured]):
            said = item.score if n >= wrong else -item.score or 1
            GoldReading.objects.create(
                item=item.id, gold=item.digest, judge=who.name, prompt_version=version or who.version, role=item.role,
                expected=item.score, score=said, wants_hint=item.wants_hint, seconds=2.0, tokens=60,
                read_at=timezone.now() - timedelta(days=days),
                raw=[{"question": "score", "said": said, "raw": f"I think so. \\boxed{{{said}}}", "failure": ""}],
            )  # fmt: skip

    return read_gold


def closer(console, who, version: str = ""):
    return console.get(f"{HERE}one/", {"name": who.name, "version": version or who.version})


def test_only_staff_come_in(client, talker, who):
    assert client.get(HERE).status_code == 302
    client.force_login(talker)
    for address in (HERE, f"{HERE}one/?name=x&version=y"):
        assert client.get(address).status_code == 403
    for address in (f"{HERE}measure/", f"{HERE}overrule/", f"{HERE}measure/1/stop/"):
        assert client.post(address).status_code == 403
    assert not Measuring.objects.exists()


def test_a_judge_that_was_never_measured_says_so(console, who):
    page = console.get(HERE).content.decode()
    assert who.name in page
    assert "Not measured yet: it votes and counts for nothing. Measure it now." in page
    assert 'chip warn">not measured: counts for nothing' in page
    assert "Votes are cast and shown, and count for nothing" in page
    assert "None read yet: measure it." in page
    assert "It has cast no vote in thirty days." in page
    assert "no text leaves your network for it" in page
    assert "Where it was wrong" in closer(console, who).content.decode()


def test_the_page_shows_the_rules_and_the_prompts(console, who):
    page = console.get(HERE).content.decode()
    assert vote_floor.rule().split(":")[0] in page
    assert "exit code" in page
    assert "test verdict" in page
    assert "You are a careful judge" in page
    assert f"prompts cases, {who.version}" in page


def test_where_text_leaves_the_machine_is_said_plainly(console, settings):
    settings.JUDGES, settings.JUDGE_URL, settings.JUDGE_MODEL = "", "https://judge.example.org/v1", "large"
    page = console.get(HERE).content.decode()
    assert "Text of your conversations leaves this machine for judge.example.org." in page
    closely = console.get(f"{HERE}one/", {"name": "large at judge.example.org", "version": "cases-1"}).content.decode()
    assert "Text of your conversations leaves this machine for judge.example.org." in closely


def test_judges_that_cannot_be_are_a_sentence_and_no_error(console, settings):
    settings.JUDGES = '[{"kind": "openai", "url": "https://judge.example.org"}]'
    page = console.get(HERE)
    assert page.status_code == 200
    assert "There is no judge." in page.content.decode()


def test_accuracy_kappa_and_confusion_stand_on_the_page(console, who, read_gold):
    read_gold(measured=60, wrong=15)
    page = console.get(HERE).content.decode()
    assert "0.75" in page  # 45 of 60
    assert "0.63 – 0.84" in page  # Wilson: (0.75 + 0.03201 ± 1.96 · √(0.003125 + 0.000267)) / 1.06403
    closely = closer(console, who).content.decode()
    assert "45 of 60" in closely
    assert 'class="wrong"' in closely
    assert closely.count("<caption>") >= 2  # all, and by role
    assert "I think so." in closely  # its own words


def test_a_poor_judge_has_stopped_and_the_page_says_what_that_means(console, who, read_gold):
    read_gold(measured=60, wrong=55)
    page = console.get(HERE).content.decode()
    assert "The judge has stopped: votes teach nothing." in page
    assert 'chip bad">stopped' in page


def test_measure_now_is_a_row_and_is_not_begun_twice(console, who):
    console.post(f"{HERE}measure/", {"name": who.name})
    measuring = Measuring.objects.get()
    assert (measuring.judge, measuring.total, measuring.asked_by.username) == (who.name, len(gold.items()), "ana")
    page = console.get(HERE).content.decode()
    assert f"0 of {measuring.total} gold follow-ups read" in page
    assert 'hx-trigger="every 4s"' in page
    again = console.post(f"{HERE}measure/", {"name": who.name}, follow=True).content.decode()
    assert "is being measured already" in again
    assert Measuring.objects.count() == 1

    ended = console.post(f"{HERE}measure/{measuring.pk}/stop/", follow=True).content.decode()
    assert "Ended. What" in ended
    assert calibration.unfinished() == []
    assert "The last measuring ended early: ana ended it." in ended
    assert 'hx-trigger="every 4s"' not in ended


def test_nobody_is_measured_who_does_not_judge(console, who):
    page = console.post(f"{HERE}measure/", {"name": "another one"}, follow=True).content.decode()
    assert "There is no judge another one." in page
    assert not Measuring.objects.exists()


def test_an_operator_overrules_with_a_reason_and_gives_back(console, who, read_gold):
    read_gold(measured=60, wrong=55)
    said = {"name": who.name, "version": who.version, "reason": "Only until Monday."}
    page = console.post(f"{HERE}overrule/", said | {"weight": "0,5"}, follow=True).content.decode()
    assert "counts 0.5 from now on" in page
    assert "ana set it to 0.5: Only until Monday." in page
    assert vote_floor.weight(who.name, who.version) == 0.5
    console.post(f"{HERE}overrule/", said | {"weight": ""})
    assert vote_floor.weight(who.name, who.version) == 0
    assert Ruling.objects.count() == 2
    audit = " ".join(console.get("/console/audit/").content.decode().split())
    assert f'<span class="quiet">judge</span> {who.name}' in audit
    assert "Only until Monday." in audit


@pytest.mark.parametrize(
    ("weight", "reason", "says"),
    [
        ("2", "more", "from 0 (never asked) to 1"),
        ("much", "more", "much is no number"),
        ("1", " ", "Say in a few words"),
    ],
)
def test_what_cannot_be_a_weight_is_refused_with_a_sentence(console, who, weight, reason, says):
    said = {"name": who.name, "version": who.version, "weight": weight, "reason": reason}
    assert says in console.post(f"{HERE}overrule/", said, follow=True).content.decode()
    assert not Ruling.objects.exists()


def test_where_it_disagrees_with_a_thumb_the_turn_is_a_click_away(console, who, make_turn):
    turn = make_turn("judged", next_state=[{"role": "user", "content": "Lovely, thanks"}])
    Judgement.objects.create(turn=turn, reward=1, reward_from="thumb")
    for index in range(3):
        Vote.objects.create(
            turn=turn, question="score", index=index, judge=who.name, prompt_version=who.version, score=-1,
            raw="It seems bad.", role="user", seconds=1.5, tokens=30, prompt_tokens=400, cached_tokens=300,
        )  # fmt: skip
    page = closer(console, who).content.decode()
    assert f"/console/turns/{turn.pk}/" in page
    assert "Lovely, thanks" in page
    assert "It seems bad." in page
    overview = console.get(HERE).content.decode()
    assert "1.50" in overview
    assert "75</span> % computed already" in overview  # 900 of 1200


def test_earlier_versions_are_listed_and_open(console, who, read_gold):
    read_gold(measured=30, wrong=3, version="cases-0")
    page = console.get(HERE).content.decode()
    assert "Asked before" in page
    assert "cases-0" in page
    old = closer(console, who, "cases-0").content.decode()
    assert "not asked now" in old
    assert "27 of 30" in old


def test_a_judge_that_never_was_is_not_found(console, who):
    assert console.get(f"{HERE}one/", {"name": "unknown", "version": "1"}).status_code == 404


def test_over_time_is_drawn_with_its_intervals_and_said_in_words(console, who, read_gold):
    read_gold(measured=40, wrong=20, days=3)
    read_gold(measured=40, wrong=4)
    page = closer(console, who).content.decode()
    assert "gold: from 0.50 to 0.90" in page
    over_time = page[page.index('aria-label="Accuracy from') :]
    assert over_time[: over_time.index("</svg>")].count("<circle") == 2
    assert "a point a day" in page


def test_a_plot_lies_within_its_frame():
    spans = {
        date(2026, 11, 1): agreement(readings((1, 1), (1, -1))),
        date(2026, 11, 11): agreement(readings((1, 1))),
        date(2026, 11, 21): agreement(readings((1, -1))),
    }
    drawn = accuracy.over_time({"gold": spans}, days=1, floor=0.75)
    (line,) = drawn.lines
    assert [spot.x for spot in line.points] == [34.0, 330.0, 626.0]  # 34, halfway, and 640 − 14
    # From 8 (all right) to 128 (none): 0.5 is 68, and 0.75 is 38
    assert [spot.y for spot in line.points] == [68.0, 8.0, 128.0]
    assert drawn.floor == 38.0
    assert all(8 <= spot.high <= spot.y <= spot.low <= 128 for spot in line.points)
    assert accuracy.over_time({"gold": {}}, days=1, floor=0.75) is None


def test_the_page_shows_reliability_and_coverage_and_moves_the_threshold(console, who, read_gold):
    read_gold(measured=62, wrong=2)
    page = closer(console, who).content.decode()
    assert "Does 0.9 mean 0.9?" in page
    assert "Fewer verdicts, more of them right." in page

    said = {"name": who.name, "version": who.version, "threshold": "0,95", "reason": "It must be stricter here."}
    page = console.post(f"{HERE}threshold/", said, follow=True).content.decode()
    assert f"{who.name} decides from 0.95 on." in page
    assert "threshold set to 0.95" in page
    assert scales.measure(who.name, who.version).least == 0.95
    page = console.post(f"{HERE}threshold/", said | {"threshold": "2"}, follow=True).content.decode()
    assert "A threshold is a probability from 0.5" in page
    assert "It must be stricter here." in console.get("/console/audit/").content.decode()


def test_each_judge_says_whether_it_sees_pictures(console, engine, settings):
    asked = [{"kind": "base"}]
    for n, sees in enumerate((True, False)):
        asked += [{"kind": "openai", "url": f"https://{n}.example.org/v1", "model": f"wise-{n}", "sees": sees}]
    settings.JUDGES = json.dumps(asked)
    cards = console.get(HERE).content.decode().split('<section class="card judge"')[1:]
    words = "It sees no pictures: it judges by the words alone"
    assert [('badge">sees pictures<' in card, words in card) for card in cards] == [
        (False, True),  # the small model has no place for a picture
        (True, False),
        (False, True),
    ]


UNKNOWN = "Whether it sees pictures is not known: its server does not answer."


def test_a_judge_whose_server_says_nothing_holds_the_page_up_for_no_longer_than_that(console, who, monkeypatch):
    answers = threading.Event()

    async def hangs(self):
        await asyncio.to_thread(answers.wait)  # what asks a server waits in a thread, as for its name's address

    monkeypatch.setattr(EngineJudge, "sees", hangs)
    monkeypatch.setattr(judges, "SIGHT_S", 0.05)
    try:
        page = console.get(HERE).content.decode()
    finally:
        answers.set()
    assert UNKNOWN in page
    assert "sees pictures</span>" not in page


def test_of_a_judge_whose_server_is_down_it_is_not_known_whether_it_sees(console, engine, settings):
    settings.JUDGES = json.dumps([{"kind": "openai", "url": "http://127.0.0.1:9/v1", "model": "wise"}])
    page = console.get(HERE).content.decode()
    assert UNKNOWN in page
    assert "It sees no pictures" not in page


def test_a_judge_whose_model_cannot_be_read_is_shown_with_what_is_wrong(console, engine, settings, tmp_path):
    (tmp_path / "empty").mkdir()
    models = [str(tmp_path / name) for name in ("missing", "empty")]
    settings.JUDGES = json.dumps([{"kind": "engine", "url": "http://127.0.0.1:9", "model": one} for one in models])
    page = console.get(HERE).content.decode()
    assert page.count("Its model cannot be read: look at “model” in JUDGES, and at MODEL.") == 2
    assert "its server does not answer" not in page
