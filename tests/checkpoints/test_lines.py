"""Lines of checkpoints: who answers whom."""

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints import lines, loading, promotion, repairs
from checkpoints.lines import LineRefused
from checkpoints.models import SHARED, Checkpoint, Line, Member
from core.errors import IllegalMove
from gpu_workers.errors import NoRoom
from training import batches, config, line_recipes, runs, tasks
from training.config import Recipe, RecipeInvalid
from training.models import Run, Sample

pytestmark = pytest.mark.django_db


@pytest.fixture
def base():
    return Checkpoint.objects.get(number=0)


@pytest.fixture
def make_line(base):
    def make(name="ana", *members, start=None):
        line = Line.objects.create(name=name, title=name.title(), start=start or base)
        for member in members:
            Member.objects.create(user=member, line=line)
        return line

    return make


@pytest.fixture
def ana(django_user_model):
    return django_user_model.objects.create_user("ana")


@pytest.fixture
def bo(django_user_model):
    return django_user_model.objects.create_user("bo")


def checkpoint(number, line=SHARED, status="live"):
    return Checkpoint.objects.create(number=number, line_id=str(line), status=status, adapter=f"talkback-{number}-x")


def test_everything_there_is_belongs_to_the_shared_line(base):
    assert Line.objects.get().is_shared
    assert (base.line_id, Checkpoint.live()) == (SHARED, base)


def test_a_line_without_checkpoints_of_its_own_is_answered_by_where_it_started(base, make_line, ana, bo):
    base.move("retired")
    shared = checkpoint(1)
    line = make_line("ana", ana)
    assert (Checkpoint.for_user(ana), Checkpoint.live("ana")) == (base, base)
    assert (Checkpoint.for_user(bo), Checkpoint.live()) == (shared, shared)
    own = checkpoint(2, line.name)
    assert (Checkpoint.for_user(ana), Checkpoint.live("ana")) == (own, own)
    assert Checkpoint.for_user(bo.pk) == shared


def test_who_answers_a_person_is_one_query(make_line, ana, django_assert_num_queries):
    make_line("ana", ana)
    Checkpoint.for_user(ana)
    with django_assert_num_queries(1):
        assert Checkpoint.for_user(ana.pk).number == 0


def test_each_line_has_at_most_one_live_checkpoint(base, make_line):
    make_line("ana")
    own = checkpoint(1, "ana")
    with pytest.raises(IntegrityError), transaction.atomic():
        checkpoint(2, "ana")
    third = checkpoint(3, "ana", status="approved")
    third.go_live()
    own.refresh_from_db()
    assert (own.status, third.status, Checkpoint.live()) == ("retired", "live", base)


def test_a_person_is_in_one_line_at_most_and_never_in_the_shared_one(make_line, ana):
    make_line("ana", ana)
    make_line("team")
    for line in ("team", SHARED):
        with pytest.raises(IntegrityError), transaction.atomic():
            Member.objects.create(user=ana, line_id=line)


def test_a_checkpoint_of_another_line_is_out_of_sight(base, make_line, ana, bo):
    shared = checkpoint(1, status="retired")
    hers = checkpoint(2, make_line("ana", ana).name)
    his = checkpoint(3, make_line("bo", bo, start=hers).name)
    assert set(Checkpoint.objects.visible_to(ana)) == {base, shared, hers}
    assert set(Checkpoint.objects.visible_to(bo)) == {base, shared, hers, his}  # his line started from hers


@pytest.fixture
def sample(base):
    def make(line=SHARED, **fields):
        fields = {"checkpoint": base, "prompt_ids": [1], "response_ids": [2], "behaviour_logprobs": [-1.0], **fields}
        return Sample.objects.create(line_id=line, **{"reward": 1.0, **fields})

    return make


def test_each_line_fills_its_own_batches_by_its_own_recipe(make_line, sample):
    line = make_line("ana")
    line_recipes.set_recipe(line, {"preset": "binary", "batch_size": 2})
    hers, theirs = [sample("ana"), sample("ana")], sample()
    assert line_recipes.waiting() == [SHARED, "ana"]
    tasks.fill_batch(str(theirs.pk))  # the shared line's batch needs 16
    run = Run.objects.get()
    assert (run.line_id, run.recipe["w_opd"], list(run.samples.order_by("pk"))) == ("ana", 0.0, hers)
    assert (run.parent.number, line_recipes.waiting()) == (0, [SHARED])


def test_a_line_whose_recipe_cannot_be_used_holds_up_no_other(make_line, sample, caplog):
    Line.objects.filter(name=make_line("ana").name).update(recipe={"batch_size": 0})
    line_recipes.set_recipe(make_line("bo"), {"batch_size": 1})
    sample("ana")
    sample("bo")
    tasks.fill_batch("1")
    assert Run.objects.get().line_id == "bo"
    assert "ana learns nothing" in caplog.text


def test_a_recipe_that_cannot_be_used_is_refused_and_none_gives_the_installations_back(make_line):
    line = make_line("ana")
    assert line_recipes.recipe_of("ana") == line_recipes.current()
    for fields in ({"w_rl": 0, "w_opd": 0, "w_sft": 0}, {"weights": "full"}, {"wrong": 1}):
        with pytest.raises(RecipeInvalid):
            line_recipes.set_recipe(line, fields)
    line_recipes.set_recipe(line, {"preset": "opd"})
    assert line_recipes.recipe_of("ana") == config.PRESETS["opd"]
    line_recipes.set_recipe(line, {})
    assert line_recipes.recipe_of("ana") == line_recipes.recipe_of(SHARED) == line_recipes.current()


def test_a_name_is_used_once_and_a_line_starts_from_the_base_or_from_what_is_live(base):
    base.move("retired")
    old, live = checkpoint(1, status="retired"), checkpoint(2)
    assert lines.make("Ana & Bo").start == base
    assert (lines.make("Team", start=live).name, Checkpoint.live("team")) == ("team", live)
    for title, start in (("ana bo", base), ("…", base), ("Third", old), ("x" * 81, base)):
        with pytest.raises(LineRefused):
            lines.make(title, start=start)


def test_what_another_lines_weights_served_is_as_old_as_the_updates_of_its_own_line_since(base, make_line, sample):
    parent = base
    for number in (1, 2, 3, 4):  # four updates of a private line
        parent = Checkpoint.objects.create(
            number=number, line=make_line() if number == 1 else parent.line, parent=parent
        )
    recipe = Recipe(max_age=2)
    hers, pooled = sample("ana"), sample(checkpoint=parent)
    assert batches.distance(parent, base) == 4
    assert (batches.drop_stale(recipe, SHARED), batches.drop_stale(recipe, "ana")) == (0, 0)
    parent.status = "approved"
    parent.save()
    parent.go_live()  # the base is now four updates away from what answers Ana, and nothing changed for the others
    assert (batches.drop_stale(recipe, SHARED), batches.drop_stale(recipe, "ana")) == (0, 1)
    hers.refresh_from_db()
    assert (hers.status, pooled.status) == ("stale", "ready")
    before = base
    for number in (5, 6, 7):  # the shared line goes three updates on
        before = Checkpoint.objects.create(number=number, parent=before, status="approved")
        before.go_live()
    assert batches.drop_stale(recipe, SHARED) == 1


def test_a_rolled_back_line_steps_to_its_own_last_one_and_at_last_to_where_it_started(base, make_line, engine):
    make_line("ana")
    first, second = (checkpoint(number, "ana", status="approved") for number in (1, 2))
    for one in (first, second):
        promotion._switch(one, "promote", None, "")
    shared = checkpoint(3, status="approved")
    promotion._switch(shared, "promote", None, "")
    assert [promotion.previous(name).number for name in (SHARED, "ana")] == [0, 1]
    promotion._switch(first, "roll back", None, "")
    assert promotion.previous("ana") == base
    async_to_sync(promotion.roll_back)(line="ana")
    assert (Checkpoint.live("ana"), Checkpoint.live()) == (base, shared)
    assert (promotion.previous("ana"), promotion.previous().number) == (None, 0)
    first.refresh_from_db()
    assert first.status == "retired"
    with pytest.raises(IllegalMove, match="belongs to another line"):
        async_to_sync(promotion.roll_back)(to=first, line=SHARED)


def test_the_engine_is_to_hold_who_answers_in_each_line_and_little_of_what_did(base, make_line):
    base.move("retired")
    start = checkpoint(1)
    make_line("ana", start=start)
    rows = {number: checkpoint(number, "ana", status="retired") for number in (2, 3, 4)}
    rows[5] = checkpoint(5, "ana", status="live")
    rows[6] = checkpoint(6, "ana", status="rejected")
    rows[7] = checkpoint(7, make_line("gone").name)
    Line.objects.filter(name="gone").update(retired_at=timezone.now())
    assert {one.number for one in loading.wanted()} == {0, 1, 4, 5}  # of the retired ones the latest


def test_a_run_of_a_line_goes_on_from_what_answers_there_and_makes_a_checkpoint_of_it(home, make_line, ready):
    line = make_line("ana")
    recipe = Recipe(batch_size=1, lora_rank=4)
    first = runs.train(batches.learn_now(recipe, ready(line=line).line_id))
    assert (first.number, first.line_id, first.parent.number) == (1, "ana", 0)
    Checkpoint.objects.filter(pk=first.pk).update(status="approved")
    Checkpoint.objects.get(pk=first.pk).go_live()
    shared = runs.train(batches.learn_now(recipe, ready().line_id))
    second = runs.train(batches.learn_now(recipe, ready(line=line).line_id))
    assert (shared.number, shared.line_id, shared.parent.number) == (2, SHARED, 0)
    assert (second.number, second.line_id, second.parent) == (3, "ana", first)


def test_runs_of_several_lines_run_one_after_the_other(home, make_line, ready):
    make_line("ana")
    recipe = Recipe(batch_size=1, lora_rank=4)
    hers, theirs = (batches.learn_now(recipe, ready(line_id=name).line_id) for name in ("ana", SHARED))
    hers.move("running")
    assert runs.train(theirs) is None
    theirs.refresh_from_db()
    assert theirs.status == "queued"


@pytest.fixture
def loaded(base, make_line, engine):
    """Who answers in the shared line and in two others, and a retired one, in an engine with as many places."""
    base.move("retired")
    rows = [checkpoint(1), checkpoint(2, make_line("ana").name), checkpoint(3, make_line("bo").name)]
    rows.append(checkpoint(4, status="retired"))
    for row in rows:
        async_to_sync(engine.load_adapter)(row.adapter, str(row.folder))
    engine.room = 4
    return rows


def test_a_full_engine_lets_go_of_what_answers_no_line_and_then_of_who_talked_longest_ago(loaded, engine, ana):
    session = Session.objects.create(user=ana)
    for number, position in ((1, 0), (3, 1), (2, 2)):  # who talked last is at the end
        row = Checkpoint.objects.get(number=number)
        Turn.objects.create(session=session, position=position, checkpoint=row, messages=[], status="served")
    for number, left in ((5, {1, 2, 3, 5}), (6, {1, 2, 3, 6}), (7, {2, 3, 6, 7})):
        new = checkpoint(number, status="retired" if number == 5 else "approved")
        async_to_sync(loading.ensure_loaded)(new, engine)
        assert {int(name.split("-")[1]) for name in engine.loaded} == left


def test_a_reply_that_is_being_written_keeps_its_weights_in_a_full_engine(loaded, engine, ana):
    session = Session.objects.create(user=ana)
    for row in loaded:
        Turn.objects.create(session=session, position=row.number, checkpoint=row, messages=[], status="answering")
    with pytest.raises(NoRoom):
        async_to_sync(loading.ensure_loaded)(checkpoint(5, status="approved"), engine)
    assert len(engine.loaded) == 4


def test_the_sweep_fills_the_places_there_are_with_who_answers_first_and_turns_none_out(loaded, engine):
    live, warm = loaded[:3], loaded[3]
    engine.loaded.clear()
    engine.room = 3
    assert set(async_to_sync(repairs.repair)()) == {row.adapter for row in live}
    assert async_to_sync(repairs.repair)() == []
    assert warm.adapter not in engine.loaded
