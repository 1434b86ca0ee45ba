"""Did talking help? A person's page, the blind question on it, and the line's page for staff."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async

from chat.models import Session
from checkpoints.models import Decision, Line, Member
from evaluation import helped
from evaluation.models import BlindChoice, Shadow
from gate.models import Examination
from tests.webapp.conftest import text_of
from tests.webapp.people.helped.choices import START, WORSE, prefer
from webapp.charts import course


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


def lose(lost, learned, base):
    """An examination of the general pack: of ten items, so many are lost to the base."""
    rows = [
        {
            "id": f"item-{n}",
            "mark": f"mark-{n}",
            "live": [-1.0, -2.0],
            "candidate": [-2.0, -1.0] if n < lost else [-1.0, -2.0],
        }
        for n in range(10)
    ]
    Examination.objects.create(checkpoint=learned, against=base, pack=rows, passed=True)


def test_a_fall_on_the_general_pack_is_told_against_the_base(page, rated, base, learned):
    lose(6, learned, base)
    rated(learned)
    # six of ten lost: resampled means of six −1 and four 0 lie between about −0.9 and −0.3
    said = text_of(page.get("/helped/"))
    assert "General knowledge: of 10 questions it has 6 wrong that talkback@0 had right." in said


def test_one_item_lost_of_ten_may_be_luck(page, rated, base, learned):
    lose(1, learned, base)
    rated(learned)
    shown = text_of(page.get("/helped/"))
    assert "General knowledge:" not in shown
    assert "talkback@1 has 1 of 10 wrong that talkback@0 had right." in shown


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
