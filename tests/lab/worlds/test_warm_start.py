"""A warm start: what is learned of a conversation, and the folder that comes of it."""

from __future__ import annotations

import json

import pytest

from chat.rendering.renderer import Renderer
from gpu_workers.embedded.model import Model
from gpu_workers.learner.learner import Learner
from lab.worlds.rows import TILL
from lab.worlds.templates import short
from lab.worlds.tiny_model import write_base
from lab.worlds.traces import traces
from lab.worlds.warm_start import Plan, end_of_reply, row_of, warm_start


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_base(tmp_path_factory.mktemp("tiny") / "base", TILL.words)


def test_only_what_the_assistant_wrote_is_learned(base):
    renderer = Renderer(base)
    for trace in traces(20, 0):
        row = row_of(renderer, trace.messages, trace.tools, end_of_reply(base))
        prompt, answer = row.pair
        learned = [id for id, weight in zip(answer, row.weights, strict=True) if weight]
        calls = [message["tool_calls"][0]["function"] for message in trace.messages if "tool_calls" in message]
        words = [
            " ".join(["<call>", call["name"], *map(str, json.loads(call["arguments"]).values()), "<end>"])
            for call in calls
        ]
        assert renderer.decode(learned, controls=True) == " ".join(words)
        assert sum(row.weights) == pytest.approx(1.0)
        whole = renderer.prompt_ids(trace.messages, trace.tools, reply=False)
        assert [*prompt, *answer] == whole[: len(prompt) + len(answer)]


def test_a_template_that_lays_replies_out_otherwise_is_refused(base, tmp_path):
    for file in base.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shown = "(line(call.function) if messages | length > 4 else '')"
    forgets = short().replace("line(call.function)", shown)
    (tmp_path / "chat_template.jinja").write_text(forgets)
    trace = next(one for one in traces(20, 0) if len(one.scores) > 4)
    with pytest.raises(ValueError, match="another way"):
        row_of(Renderer(tmp_path), trace.messages, trace.tools, end_of_reply(base))


@pytest.mark.processes
@pytest.mark.parametrize(("rank", "least"), [(4, 0.3), (None, 1.0)], ids=["adapter", "full"])
def test_a_model_learns_of_traces_and_is_served(base, tmp_path, rank, least):
    plan = Plan(traces=96, passes=2, rank=rank, lr=1e-2, warm_up=2, seed=5)
    told = []
    folder = warm_start(base, tmp_path, plan, traces, template=short(), told=told.append)
    assert told[-1].startswith("warm start 24/24")

    made = traces(20, 99)  # others
    rows = [row_of(Renderer(folder), one.messages, one.tools, end_of_reply(folder)) for one in made]
    before, after = (
        Learner(one, lora=None, micro_batch=8).supervise(
            [row.pair for row in rows], weights=[row.weights for row in rows]
        )["loss"]
        for one in (base, folder)
    )
    assert after < before - least  # of ln 231 = 5.6 nats a token; under an adapter its embeddings stay at random

    assert Renderer(folder).style == "compact"
    assert Model(str(folder)).vocabulary == Model(str(base)).vocabulary
    again = warm_start(base, tmp_path, plan, traces, template=short(), told=lambda _: pytest.fail("trained"))
    assert again == folder
    assert sorted(one.name for one in tmp_path.iterdir()) == [folder.name]  # nothing half-made stays
