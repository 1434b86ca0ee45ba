"""Which samples a line learns from: claimed all at once or not at all, never too old, never without a signal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Case, Count, DateTimeField, Exists, F, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Cast, Coalesce
from django.utils.translation import gettext as _

from checkpoints.models import SHARED, Checkpoint, Line
from core.errors import IllegalMove, TalkbackError
from training import learnable
from training.agents import groups
from training.config import Recipe
from training.filling import Filling
from training.models import Run, Sample

WRITTEN = Q(rewrite_ids__isnull=False)
"""A person wrote in the reply's place."""

HINTED = Q(teacher_prompt_ids__isnull=False)
"""A hint says what to do instead; a vote says how good it was, and no more."""

IMPORT = "import:"
"""How `Sample.person` begins where an example came from a file: whose it is, as its maker counts."""

IMPORTED = Q(person__startswith=IMPORT)

ONE_IN = 4
"""Of so many lessons of a run at most one is imported (one, where a run is smaller): a file never outweighs people."""


class NothingReady(TalkbackError):
    """There is no sample to learn from yet."""

    code, status = "nothing_ready", 409


def ready(recipe: Recipe, line: str = SHARED) -> QuerySet[Sample]:
    """READY samples of people's replies in this line that would teach something under this recipe, oldest first; those
    of agents are `groups.ready`."""
    # One with a drop_reason was taken back while a run had it: it goes, or is judged anew, and waits for that.
    rows = Sample.objects.filter(_signal(recipe), status=Sample.Status.READY, line=line, drop_reason="")
    return _few_imported(rows.exclude(groups.PLAYED).order_by("pk"), recipe)


def lessons(recipe: Recipe, line: str = SHARED) -> int:
    """How many lessons "learn now" could claim: replies, and attempts of agents."""
    return ready(recipe, line).count() + sum(one.attempts for one in groups.waiting(groups.ready(recipe, line)))


def waiting(recipe: Recipe, line: str = SHARED) -> QuerySet[Sample]:
    """Those of them that count towards the next batch. What a failed run had, and what one passed over where the
    recipe awaits rewrites, is left to "learn now"."""
    rows = ready(recipe, line).filter(run__isnull=True)
    return rows.filter(passed_by__isnull=True) if recipe.awaited else rows


def filling(recipe: Recipe, line: str = SHARED) -> Filling:
    """How far the next batch of this line is filled. A line waits for rewrites where one is there, or where a person
    wrote since the last run that began by itself, or for it: where no person writes it waits for nothing."""
    return fillings({line: recipe})[line]


def fillings(lines: Mapping[str, Recipe]) -> dict[str, Filling]:
    """`filling` of each of these lines by its recipe. One query for AT_ONCE lines."""
    return {line: filled for line, (filled, _groups) in filled_with(lines).items()}


def filled_with(lines: Mapping[str, Recipe]) -> dict[str, tuple[Filling, list[groups.Waiting]]]:
    """`fillings`, with all groups of attempts that "learn now" could claim."""
    replies: dict[str, Mapping[str, int]] = {}
    writers, played_in = set(), defaultdict(list)
    for line, of, judged_at, *counts in _counted(lines):
        if of == REPLIES:
            replies[line] = dict(zip(COUNTED, counts, strict=True))
        elif of == WRITERS:
            writers.add(line)
        else:
            group, attempts, tried, _ = counts
            played_in[line].append((judged_at, groups.Waiting(group, attempts, is_tried=tried > 0)))
    none, told = dict.fromkeys(COUNTED, 0), {}
    for line, recipe in lines.items():
        counted, every = replies.get(line, none), [one for _, one in sorted(played_in[line])]
        played = tuple(one.attempts for one in every if not one.is_tried)
        filled = Filling(
            recipe.batch_size,
            ready=counted["ready"] + sum(played),
            said=counted["said"] + sum(played),
            rewrites=counted["rewrites"],
            awaited=recipe.awaited if counted["rewrites"] or line in writers else 0,
            groups=played,
            set_aside=counted["every"] - counted["ready"] + sum(one.attempts for one in every if one.is_tried),
        )
        told[line] = filled, every
    return told


COUNTED = ("every", "ready", "said", "rewrites")
"""Of the `ready` samples of a line how many there are, wait, are of a person's word, and are rewrites."""

REPLIES, WRITERS, GROUPS = "replies", "writers", "groups"
"""What is counted of a line: its ready samples; whether a person wrote there lately; and each group that waits."""

AT_ONCE = 150
"""Lines that are counted in one query: SQLite takes 500 parts of one at most, and each has three."""


def _counted(lines: Mapping[str, Recipe]) -> Iterator[tuple[Any, ...]]:
    """Rows of (line, what is counted, when it was judged, four numbers): COUNTED of its replies, or of a group its key,
    how many of its attempts count, how many of its steps were tried, and 0."""
    each = [_counted_in(line, recipe) for line, recipe in lines.items()]
    for at in range(0, len(each), AT_ONCE):
        first, *others = (part for parts in each[at : at + AT_ONCE] for part in parts)
        yield from first.union(*others, all=True)


def _counted_in(line: str, recipe: Recipe) -> Iterator[QuerySet[Any, Any]]:
    unjudged = Cast(Value(None), DateTimeField())  # of a bare NULL PostgreSQL makes a text
    waits = Q(run__isnull=True) & (Q(passed_by__isnull=True) if recipe.awaited else Q())
    counts = {
        "every": Count("pk"),
        "ready": Count("pk", filter=waits),
        "said": Count("pk", filter=waits & Q(voted=False) & ~IMPORTED),
        "rewrites": Count("pk", filter=waits & WRITTEN & ~IMPORTED),
    }
    of_line = ready(recipe, line).order_by().values("line").annotate(what=Value(REPLIES), judged=unjudged, **counts)
    yield of_line.values_list("line", "what", "judged", *COUNTED)
    if recipe.awaited:
        wrote = Line.objects.filter(Exists(_written_since(line)), name=line).order_by()
        wrote = wrote.annotate(what=Value(WRITERS), judged=unjudged, **dict.fromkeys(COUNTED, Value(0)))
        yield wrote.values_list("name", "what", "judged", *COUNTED)
    played = groups.found(groups.ready(recipe, line), line).order_by().annotate(what=Value(GROUPS), zero=Value(0))
    yield played.values_list("line", "what", "judged", "group_pk", "attempts", "tried", "zero")


def queue(recipe: Recipe, line: str = SHARED) -> tuple[Filling, list[int]]:
    """`filling`, and the samples that wait for it by their number, in the order of `in_turn` where there are more than
    it has room for. One query where any waits and no more is to be known."""
    had, played = Exists(_written_since(line)), Exists(groups.untried(recipe, line))
    rows = list(
        waiting(recipe, line)
        .annotate(is_written=WRITTEN, is_hinted=HINTED, had=had, played=played)
        .values_list("pk", "voted", "is_written", "is_hinted", "had", "played")
    )
    if not rows:
        return filling(recipe, line), []
    rewrites = sum(is_written for _, _, is_written, *_ in rows)
    *_, wrote, is_played = rows[0]
    attempts = tuple(one.attempts for one in groups.waiting(groups.untried(recipe, line))) if is_played else ()
    batch = Filling(
        recipe.batch_size,
        ready=len(rows) + sum(attempts),
        said=sum(voted is False for _, voted, *_ in rows) + sum(attempts),
        rewrites=rewrites,
        awaited=recipe.awaited if rewrites or wrote else 0,
        groups=attempts,
    )
    if batch.ready > batch.size and batch.awaited:  # else a run takes them all, and the first to come stays the first
        rows.sort(key=lambda row: _rank(*row[:4]))
    return batch, [row[0] for row in rows]


def _rank(pk: int, voted: bool | None, is_written: bool, is_hinted: bool) -> tuple[int, int]:
    """The order of `in_turn`."""
    if is_written or voted is False:
        return 0 if is_written else 1, pk
    return 2 if is_hinted else 3, -pk if voted else pk


def in_turn(samples: QuerySet[Sample], batch: Filling) -> QuerySet[Sample]:
    """These in the order in which a run claims them: oldest first, or where the line waits for rewrites those first,
    then what else people said, and of what judges alone said the newest, with a hint before those without."""
    if not batch.awaited:
        return samples
    rank = Case(
        When(IMPORTED, then=1), When(WRITTEN, then=0), When(voted=False, then=1), When(HINTED, then=2), default=3
    )
    return samples.order_by(rank.asc(), Case(When(voted=True, then=F("pk"))).desc(), F("pk").asc())


def left(run: Run, recipe: Recipe) -> QuerySet[Sample]:
    """What a run learned and no person has taken back since, as far as it would teach something under this recipe. Of a
    run that repeated another: of that other one's."""
    taught = Sample.objects.filter(run=run.again or run, status=Sample.Status.TRAINED, drop_reason="")
    taught = taught.exclude(response_ids=[]).order_by("pk")
    steps = taught.filter(groups.PLAYED)
    alone = groups.alone(steps.select_related("episode").only("pk", "step", "episode")) if recipe.w_rl else steps
    return taught.filter(_signal(recipe) | groups.PLAYED).exclude(pk__in=[one.pk for one in alone])


def learned(run: Run) -> QuerySet[Sample]:
    """What a run learned from, those that were taken back since included."""
    if run.again_id is not None:
        return Sample.objects.filter(pk__in=run.learned).order_by("pk")
    return run.samples.filter(status=Sample.Status.TRAINED).order_by("pk")


def learned_by(runs: Sequence[Run]) -> dict[int, list[Sample]]:
    """The same of each of these runs, by its number. One query."""
    plain = [run.pk for run in runs if run.again_id is None]
    again = {pk for run in runs if run.again_id is not None for pk in run.learned}
    taught = Q(run__in=plain, status=Sample.Status.TRAINED) | Q(pk__in=again)
    rows = list(Sample.objects.filter(taught).order_by("pk"))

    def of(run: Run) -> list[Sample]:
        if run.again_id is not None:
            return [row for row in rows if row.pk in run.learned]
        return [row for row in rows if row.run_id == run.pk and row.status == Sample.Status.TRAINED]

    return {run.pk: of(run) for run in runs}


def fill(recipe: Recipe, line: str = SHARED) -> Run | None:
    """Claim `recipe.batch_size` lessons into a new queued run; None while the batch is not full (`filling`). People's
    replies come first, then groups of attempts, whole ones: the last may bring more than the batch has room for.

    Where it waited for rewrites, those that it does not take and that are of votes alone are passed over: counted
    again, they would make a run without a rewrite of the next batch. What a person said is not.

    Samples whose run failed are left out: what failed once by itself would fail again by itself, for ever. They
    stay READY for a person's "learn now". Of two workers that fill at once, no sample goes to both.
    """
    drop_stale(recipe, line)
    try:
        with transaction.atomic():
            batch, locked = _lock_batch(waiting(recipe, line), recipe, line)
            replies = locked[: batch.size]
            steps, is_all = groups.lock(groups.untried(recipe, line), batch.size - len(replies))
            # The process that has one locked may be putting it away.
            if batch.wanting or len(locked) < batch.ready - batch.attempts or not is_all:
                return None
            run = _claim([*replies, *steps], recipe, line)
            if batch.awaited:
                passed = [sample.pk for sample in locked[batch.size :] if sample.voted]
                Sample.objects.filter(pk__in=passed).update(passed_by=run)
            return run
    except IllegalMove:  # another process was quicker, and all of this is undone: the next nudge looks again
        return None


def learn_now(recipe: Recipe, line: str = SHARED) -> Run:
    """Claim what is ready, at most a batch, into a new queued run. Raises NothingReady where nothing is, NotLearnable.
    A person asked for it: hours, chatting and budget do not hold it back, and only a pause does (training/hours.py)."""
    learnable.require()
    drop_stale(recipe, line)
    try:
        with transaction.atomic():
            locked = _lock_batch(ready(recipe, line), recipe, line)[1]
            replies = locked[: recipe.batch_size]
            steps = groups.lock(groups.ready(recipe, line), recipe.batch_size - len(replies))[0]
            if replies or steps:
                return _claim([*replies, *steps], recipe, line, asked=True)
    except IllegalMove:  # another process was quicker with all there is
        pass
    raise NothingReady(
        _("There is no lesson yet: give a thumb or a correction to a reply, and wait until it is judged.")
    )


def release(run: Run) -> None:
    """Give back what a failed run had claimed. `run` stays on the sample, as the last that tried; what it passed over
    was never tried."""
    for sample in run.samples.filter(status=Sample.Status.CLAIMED):
        sample.move(Sample.Status.READY)
    run.passed_over.update(passed_by=None)


def drop_stale(recipe: Recipe, line: str = SHARED) -> int:
    """Put away ready samples that were served too many checkpoints ago, and steps of attempts with which there is
    nothing to compare, each with its reason. Returns how many."""
    live = Checkpoint.live(line)
    dropped = 0
    for served in Checkpoint.objects.filter(samples__status=Sample.Status.READY, samples__line=line).distinct():
        rows = Sample.objects.filter(checkpoint=served, status=Sample.Status.READY, line=line)
        for sample in rows.exclude(IMPORTED):
            if not (reason := too_old(sample, served, live, recipe)):
                continue
            try:
                sample.move(Sample.Status.STALE, drop_reason=reason)
            except IllegalMove:  # claimed or dropped by another process meanwhile
                continue
            dropped += 1
    return dropped + groups.put_away(line)


def fresh(samples: Sequence[Sample], parent: Checkpoint, recipe: Recipe) -> list[Sample]:
    """Those of a run's samples that are not too old for the weights it goes on from, and were not taken back while the
    run waited in its queue; the others are put away, each with its reason. Raises NothingReady when none is left."""
    served = {sample.checkpoint_id: sample.checkpoint for sample in samples}
    reasons = {
        sample.pk: sample.drop_reason or too_old(sample, served[sample.checkpoint_id], parent, recipe)
        for sample in samples
    }
    left = [sample for sample in samples if not reasons[sample.pk]]
    reasons |= {sample.pk: groups.ALONE for sample in groups.alone(left)}
    kept = [sample for sample in left if not reasons[sample.pk]]
    for sample in samples:
        if not (reason := reasons[sample.pk]):
            continue
        with transaction.atomic():
            sample.move(Sample.Status.READY)
            sample.refresh_from_db(fields=["drop_reason"])
            sample.move(Sample.Status.STALE, drop_reason=sample.drop_reason or reason)
    if not kept:
        raise NothingReady(
            "Every lesson grew too old, or was taken back, while the run waited: the ledger has them as dropped."
        )
    return kept


def too_old(sample: Sample, served: Checkpoint, live: Checkpoint, recipe: Recipe) -> str:
    """Why a sample may not be learned from any more, going on from `live`; empty while it may."""
    if sample.person.startswith(IMPORT):  # no weights served it
        return ""
    age = age_of(sample, served, live)
    if age <= recipe.max_age:
        return ""
    return (
        f"Served by {served}, {age} updates of the weights away from {live}: at most {recipe.max_age} may lie between."
    )


def age_of(sample: Sample, served: Checkpoint, live: Checkpoint) -> int:
    """How many updates ago, as its line counts, a sample was served. The weights of another line may lie many updates
    away from the beginning; what they served is as old as the updates of this line since it was made."""
    if served.line_id == sample.line_id or served.pk in ancestry(live):
        return distance(served, live)
    return Checkpoint.objects.filter(pk__in=ancestry(live), created_at__gt=sample.created_at).count()


def distance(one: Checkpoint, other: Checkpoint) -> int:
    """How many runs lie between two checkpoints, by way of the last weights they have in common."""
    ages = {pk: age for age, pk in enumerate(ancestry(one))}
    for age, pk in enumerate(ancestry(other)):
        if pk in ages:
            return age + ages[pk]
    raise ValueError(f"{one} and {other} have no common ancestor")


def _written_since(line: str) -> QuerySet[Sample]:
    """The rewrites that runs had since the last one that began by itself, that one included. One that failed left
    nothing behind, and one that repeats another says nothing of people."""
    runs = Run.objects.filter(line=line, asked=False, again=None).exclude(status=Run.Status.FAILED)
    last = Subquery(runs.order_by("-pk").values("pk")[:1])
    return Sample.objects.filter(WRITTEN, ~IMPORTED, line=line, run_id__gte=Coalesce(last, 0))


def _few_imported(rows: QuerySet[Sample], recipe: Recipe) -> QuerySet[Sample]:
    """These without imported ones beyond what a run may take of them: the oldest that no run has tried come first."""
    in_turn = rows.filter(IMPORTED).order_by(F("run").asc(nulls_first=True), "pk")
    first = in_turn.values("pk")[: max(1, recipe.batch_size // ONE_IN)]
    return rows.filter(~IMPORTED | Q(pk__in=first))


def _signal(recipe: Recipe) -> Q:
    """What of a person's would teach something."""
    signal = Q(pk__in=[])
    if recipe.w_rl:
        signal |= ~Q(reward=0.0) | ~Q(rewards=[])  # good and bad words may balance, and still teach
    if recipe.w_opd:
        signal |= HINTED
    if recipe.w_sft:
        signal |= WRITTEN
    return signal


def _lock_batch(samples: QuerySet[Sample], recipe: Recipe, line: str) -> tuple[Filling, list[Sample]]:
    """The next batch, and these samples in turn, locked until the transaction ends, less those that another process has
    locked. One looks at a line's at a time, where the database can tell: of two, the second sees what the first
    claimed and passed over."""
    Line.objects.select_for_update(no_key=True).get(name=line)
    batch = filling(recipe, line)
    rows = in_turn(samples, batch).select_for_update(skip_locked=True, of=("self",))
    return batch, list(rows.only("pk", "status", "voted"))


def _claim(samples: Sequence[Sample], recipe: Recipe, line: str, **fields: object) -> Run:
    run = Run.objects.create(recipe=recipe.model_dump(), parent=Checkpoint.live(line), line_id=line, **fields)
    run.seed = run.pk
    run.save(update_fields=["seed"])
    for sample in samples:
        sample.move(Sample.Status.CLAIMED, run=run)
    return run


def ancestry(checkpoint: Checkpoint) -> list[int]:
    """Keys of a checkpoint and its ancestors, nearest first. One query."""
    parents = dict(Checkpoint.objects.order_by().values_list("pk", "parent"))
    line: list[int] = []
    here: int | None = checkpoint.pk
    while here is not None:
        line.append(here)
        here = parents[here]
    return line
