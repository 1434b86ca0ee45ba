"""What people say of one reply becomes a wish for every reply, or they are asked. See judge/hints/wish_words.py."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

import pytest

from environments.wishes import WISHES
from feedback.models import Feedback
from judge.hints import back_references, decisions, hint_words, reviews, wish_texts, wish_words
from judge.hints.back_references import find_references
from judge.hints.wish_words import Wish, word_wish
from judge.models import Hint, Judgement
from judge.samples import teacher
from judge.samples.sample_rows import Reason
from training.models import Sample

HERE = Path(__file__).parent
SAID = tomllib.loads((HERE.parents[2] / "lab" / "research" / "said_of_replies.toml").read_text("utf-8"))
LATER = tomllib.loads((HERE / "said_later.toml").read_text("utf-8"))["said"]

STANDING = (
    *(wish.hint for wish in WISHES.values()),
    "Use fewer words.",
    "Be brief, please.",
    "Keep it short.",
    "No lists, please.",
    "Never use emojis.",
    "If you are not sure, say so.",
    "When I ask for code, give the code first and explain it afterwards.",
    "Before you answer, think about what I already know.",
    "Do not be too formal.",
    "Put the main point in the first sentence.",
    "Name the sources that you used.",
    "Keep answers under 100 words.",
    'Don\'t start with "Sure, here is a revised version".',
    "Antworte auf Deutsch.",
    "Réponds en français.",
    "Responde siempre en español.",
)

ASKED = (
    "The second point is wrong.",
    "Redo the second point.",
    "No, the capital is Canberra.",
    "Try again.",
    "That's wrong.",
    "Expand the third bullet.",
    "You got the date wrong, it was 1945.",
    "Not what I wanted.",
    "Fix the last sentence.",
    "The bit about cats was good, do more of that.",
    "Change the name to Anna.",
    "The code has no comments. Add some.",
    "Noch einmal, aber kürzer.",
    "Encore une fois, mais plus court.",
    "Otra vez, pero más corto.",
    "Opnieuw, maar korter.",
    "Di nuovo, ma più breve.",
    "De novo, mas mais curto.",
    "C'est trop long.",
)


def test_the_examples_in_the_words_of_the_module_hold():
    for module in (back_references, wish_texts, wish_words):
        assert doctest.testmod(module).attempted
        assert doctest.testmod(module).failed == 0


def test_twelve_ways_to_say_each_of_eight_wishes():
    assert len(SAID) == 8
    assert all(len(set(wish["said"])) == 12 for wish in SAID.values())


def test_of_96_sayings_that_refer_back_at_least_85_become_wishes_that_name_the_change():
    turned = []
    for wish in SAID.values():
        for said in wish["said"]:
            found = word_wish(said)
            if found is not None and re.search(wish["names"], found.text, re.IGNORECASE):
                turned.append(said)
    assert len(turned) >= 85


@pytest.mark.parametrize("said", [said for wish in SAID.values() for said in wish["said"]])
def test_no_wish_speaks_of_an_earlier_reply(said):
    assert find_references(said)
    found = word_wish(said)
    assert found is None or (not find_references(found.text) and not found.is_verbatim)


def test_of_forty_sayings_that_no_rule_was_written_for_most_become_wishes_or_are_asked_about():
    """Read once, before any rule was changed for them: 32 of the 35 that can be turned named the change, 2 were asked
    about, 1 was misread, and of all 40 the references of 5 were not seen. The rules have learned from these since."""
    named = asked = 0
    for one in LATER:
        found = word_wish(one["text"])
        assert found is None or not find_references(found.text)
        if one["names"] == "ASK":
            assert found is None, one["text"]
        else:
            named += found is not None and re.search(one["names"], found.text, re.IGNORECASE) is not None
            asked += found is None
    assert len(LATER) == 40
    assert named >= 32
    assert named + asked >= 34  # at most one is misread


@pytest.mark.parametrize("said", STANDING)
def test_a_standing_wish_stays_word_for_word(said):
    assert word_wish(said) == Wish(said, True)


@pytest.mark.parametrize("said", ASKED)
def test_where_no_safe_wording_is_found_the_person_is_asked(said):
    assert word_wish(said) is None
    assert wish_words.suggest_wish(said)  # the box is never empty


def test_what_is_only_quoted_is_no_reference():
    assert not find_references('Do not write "as I said before" or “send it again”.')
    assert [one.text for one in find_references('"Sure!" is too long.')] == ["too long"]


def test_references_are_whole_words_at_their_places():
    said = "Nice. But merge these paragraphs, please."
    for one in find_references(said):
        assert said[one.start : one.end] == one.text
    assert "merge these" in " ".join(one.text for one in find_references(said))


@pytest.mark.parametrize(
    ("said", "wish"),
    [
        ("Merge the paragraphs into one and send it again", "Write the whole reply as one paragraph."),
        ("That's three paragraphs. One will do.", "Write the whole reply as one paragraph."),
        ("You forgot the units.", "Include the units."),
        ("You used the passive voice throughout.", "Do not use the passive voice throughout."),
        ("You should have asked me which version I use first.", "Ask me which version I use first."),
        ("Too long. Shorter this time, please.", "Keep the reply short."),
        ("Less formal.", "Write in a relaxed, everyday tone."),
        ("Translate that into German.", "Answer in German."),
        ("Rewrite it as if you were talking to a friend.", "Write as if you were talking to a friend."),
        ("It reads like an advert.", "Do not sound like an advert."),
    ],
)
def test_each_kind_of_saying_has_its_wish(said, wish):
    assert word_wish(said) == Wish(wish, False)


@pytest.mark.parametrize(
    "said", ["Please redo this and make it " * 250, "no " * 2600, "merge the the the " * 400, "it, " * 2600]
)
def test_long_words_are_read_in_time(said):
    assert word_wish(said) is None or word_wish(said).is_verbatim  # the time limit is the claim


def test_every_wish_in_the_file_is_one():
    for wish in wish_words.canonical():
        assert not find_references(wish), wish
        assert word_wish(wish) == Wish(wish, True)


# On its way to a teacher


def judged(turn) -> Judgement:
    return Judgement.objects.select_related("sample").get(turn=turn)


def test_guidance_that_refers_back_is_taught_as_a_wish(serve, say, judge_it, renderer):
    turn = serve()
    said = say(turn, "guidance", "Merge the paragraphs into one and send it again")
    judge_it(turn)

    taught = renderer.decode(judged(turn).sample.teacher_prompt_ids, controls=True)
    assert "(Guidance: Write the whole reply as one paragraph.)" in taught
    assert "send it again" not in taught
    assert judged(turn).hint == turn.hints.get().text == "Write the whole reply as one paragraph."
    assert Feedback.objects.get(pk=said.pk).text == "Merge the paragraphs into one and send it again"  # and is kept


def test_guidance_without_a_safe_wording_waits_and_nothing_of_it_reaches_a_teacher(serve, say, judge_it, engine):
    turn = serve(next_state="Well?")
    say(turn, "guidance", "Redo the second point.")
    judge_it(turn)

    assert (judged(turn).sample, judged(turn).hint, judged(turn).reason) == (None, "", Reason.WISH_WAITS)
    assert judged(turn).reason_code == "wish_waits"
    assert not turn.hints.exists()
    assert not engine.calls  # no teacher scored it, and no judge was asked to word it


def test_a_thumb_beside_guidance_that_waits_teaches_alone(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=-1)
    say(turn, "guidance", "Redo the second point.")
    judge_it(turn)

    assert (judged(turn).sample.reward, judged(turn).sample.has_teacher) == (-1, False)
    assert judged(turn).reason == Reason.WISH_WAITS


def test_a_persons_own_wording_of_the_wish_is_what_is_taught(serve, say, judge_it, person, renderer):
    turn = serve()
    say(turn, "guidance", "Redo the second point.")
    judge_it(turn)
    Feedback.objects.give(turn, by=person, kind="guidance", wish="Give a source for each point.")
    judge_it(turn)

    assert judged(turn).hint == "Give a source for each point."
    assert "(Guidance: Give a source for each point.)" in renderer.decode(judged(turn).sample.teacher_prompt_ids)
    assert Feedback.objects.standing().get(turn=turn).text == "Redo the second point."


def test_other_guidance_takes_the_wording_of_the_first_away(serve, say, judge_it, person):
    turn = serve()
    Feedback.objects.give(turn, by=person, kind="guidance", text="Redo it.", wish="Use metric units.")
    Feedback.objects.give(turn, by=person, kind="guidance", text="Use fewer words.")
    assert Feedback.objects.standing().get(turn=turn).wish == ""
    judge_it(turn)
    assert judged(turn).hint == "Use fewer words."


def test_a_rewrite_beside_guidance_that_waits_still_teaches(serve, say, judge_it, renderer):
    turn = serve()
    say(turn, "guidance", "Redo the second point.")
    say(turn, "rewrite", "That is too long: four, again.")  # what is wanted as a reply is no guidance
    judge_it(turn)

    taught = renderer.decode(judged(turn).sample.teacher_prompt_ids)
    assert "The reply that is wanted: That is too long: four, again." in taught
    assert "second point" not in taught


def test_no_teacher_is_ever_shown_a_hint_that_refers_back(serve, renderer):
    turn = serve()
    with pytest.raises(teacher.RefersBack, match="“Send it again”"):
        teacher.hinted_prompt(turn, "Send it again without these.", renderer)
    assert teacher.hinted_prompt(turn, hint_words.worded(rewrite="Send it again."), renderer)


def test_an_accepted_hint_of_old_that_refers_back_teaches_no_more(serve, say, judge_it):
    turn = serve()
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)
    Hint.objects.update(text="Say that again, shorter.", status=Hint.Status.EDITED)
    turn.refresh_from_db()
    turn.move("observed")
    judge_it(turn)

    assert judged(turn).sample is None
    assert judged(turn).reason_code == "wish_waits"
    assert not Sample.objects.filter(status=Sample.Status.READY).exists()


def test_a_judges_hint_that_refers_back_waits_and_is_taught_only_once_edited(
    serve, judge_it, engine, django_user_model
):
    back = r"They want a change. \boxed{1} [HINT_START]Shorten your previous answer to one sentence.[HINT_END]"
    engine.says(back, times=3, to="should have")
    ben = django_user_model.objects.create_user("ben", is_staff=True)
    turn = serve(next_state="Too long.")
    judge_it(turn)
    hint = turn.hints.get()
    assert hint.status == Hint.Status.WAITING

    with pytest.raises(decisions.NotPossible, match="Edit it first"):
        reviews.accept(hint, by=ben)
    with pytest.raises(decisions.Unwritten, match="earlier reply"):
        reviews.edit(hint, "Rewrite it in one sentence.", by=ben)
    reviews.edit(hint, "Answer in one sentence.", by=ben)
    judge_it(turn)
    assert judged(turn).hint == "Answer in one sentence."


@pytest.mark.parametrize(
    ("said", "matter"),
    [
        ("Again: dont use bullet points!!", "Write running text without lists."),
        ("Never use a list again.", "Write running text without lists."),
        ("No follow-up questions.", "Do not end with a question."),
        ("I don't need examples.", "Do not give examples."),
        ("You never use examples.", "Give an example."),
        ("No, use bullet points.", "Write the reply as a bulleted list."),
    ],
)
def test_find_matters_hears_a_denial_however_it_is_typed(said, matter):
    assert wish_words.find_matters(said) == {matter}
