"""What can go wrong around a swap: one checkpoint is live at any moment, all agree which, and no person is answered
by other weights than those that sign."""

from __future__ import annotations

from contextlib import suppress

import pytest
from asgiref.sync import async_to_sync
from celery import Task
from django.contrib.auth import get_user_model
from django.db import OperationalError, transaction
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kombu.exceptions import OperationalError as BrokerGone

from chat.models import Session
from chat.replying import replies
from checkpoints import checksums, loading, promotion, repairs
from checkpoints.loading import AdapterUnverified, Unproven
from checkpoints.models import Checkpoint, Decision
from checkpoints.notice_rows import Notice
from core.errors import IllegalMove, TalkbackError
from gpu_workers import engines
from gpu_workers.engine.stamps import FULL
from gpu_workers.errors import AdapterMissing, EngineUnavailable
from tests.chat.conftest import ask_in
from tests.doubles.fake_engine import FakeEngine
from training.models import Run, Sample
from training.provenance import discards
from webapp import pipeline

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]
promote, roll_back, repair = (async_to_sync(f) for f in (promotion.promote, promotion.roll_back, repairs.repair))


class Mortal(FakeEngine):
    """A server that dies after so many calls, or that says it loads and answers with the base all the same."""

    fuse: int | None = None
    lies = False

    def _alive(self):
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.goes_down()
        super()._alive()

    def starts_again(self, *, lies=False):
        super().starts_again()
        self.fuse, self.lies = None, lies
        self.logprobs = lambda prompt, response, name: honest(prompt, response, None if self.lies else name)


def honest(prompt_ids, response_ids, name):
    """A token's own log-prob, less 0.05 for each checkpoint since the base: no two checkpoints answer alike."""
    number = int(name.rpartition("-")[2]) if name else 0
    return [-(0.2 + (token % 11) / 10) - 0.05 * number for token in response_ids]


def make(number, *, kind="lora", status="approved", **fields):
    name = f"{FULL if kind == 'full' else ''}talkback-{number}"
    probe = {
        "prompt_ids": PROMPT,
        "response_ids": RESPONSE,
        "logprobs": honest(PROMPT, RESPONSE, name),
        "base_logprobs": honest(PROMPT, RESPONSE, None),
        "dtype": "float32",
    }
    fields = {"path": f"checkpoints/{number}"} | fields
    return Checkpoint.objects.create(number=number, kind=kind, status=status, adapter=name, probe=probe, **fields)


def live():
    return Checkpoint.objects.get(status="live", line="shared").number


@pytest.fixture
def engine(tiny_model, monkeypatch, settings, tmp_path, db):
    settings.DATA_DIR = tmp_path
    engine = Mortal(tiny_model)
    engine.starts_again()
    monkeypatch.setattr(engines, "policy", lambda: engine)
    return engine


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_server_that_dies_at_any_call_of_a_swap_leaves_one_live_and_the_swap_can_be_done_later(engine, kind):
    first, second = make(1), make(2, kind=kind)
    promote(first)
    for calls in range(30):
        engine.fuse = calls
        try:
            promote(second)
        except EngineUnavailable:
            assert (live(), Checkpoint.objects.get(number=2).status) == (1, "approved")
        else:
            break
        engine.starts_again()
        repair()
        assert (first.adapter in engine.loaded, engine.weight_version) == (True, "base")
    assert 3 < calls < 29  # it died at each call once, and then there was none left to die at
    assert live() == 2
    engine.starts_again()
    repair()
    assert engine.weight_version == (second.adapter if kind == "full" else "base")


@pytest.mark.parametrize("said", ["database or disk is full", "server closed the connection unexpectedly"])
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_row_that_cannot_be_written_leaves_what_was_live_live_in_the_engine_too(engine, monkeypatch, said, kind):
    promote(make(1))
    second = make(2, kind=kind)

    def lost(*args):
        raise OperationalError(said)

    with monkeypatch.context() as broken:
        broken.setattr(Checkpoint, "go_live", lost)
        with pytest.raises(OperationalError):
            promote(second)
    second.refresh_from_db()
    assert (second.status, live(), engine.weight_version) == ("approved", 1, "base")

    promote(second)
    assert live() == 2


def test_a_file_that_changed_on_the_disk_is_never_loaded(engine, tmp_path):
    folder = tmp_path / "checkpoints" / "1"
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    first = make(1, files=checksums.of(folder))
    (folder / "adapter_model.safetensors").write_bytes(b"weighty")

    with pytest.raises(Unproven, match="its checksum differs"):
        promote(first)

    assert (live(), engine.loaded, Checkpoint.objects.get(number=1).status) == (0, {}, "rejected")
    assert "talkback@0 answers as before" in Notice.objects.get().text


def test_live_files_that_rot_are_not_loaded_into_an_engine_that_was_started_again(engine, tmp_path):
    for number in (1, 2):
        folder = tmp_path / "checkpoints" / str(number)
        folder.mkdir(parents=True)
        (folder / "adapter_model.safetensors").write_bytes(b"weights")
        promote(make(number, files=checksums.of(folder)))
    (folder / "adapter_model.safetensors").write_bytes(b"weighty")
    engine.starts_again()

    repair()

    assert (live(), list(engine.loaded)) == (1, ["talkback-1"])
    told = Notice.objects.get()
    assert (told.level, "its checksum differs" in told.text) == ("error", True)
    assert told.text.endswith("talkback@1 answers instead.")


def test_no_person_is_answered_by_a_server_that_says_it_loaded_and_ignores_the_name(engine, monkeypatch):
    first = make(1)
    promote(first)
    engine.starts_again(lies=True)
    turn = ask_in(Session.objects.create(user=get_user_model().objects.create_user("ana")), HELLO)
    assert turn.checkpoint == first

    with pytest.raises(AdapterUnverified, match="answers the probe as if the adapter were not there"):
        async_to_sync(loading.ensure_loaded)(first, engine)
    assert not engine.loaded
    monkeypatch.setattr(replies, "FIRST_PAUSE_S", 0.01)
    assert repair() == [first.adapter]  # it was missing, and tried

    assert (live(), engine.loaded) == (0, {})
    decision = Decision.objects.first()
    assert (decision.verb, decision.by, decision.checkpoint.number) == ("roll back", None, 0)
    assert decision.reason.startswith("The engine does not answer with talkback@1.")
    assert Notice.objects.get().level == "error"
    answer(turn)
    assert turn.checkpoint.number == 0  # the base signs for what the base says
    assert list(turn.logprobs) == honest([], turn.response_ids, None)


def test_a_server_that_pretends_after_a_silence_is_found_out_by_the_next_sweep(engine):
    first, second = make(1), make(2)
    promote(first)
    promote(second)
    engine.goes_down()
    with pytest.raises(EngineUnavailable):
        repair()
    held = dict(engine.loaded)
    engine.starts_again(lies=True)
    engine.loaded = held  # it lists them all

    repair()

    assert live() == 0


def test_a_server_that_still_gives_the_old_weights_under_the_new_name_is_found_out(engine):
    promote(make(1))
    second = make(2)
    # As wide a limit as bfloat16 has would let 0.05 pass for equal, and the share against the base is a half.
    Checkpoint.objects.filter(number=2).update(probe=second.probe | {"dtype": "bfloat16"})
    engine.logprobs = lambda prompt, response, name: honest(prompt, response, name and "talkback-1")
    with pytest.raises(Unproven, match=r"answers the probe as it did before: it has moved by 0\.0000"):
        promote(second)
    assert live() == 1


def test_another_promotion_in_the_middle_of_one_leaves_the_last_live_and_both_on_record(engine):
    first, second = make(1), make(2)
    load = engine.load_adapter

    async def load_adapter(name, path):
        await load(name, path)
        if name == first.adapter:
            await promotion.promote(second)

    engine.load_adapter = load_adapter
    promote(first)
    assert live() == 1
    assert [d.checkpoint.number for d in Decision.objects.order_by("pk")] == [2, 1]


def test_of_two_operators_who_approve_one_wins_and_it_is_promoted_once(engine):
    seen = make(1, status="passed")
    Checkpoint.objects.get(pk=seen.pk).decide("approved", by=None)
    with pytest.raises(IllegalMove, match="is already approved"):
        seen.decide("approved", by=None)
    promote(seen)
    promote(seen)
    assert [d.verb for d in Decision.objects.order_by("pk")] == ["approve", "promote"]


def test_with_redis_gone_an_approval_waits_for_the_sweep(
    engine, monkeypatch, settings, django_capture_on_commit_callbacks
):
    first, sent = make(1, status="passed"), []

    def gone(*args, **options):
        raise BrokerGone("redis is gone")

    monkeypatch.setattr(Task, "apply_async", gone)
    with django_capture_on_commit_callbacks(execute=True):
        first.decide("approved", by=None)
    assert (first.status, live()) == ("approved", 0)

    monkeypatch.setattr(Task, "apply_async", lambda task, arguments, **options: sent.append((task.name, arguments)))
    arrow = next(arrow for arrow in pipeline.ARROWS if arrow.status == Checkpoint.Status.APPROVED)
    arrow.send(first.pk)
    assert sent == [("training.tasks.promote", (str(first.pk),))]


def test_rolling_back_can_set_aside_what_the_bad_checkpoint_served(engine, django_user_model):
    first = make(1)
    promote(first)
    ana = django_user_model.objects.create_user("ana")
    fields = {"checkpoint": first, "prompt_ids": PROMPT, "response_ids": RESPONSE, "behaviour_logprobs": [-1.0] * 3}
    waits = Sample.objects.create(**fields)
    claimed = Sample.objects.create(**fields, status="claimed", run=Run.objects.create(recipe={}))
    trained = Sample.objects.create(**fields, status="trained")
    other = Sample.objects.create(**fields | {"checkpoint": Checkpoint.objects.get(number=0)})

    roll_back(by=ana, reason="it swears", set_aside=discards.set_aside)

    for sample in (waits, claimed, trained, other):
        sample.refresh_from_db()
    assert [sample.status for sample in (waits, claimed, trained, other)] == ["stale", "claimed", "trained", "ready"]
    assert waits.drop_reason == claimed.drop_reason == "Set aside with talkback@1: it swears"
    assert (trained.drop_reason, other.drop_reason) == ("", "")
    said = Decision.objects.get(verb="set aside")
    assert (said.checkpoint, said.by, said.reason) == (first, ana, "2 samples. it swears")


HELLO = [{"role": "user", "content": "Hello?"}]


def answer(turn):
    async def read():
        return [spoken async for spoken in replies.reply(turn, engines.policy())]

    async_to_sync(read)()
    turn.refresh_from_db()


class Swaps(RuleBasedStateMachine):
    """Approvals, promotions and ways back, while the server dies, starts again and lies, and workers are killed."""

    engine: Mortal

    def __init__(self):
        super().__init__()
        self.block = transaction.atomic()
        self.block.__enter__()
        self.engine.starts_again()
        self.made = 0

    def teardown(self):
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)

    @precondition(lambda self: self.made < 4)
    @rule(kind=st.sampled_from(["lora", "lora", "full"]))
    def passes(self, kind):
        self.made += 1
        make(self.made, kind=kind, status="passed")

    def _tries(self, act, *arguments, **options):
        with suppress(TalkbackError):
            act(*arguments, **options)

    def _pick(self, data, *statuses):
        found = list(Checkpoint.objects.filter(status__in=statuses).order_by("number"))
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data())
    def approves(self, data):
        if checkpoint := self._pick(data, "passed"):
            checkpoint.decide("approved", by=None)

    @rule(data=st.data(), fuse=st.none() | st.integers(0, 12))
    def promotes(self, data, fuse):
        if checkpoint := self._pick(data, "approved"):
            self.engine.fuse = fuse
            self._tries(promote, checkpoint)
            self.engine.fuse = None

    @rule(data=st.data(), fuse=st.none() | st.integers(0, 12))
    def rolls_back(self, data, fuse):
        if checkpoint := self._pick(data, "retired"):
            self.engine.fuse = fuse
            self._tries(roll_back, to=checkpoint)
            self.engine.fuse = None

    @rule(data=st.data())
    def a_worker_is_killed_with_the_engine_ahead_of_the_row(self, data):
        checkpoint = self._pick(data, "approved", "retired")
        if checkpoint and self.engine.down is None and not self.engine.lies:
            if checkpoint.kind == "full":
                self.engine.weight_version = checkpoint.adapter
            elif checkpoint.kind == "lora":
                self.engine.loaded[checkpoint.adapter] = str(checkpoint.folder)

    @rule()
    def the_server_dies(self):
        self.engine.goes_down()

    @rule(lies=st.booleans())
    def the_server_starts_again(self, lies):
        self.engine.starts_again(lies=lies)

    @rule()
    def the_sweep_repairs(self):
        self._tries(repair)
        if self.engine.down is None:
            answers = Checkpoint.live()
            assert self.engine.weight_version.removeprefix("base") == loading.weights_of(answers)
            assert answers.kind != "lora" or answers.adapter in self.engine.loaded
            assert answers.kind == "base" or not self.engine.lies

    @rule()
    def a_person_asks(self):
        """As a reply asks: by the name of what is live, and again once that was brought."""
        answers = Checkpoint.live()
        for _ in range(2):
            try:
                scored = async_to_sync(self.engine.score)(PROMPT, RESPONSE, adapter=answers.adapter or None)
            except AdapterMissing:
                self._tries(async_to_sync(loading.ensure_loaded), answers, self.engine)
            except EngineUnavailable:
                return
            else:
                assert list(scored.logprobs) == honest(PROMPT, RESPONSE, answers.adapter or None)
                return

    @invariant()
    def one_is_live(self):
        assert Checkpoint.objects.filter(status="live", line="shared").count() == 1

    @invariant()
    def the_record_agrees_with_the_row(self):
        last = Decision.objects.filter(verb__in=("promote", "roll back")).order_by("-pk").first()
        assert live() == (last.checkpoint.number if last else 0)


def test_whatever_happens_one_is_live_and_no_person_is_answered_by_other_weights(engine):
    Swaps.engine = engine
    run_state_machine_as_test(
        Swaps, settings=hypothesis_settings(max_examples=12, stateful_step_count=12, deadline=None, derandomize=True)
    )
