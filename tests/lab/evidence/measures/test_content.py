"""Whether a reply still says something: the measure, and what it says of replies that were spoilt."""

import doctest
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.evidence.measures import content
from lab.evidence.measures.content import Reading, Reference, Yardstick, read, spoilt, telling, validated, worst

REPLIES = Path(__file__).parent / "replies.jsonl"
"""SmolLM2-135M-Instruct's own replies to questions of ours, and its log-probs of some of them."""

SKY, TEA = "Why is the sky blue?", "How do I make tea?"
FINE = Reading(-1.0, -2.0)


@pytest.fixture
def yardstick():
    """Two questions, two references each; "air" and "boil" belong to one question alone."""
    return Yardstick(
        {
            SKY: [Reference("Air scatters short waves.", FINE), Reference("Sunlight is scattered by air.", FINE)],
            TEA: [Reference("Boil water, then pour.", FINE), Reference("Pour boiling water over leaves.", FINE)],
        }
    )


@pytest.fixture(scope="module")
def kept():
    rows = [json.loads(line) for line in REPLIES.read_text(encoding="utf-8").splitlines()]
    return {one.kind: one for one in validated(rows)}


def test_the_docstrings_hold():
    assert doctest.testmod(content).failed == 0


@pytest.mark.parametrize("kind", ["fresh", "brief"])
def test_a_good_reply_of_the_real_model_keeps_its_content(kept, kind):
    assert kept[kind].kept >= 0.95


@pytest.mark.parametrize(
    "kind", sorted(set(spoilt("Why?", "It is so. It is.", ["No."] * 3, 0)) - {"half of it another's"})
)
def test_a_spoilt_reply_of_the_real_model_loses_most_of_it(kept, kind):
    assert kept[kind].kept <= 0.6


def test_half_a_good_reply_is_told_from_a_whole_one(kept):
    """It has half of its content, so it may keep about as much; seen, it keeps more (docs/explanation/evidence.md)."""
    assert kept["half of it another's"].kept < kept["fresh"].kept


def test_a_reply_that_tells_what_the_references_tell_is_whole(yardstick):
    found = yardstick.content(SKY, "The air scatters sunlight.", FINE)

    assert (found.score, found.topic, found.substance, found.fluency) == (1, 1, 1, 1)


def test_another_questions_answer_points_to_the_other_question(yardstick):
    assert yardstick.content(SKY, "Boil the water and pour it.", FINE).topic == 0


def test_the_question_again_is_on_its_topic_and_tells_nothing(yardstick):
    found = yardstick.content(SKY, "Why is the sky blue? The blue sky!", FINE)

    assert (found.topic, found.substance) == (1, 0)


def test_one_new_word_is_not_much_of_a_reply(yardstick):
    """A word that no reference tells counts 0.3 of the 1 that makes a whole."""
    assert yardstick.content(SKY, "Sky: hydrogen.", FINE).substance == pytest.approx(0.3)


def test_a_reply_below_the_floor_loses_by_how_far_it_is_below(yardstick):
    """All references stand at -1 and -2, so that is the floor; 2 nats below it leave 1/e."""
    text = "The air scatters sunlight."

    assert yardstick.content(SKY, text, Reading(-3.0, -2.0)).fluency == pytest.approx(0.3679, abs=1e-4)
    assert yardstick.content(SKY, text, Reading(-1.0, -4.0)).fluency == pytest.approx(0.3679, abs=1e-4)


@given(st.floats(-20, 0), st.floats(-20, 0))
def test_no_reply_gains_by_being_likelier_than_the_bases_own(fluency, lowest):
    scale = Yardstick({q: [Reference("Air.", FINE)] * 2 for q in (SKY, TEA)})

    assert scale.content(SKY, "Air.", Reading(fluency, lowest)).score <= scale.content(SKY, "Air.", FINE).score


@given(st.text())
def test_whatever_is_said_has_a_content_between_nothing_and_all(reply):
    scale = Yardstick({q: [Reference(q, FINE), Reference("Air " + q, FINE)] for q in (SKY, TEA)})

    assert 0 <= scale.content(SKY, reply, FINE).score <= 1


def test_a_reply_without_a_word_has_no_content(yardstick):
    assert yardstick.content(SKY, "…", None).score == 0


def test_without_readings_the_words_alone_are_measured():
    scale = Yardstick({SKY: [Reference("Air scatters.")] * 2, TEA: [Reference("Boil it.")] * 2})

    found = scale.content(SKY, "Air scatters it.", None)

    assert (found.score, found.fluency) == (1, None)


@pytest.mark.parametrize(
    "references", [{}, {SKY: [Reference("Air.")] * 2}, {SKY: [Reference("Air.")], TEA: [Reference("Boil.")] * 2}]
)
def test_a_scale_needs_two_questions_with_two_references_each(references):
    with pytest.raises(ValueError, match="two questions or more, each with 2 references"):
        Yardstick(references)


def test_a_words_endings_and_the_questions_own_words_tell_nothing():
    assert telling("The plants were planted in planting time.", "When is planting time?") == frozenset()


@given(st.lists(st.floats(-9, 0), min_size=1, max_size=40), st.integers(1, 20))
def test_the_worst_run_is_no_better_than_the_mean_of_all(logprobs, run):
    assert min(logprobs) - 1e-9 <= worst(logprobs, run) <= max(logprobs) + 1e-9


async def test_a_reply_is_read_after_what_was_asked_without_guidance():
    class Base:
        async def logprobs(self, messages, reply):
            assert (messages, reply) == ([{"role": "user", "content": SKY}], "Air.")
            return [-1.0, -3.0]

    assert await read(Base(), [{"role": "user", "content": SKY}], "Air.") == Reading(-2.0, -2.0)


async def test_a_reply_without_a_word_is_not_read():
    assert await read(None, [], " … ") is None


def test_no_logprob_is_no_reading():
    with pytest.raises(ValueError, match="no token"):
        Reading.of([])


@pytest.mark.real_model
def test_the_real_model_says_of_its_replies_what_was_written_down(smol_model):
    """The first three that were read: the mean log-prob a token, to what another arithmetic may change."""
    from chat.rendering.renderer import Renderer
    from gpu_workers.learner.learner import Learner

    renderer, learner = Renderer.for_model(smol_model), Learner(smol_model)
    rows = [json.loads(line) for line in REPLIES.read_text(encoding="utf-8").splitlines()]
    for row in [row for row in rows if row.get("logprobs")][:3]:
        asked = renderer.prompt_ids([{"role": "user", "content": row["question"]}])
        seen = learner.score(asked, renderer.encode(row["reply"]), adapter=False)
        assert sum(seen) / len(seen) == pytest.approx(sum(row["logprobs"]) / len(row["logprobs"]), abs=0.05)
