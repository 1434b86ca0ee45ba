"""What is learned from holds no secret and no person's data, and is still, token for token, what the model said."""

from __future__ import annotations

import json

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.models import Turn
from chat.rendering.renderer import Renderer
from feedback import spans
from feedback.models import Feedback
from judge import checks
from judge.models import Judgement
from judge.samples import redaction
from judge.samples.redaction import StillPersonal
from judge.samples.removal import Remover
from judge.samples.sample_rows import Reason
from judge.samples.teacher import LaidOutAnew
from judge.votes import evidence, polling
from judge.votes.evidence import Evidence
from training import collation
from training.config import Recipe
from training.models import Sample

KEY = "sk-proj-abcDEF1234567890abcdefGHIJ"
ASKED = f"I am ana@example.com, my key is {KEY} and my phone is +1 415 555 2671. Write to Bo."
SAID = "Dear Bo, write to ana@example.com or call +1 415 555 2671. Bye!"
SECRETS = ("ana@example.com", KEY, "415 555 2671", "bo@example.com")


def everything(sample: Sample, renderer: Renderer) -> str:
    """All that can be read in a sample."""
    ids = (sample.prompt_ids, sample.response_ids, sample.teacher_prompt_ids or [])
    return "\n".join(renderer.decode(row, controls=True) for row in ids) + json.dumps(sample.redactions)


@pytest.fixture
def taught(serve, say, judge_it):
    """A turn full of personal data, with a thumb and a guidance that has some too, judged."""
    turn = serve(ASKED, SAID)
    say(turn, "thumb", value=-1)
    say(turn, "guidance", "Write to bo@example.com, and call him Bo.")
    assert judge_it(turn)
    return Turn.objects.get(pk=turn.pk)


def test_a_sample_holds_nothing_personal_in_prompt_reply_or_hint(taught, renderer):
    sample = Sample.objects.get()
    text = everything(sample, renderer)
    assert not any(secret in text for secret in SECRETS)
    assert "I am [email 1], my key is [key 1] and my phone is [phone 1]. Write to Bo." in text
    assert "(Guidance: Write to [email 2], and call him Bo.)" in text  # another address, another name
    assert sample.redactions == [
        {"where": "reply", "kind": "email", "count": 1},
        {"where": "reply", "kind": "phone", "count": 1},
        {"where": "request", "kind": "email", "count": 1},
        {"where": "request", "kind": "key", "count": 1},
        {"where": "request", "kind": "phone", "count": 1},
        {"where": "hint", "kind": "email", "count": 1},
    ]


def test_placeholders_are_masked_and_every_other_token_is_as_it_was_sampled(taught, renderer):
    sample = Sample.objects.get()
    kept = [token for token, learns in zip(sample.response_ids, sample.mask, strict=True) if learns]
    served = iter(taught.response_ids)
    assert all(token in served for token in kept)  # in order, none of them tokenised anew
    masked = [token for token, learns in zip(sample.response_ids, sample.mask, strict=True) if not learns]
    assert renderer.decode(masked).replace(" ", "") == "[email1][phone1]"
    assert renderer.decode(sample.response_ids) == "Dear Bo, write to [email 1] or call [phone 1]. Bye!"
    assert kept[-1] == taught.response_ids[-1] == 2  # its end too is learned


def test_log_probs_are_those_of_the_very_ids_that_are_learned(taught, engine):
    sample = Sample.objects.get()
    assert sample.behaviour_logprobs == engine.logprobs(sample.prompt_ids, sample.response_ids, None)
    assert len(sample.behaviour_logprobs) == len(sample.mask) == len(sample.response_ids)
    assert sample.sampled_logprobs == []  # the engine sampled other ids, under another prompt


def test_the_heat_map_and_the_hint_are_those_of_what_is_learned(taught):
    judgement = Judgement.objects.get()
    assert "".join(judgement.teacher["tokens"]).startswith("Dear Bo, write to [email 1] or")
    assert judgement.hint == "Write to [email 2], and call him Bo."
    assert [hint.text for hint in taught.hints.all()] == [judgement.hint]  # reviewers need not read more
    assert taught.feedback.get(kind="guidance").text == "Write to bo@example.com, and call him Bo."  # its person does


def test_the_persons_own_conversation_stays_as_it_is(taught):
    assert taught.messages == [{"role": "user", "content": ASKED}]
    assert taught.text == SAID


def test_the_learner_takes_what_is_left(taught, tiny_model):
    torch = pytest.importorskip("torch")
    from gpu_workers.learner.learner import Learner
    from training.objective.updates import updates

    learner = Learner(tiny_model, dtype="float32", piece=3)
    sample = Sample.objects.get()
    sample.behaviour_logprobs = learner.score(sample.prompt_ids, sample.response_ids)
    (example,) = collation.examples([sample])
    (figures,) = updates(learner, [learner.score_example(example)], Recipe(updates=1))
    assert figures["grad_norm"] > 0
    assert torch.isfinite(torch.tensor(learner.score(sample.prompt_ids, sample.response_ids))).all()


def test_a_reply_without_anything_personal_is_learned_as_it_was_served(serve, say, judge_it):
    turn = serve("I am ana@example.com. What is 2 and 2?", "Two and two are four.")
    say(turn, "thumb", value=1)
    judge_it(turn)
    sample = Sample.objects.get()
    assert (sample.response_ids, sample.mask) == (turn.response_ids, [])
    assert sample.redactions == [{"where": "request", "kind": "email", "count": 1}]


def test_where_nothing_is_personal_nothing_changes(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn)
    sample = Sample.objects.get()
    assert (sample.prompt_ids, sample.response_ids) == (turn.prompt_ids, turn.response_ids)
    assert (sample.sampled_logprobs, sample.mask, sample.redactions) == (turn.logprobs, [], [])


def test_a_sample_that_waits_gives_way_to_one_with_less_of_its_reply(serve, say, judge_it, settings, renderer):
    settings.REMOVE_PERSONAL_DATA = "0"
    turn = serve("To whom do I write?", "Write to ana@example.com.")
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert "ana@example.com" in everything(Sample.objects.get(), renderer)

    settings.REMOVE_PERSONAL_DATA = "1"
    turn = Turn.objects.get(pk=turn.pk)
    turn.move("observed")
    judge_it(turn)
    assert "ana@example.com" not in "".join(everything(sample, renderer) for sample in Sample.objects.all())
    assert Sample.objects.filter(status="ready").count() == 1


def test_what_tools_are_called_with_and_what_they_say_is_cleaned_too(serve, renderer):
    call = {"name": "send", "arguments": json.dumps({"to": "ana@example.com", "password": "sw0rdfish"})}
    messages = [
        {"role": "user", "content": "Send it."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "a", "content": "Sent to ana@example.com with sw0rdfish."},
    ]
    described = {"name": "send", "description": f"Its key is {KEY}.", "parameters": {}}
    tool = {"type": "function", "function": described}
    turn = serve(messages=messages, reply="I sent it to ana@example.com.")
    turn.tools = [tool]
    turn.prompt_ids = renderer.prompt_ids(messages, [tool])

    clean = redaction.of(turn, renderer)

    text = renderer.decode(clean.turn.prompt_ids) + json.dumps([clean.turn.messages, clean.turn.tools])
    assert not any(secret in text for secret in (*SECRETS, "sw0rdfish"))
    assert clean.turn.messages[2]["content"] == "Sent to [email 1] with [password 1]."
    assert json.loads(clean.turn.messages[1]["tool_calls"][0]["function"]["arguments"]) == {
        "to": "[email 1]",
        "password": "[password 1]",
    }


PIECES = [
    "Hello ",
    "ana@example.com",
    " 😀",
    "über ",
    "bo@example.com",
    ", ",
    "+1 415 555 2671",
    "\n",
    "é",
    "🇪🇺",
    "ok. ",
]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reply_of_any_mixture_reads_as_the_cleaned_text_does(renderer, pieces):
    text = "".join(pieces)
    ids = [*renderer.encode(text), 2]
    remover = Remover()
    remover.learn(text)
    now, origins = redaction.reply_without(ids, remover, renderer)
    assert renderer.decode(now) == remover.branch().clean(text, "reply")
    assert all(origin is None or ids[origin] == token for token, origin in zip(now, origins, strict=True))
    kept = [origin for origin in origins if origin is not None]
    assert kept == sorted(kept)


def test_values_of_a_token_each_go_along(serve, renderer):
    turn = serve(ASKED, SAID)
    clean = redaction.of(turn, renderer)
    places = clean.carried(list(range(len(turn.response_ids))), -1)
    assert len(places) == len(clean.turn.response_ids)
    assert [place for place in places if place >= 0] == [origin for origin in clean.origins if origin is not None]


def test_what_cannot_be_removed_does_not_teach(serve, say, judge_it, settings, tmp_path):
    patterns = tmp_path / "patterns.toml"
    patterns.write_text("role = 'assistant'")  # the chat template itself writes it
    settings.PERSONAL_PATTERNS = str(patterns)
    turn = serve("I am ana@example.com.", "Hello.")
    say(turn, "thumb", value=1)
    judge_it(turn)
    judgement = Judgement.objects.get()
    assert not Sample.objects.exists()
    assert judgement.reason_code == Reason.PERSONAL.code
    assert judgement.reason == "Personal data could not be removed from it (role), so it is not learned from."


def test_a_reply_of_nothing_but_personal_data_does_not_teach(serve, renderer):
    turn = serve("Who?", "ana@example.com", response_ids=renderer.encode("ana@example.com"))
    with pytest.raises(StillPersonal, match="nothing but personal data"):
        redaction.of(turn, renderer)


def test_a_prompt_that_is_laid_out_differently_now_does_not_teach(serve, renderer):
    turn = serve(ASKED, SAID)
    turn.prompt_ids = turn.prompt_ids[1:]
    with pytest.raises(LaidOutAnew):
        redaction.of(turn, renderer)


def test_it_can_be_switched_off(serve, say, judge_it, renderer, settings):
    settings.REMOVE_PERSONAL_DATA = "0"
    turn = serve(ASKED, SAID)
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert Sample.objects.get().prompt_ids == turn.prompt_ids


def test_kinds_can_be_chosen(settings):
    settings.REMOVE_PERSONAL_DATA = "email"
    before, removed = redaction.tried(ASKED)
    assert before.pieces[:2] == (("I am ", ""), ("ana@example.com", "[email 1]"))
    assert removed == [{"where": "request", "kind": "email", "count": 1}]


@pytest.mark.parametrize(
    ("kinds", "sentence"), [("mail", "'mail' is no kind of personal data"), ("1,", "'1' is no kind")]
)
def test_a_setting_that_makes_no_sense_is_refused_in_a_sentence(settings, kinds, sentence):
    settings.REMOVE_PERSONAL_DATA = kinds
    with pytest.raises(ImproperlyConfigured, match=sentence):
        redaction.wanted()


def test_the_start_says_so_too(settings):
    settings.REMOVE_PERSONAL_DATA = "mail"
    (error,) = checks.removal_can_be_done()
    assert (error.id, error.is_serious()) == ("judge.E002", True)
    settings.REMOVE_PERSONAL_DATA = "1"
    assert checks.removal_can_be_done() == []


# What judges are shown


class Listener:
    """A judge that only hears what it is asked."""

    kind, name, family, version, votes, host = "openai", "ear", "cases", "1", 0, "judge.example.com"

    def __init__(self, leaves_machine: bool) -> None:
        self.leaves_machine, self.reads = leaves_machine, False


@pytest.mark.parametrize(("leaves", "shown"), [(False, SAID), (True, SAID.replace(SECRETS[0], "[email 1]"))])
def test_a_judge_outside_this_machine_reads_nothing_personal_and_one_within_reads_all(serve, leaves, shown):
    seen = evidence.of(serve("Write to Bo.", SAID, next_state="No, I am bo@example.com!"))
    asked = polling.Bench((Listener(leaves),), {"ear": 1.0}).ask("score", 0, seen).seen
    assert asked.reply == (shown.replace("+1 415 555 2671", "[phone 1]") if leaves else shown)
    assert asked.next_state == (("user", "No, I am [email 2]!" if leaves else "No, I am bo@example.com!"),)
    assert isinstance(asked, Evidence)


# The real model


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("quite wrong", "quite wrong"),  # behind the address: 15 characters have become 9
        ("Ask", "Ask"),  # before it
        ("ana@example.com", "[email 1]"),
        ("Ask ana", "Ask [email 1]"),  # of the address in part: then the placeholder is, whole
    ],
)
def test_a_judge_outside_this_machine_is_quoted_the_words_that_were_marked(serve, person, marked, shown):
    turn = serve(reply="Ask ana@example.com first. That is quite wrong.")
    at = turn.text.index(marked)
    Feedback.objects.mark(turn, by=person, start=at, end=at + len(marked), sign=-1)

    read = redaction.evidence_without(evidence.of(turn))

    assert read.reply == "Ask [email 1] first. That is quite wrong."
    assert spans.quote(read.reply, read.marks, -1) == [shown]
    assert f"does not like:\n| {shown.replace('[email', '(email')}" in read.text


@pytest.mark.real_model
@pytest.mark.timeout(900)
def test_with_the_real_tokenizer_a_chat_with_secrets_becomes_a_sample_that_trains(smol_model, serve, say, settings):
    settings.MODEL = str(smol_model)
    renderer = Renderer.for_model(smol_model)
    messages = [{"role": "user", "content": ASKED}]
    turn = serve(messages=messages, reply=SAID, response_ids=[*renderer.encode(SAID), 2])
    turn.prompt_ids = renderer.prompt_ids(messages)
    clean = redaction.of(turn, renderer)

    from gpu_workers.learner.learner import Learner
    from judge.samples import sample_rows, teacher
    from judge.samples.teacher import HintedReply
    from training.objective.updates import updates

    learner = Learner(smol_model, dtype="float32")
    hint = clean.hint("Write to bo@example.com, and call him Bo.")
    hinted = teacher.hinted_prompt(clean.turn, hint, renderer)
    old = learner.score(clean.turn.prompt_ids, clean.turn.response_ids)
    sample = sample_rows.drafted(clean.turn, -1, HintedReply(hint, hinted, tuple(old)), old, mask=clean.mask)
    assert not any(secret in everything(sample, renderer) for secret in SECRETS)
    assert renderer.decode(sample.response_ids) == "Dear Bo, write to [email 1] or call [phone 1]. Bye!"

    (example,) = collation.examples([sample])
    (figures,) = updates(learner, [learner.score_example(example)], Recipe(updates=1))
    after = learner.score(sample.prompt_ids, sample.response_ids)
    assert figures["grad_norm"] > 0
    assert after != old
