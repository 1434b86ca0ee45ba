"""What is sent to the service is what was recorded, and the package itself takes it."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.tiny import write_tiny_model
from gpu_workers.learner.scores import Scores
from gpu_workers.tinker.service import Service
from gpu_workers.tinker.tinker_engine import TinkerEngine
from gpu_workers.tinker.tinker_learner import TinkerLearner
from gpu_workers.types import Sampling
from tests.doubles.fake_tinker import MODEL, FakeTinker
from tests.gpu_workers.tinker.examples import HINTED, PROMPT, RECIPE, RESPONSE, example
from training.objective.updates import objective

RECORDED = Path(__file__).with_name("tinker_recorded.json")


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
    """Write the file again: python -m tests.gpu_workers.tinker.test_tinker_recorded FOLDER (for what it leaves)."""
    cloud = FakeTinker()
    service = Service(MODEL, api_key="key", package=cloud)
    sent = asyncio.run(whole_life(cloud, service, write_tiny_model(folder / "tiny"), folder))
    about = "One life of an adapter: what is sent, as shapes, and what is read of the answers. No service was asked."
    rows = ",\n    ".join(map(json.dumps, sent))
    content = f'"about": {json.dumps(about)},\n  "requests": [\n    {rows}\n  ],\n  "answers": {json.dumps(ANSWERS)}'
    RECORDED.write_text(f"{{\n  {content}\n}}\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
