"""Blind choices between a reply and its shadow: what they show, and what they give away."""

from __future__ import annotations

import math

import pytest
from django.contrib.auth import get_user_model

from evaluation import blind, helped
from evaluation.models import BlindChoice, Shadow
from tests.webapp.conftest import text_of
from tests.webapp.people.helped.choices import WORSE, prefer


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
