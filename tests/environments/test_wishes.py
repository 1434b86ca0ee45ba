"""Detectors that know exactly: the rules stand in their docstrings, the edges here."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import prose, wishes
from environments.prose import sentences
from environments.wishes import WISHES

PLAIN = st.sampled_from(
    [
        "The kettle sings when steam forces its way out.",
        "Salt lowers the point at which water freezes.",
        "Rinse the rice first.",
        "A cat lands on its feet because it turns in the air.",
        "It costs 3.50 a kilo, e.g. at the market.",
        "Mr. Lee waters them at 5 p.m. on most days.",
    ]
)
FEW = settings(max_examples=15)
"""Where a table already says what is tried; the paragraph is only around it."""
PARAGRAPH = st.lists(PLAIN, min_size=1, max_size=8).map(" ".join)


@pytest.mark.parametrize("module", [prose, wishes])
def test_the_rules_do_what_their_docstrings_say(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Who and Mrs. Hall met Prof. J. K. Low at St. Ives.", 1),
        ("Pi is 3.14159. Version 2.0.1 is out.", 2),
        ("Open a.b.txt at https://example.org/x.y?z=1. Then save.", 2),
        ("It contains vitamin C. That is good.", 2),
        ("The answer is no. You can go.", 2),
        ("See no. 5 on the list.", 1),
        ("Take eggs, milk, etc. and stir.", 1),
        ("Take eggs, milk, etc. Then stir.", 2),
        ('"Why?" he asked. She left.', 2),
        ('He said: "Stop." Then he left.', 2),
        ("„Halt!“ rief er. Dann ging er.", 2),
        ("Er rief »Halt!« und ging. »Gut.« Das war alles.", 3),
        ("« Bonjour ! » dit-il. « Salut. »", 2),
        ("Wait... what? Oh.", 2),
        ("Really?! Yes!!", 2),
        ("it rings. you go. we stay.", 3),  # small letters hide no sentence
        ("Run `a.b(). c` now. Done.", 2),
        ("```\nx = 1. y = 2.\nz. A.\n```\nThat is all.", 1),
        ("- One\n- Two\n- Three", 3),
        ("# A title\nThe text.", 2),
        ("A line that goes\non in small letters.", 1),
        ("你好。我是猫。", 2),
        ("1. Mix it well.", 1),
        ("He was 12. Then he left.", 2),
        ("   \n\n ", 0),
        ("👍", 0),
    ],
)
def test_sentences_are_those_that_a_reader_counts(text, count):
    assert len(sentences(text)) == count, sentences(text)


@given(st.lists(PLAIN, max_size=9))
def test_every_sentence_is_found_and_nothing_of_it_is_lost(written):
    assert sentences(" ".join(written)) == written


@given(st.text())
def test_no_text_is_too_strange_to_be_read(text):
    for wish in WISHES.values():
        assert wish.holds(text, finished=True) in (True, False)
        if wish.holds(text, finished=False):
            assert wish.holds(text, finished=True)


@pytest.mark.parametrize("wish", WISHES.values(), ids=lambda wish: wish.name)
def test_an_empty_reply_obeys_no_wish(wish):
    assert not wish.holds("", finished=True)
    assert not wish.holds(" \n ", finished=True)


@pytest.mark.parametrize("name", ["short", "asks-back"])
def test_a_reply_that_was_cut_off_obeys_no_wish_about_its_end(name):
    assert WISHES[name].holds("Is it warm where you are?", finished=True)
    assert not WISHES[name].holds("Is it warm where you are?", finished=False)


def test_wishes_that_contradict_each_other_say_so_on_both_sides():
    for wish in WISHES.values():
        for other in wish.opposes:
            assert wish.name in WISHES[other].opposes
    assert {name for name, wish in WISHES.items() if wish.opposes} == {"short", "long", "no-lists", "as-list"}


@given(st.lists(PLAIN, min_size=1, max_size=12))
def test_one_and_two_sentences_are_short_and_six_are_long(written):
    text = " ".join(written)
    assert wishes.is_short(text) == (len(written) <= 2)
    assert wishes.is_long(text) == (len(written) >= 6)


def test_two_endless_sentences_are_not_short():
    assert wishes.is_short("so " * 60 + ".")
    assert not wishes.is_short("so " * 61 + ".")


@pytest.mark.parametrize(
    "piece",
    [
        "- tea",
        "* tea",
        "• tea",
        "1. tea",
        "1) tea",
        "  (a) tea",
        "> - tea",
        "Step 1: boil it",
        "**Step 2:** boil it",
        "| tea | milk |\n|---|---|",
        "Do 1) this, 2) that",
        "4. tea\n5. milk",
        "**tea**",
        "It is __very hot__ now",
        "# Tea",
        "Tea\n===",
        "<b>tea</b>",
        "<ul><li>tea</li></ul>",
    ],
)
@FEW
@given(PARAGRAPH)
def test_a_list_bold_type_or_a_heading_anywhere_breaks_running_text(piece, text):
    assert wishes.is_unlisted(text)
    assert not wishes.is_unlisted(f"{text}\n\n{piece}\n\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        "Use `**kwargs` or `- x`.",
        "```\n- a\n1. b\n# c\n```",
        "2 ** 3 ** 4 is large, and 2**3**1 is not.",
        "The method __init__ makes it.",
        "It is -5 degrees - cold.",
        "7. Juli 1990 war warm.",
        "— Bonjour, dit-il.",
        "1945. That was the year.",
        "#cats is a tag.",
        "*Slightly* slanted is fine.",
        "A. Smith wrote it.",
    ],
)
def test_what_only_looks_like_a_list_is_none(text):
    assert wishes.is_unlisted(text)


@pytest.mark.parametrize(
    ("text", "fault"), [("- a\n- b **c**", "no-lists"), ("Some **bold** word.", "no-lists.markup")]
)
def test_the_complaint_fits_what_is_wrong_with_the_form(text, fault):
    wish = WISHES["no-lists"]
    assert wish.fault
    assert wish.fault(text) == fault


@pytest.mark.parametrize(
    "question", ["What do you think?", "And what do *you* like? 😊", "Was meinst du？", "Which one (if any)?"]
)
@FEW
@given(PARAGRAPH)
def test_a_question_at_the_end_asks_back_and_one_before_it_does_not(question, text):
    assert not wishes.asks_back(text)
    assert wishes.asks_back(f"{text} {question}")
    assert not wishes.asks_back(f"{question} {text}")


@pytest.mark.parametrize("text", ["?", "Why?", 'He asked: "And why?"', "« Et toi ? »", "Is it? No.", "What is it? 3."])
def test_no_question_to_the_reader_no_asking_back(text):
    assert not wishes.asks_back(text)


@FEW
@given(PARAGRAPH)
def test_the_reader_is_spoken_to_in_the_first_sentence_or_not_at_all(text):
    assert not wishes.speaks_to_reader(text)
    assert wishes.speaks_to_reader(f"You will see. {text}")
    assert not wishes.speaks_to_reader(f"{text} You will see.")
    assert not wishes.speaks_to_reader(f"“You” is a word. {text}")
    assert not wishes.speaks_to_reader(f"Thank you. {text}")


@pytest.mark.parametrize("sign", ["!", "！", "¡", "!!", "?!"])
@FEW
@given(PARAGRAPH)
def test_one_exclamation_mark_is_one_too_many(sign, text):
    assert wishes.is_calm(text)
    assert not wishes.is_calm(f"{text} So be it{sign}")


@pytest.mark.parametrize("text", ["if a != b", "5! = 120", "Call `stop!` now.", "![A cat](cat.png)", "```\nx!\n```"])
def test_signs_that_shout_at_no_person_are_no_exclamation(text):
    assert wishes.is_calm(text)


@FEW
@given(PARAGRAPH)
def test_long_words_make_a_text_hard_and_names_do_not(text):
    assert wishes.is_plain(text)
    count = len(prose.words(text)) // 25 + 3
    assert not wishes.is_plain(text + " " + "notwithstanding " * count)
    assert wishes.is_plain(f"{text} Ask in " + "Christchurch, Philadelphia and Massachusetts.")


@FEW
@given(PARAGRAPH)
def test_a_number_in_words_is_no_digit(text):
    assert wishes.uses_digits(text)
    assert not wishes.uses_digits(f"{text} It takes twenty minutes.")
    assert wishes.uses_digits(f"{text} It takes 20 minutes, and one of us stays.")


@pytest.mark.parametrize(
    "opening", ["Sure!", "Of course.", "Great question!", "Here's what to do:", "**Certainly**,", "Well,"]
)
@FEW
@given(PARAGRAPH)
def test_an_opening_phrase_counts_where_it_opens(opening, text):
    assert wishes.starts_at_once(text)
    assert not wishes.starts_at_once(f"{opening} {text}")
    assert wishes.starts_at_once(f"{text} {opening}")


@pytest.mark.parametrize("text", ["Well-known plants grow there.", "Highlands are cold.", "Surefooted goats climb."])
def test_a_word_that_begins_like_an_opening_is_none(text):
    assert wishes.starts_at_once(text)


@pytest.mark.parametrize(
    "words", ["For example, a pear.", "Fruit such as pears.", "Imagine a pear.", "Pears, for instance."]
)
def test_an_example_is_announced_as_one(words):
    assert wishes.gives_example(words)
    assert not wishes.gives_example("Pears are fruit.")


@pytest.mark.parametrize(
    "banner",
    [
        "Final answer: 12",
        "**Answer:** 12",
        "Answer = 12",
        r"\boxed{12}",
        "#### 12",
        "The final answer is 12.",
        "Result: 12",
    ],
)
def test_a_banner_is_found_wherever_it_stands(banner):
    assert wishes.has_no_banner("4 x 3 = 12, so it is 12.")
    assert not wishes.has_no_banner(f"4 x 3 = 12.\n{banner}")


@pytest.mark.parametrize(
    "text",
    [
        "4 x 3 = 12",
        "4*3=12",
        r"\(4 \times 3 = 12\)",
        "4 bags × 3 marbles = 12 marbles",
        "$4 + $3.50 = $7.50",
        "12 divided by 4 is 3",
        "three bags, so 4 times 3 equals 12",
        "(4 + 3) = 7",
        "1,200 - 200 = 1,000",
    ],
)
def test_a_sum_with_its_result_is_working(text):
    assert wishes.shows_working(text)


@pytest.mark.parametrize(
    "text", ["It is 12.", "He has 4 bags and 3 marbles.", "4 x 3", "x = 12", "Multiply them, then you get 12."]
)
def test_a_bare_result_is_no_working(text):
    assert not wishes.shows_working(text)


def test_a_long_word_behind_a_number_takes_no_time():
    assert not wishes.shows_working("7" + "a" * 20_000)


def test_a_kind_comment_praises_and_never_scolds():
    assert wishes.is_kind("Good start! In the second step you meant 12.")
    assert not wishes.is_kind("In the second step you meant 12.")
    assert not wishes.is_kind("Good start, but this is sloppy.")


def test_a_specific_comment_names_numbers_or_quotes():
    assert wishes.is_specific("You wrote 4 x 3 = 11, and it is 12.")
    assert wishes.is_specific("Where you write “so many apples”, name them.")
    assert not wishes.is_specific("Check the second step once more.")
    assert not wishes.is_specific("12 is right, 12 it is.")  # one number, twice


@pytest.mark.parametrize("text", ["What a great question!", "There are a great many errors.", "It is nice weather."])
def test_praise_of_something_else_is_no_praise_of_the_work(text):
    assert not wishes.is_kind(text)


def test_the_page_has_a_rule_for_every_wish():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "environments.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)[: len(WISHES)] == list(WISHES)
