"""Learning at the service: its steps are ours, its weights stay there, and its failures have our names."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpu_workers.errors import (
    AdapterInvalid,
    EngineRefused,
    EngineUnavailable,
    KeyRefused,
)
from gpu_workers.learner.scores import Scores
from gpu_workers.tinker import archives
from gpu_workers.tinker.service import Service, TinkerMissing
from gpu_workers.tinker.tinker_learner import TinkerLearner
from tests.doubles.fake_tinker import MODEL, RateLimitError, RequestFailedError
from tests.gpu_workers.tinker.examples import HINTED, PROMPT, RECIPE, RESPONSE, example, learned
from training.config import Recipe
from training.objective import updates as objectives
from training.objective.updates import objective, updates

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
