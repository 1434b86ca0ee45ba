"""A reply that an engine left in the middle goes on as if nothing had been."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial

import pytest

from chat.rendering.renderer import Renderer
from chat.replying.resuming import SEAMS, Course, is_exact
from gpu_workers.errors import EngineUnavailable
from gpu_workers.types import Delta, Sampling

PROMPT = [1, 5, 6]
WORDS = "  Grüße, 日本 🙂🙃 — naïve\n\n  two  blanks. End of it"


@pytest.fixture
def renderer(tiny_model) -> Renderer:
    return Renderer.for_model(tiny_model)


def spoken(renderer: Renderer, ids: list[int], until: int) -> str:
    """What an engine has given out of the first ids: whole characters."""
    return renderer.decode(ids[:until]).rstrip("\ufffd")


def one(id: int, finish_reason: str | None = None, version: str = "base", text: str = "?") -> Delta:
    return Delta(text, (id,), (-float(id),), finish_reason, prompt_tokens=99, cached_tokens=98, weight_version=version)


def begun(renderer: Renderer, ids: list[int], until: int, sampling: Sampling) -> tuple[Course, str]:
    """A reply whose engine went after `until` ids, and what was read of it."""
    course = Course(PROMPT, sampling, partial(renderer.decode, controls=not sampling.skip_special_tokens))
    given = spoken(renderer, ids, until)
    for string in sampling.stop:
        given = given[: len(given) - max((n for n in range(len(string)) if given.endswith(string[:n])), default=0)]
    for n, id in enumerate(ids[:until]):
        course.take(one(id, text=given if n == until - 1 else ""))
    assert course.resume()
    return course, given


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(skip_special_tokens=False), Sampling(stop=("END", "it!"))])
def test_wherever_the_engine_went_the_text_has_no_seam(renderer, sampling):
    ids = [*renderer.encode(WORDS), 2]
    assert len(ids) > len(WORDS)  # characters of several tokens are among them
    for seam in range(1, len(ids)):
        course, text = begun(renderer, ids, seam, sampling)
        prompt_ids, left = course.question()
        assert prompt_ids == PROMPT + ids[:seam]
        assert left.max_new_tokens == sampling.max_new_tokens - seam
        for id in ids[seam:]:
            delta = course.take(one(id, "stop" if id == 2 else None))
            assert (delta.ids, delta.logprobs) == ((id,), (-float(id),))
            text += delta.text
        assert text == WORDS, seam
        assert (delta.prompt_tokens, delta.cached_tokens) == (3, 3)  # what was said before is no part of the prompt


def test_what_comes_at_once_reads_as_what_comes_one_by_one(renderer):
    ids = [*renderer.encode(WORDS), 2]
    for seam in range(1, len(ids)):
        course, text = begun(renderer, ids, seam, Sampling())
        rest = tuple(ids[seam:])
        text += course.take(Delta("", rest, tuple(0.0 for _ in rest), "stop", weight_version="base")).text
        assert text == WORDS, seam


def test_a_stop_string_is_found_on_both_sides_of_a_seam(renderer):
    ids = renderer.encode(WORDS)
    ends = next(n for n in range(len(ids)) if "End" in renderer.decode(ids[:n]))
    for seam in range(1, ends):
        course, text = begun(renderer, ids, seam, Sampling(stop=("nothing", "End")))
        taken, finish_reason = seam, None
        while finish_reason is None:
            delta = course.take(one(ids[taken]))
            taken, text, finish_reason = taken + 1, text + delta.text, delta.finish_reason
        assert (text, finish_reason, taken) == (WORDS[: WORDS.index("End")], "stop", ends), seam

        course, text = begun(renderer, ids, seam, Sampling(stop=("nothing", "End")))
        rest = tuple(ids[seam:])
        delta = course.take(Delta("", rest, tuple(0.0 for _ in rest), "length", weight_version="base"))
        assert (text + delta.text, delta.finish_reason) == (WORDS[: WORDS.index("End")], "stop")
        assert len(delta.ids) == len(delta.logprobs) == ends - seam  # nothing is kept of what came behind its end


def test_a_reply_cut_in_a_character_ends_with_a_part_of_it(renderer):
    ids = renderer.encode("so 🙂")
    course, text = begun(renderer, ids, 2, Sampling(max_new_tokens=len(ids) - 1))
    for id in ids[2:-2]:
        text += course.take(one(id)).text
    text += course.take(one(ids[-2], "length")).text
    assert text == renderer.decode(ids[:-1])
    assert text.endswith("\ufffd")


def test_a_reply_goes_on_a_few_times_and_not_for_ever(renderer):
    ids = renderer.encode(WORDS)
    course, _ = begun(renderer, ids, 3, Sampling())
    for n in range(3, 3 + SEAMS - 1):
        assert course.resume()  # however often an engine that is away is asked, that is one seam
        course.take(one(ids[n]))
        assert course.resume()
    course.take(one(ids[3 + SEAMS]))
    assert not course.resume()


def test_other_weights_do_not_go_on(renderer):
    course, _ = begun(renderer, renderer.encode(WORDS), 3, Sampling())
    with pytest.raises(EngineUnavailable, match="other weights"):
        course.take(one(7, version="another"))
    assert not course.resume()


def test_text_that_its_ids_do_not_spell_is_not_gone_on_from(renderer):
    course = Course(PROMPT, Sampling(), renderer.decode)
    course.take(one(renderer.encode("a")[0], text="b"))
    assert not course.resume()


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(json_schema="{}"),
        Sampling(regex="a+"),
        Sampling(frequency_penalty=0.5),
        Sampling(presence_penalty=0.5),
        Sampling(repetition_penalty=1.1),
    ],
)
def test_what_depends_on_more_than_the_ids_is_not_gone_on_from(renderer, sampling):
    course = Course(PROMPT, sampling, renderer.decode)
    assert course.resume()  # nothing was said
    course.take(one(renderer.encode("a")[0], text="a"))
    assert not is_exact(sampling)
    assert not course.resume()


@pytest.mark.parametrize("stop", [(), ("e",)])
async def test_the_embedded_engine_says_what_it_would_have_said(embedded_engine, renderer, stop):
    asked = Sampling(max_new_tokens=24, temperature=1.0, top_k=1, ignore_eos=True, stop=stop)
    prompt_ids = renderer.prompt_ids([{"role": "user", "content": "Say hello"}])
    whole = await embedded_engine.generate(prompt_ids, asked)
    for seam in range(1, len(whole.ids)):
        course = Course(prompt_ids, asked, renderer.decode)
        ids: list[int] = []
        logprobs: list[float] = []
        text = ""
        stream = embedded_engine.stream(prompt_ids, asked)
        while True:
            async with aclosing(stream):
                async for delta in stream:
                    delta = course.take(delta)
                    ids += delta.ids
                    logprobs += delta.logprobs
                    text += delta.text
                    if delta.finish_reason or (len(ids) >= seam and not course.is_resumed):
                        break
            if delta.finish_reason:
                break
            assert course.resume()
            stream = embedded_engine.stream(*course.question())
        assert (text, tuple(ids), delta.finish_reason) == (whole.text, whole.ids, whole.finish_reason), seam
        assert logprobs == pytest.approx(whole.logprobs, abs=1e-4)
