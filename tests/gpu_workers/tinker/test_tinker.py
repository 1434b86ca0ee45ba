"""Two learners, one contract: what a run relies on holds for ours, and for Tinker's on a stand-in that computes.

Nothing here was ever asked of the service. Where the `tinker` package is installed, the stand-in's signatures and its
way with a custom loss are held to the package's own; elsewhere those tests are skipped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.tiny import write_tiny_model
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    KeyRefused,
    NothingLearned,
)
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.scores import Scores
from gpu_workers.tinker import archives
from gpu_workers.tinker.service import Service, TinkerMissing
from gpu_workers.tinker.tinker_engine import TinkerEngine
from gpu_workers.tinker.tinker_learner import TinkerLearner
from gpu_workers.types import Example, Sampling
from tests.doubles.fake_tinker import MODEL, FakeTinker, RateLimitError, RequestFailedError, SamplingClient
from training.config import Recipe
from training.objective import updates as objectives
from training.objective.closed_questions import Question, Questions
from training.objective.updates import objective, updates

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 47, 48, 49], [7, 8, 9, 10, 2]
RECIPE = Recipe(lr=1e-2, updates=3)
RECORDED = Path(__file__).with_name("tinker_recorded.json")


@pytest.fixture
def cloud():
    return FakeTinker()


@pytest.fixture
def service(cloud):
    return Service(MODEL, api_key="key", package=cloud)


@pytest.fixture(params=["local", "tinker"])
def make(request, tiny_model, cloud, service):
    """Either learner, fresh or from a folder that its own kind saved."""
    if request.param == "local":
        return lambda folder=None: Learner(tiny_model, adapter_dir=folder, dtype="float32")
    return lambda folder=None: TinkerLearner(service, adapter_dir=folder, keep=cloud.download)


@pytest.fixture
def learner(make):
    return make()


def example(learner, prompt=PROMPT, response=RESPONSE, *, hint=None, reward=0.0, mask=(), rewards=()):
    old = learner.score(prompt, response)
    return Example(prompt, response, old, mask=mask, teacher_prompt_ids=hint, reward=reward, rewards=rewards)


def learned(learner, one, recipe=RECIPE):
    """Log-probs of a reply before and after a run that learns from it alone."""
    before = learner.score(one.prompt_ids, one.response_ids)
    list(updates(learner, [learner.score_example(one)], recipe))
    return before, learner.score(one.prompt_ids, one.response_ids)


# What a run relies on, whichever learner it has


def test_there_is_one_log_prob_a_response_token(learner):
    for response in ([7], RESPONSE, RESPONSE * 5):
        assert len(learner.score(PROMPT, response)) == len(response)


def test_the_first_log_prob_is_the_first_tokens_own(learner, rounding):
    whole = learner.score(PROMPT, RESPONSE)

    assert whole[0] == pytest.approx(learner.score(PROMPT, RESPONSE[:1])[0], abs=rounding.logprob)
    assert whole[1] == pytest.approx(learner.score([*PROMPT, RESPONSE[0]], RESPONSE[1:2])[0], abs=rounding.logprob)
    assert all(math.isfinite(value) and value < 0 for value in whole)


def test_log_probs_are_at_temperature_one(learner):
    # Over all ids that can come next the probabilities of a softmax at T = 1 sum to 1; 64 of them are Tinker's table's,
    # and the tiny model has 512.
    ids = range(64 if isinstance(learner, TinkerLearner) else 512)
    assert sum(math.exp(value) for (value,) in learner.logprobs([(PROMPT, [id]) for id in ids])) == pytest.approx(1.0)


def test_a_fresh_policy_is_the_base(learner, rounding):
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(
        learner.score(PROMPT, RESPONSE, adapter=False), abs=rounding.logprob
    )


def test_the_teacher_scores_the_same_reply_after_the_hinted_prompt(learner, rounding):
    view = learner.score_example(example(learner, hint=HINTED))

    assert view.teacher_logprobs.tolist() == pytest.approx(
        learner.score(HINTED, RESPONSE, adapter=False), abs=rounding.logprob
    )
    assert view.teacher_distance == pytest.approx(
        float((view.teacher_logprobs - view.start_logprobs).abs().mean()), abs=1e-6
    )
    assert view.teacher_distance > 0


def test_a_praised_reply_becomes_more_likely(learner):
    before, after = learned(learner, example(learner, reward=1.0))

    assert sum(after) > sum(before)


def test_a_blamed_reply_becomes_less_likely(learner):
    before, after = learned(learner, example(learner, reward=-1.0))

    assert sum(after) < sum(before)


def test_hinted_tokens_move_toward_the_teacher(learner):
    one = example(learner, hint=HINTED)
    taught = learner.score_example(one).teacher_logprobs.tolist()

    before, after = learned(learner, one, RECIPE.model_copy(update={"w_rl": 0.0, "updates": 1}))

    pulls = [t - b for t, b in zip(taught, before, strict=True)]
    moves = [a - b for a, b in zip(after, before, strict=True)]
    assert sum(pull * move for pull, move in zip(pulls, moves, strict=True)) > 0


def test_masked_tokens_do_not_learn(learner):
    only_last = example(learner, reward=1.0, mask=[0, 0, 0, 0, 1])
    whole = example(learner, reward=1.0)
    first = learner.score_example(only_last)
    learner.forward_backward([first], objective(RECIPE))
    figures = learner.forward_backward([learner.score_example(replace(whole, mask=[0, 0, 0, 0, 0]))], objective(RECIPE))

    assert figures["loss"] == 0.0  # a reply of which nothing counts has no signal


def test_the_loss_is_the_objectives(learner):
    # At the start every ratio is 1 and the anchor 0: the loss is minus the mean advantage. The praised reply says 1,
    # the blamed one -1 with half the weight: -(1 - 0.5) / 2 = -0.25.
    praised = example(learner, reward=1.0)
    blamed = replace(example(learner, [1, 9], [11, 12, 2], reward=-1.0), weight=0.5)

    figures = learner.forward_backward(
        [learner.score_example(praised), learner.score_example(blamed)], objective(RECIPE)
    )

    assert figures["loss"] == pytest.approx(-0.25, abs=1e-5)
    assert figures["ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert figures["tokens"] == 8.0
    assert learner.has_gradient()


def test_a_batch_that_says_nothing_is_refused(learner):
    silent = learner.score_example(example(learner))
    learner.forward_backward([silent], objective(RECIPE))

    with pytest.raises(NothingLearned, match="zero everywhere"):
        learner.optim_step(1e-2)
    assert learner.steps == 0


def test_a_loss_that_is_no_number_changes_nothing(learner):
    broken = replace(learner.score_example(example(learner, reward=1.0)), start_logprobs=torch.full((5,), math.nan))

    with pytest.raises(NothingLearned, match="nan"):
        learner.forward_backward([broken], objective(RECIPE))


def test_a_rewrite_is_supervised_by_the_mean_of_its_tokens(learner, rounding):
    pairs = [(PROMPT, RESPONSE), ([1, 9], [11, 12, 2])]
    means = [sum(learner.score(*pair)) / len(pair[1]) for pair in pairs]

    figures = learner.supervise(pairs)
    learner.optim_step(1e-2)

    assert figures["loss"] == pytest.approx(-sum(means) / 2, abs=rounding.logprob)
    assert figures["tokens"] == 8.0
    assert sum(map(sum, learner.logprobs(pairs))) > sum(
        mean * len(pair[1]) for mean, pair in zip(means, pairs, strict=True)
    )


def test_right_answers_are_told_from_wrong_ones(learner):
    asked = Questions([Question(PROMPT, [[11, 12, 2], RESPONSE, [13]])], scale=1.0)
    view = learner.score_example(example(learner))

    pull, before = asked.pull(learner)
    learner.forward_backward([view], objective(RECIPE), answers=[pull])
    learner.optim_step(1e-2)

    assert asked.pull(learner)[1]["closed_loss"] < before["closed_loss"]


def test_a_saved_policy_goes_on_where_it_stopped(make, tmp_path, rounding):
    one = make()
    learned(one, example(one, reward=1.0), RECIPE.model_copy(update={"updates": 1}))
    one.save(tmp_path / "first")

    other = make(tmp_path / "first")

    assert other.steps == 1
    assert other.score(PROMPT, RESPONSE) == pytest.approx(one.score(PROMPT, RESPONSE), abs=rounding.logprob)
    for both in (one, other):  # the optimiser's memory too: the next step is the same
        both.forward_backward([both.score_example(example(both, reward=-1.0))], objective(RECIPE))
        both.optim_step(1e-2)
    assert other.score(PROMPT, RESPONSE) == pytest.approx(one.score(PROMPT, RESPONSE), abs=rounding.logprob)


def test_a_checkpoint_is_never_overwritten(make, tmp_path):
    one = make()
    one.save(tmp_path / "first")

    with pytest.raises(FileExistsError):
        one.save(tmp_path / "first")


# What is Tinker's own


@pytest.fixture
def there(service, cloud):
    return TinkerLearner(service, keep=cloud.download)


RECIPES = [
    Recipe(lr=1e-2),
    Recipe(lr=1e-2, w_opd=0),
    Recipe(lr=1e-2, w_rl=0),
    Recipe(lr=1e-2, beta=0.5),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=["combined", "binary", "opd", "clipped"])
def test_the_gradient_is_autograds_on_the_same_table(there, cloud, recipe, request, monkeypatch):
    if "clipped" in request.node.callspec.id:
        monkeypatch.setattr(objectives, "CLIP_LOW", 0.01)
        monkeypatch.setattr(objectives, "CLIP_HIGH", 0.02)
        monkeypatch.setattr(objectives, "IMPORTANCE_CAP", 1.0)

    def batch():
        return [
            there.score_example(example(there, hint=HINTED, reward=-1.0)),
            there.score_example(replace(example(there, [1, 9], [11, 12, 2], reward=1.0), weight=0.3)),
            there.score_example(
                example(there, [1, 3, 3], [30, 31, 32, 33, 2], rewards=[0, 1, 1, 0, -1], mask=[0, 1, 1, 1, 1])
            ),
        ]

    list(updates(there, batch(), recipe.model_copy(update={"updates": 2})))  # away from where B is 0 and ratios 1
    views = [replace(view, start_logprobs=view.start_logprobs - 0.05) for view in batch()]

    there.forward_backward(views, objective(recipe))
    found = [part.grad.clone() for part in there._trainer.adapter]

    adapter = tuple(part.detach().clone().requires_grad_() for part in there._trainer.adapter)
    served = []
    for view in views:
        ids, count = [*view.example.prompt_ids, *view.example.response_ids], len(view.example.response_ids)
        logs = cloud.table.logits(ids[:-1], adapter).log_softmax(-1)
        served.append(logs.gather(-1, torch.tensor(ids[1:])[:, None]).squeeze(-1)[-count:])
    objective(recipe)(Scores.of(views, served))[0].backward()
    for mine, autograds in zip(found, adapter, strict=True):
        assert mine.tolist() == [pytest.approx(row, abs=1e-6) for row in autograds.grad.tolist()]
        assert autograds.grad.abs().max() > 0


def test_a_step_is_ours_in_every_constant(there, cloud):
    there.supervise([(PROMPT, RESPONSE)])
    figures = there.optim_step(3e-4, weight_decay=0.2, max_grad_norm=0.7)

    (step,) = cloud.asked("optim_step")
    assert step == {
        "call": "optim_step", "learning_rate": 3e-4, "beta1": 0.9, "beta2": 0.98, "eps": 1e-8, "weight_decay": 0.2,
        "grad_clip_norm": 0.7,
    }  # fmt: skip
    assert figures["grad_norm"] > 0


def test_a_norm_that_the_service_keeps_to_itself_is_left_out(there, cloud):
    cloud.tells_norm = False
    there.supervise([(PROMPT, RESPONSE)])

    assert there.optim_step(3e-4) == {}


def test_distributions_are_refused(there):
    view = there.score_example(example(there, hint=HINTED))

    with pytest.raises(EngineRefused, match="a distribution cannot be distilled there"):
        there.forward_backward([view], objective(RECIPE), divergence=lambda a, b: a.sum(-1))


def test_a_checkpoint_says_where_its_weights_are_and_holds_a_copy(there, tmp_path):
    learned(there, example(there, reward=1.0))
    there.save(tmp_path / "talkback-1-abc")

    place = archives.read(tmp_path / "talkback-1-abc")
    assert place.tinker == "tinker://run-1/sampler_weights/talkback-1-abc"
    assert place.state == "tinker://run-1/weights/talkback-1-abc"
    assert (place.model, place.rank, place.steps) == (MODEL, 16, 3)
    assert (tmp_path / "talkback-1-abc" / "adapter" / "adapter_model.safetensors").read_bytes() == b"weights"


def test_a_copy_that_is_not_to_be_had_costs_no_run(there, cloud, tmp_path, caplog):
    cloud.fails("save_weights_external", cloud.BadRequestError("not for this model"))
    there.save(tmp_path / "first")

    assert archives.read(tmp_path / "first").external == ""
    assert not (tmp_path / "first" / "adapter").exists()
    assert "Tinker alone holds its weights" in caplog.text


def test_a_file_that_leads_out_of_the_checkpoint_is_not_written(there, cloud, tmp_path):
    cloud.files = {"../stolen": b"x"}
    there.save(tmp_path / "checkpoints" / "first")

    assert not (tmp_path / "checkpoints" / "stolen").exists()
    assert archives.read(tmp_path / "checkpoints" / "first").external == ""


def test_a_local_adapter_cannot_be_gone_on_from(service, tmp_path):
    with pytest.raises(AdapterInvalid, match="was not trained at Tinker"):
        TinkerLearner(service, adapter_dir=tmp_path)


def test_another_bases_adapter_cannot_be_gone_on_from(there, cloud, tmp_path):
    there.save(tmp_path / "first")

    with pytest.raises(AdapterInvalid, match="belongs to table/Table-1, not to big/Other"):
        TinkerLearner(Service("big/Other", api_key="key", package=cloud), adapter_dir=tmp_path / "first")


@pytest.mark.parametrize(
    ("error", "named", "words"),
    [
        (RateLimitError("slow down"), EngineUnavailable, "Tinker does not answer: slow down"),
        (RequestFailedError("a machine broke", category="server"), EngineUnavailable, "Tinker failed: a machine broke"),
        (RequestFailedError("no such token", category="user"), EngineRefused, "Tinker refused: no such token"),
        (TimeoutError(), EngineUnavailable, "Tinker does not answer: TimeoutError"),
    ],
)
def test_failures_have_our_names(there, cloud, error, named, words):
    cloud.fails("forward", error)

    with pytest.raises(named, match=words):
        there.score(PROMPT, RESPONSE)


def test_a_wrong_key_is_said_to_be_one(cloud):
    with pytest.raises(KeyRefused, match="check TINKER_API_KEY"):
        TinkerLearner(Service(MODEL, api_key="other", package=cloud))


@pytest.mark.parametrize(("model", "key", "words"), [(MODEL, "", "TINKER_API_KEY"), ("", "key", "TINKER_MODEL")])
def test_what_is_not_set_is_named(cloud, model, key, words):
    with pytest.raises(TinkerMissing, match=words):
        TinkerLearner(Service(model, api_key=key, package=cloud))


# The engine


@pytest.fixture
def room(service, tmp_path, tiny_model):
    return TinkerEngine(service, tiny_model, tmp_path / "held")


@pytest.fixture
def saved(there, tmp_path):
    """A folder that a run at Tinker left, and the learner that left it."""
    learned(there, example(there, reward=1.0))
    there.save(tmp_path / "talkback-1-abc")
    return tmp_path / "talkback-1-abc"


async def test_a_reply_arrives_whole_as_one_piece(room):
    asked = Sampling(max_new_tokens=12, temperature=1.0, seed=3, top_logprobs=2)
    whole = await room.generate(PROMPT, asked)
    pieces = [piece async for piece in room.stream(PROMPT, asked)]

    assert len(whole.ids) == len(whole.logprobs) == len(whole.top) > 0
    assert (whole.finish_reason, whole.prompt_tokens, whole.weight_version) == ("length", 4, "base")
    assert [(p.text, p.ids, p.logprobs, p.finish_reason) for p in pieces] == [
        (whole.text, whole.ids, whole.logprobs, "length")
    ]
    assert all(row[0][1] >= logprob for row, logprob in zip(whole.top, whole.logprobs, strict=True))


async def test_at_temperature_one_a_reply_is_scored_as_it_was_drawn(room, rounding):
    drawn = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3))

    scored = await room.score(PROMPT, drawn.ids)

    assert scored.ids == drawn.ids
    assert list(scored.logprobs) == pytest.approx(list(drawn.logprobs), abs=rounding.logprob)


async def test_log_probs_are_those_of_the_temperature_drawn_at(room, cloud, rounding):
    drawn = await room.generate(PROMPT, Sampling(max_new_tokens=1, temperature=0.5, seed=3))

    logs = (cloud.table.logits(PROMPT)[-1] / 0.5).log_softmax(-1)
    assert drawn.logprobs[0] == pytest.approx(float(logs[drawn.ids[0]]), abs=rounding.logprob)


async def test_a_reply_ends_at_the_models_own_end(room, cloud):
    cloud.table.out[:, 2] += 5 * (cloud.table.tokens[PROMPT].mean(0) + cloud.table.tokens[40])  # id 2 is <|im_end|>

    ended = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, skip_special_tokens=False))
    ignored = await room.generate(PROMPT, Sampling(max_new_tokens=3, temperature=1.0, ignore_eos=True))

    assert (ended.ids, ended.text, ended.finish_reason) == ((2,), "", "stop")  # the ids hold it, the text does not
    assert (len(ignored.ids), ignored.finish_reason) == (3, "length")


async def test_a_stop_string_cuts_text_ids_and_log_probs(room):
    whole = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3))
    stop = whole.text[4:6]

    cut = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3, stop=(stop,)))

    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert len(cut.logprobs) == len(cut.ids) < len(whole.ids)
    assert stop in room._text(cut.ids, Sampling())
    assert stop not in room._text(cut.ids[:-1], Sampling())


@pytest.fixture
async def waiting(room, monkeypatch):
    """A reply with the name "a" that the service is still drawing."""
    never: concurrent.futures.Future[None] = concurrent.futures.Future()
    monkeypatch.setattr(SamplingClient, "sample", lambda *args, **kwargs: asyncio.wrap_future(never))
    reply = asyncio.create_task(room.generate(PROMPT, Sampling(), request_id="a"))
    while "a" not in room._running:
        await asyncio.sleep(0)
    return reply


async def test_a_reply_that_is_stopped_ends_with_what_there_is(room, waiting):
    await room.abort("another")
    assert not waiting.done()

    await room.abort("a")
    said = await waiting

    assert (said.ids, said.text, said.finish_reason, said.prompt_tokens) == ((), "", "abort", 4)


async def test_a_reply_whose_reader_left_is_not_waited_for(room, waiting):
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert room._running == {}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"frequency_penalty": 0.5}, "no frequency_penalty"),
        ({"regex": "yes|no"}, "no regex"),
        ({"json_schema": "{}", "repetition_penalty": 1.1}, "no repetition_penalty and no json_schema"),
    ],
)
async def test_what_it_cannot_do_is_refused_before_anything_is_sent(room, cloud, asked, words):
    with pytest.raises(EngineRefused, match=words):
        await room.generate(PROMPT, Sampling(**asked))
    assert cloud.calls == []


async def test_an_adapter_answers_as_its_learner_says(room, there, saved, rounding):
    await room.load_adapter("talkback-1-abc", str(saved))

    with_it = await room.score(PROMPT, RESPONSE, adapter="talkback-1-abc")
    without = await room.score(PROMPT, RESPONSE)

    assert list(with_it.logprobs) == pytest.approx(there.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert list(without.logprobs) == pytest.approx(there.score(PROMPT, RESPONSE, adapter=False), abs=rounding.logprob)
    assert sum(with_it.logprobs) > sum(without.logprobs)
    said = await room.generate(PROMPT, Sampling(max_new_tokens=2), adapter="talkback-1-abc")
    assert said.weight_version == "tinker://run-1/sampler_weights/talkback-1-abc"


async def test_every_process_holds_the_same_names(room, service, saved, tiny_model, tmp_path):
    await room.load_adapter("talkback-1-abc", str(saved))
    await room.load_adapter("talkback-1-abc", str(saved))  # no change
    other = TinkerEngine(service, tiny_model, tmp_path / "held")

    assert await other.adapters() == {"talkback-1-abc": str(saved)}
    await other.unload_adapter("talkback-1-abc")
    with pytest.raises(AdapterMissing):
        await room.score(PROMPT, RESPONSE, adapter="talkback-1-abc")
    with pytest.raises(AdapterMissing):
        await room.unload_adapter("talkback-1-abc")


async def test_a_name_stands_for_one_folder(room, saved, tmp_path):
    await room.load_adapter("talkback-1-abc", str(saved))

    with pytest.raises(AdapterInvalid, match="already loaded from another folder"):
        await room.load_adapter("talkback-1-abc", str(tmp_path))


async def test_weights_that_are_gone_there_are_invalid(room, cloud, saved):
    cloud.kept.clear()

    with pytest.raises(AdapterInvalid, match="is not there"):
        await room.load_adapter("talkback-1-abc", str(saved))
    assert await room.adapters() == {}


async def test_it_is_ready_when_the_service_has_the_model(room, cloud):
    assert await room.ready()

    other = TinkerEngine(Service("big/Other", api_key="key", package=cloud), room.model, room.names.folder)
    assert not await other.ready()


# What goes over the boundary, and the real package


ANSWERS = {
    "ForwardBackwardOutput": ["loss_fn_outputs"],
    "OptimStepResponse": ["metrics"],
    "SaveWeightsResponse": ["path"],
    "SaveWeightsForSamplerResponse": ["path"],
    "SaveWeightsExternalResponse": ["path"],
    "ExternalWeightsUrlsResponse": ["urls"],
    "GetServerCapabilitiesResponse": ["supported_models"],
    "SupportedModel": ["model_name", "sampleable"],
    "SampleResponse": ["sequences", "prompt_cache_hit_tokens"],
    "SampledSequence": ["tokens", "logprobs", "stop_reason", "topk_logprobs"],
}
"""What is read of each answer, by the package's names."""


async def whole_life(cloud, service, tiny_model, folder):
    """Every kind of request once, in the order of a run, its promotion and a reply."""
    learner = TinkerLearner(service, keep=cloud.download)
    learner.forward_backward([learner.score_example(example(learner, hint=HINTED, reward=1.0))], objective(RECIPE))
    learner.supervise([(PROMPT, [11, 12, 2])])
    learner.optim_step(1e-2)
    learner.save(folder / "first")
    TinkerLearner(service, adapter_dir=folder / "first")
    engine = TinkerEngine(service, tiny_model, folder / "held")
    await engine.load_adapter("first", str(folder / "first"))
    await engine.score(PROMPT, RESPONSE, adapter="first")
    await engine.generate(PROMPT, Sampling(max_new_tokens=3, seed=1), adapter="first")
    assert await engine.ready()
    return json.loads(json.dumps(cloud.calls))


async def test_what_is_sent_is_what_was_recorded(cloud, service, tiny_model, tmp_path):
    sent = await whole_life(cloud, service, tiny_model, tmp_path)

    assert sent == json.loads(RECORDED.read_text())["requests"]
    assert json.loads(RECORDED.read_text())["answers"] == ANSWERS


USED = {
    "ServiceClient": [
        "__init__", "create_lora_training_client", "create_training_client_from_state_with_optimizer",
        "create_sampling_client",
    ],
    "TrainingClient": [
        "forward", "forward_backward", "forward_backward_custom", "optim_step", "save_state",
        "save_weights_for_sampler", "save_weights_external",
    ],
    "SamplingClient": ["sample", "compute_logprobs"],
    "RestClient": ["__init__", "get_server_capabilities", "get_external_weights_urls"],
}  # fmt: skip


@pytest.mark.tinker
@pytest.mark.parametrize(("client", "method"), [(client, one) for client in USED for one in USED[client]])
def test_the_stand_in_has_the_packages_signatures(cloud, client, method):
    import tinker

    def shape(function):
        return [
            (p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values() if p.name != "self"
        ]

    assert shape(getattr(getattr(cloud, client), method)) == shape(getattr(getattr(tinker, client), method))


@pytest.mark.tinker
def test_the_package_has_every_failure_that_is_told_apart():
    import tinker

    for name in (
        "AuthenticationError", "PermissionDeniedError", "BillingError", "RateLimitError", "InternalServerError",
        "APIConnectionError", "RequestFailedError", "BadRequestError", "NotFoundError", "APIStatusError", "APIError",
    ):  # fmt: skip
        assert issubclass(getattr(tinker, name), tinker.TinkerError)
        theirs = {base.__name__ for base in getattr(tinker, name).__mro__ if issubclass(base, tinker.TinkerError)}
        assert {base.__name__ for base in getattr(FakeTinker, name).__mro__} & theirs == theirs


@pytest.mark.tinker
def test_the_package_takes_what_was_recorded():
    import tinker
    from tinker import types

    for sent in json.loads(RECORDED.read_text())["requests"]:
        if "data" in sent:
            data = [
                tinker.Datum(
                    model_input=tinker.ModelInput.from_ints([1] * one["model_input"]),
                    loss_fn_inputs={
                        name: tinker.TensorData.from_torch(
                            torch.ones(shape, dtype=torch.int64 if dtype == "int64" else torch.float32)
                        )
                        for name, (dtype, shape) in one["loss_fn_inputs"].items()
                    },
                )
                for one in sent["data"]
            ]
            asked = types.ForwardBackwardInput(data=data, loss_fn=sent["loss_fn"])
            assert [
                {name: [value.dtype, value.shape] for name, value in one.loss_fn_inputs.items()} for one in asked.data
            ] == [one["loss_fn_inputs"] for one in sent["data"]]
        elif sent["call"] == "optim_step":
            rule = tinker.AdamParams(**{name: value for name, value in sent.items() if name != "call"})
            assert rule.beta2 == 0.98
        elif sent["call"] == "sample":
            said = {name: sent[name] for name in ("max_tokens", "seed", "stop", "temperature", "top_k", "top_p")}
            assert tinker.SamplingParams(**said).model_dump() == said


@pytest.mark.tinker
def test_the_package_answers_with_what_is_read():
    import numpy as np
    from tinker import types

    drawn = types.SampledSequence(
        stop_reason="stop",
        sequence_id="a",
        tokens_np=np.array([7, 2], np.int32),
        logprobs_np=np.array([-1.0, -0.5], np.float32),
    )
    said = types.SampleResponse(sequences=[drawn], prompt_logprobs_np=np.array([np.nan, -2.0], np.float32))
    (one,) = said.sequences
    assert (one.tokens, one.logprobs, one.stop_reason, one.topk_logprobs) == ([7, 2], [-1.0, -0.5], "stop", None)
    assert (said.prompt_logprobs, said.prompt_cache_hit_tokens) == ([None, -2.0], 0)
    assert types.OptimStepResponse(metrics=None).metrics is None
    for name, read in json.loads(RECORDED.read_text())["answers"].items():
        answer = getattr(types, name)
        assert set(read) <= set(getattr(answer, "model_fields", ())) | set(dir(answer)) | set(
            getattr(answer, "__dataclass_fields__", ())
        )


@pytest.mark.tinker
def test_the_package_differentiates_a_loss_as_the_stand_in_does(there, service, cloud):
    import tinker
    from tinker import types

    view = there.score_example(example(there, hint=HINTED, reward=-1.0))
    theirs = Service(MODEL, api_key="key", package=tinker)
    data = [theirs.datum([*PROMPT, *RESPONSE], target_tokens=torch.tensor([*PROMPT, *RESPONSE][1:]))]
    logs = cloud.table.logits([*PROMPT, *RESPONSE][:-1]).log_softmax(-1)
    logprobs = logs.gather(-1, torch.tensor([*PROMPT, *RESPONSE][1:])[:, None]).squeeze(-1)
    answer = types.ForwardBackwardOutput(
        loss_fn_output_type="ArrayRecord", loss_fn_outputs=[{"logprobs": tinker.TensorData.from_torch(logprobs)}]
    )

    def loss(data, found):
        return objective(RECIPE)(Scores.of([view], [one[len(PROMPT) - 1 :] for one in found]))[0], {}

    sent = tinker.TrainingClient._compute_custom_loss(data, loss, answer).data[0].loss_fn_inputs["weights"].to_torch()
    there.forward_backward([view], objective(RECIPE))
    ours = there._trainer.sloped[0].loss_fn_inputs["weights"].to_torch()

    assert sent.tolist() == pytest.approx(ours.tolist(), abs=1e-6)
    assert sent[: len(PROMPT) - 1].tolist() == [0.0] * (len(PROMPT) - 1)


def record(folder: Path) -> None:
    """Write the file again: python -m tests.gpu_workers.tinker.test_tinker FOLDER (for what is left behind)."""
    cloud = FakeTinker()
    service = Service(MODEL, api_key="key", package=cloud)
    sent = asyncio.run(whole_life(cloud, service, write_tiny_model(folder / "tiny"), folder))
    about = "One life of an adapter: what is sent, as shapes, and what is read of the answers. No service was asked."
    rows = ",\n    ".join(map(json.dumps, sent))
    content = f'"about": {json.dumps(about)},\n  "requests": [\n    {rows}\n  ],\n  "answers": {json.dumps(ANSWERS)}'
    RECORDED.write_text(f"{{\n  {content}\n}}\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
