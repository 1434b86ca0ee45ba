"""Full weights: they take each other's place in an engine, and no reply has tokens of two of them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from benchmarks.tiny import write_tiny_model
from chat.models import Session
from chat.replying import replies
from checkpoints import lines, loading, promotion, repairs
from checkpoints.loading import Unproven
from checkpoints.models import Checkpoint, Decision, Line
from checkpoints.notice_rows import Notice
from core.errors import IllegalMove
from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.spare import Spare
from gpu_workers.engine.stamps import FULL
from gpu_workers.errors import AdapterInvalid, EngineUnavailable, WeightsExchanged
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from installation.diagnosis import free_port
from tests.chat.conftest import ask_in
from tests.doubles.fake_engine import FakeEngine
from training import batches, line_recipes, runs
from training.config import Recipe, RecipeInvalid

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]
promote, roll_back, repair = (async_to_sync(f) for f in (promotion.promote, promotion.roll_back, repairs.repair))


@pytest.fixture
def make(engine, db, settings, tmp_path):
    """A checkpoint that the scripted engine answers for as its learner would: full weights, unless told otherwise."""
    settings.DATA_DIR = tmp_path

    def make(number, kind="full", status="approved"):
        name = f"talkback-{number}-{number:08x}"
        name = FULL + name if kind == "full" else name
        return Checkpoint.objects.create(
            number=number,
            kind=kind,
            status=status,
            adapter=name,
            path=f"checkpoints/{number}",
            probe=engine.probe(name),
        )

    return make


def live():
    return Checkpoint.live().number


def exchanges(engine):
    return [version for what, (_, version) in engine.admin if what == "weights"]


def test_full_weights_go_live_in_place_of_the_base_and_the_base_in_theirs(make, engine):
    first, second = make(1), make(2)
    promote(first)
    promote(second)
    assert (live(), engine.weight_version) == (2, second.adapter)
    assert roll_back().number == 1
    assert engine.weight_version == first.adapter
    assert roll_back().number == 0
    assert exchanges(engine) == [first.adapter, second.adapter, first.adapter, "base"]


def test_an_adapter_is_never_put_on_foreign_full_weights(make, engine):
    adapter, full = make(1, "lora"), make(2)
    promote(adapter)
    promote(full)

    with pytest.raises(WeightsExchanged, match="talkback@2 answers with full weights of its own"):
        async_to_sync(loading.ensure_loaded)(adapter, engine)
    assert roll_back(to=adapter) == adapter  # the base is put in place first
    assert (engine.weight_version, live()) == ("base", 1)


def test_full_weights_that_the_engine_does_not_answer_with_are_taken_out_again(make, engine):
    first = make(1)
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, name: honest(prompt, response, None)  # the files were not read

    with pytest.raises(Unproven, match="shows 0% of the learner's change"):
        promote(first)

    first.refresh_from_db()
    assert (first.status, live(), engine.weight_version) == ("rejected", 0, "base")
    assert "talkback@1 did not go live, and talkback@0 answers as before." in Notice.objects.get().text


def test_files_that_are_no_model_are_refused_and_nothing_changes(make, engine):
    first = make(1)
    engine.invalid.add(first.adapter)
    with pytest.raises(Unproven, match="cannot be served"):
        promote(first)
    assert (live(), engine.weight_version) == (0, "base")


@pytest.fixture
def pair(engine, monkeypatch):
    """Two scripted engines that answer as one; the first is `engine`, and both know the same learner."""
    second = FakeEngine(engine.model)
    second.url, second.logprobs = "http://second", engine.logprobs
    fleet = Fleet({engine.url: cast(Engine, engine), second.url: cast(Engine, second)})
    monkeypatch.setattr(engines, "policy", lambda: fleet)
    return engine, second


def test_of_two_engines_that_exchange_weights_both_do(make, pair):
    first = make(1)
    promote(first)
    assert (live(), [one.weight_version for one in pair]) == (1, [first.adapter] * 2)
    roll_back()
    assert (live(), [one.weight_version for one in pair]) == (0, ["base"] * 2)


def test_where_the_second_engine_refuses_the_files_the_first_goes_back_and_it_is_said_which(make, pair):
    first, second = make(1), make(2)
    promote(first)
    pair[1].invalid.add(second.adapter)

    with pytest.raises(Unproven, match="Engine 2"):
        promote(second)

    second.refresh_from_db()
    assert (second.status, live(), [one.weight_version for one in pair]) == ("rejected", 1, [first.adapter] * 2)
    assert "talkback@2 did not go live, and talkback@1 answers as before." in Notice.objects.get().text


def test_where_the_second_engine_answers_with_something_else_both_are_undone(make, pair):
    first = make(1)
    honest = pair[1].logprobs
    pair[1].logprobs = lambda prompt, response, name: honest(prompt, response, None)  # it took them, and ignores them

    with pytest.raises(Unproven, match="0% of the learner's change"):
        promote(first)

    assert (live(), [one.weight_version for one in pair]) == (0, ["base"] * 2)


def test_where_the_second_engine_fails_in_the_exchange_both_go_back_and_it_can_be_done_again(make, pair):
    first = make(1)
    honest = pair[1].update_weights

    async def fails(path, *, version):
        raise EngineUnavailable("The engine does not answer.")

    pair[1].update_weights = fails
    with pytest.raises(WeightsExchanged, match="serves the base, not full:talkback-1"):
        promote(first)
    assert (live(), [one.weight_version for one in pair]) == (0, ["base"] * 2)

    pair[1].update_weights = honest
    promote(Checkpoint.objects.get(number=1))
    assert (live(), [one.weight_version for one in pair]) == (1, [first.adapter] * 2)


def test_an_engine_that_was_started_again_serves_what_is_live_before_a_person_is_answered(make, engine, db):
    first = make(1)
    promote(first)
    engine.starts_again()
    user = get_user_model().objects.create_user("ana")
    engine.says("Good morning.")

    turn = ask_in(Session.objects.create(user=user), [{"role": "user", "content": "Hello?"}])

    async def read():
        return [spoken async for spoken in replies.reply(turn, engine)]

    async_to_sync(read)()
    turn.refresh_from_db()
    assert (turn.status, turn.text, turn.checkpoint) == ("served", "Good morning.", first)
    assert engine.weight_version == first.adapter
    assert turn.weight_version == first.adapter


def test_a_turn_that_waited_out_an_exchange_is_answered_by_the_new_weights_and_says_so(make, engine):
    first = make(1)
    user = get_user_model().objects.create_user("ana")
    turn = ask_in(Session.objects.create(user=user), [{"role": "user", "content": "Hello?"}])
    assert turn.checkpoint.number == 0
    promote(first)  # the turn reaches the engine only now
    engine.says("Good morning.")

    async def read():
        return [spoken async for spoken in replies.reply(turn, engine)]

    async_to_sync(read)()
    turn.refresh_from_db()
    assert (turn.status, turn.checkpoint, turn.weight_version) == ("served", first, first.adapter)
    assert list(turn.logprobs) == engine.logprobs(turn.prompt_ids, turn.response_ids, first.adapter)


def test_while_weights_are_exchanged_no_other_process_exchanges_them(make, engine):
    first = make(1)
    promote(first)
    engine.weight_version = "base"

    async def both():
        async with loading.exchanging():
            await loading.restore(engine)

    with pytest.raises(EngineUnavailable, match="Weights are being exchanged"):
        async_to_sync(both)()
    assert async_to_sync(loading.restore)(engine)
    assert engine.weight_version == first.adapter


def test_a_worker_that_was_killed_between_the_engine_and_the_row_leaves_the_row_right(make, engine):
    first = make(1)
    engine.weight_version = first.adapter  # in place, and then its worker was gone: the base is live
    repair()
    assert (engine.weight_version, live()) == ("base", 0)


def test_full_weights_and_private_lines_exclude_one_another(make, engine):
    full = make(1)
    line = lines.make("Ana")
    with pytest.raises(IllegalMove, match="Ana answers with an adapter on the base: retire that line"):
        promote(full)
    assert (live(), full.status) == (0, "approved")

    Line.objects.filter(pk=line.pk).update(retired_at=full.created_at)
    promote(full)
    with pytest.raises(lines.LineRefused, match="Full weights answer everybody"):
        lines.make("Ben")


def test_a_recipe_trains_every_weight_only_where_a_second_engine_answers_for_the_base(settings, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"weights": "full"}')
    settings.RECIPE, settings.SPARE_ENGINE_URL = str(recipe), ""
    with pytest.raises(RecipeInvalid, match="set SPARE_ENGINE_URL"):
        line_recipes.current()
    settings.SPARE_ENGINE_URL = "http://127.0.0.1:8009"
    assert line_recipes.current().weights == "full"


@pytest.fixture
def both(embedded_engine, tiny_model, tmp_path, monkeypatch):
    """The embedded engine with a second one as its spare, both on the tiny model."""
    port, keys = free_port(), {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    command = embedded_command(str(tiny_model), port, more=("--dtype", "float32"))
    url = f"http://127.0.0.1:{port}"
    with EngineProcess(command, url, tmp_path / "spare.log", environment={**ONE_THREAD, **keys}):
        spare = Spare(EngineClient(url, api_key="key", admin_key="admin"), str(tiny_model))
        engine = EngineClient(embedded_engine.url, api_key="key", admin_key="admin", spare=spare)
        monkeypatch.setattr(engines, "policy", lambda: engine)
        yield engine
        async_to_sync(engine.update_weights)(str(tiny_model), version="base")


@pytest.mark.processes
def test_a_full_run_is_examined_beside_what_is_live_goes_live_and_back(both, ready, home, tiny_model):
    ready(reward=1.0, teacher_prompt_ids=None)
    made = runs.train(batches.fill(Recipe(batch_size=1, lr=1e-3, weights="full")))
    assert (made.kind, made.adapter.startswith(FULL)) == ("full", True)
    asked, greedy = [1, 40, 41, 42], Sampling(max_new_tokens=40, temperature=0.0, ignore_eos=True)

    async def examined():
        """As the exam does it: candidate and base side by side, while the base is live."""
        await loading.ensure_loaded(made, both)
        proof = await loading.prove(made, both)
        replies = [both.generate(asked, greedy, adapter=name) for name in (None, made.adapter) * 3]
        return proof, await asyncio.gather(*replies)

    proof, answers = async_to_sync(examined)()
    assert proof.passed, proof.sentence
    assert proof.gap < 1e-4
    assert [answer.weight_version for answer in answers] == ["base", made.adapter] * 3

    Checkpoint.objects.filter(pk=made.pk).update(status="approved")

    async def promoted_under_load():
        """Four replies begin with the base; the new weights wait for them, and one that comes then waits for those."""
        streams = [both.stream([1, 40 + n], Sampling(max_new_tokens=200, ignore_eos=True)) for n in range(4)]
        begun = [await anext(stream) for stream in streams]
        swap = asyncio.create_task(promotion.promote(made))
        rest = await asyncio.gather(*(_read(stream) for stream in streams))
        await swap
        after = await both.generate(asked, greedy, adapter=made.adapter)
        base = await both.generate(asked, greedy)  # by the spare, which changes its weights for it
        return [[first, *deltas] for first, deltas in zip(begun, rest, strict=True)], after, base

    streams, after, base = async_to_sync(promoted_under_load)()
    for deltas in streams:
        assert sum(len(delta.ids) for delta in deltas) == 200
        assert {delta.weight_version for delta in deltas} == {"base"}  # no token by the new weights
    assert after.ids == answers[1].ids
    assert base.ids == answers[0].ids
    assert Checkpoint.live() == made

    assert roll_back().number == 0
    assert async_to_sync(both.serving)() == ""
    assert [d.verb for d in Decision.objects.order_by("pk")] == ["promote", "roll back"]


async def _read(stream):
    return [delta async for delta in stream]


async def test_the_stamp_of_an_answer_is_held_to_what_was_asked_for(embedded_engine, tiny_model, tmp_path):
    other = write_tiny_model(tmp_path / "other", seed=5)
    two = EngineClient(embedded_engine.url, api_key="key", admin_key="admin")  # another process
    name, greedy = FULL + "talkback-1-00000001", Sampling(max_new_tokens=4, temperature=0.0)
    try:
        await two.generate(PROMPT, greedy)
        await embedded_engine.update_weights(str(other), version=name)
        with pytest.raises(WeightsExchanged):
            await two.generate(PROMPT, greedy)
        with pytest.raises(WeightsExchanged):
            await two.score(PROMPT, RESPONSE)
        assert (await two.generate(PROMPT, greedy, adapter=name)).weight_version == name
        with pytest.raises(AdapterInvalid):
            await embedded_engine.update_weights(str(tmp_path / "nowhere"), version="full:no")
        assert await two.serving() == name
    finally:
        await embedded_engine.update_weights(str(tiny_model), version="base")
        await two.aclose()
