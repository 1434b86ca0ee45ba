"""Did talking help? A person's page, the blind question on it, and the line's page for staff."""

from __future__ import annotations

import json
import math
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint, Decision, Line, Member
from evaluation import blind, helped
from evaluation.models import BlindChoice, Shadow
from feedback.models import Feedback
from gate.models import Examination
from judge.models import Judgement
from tests.webapp.conftest import text_of
from webapp.charts import course

START = timezone.now() - timedelta(days=30)


@pytest.fixture(autouse=True)
def house(settings, tiny_model, db):
    settings.MODEL, settings.MODEL_NAME, settings.SHADOW_SHARE = str(tiny_model), "talkback", 0.05


@pytest.fixture
def page(client, talker):
    """The talker's browser."""
    client.force_login(talker)
    return client


@pytest.fixture
def base(db):
    return Checkpoint.objects.get(number=0)


@pytest.fixture
def learned(base):
    """A checkpoint that was trained, and is live."""
    Checkpoint.objects.filter(number=0).update(status="retired")
    return Checkpoint.objects.create(number=1, status="live", adapter="talkback-1", path="checkpoints/1")


@pytest.fixture
def rated(talker):
    """A conversation of one reply, received so: by a thumb, a correction, a verdict, or nothing."""
    made = iter(range(1000))

    def rated(checkpoint, *, thumb=None, correction="", reward=None, by=talker, session=None, **fields):
        session = session or Session.objects.create(user=by)
        turn = Turn.objects.create(
            session=session,
            position=session.turns.count(),
            checkpoint=checkpoint,
            messages=[{"role": "user", "content": "Why is the sky blue?"}],
            created_at=START + timedelta(hours=next(made)),
            **{"status": "judged", "text": "It scatters.", "response_ids": [8, 9, 2], "finish_reason": "stop"} | fields,
        )
        if thumb:
            Feedback.objects.create(turn=turn, by=by, kind="thumb", value=thumb)
        if correction:
            Feedback.objects.create(turn=turn, by=by, kind="guidance", text=correction)
        if reward is not None:
            Judgement.objects.create(turn=turn, reward=reward, reward_from="votes")
        return turn

    return rated


@pytest.fixture
def paired(rated, base, learned):
    """A turn that both answered."""

    def paired(reply="Because blue light scatters most.", shadow="The sky is blue. " * 3, figures=None, **fields):
        turn = rated(learned, text=reply, **fields)
        return Shadow.objects.create(
            turn=turn, checkpoint=base, text=shadow, finish_reason="stop", response_ids=[8, 2], figures=figures or {}
        )

    return paired


def prefer(page, shadow, picked):
    """Choose the answer that is the reply's, or the shadow's, wherever it is shown."""
    side = "a" if (picked == "shadow") == blind.is_swapped(shadow.pk) else "b"
    return page.post("/helped/choose/", {"pair": shadow.pk, "side": side})


# First replies


def test_a_persons_own_word_outranks_what_was_read_out_of_what_followed(page, rated, base):
    rated(base, thumb=-1, reward=1)  # asked for a change, whatever a judge made of it
    rated(base, correction="Shorter, please.", reward=1)
    rated(base, reward=1)  # went on content
    rated(base, reward=0)  # undecided: left out
    rated(base)
    shown = text_of(page.get("/helped/"))
    assert "3 rated, 2 of them by a person’s own word" in shown
    assert "1 of 3 with the base. No trained version has been rated yet" in shown


def test_only_the_first_main_line_reply_of_a_conversation_counts(page, rated, base, talker):
    session = Session.objects.create(user=talker)
    rated(base, thumb=1, session=session, line="side")
    rated(base, thumb=-1, session=session, finish_reason="abort")
    rated(base, thumb=1, session=session)  # the first
    rated(base, thumb=-1, session=session)
    found = helped.of_person(talker)
    assert [row.score for row in found.firsts] == [1]
    assert (found.thumbs.base.ups, found.thumbs.base.downs, found.thumbs_given) == (
        0,
        1,
        3,
    )  # the stopped one's came first


def test_five_of_five_after_none_of_five_is_more_than_chance(page, rated, base, learned):
    for _ in range(5):
        rated(base, thumb=-1)
    for _ in range(5):
        rated(learned, thumb=1)
    shown = text_of(page.get("/helped/"))
    # (B(5½, ½)/π)² · 4⁵ = (63/256)² · 1024 = 62 ≥ 20: docs/how-to/trials.md works it out
    assert "It seems so</h2>" in shown
    assert "5 of 5 with what was learned, 0 of 5 with the base: a difference of +" in shown
    assert "Nothing that is known, from 10 first replies rated, 10 thumbs" in shown


def test_what_got_worse_is_said_first_and_plainly(page, rated, base, learned):
    for _ in range(5):
        rated(base, thumb=1)
        rated(learned, thumb=-1)
    shown = text_of(page.get("/helped/"))
    assert "It does not seem so</h2>" in shown
    assert "First replies: fewer people were content with those of what was learned" in shown
    assert "Thumbs: a smaller share is up since something was learned." in shown


def test_the_course_is_the_running_share_of_ten_with_wilsons_interval_and_marks(page, rated, base, learned, talker):
    for value in [-1, -1, *[1] * 8]:
        rated(base, thumb=value)
    at = START + timedelta(hours=5)
    Decision.objects.create(checkpoint=learned, verb="promote", at=at)
    Decision.objects.create(
        checkpoint=learned, verb="promote", at=START - timedelta(days=9)
    )  # before the first: unseen
    shown = text_of(page.get("/helped/"))
    # 8 of 10 content: Wilson's 95 % interval is 0.4902 to 0.9433
    assert '8 of 10</td><td class="number">0.80</td><td class="number">0.49 to 0.94' in shown
    assert "8 of 10 were received well. Of the last 10 it was 80%, 95 % interval 49% to 94%." in shown
    assert shown.count('class="went-live"') == 1
    assert f"talkback@1 went live on {at:%-d %B %Y, %H:%M}" in shown
    found = helped.of_person(talker)
    drawn = course.course(found.firsts, found.moments, found.went_live, "talkback")
    # nine hours from the first to the last, so five of them stand at 34 + 5/9 of the 432 between
    assert drawn.marks[0].x == round(34 + 432 * 5 / 9, 1)


def test_replies_that_are_asked_for_once_more_are_counted_by_checkpoint(page, rated, learned):
    rated(learned, marks=["regenerated"])
    rated(learned)
    assert '<td class="number">1 of 2</td></tr>' in text_of(page.get("/helped/"))


# The blind question


def test_seven_blind_choices_for_what_was_learned_are_known_and_six_are_not(page, paired):
    pairs = [paired() for _ in range(7)]
    for shadow in pairs[:6]:
        prefer(page, shadow, "reply")
    assert "6 of 6 for what was learned" in (shown := text_of(page.get("/helped/")))
    assert "about 1 more choice at this share" in shown
    assert "Not known yet</h2>" in shown
    prefer(page, pairs[6], "reply")
    shown = text_of(page.get("/helped/"))
    # a rate p is left while 0.2095 / p⁷ < 20, so from (0.2095 / 20)^(1/7) = 0.52 on
    assert "You prefer what was learned. 7 of 7 for what was learned: a share of 52.1% to 100.0%." in shown
    assert ">Yes</h2>" in shown
    assert "You have seen every pair there is." in shown


def test_the_base_may_win(page, paired):
    for shadow in [paired() for _ in range(7)]:
        prefer(page, shadow, "shadow")
    shown = text_of(page.get("/helped/"))
    assert ">No</h2>" in shown
    assert "Blind choices: the base’s answers are preferred" in shown


def test_a_tie_is_called_too_close(page, paired):
    pairs = [paired() for _ in range(2)]
    prefer(page, pairs[0], "reply")
    prefer(page, pairs[1], "shadow")
    said = text_of(page.get("/helped/"))
    assert "Too close: at this share not even 5000 more choices would tell the two apart." in said


def test_the_order_is_drawn_and_nothing_shown_says_which_is_which(page, paired):
    for n in range(4):
        shadow = paired(reply=f"The learned words {n}.", shadow=f"The other words {n}.")
        shown = text_of(page.get("/helped/"))
        first, second = (shown.index(f"The {whose} words {n}.") for whose in ("learned", "other"))
        assert (second < first) == blind.is_swapped(shadow.pk)  # a fair coin: its doctest tosses it a thousand times
        part = shown[shown.index('id="blind"') : shown.index('id="firsts-title"')]
        assert "talkback@" not in part
        assert 'value="reply"' not in part
        assert 'value="shadow"' not in part
        page.post("/helped/choose/", {"pair": shadow.pk, "side": "skip"})


def test_a_pair_can_be_skipped_and_the_last_answer_taken_back(page, paired):
    first, second = paired(), paired()
    page.post("/helped/choose/", {"pair": second.pk, "side": "skip"})
    assert BlindChoice.objects.get().picked == "skipped"
    assert f'name="pair" value="{first.pk}"' in text_of(page.get("/helped/"))
    prefer(page, first, "reply")
    answer = page.post("/helped/undo/", follow=True)
    assert f'name="pair" value="{first.pk}"' in text_of(answer)
    assert BlindChoice.objects.get().shadow == second
    page.post("/helped/undo/")
    answer = page.post("/helped/undo/", follow=True)
    assert "There was nothing to take back." in text_of(answer)


def test_with_scripts_only_the_question_is_exchanged(page, paired):
    shadow = paired()
    answer = page.post("/helped/choose/", {"pair": shadow.pk, "side": "a"}, headers={"HX-Request": "true"})
    assert text_of(answer).startswith('<section class="card" id="blind"')
    answer = page.post("/helped/choose/", {"pair": shadow.pk, "side": "z"}, headers={"HX-Request": "true"})
    assert "There is no such pair to choose from any more." in text_of(answer)


@pytest.mark.parametrize(
    "fields",
    [
        {"shadow": "Because blue light scatters most."},
        {"shadow": ""},
        {"reply": ""},
        {"finish_reason": "length"},
        {"finish_reason": "tool_calls"},
        {"tools": [{"type": "function"}]},
        {"message": {"reasoning_content": "Hm."}},
        {"shadow": "<think>Hm.</think> Blue."},
        {"learns": False},
        {"line": "side"},
    ],
    ids=lambda fields: f"{fields}",
)
def test_nobody_is_asked_what_would_give_itself_away_or_is_off_the_record(fields, page, paired):
    shadow = paired(**fields)
    assert 'name="pair"' not in text_of(page.get("/helped/"))
    page.post("/helped/choose/", {"pair": shadow.pk, "side": "a"})
    assert not BlindChoice.objects.exists()


def test_a_shadow_that_was_cut_is_not_asked_about(page, paired):
    Shadow.objects.filter(pk=paired().pk).update(finish_reason="length")
    assert 'name="pair"' not in text_of(page.get("/helped/"))


# Beside the control

WORSE = {
    "reply": {"length": 4, "repetition": 0.5, "logprob": -0.2, "under_base": -1.9, "checkpoint": 1},
    "shadow": {"length": 99, "repetition": 0.0, "logprob": -0.7, "under_base": -0.9},
}


def test_a_collapse_is_called_one_from_ten_pairs_on(page, paired):
    for _ in range(9):
        paired(figures=WORSE)
    shown = text_of(page.get("/helped/"))
    assert "Nothing that is known" in shown
    assert "1 more pair</td>" in shown
    paired(figures=WORSE)
    shown = text_of(page.get("/helped/"))
    # (4 + 1) / (99 + 1) = 0.05, below the gate's 0.1; ten pairs alike leave an interval of no width
    assert "Length: replies are 0.05 times as long as the base’s (0.05 to 0.05)." in shown
    assert "Repetition: 50.0% more of a reply repeats what it has said" in shown
    # −1.9 − (−0.9) = −1, beyond the gate's 0.6
    assert "Words: the base finds replies 1.00 nats per token less likely than its own (1.00 to 1.00)" in shown


def test_what_only_differs_is_not_called_worse(page, paired):
    brief = {"length": 30, "repetition": 0.0, "logprob": -0.5, "under_base": -1.2}
    for _ in range(10):
        paired(figures={"reply": brief, "shadow": WORSE["shadow"]})
    shown = text_of(page.get("/helped/"))
    assert "×0.31</td>" in shown  # 31 / 100
    assert "Nothing that is known, from 0 first replies rated, 0 thumbs, 10 pairs with the control" in shown


def test_a_reply_is_counted_no_further_than_its_shadow_may_go(paired):
    long = {"reply": {"length": 900}, "shadow": {"length": 256}}
    (length,) = helped.compare([long], helped.config.gate_of({}))
    assert length.change[0] == pytest.approx(1.0)  # 257 / 257
    assert math.log(901 / 257) > 1  # and not this


def test_pairs_from_before_both_were_scored_are_left_out_of_that_figure_alone(page, paired):
    paired(figures={"reply": {"length": 3}, "shadow": {"length": 3}})
    found = helped.of_person(get_user_model().objects.get(username="ben"))
    assert [(figure.name, figure.found.number) for figure in found.figures] == [("length", 1)]


def test_a_fall_on_the_general_pack_is_told_against_the_base(page, rated, base, learned):
    rows = [
        {
            "id": f"item-{n}",
            "mark": f"mark-{n}",
            "live": [-1.0, -2.0],
            "candidate": [-2.0, -1.0] if n < 6 else [-1.0, -2.0],
        }
        for n in range(10)
    ]
    Examination.objects.create(checkpoint=learned, against=base, pack=rows, passed=True)
    rated(learned)
    # six of ten lost: resampled means of six −1 and four 0 lie between about −0.9 and −0.3
    said = text_of(page.get("/helped/"))
    assert "General knowledge: of 10 questions it has 6 wrong that talkback@0 had right." in said


def test_one_item_lost_of_ten_may_be_luck(page, rated, base, learned):
    rows = [
        {
            "id": f"item-{n}",
            "mark": f"mark-{n}",
            "live": [-1.0, -2.0],
            "candidate": [-2.0, -1.0] if n < 1 else [-1.0, -2.0],
        }
        for n in range(10)
    ]
    Examination.objects.create(checkpoint=learned, against=base, pack=rows, passed=True)
    rated(learned)
    shown = text_of(page.get("/helped/"))
    assert "General knowledge:" not in shown
    assert "talkback@1 has 1 of 10 wrong that talkback@0 had right." in shown


# Where there is less to see


def test_somebody_new_is_told_what_to_do(page):
    shown = text_of(page.get("/helped/"))
    assert "Nothing to compare yet</h2>" in shown
    assert "There are no replies on the record yet." in shown
    assert '<a href="/">Begin a chat</a>' in shown
    assert "The original model answers you at the moment. Nothing has been learned yet" in shown
    assert "Too few to draw" in shown


def test_a_control_that_is_off_says_how_it_is_turned_on(page, settings):
    settings.SHADOW_SHARE = 0.0
    assert "turns it on with SHADOW_SHARE=0.05 in its settings" in text_of(page.get("/helped/"))


def test_too_few_says_how_many_more(page, rated, base, learned):
    rated(base, thumb=-1)
    rated(base, thumb=-1)
    rated(base, thumb=-1)
    rated(base, thumb=-1)
    rated(learned, thumb=1)
    shown = text_of(page.get("/helped/"))
    assert "Not known yet: about" in shown
    assert "more rated conversations, if both rates stay as they are." in shown


# Whose it is


def test_nobody_sees_or_answers_for_anybody_else(page, paired, rated, base, operator):
    others = paired(reply="A secret of hers.", shadow="Another secret.", by=operator)
    rated(base, thumb=-1, by=operator)
    shown = text_of(page.get("/helped/"))
    assert "secret" not in shown
    assert "From 0 first replies rated, 0 thumbs, 0 pairs with the control, 0 blind choices." in shown
    page.post("/helped/choose/", {"pair": others.pk, "side": "a"})
    assert not BlindChoice.objects.exists()
    BlindChoice.objects.create(shadow=others, by=operator, picked="reply")
    page.post("/helped/undo/")
    assert BlindChoice.objects.count() == 1


@pytest.mark.parametrize("path", ["/helped/", "/console/helped/"])
def test_strangers_sign_in_first(path, client):
    assert client.get(path).url.startswith("/login/")


def test_the_lines_page_is_for_staff(page):
    assert page.get("/console/helped/").status_code == 403


def test_a_line_counts_its_people_together_without_their_words(console, paired, rated, base, learned, talker, operator):
    shadow = paired(reply="His own words.", shadow="What the base said.")
    BlindChoice.objects.create(shadow=shadow, by=talker, picked="reply")
    rated(base, thumb=-1, by=operator, text="Her own words.")
    shown = text_of(console.get("/console/helped/"))
    assert "1 first reply rated, 1 thumb, 1 pair with the control, 1 blind choice." in shown
    assert "words." not in shown.replace("No person’s words are here", "")
    assert "What the base said" not in shown
    assert 'name="pair"' not in shown
    own = Line.objects.create(name="hers", title="Hers", start=base)
    Member.objects.create(user=operator, line=own)
    shown = text_of(console.get("/console/helped/?line=hers"))
    assert "1 first reply rated, 1 thumb, 0 pairs with the control, 0 blind choices." in shown
    assert "0 first replies rated, 0 thumbs, 1 pair" in text_of(console.get("/console/helped/"))
    assert console.get("/console/helped/?line=nobodys").status_code == 404


# Deleted, off the record, downloaded


def test_what_goes_off_the_record_is_gone_from_here_at_once(page, paired, talker):
    shadow = paired(thumb=1, figures=WORSE)
    prefer(page, shadow, "reply")
    page.post(f"/chats/{shadow.turn.session_id}/learning/", {"learns": "off"})
    found = helped.of_person(talker)
    assert (found.scored, found.thumbs_given, found.pairs, found.choices.first) == (0, 0, 0, 0)


def test_delete_mine_takes_shadows_and_choices_along(page, paired, operator):
    prefer(page, paired(), "reply")
    others = paired(by=operator)
    page.post("/privacy/delete/", {"sure": "delete"})
    assert not BlindChoice.objects.exists()
    assert Shadow.objects.get() == others


def test_a_choice_goes_with_its_chat(page, paired):
    shadow = paired()
    prefer(page, shadow, "reply")
    shadow.turn.session.delete()
    assert not BlindChoice.objects.exists()


def test_privacy_counts_them(page, paired):
    prefer(page, paired(), "reply")
    shown = text_of(page.get("/privacy/"))
    assert 'answers of the frozen control</th><td class="number">1</td>' in shown
    assert 'choices between two answers</th><td class="number">1</td>' in shown


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_the_download_holds_them_and_nothing_of_others(async_client, paired, talker, operator):
    def cast():
        mine = paired(shadow="The base’s own.", figures=WORSE)
        BlindChoice.objects.create(shadow=mine, by=talker, picked="shadow")
        theirs = paired(shadow="Of another person.", by=operator)
        BlindChoice.objects.create(shadow=theirs, by=operator, picked="reply")
        return mine.turn.completion_id

    turn = await sync_to_async(cast)()
    await async_client.aforce_login(talker)
    answer = await async_client.get("/privacy/export/")
    rows = [json.loads(line) for line in b"".join([part async for part in answer.streaming_content]).splitlines()]
    kept = {row["object"]: row for row in rows if row["object"] in ("shadow", "blind_choice")}
    assert len([row for row in rows if row["object"] in ("shadow", "blind_choice")]) == 2
    assert (kept["shadow"]["turn"], kept["shadow"]["text"], kept["shadow"]["model"]) == (
        turn,
        "The base’s own.",
        "talkback@0",
    )
    assert kept["shadow"]["figures"] == WORSE
    assert (kept["blind_choice"]["turn"], kept["blind_choice"]["picked"]) == (turn, "shadow")
