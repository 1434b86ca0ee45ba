"""Tell how far a turn has come: one short label, and the sentence behind it. Reading and thinking are apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chat.models import Turn
from chat.search import keeping
from checkpoints.models import SHARED, Checkpoint
from judge.models import Hint, Judgement, Vote
from judge.samples import ledger, redaction, sample_rows
from judge.samples.ledger import Stands
from judge.samples.sample_rows import Reason
from judge.votes import precedence
from training import batches, line_recipes
from training.batches import Filling
from training.models import Run, Sample


@dataclass(frozen=True)
class Journey:
    """Where a turn stands. `stage` is for code, `label` fits a chip, `detail` is a sentence or two, `tone` colours."""

    stage: str
    """writing | served | judging | judged | batch | learning | trained | unused | closed"""
    label: str
    detail: str
    tone: str = ""
    """The verdict's colour: good, bad, or none where there is no verdict; active while something is at work."""
    done: int = 0
    total: int = 0
    """A part of a whole, where the stage has one: samples of a batch, steps of a run, votes of a verdict."""
    beside: str = ""
    """What stands beside the verdict: whose word it was, and whose outranks it (judge.votes.precedence)."""
    removed: int = 0
    """How many personal details were taken out of what is learned."""
    filling: Filling | None = None
    """The next training, where the turn is a lesson of it."""
    line: str = SHARED
    """Whose training that is."""
    spent: str = ""
    """Why nothing more that is said of it can teach, as a sentence; empty where it can."""
    guess: Hint | None = None
    """What a judge found that the person wants, while it is taught or waits for a person."""

    @property
    def before_filling(self) -> str:
        """`detail` without the sentence that says when training starts."""
        return self.detail.removesuffix(self.filling.full_sentence) if self.filling else self.detail


@dataclass(frozen=True)
class Ballot:
    """The votes on one turn."""

    scores: Sequence[int | None] = ()
    hints: int = 0
    """Hint votes that offered one."""
    asked: int = 0
    """Votes of both kinds, failed ones too."""
    failed: int = 0
    hintless: int = 0
    """Hint votes that found none; the others of them failed."""


@dataclass(frozen=True)
class Batch:
    """The next batch, as far as it is filled, and who waits for it."""

    filling: Filling = field(default_factory=lambda: Filling(1))
    places: Mapping[int, int] = field(default_factory=dict)
    """Sample pk to its place among those that wait, from 1, as runs take them."""


@dataclass(frozen=True)
class Known:
    """What the database knows of some turns, read at once."""

    judgements: Mapping[UUID, Judgement]
    ballots: Mapping[UUID, Ballot]
    batches: Mapping[str, Batch]
    """By the line that fills them."""
    guesses: Mapping[UUID, Hint] = field(default_factory=dict)
    """The hint of a judge that stands or waits, by turn."""

    def batch(self, sample: Sample | None) -> Batch:
        """The batch that this sample waits for."""
        return self.batches.get(sample.line_id or SHARED, Batch()) if sample is not None else Batch()

    def journey(self, turn: Turn) -> Journey:
        judgement = self.judgements.get(turn.pk)
        batch = self.batch(judgement.sample if judgement else None)
        far = tell(turn, judgement, self.ballots.get(turn.pk, Ballot()), batch)
        if turn.status == Turn.Status.JUDGED:
            far = replace(far, beside=beside(judgement), guess=self.guesses.get(turn.pk))
        if judgement is None or judgement.sample is None:
            return far
        sample = judgement.sample
        removed = redaction.number(sample.redactions)
        return replace(far, removed=removed, line=sample.line_id or SHARED, spent=spent(judgement))


def journey(turn: Turn) -> Journey:
    """How far this turn has come."""
    return journeys([turn])[turn.pk]


def journeys(
    turns: Iterable[Turn], hints: Iterable[Hint] | None = None, votes: Iterable[Vote] | None = None
) -> dict[UUID, Journey]:
    """How far each of these turns has come, in a fixed number of queries. `hints` and `votes`, by their number: theirs,
    where they are known."""
    turns = list(turns)
    told = known(turns, hints, votes)
    return {turn.pk: told.journey(turn) for turn in turns}


def known(turns: Iterable[Turn], hints: Iterable[Hint] | None = None, votes: Iterable[Vote] | None = None) -> Known:
    """All that a journey is told from, in a fixed number of queries for each line."""
    judged = (Turn.Status.JUDGED, Turn.Status.OBSERVED)
    pks = [turn.pk for turn in turns if turn.status in judged]
    written = (
        Judgement.objects.filter(turn__in=pks)
        .select_related("sample__run__checkpoint", "sample__line")
        .annotate(is_emptied=ExpressionWrapper(Q(sample__response_ids=[]), BooleanField()))
        .defer("teacher", "evidence", *(f"sample__{name}" for name in LONG))
    )
    judgements = {judgement.turn_id: judgement for judgement in written}
    if votes is None:
        votes = Vote.objects.filter(turn__in=pks).defer("raw").order_by("pk") if pks else ()
    ballots = count_votes(votes)
    made = [one.sample for one in judgements.values() if one.sample is not None]
    ready = [sample for sample in made if sample.status == Sample.Status.READY]
    waits = {sample.line_id or SHARED: sample.line.recipe if sample.line else {} for sample in ready}
    if hints is None:
        hints = hints_on(pks) if pks else ()
    return Known(judgements, ballots, next_batches(waits), guesses_among(hints, pks))


LONG = (
    "prompt_ids", "response_ids", "mask", "behaviour_logprobs", "sampled_logprobs", "rewards", "teacher_prompt_ids",
    "rewrite_ids",
)  # fmt: skip
"""Columns of a sample that hold a list as long as a conversation."""


def count_votes(votes: Iterable[Vote]) -> dict[UUID, Ballot]:
    """The newest vote of each place, by turn: a vote asked for again counts once. `votes`: by their number."""
    newest: dict[tuple[UUID, str, int], Vote] = {}
    for vote in votes:
        newest[vote.turn_id, vote.question, vote.index] = vote
    cast: dict[UUID, list[Vote]] = defaultdict(list)
    for vote in newest.values():
        cast[vote.turn_id].append(vote)
    ballots: dict[UUID, Ballot] = {}
    for pk, votes in cast.items():
        scores = [vote.score for vote in votes if vote.question == Vote.Question.SCORE]
        readings = [vote for vote in votes if vote.question == Vote.Question.HINT]
        hints = sum(1 for vote in readings if vote.hint)
        hintless = sum(1 for vote in readings if not vote.hint and not vote.failure)
        ballots[pk] = Ballot(scores, hints, len(votes), sum(1 for vote in votes if vote.failure), hintless)
    return ballots


def hints_on(pks: Sequence[UUID]) -> list[Hint]:
    """The hints on these turns that stand, or wait for a person."""
    found = Hint.objects.filter(turn__in=pks).exclude(status=Hint.Status.REJECTED)
    return list(found.defer("teacher").order_by("pk"))


def guesses_among(hints: Iterable[Hint], pks: Sequence[UUID]) -> dict[UUID, Hint]:
    """Of these, by turn, the one that a judge worded and that no person has decided on."""
    guessed = (hint for hint in hints if hint.decided_by_id is None and hint.source != Hint.Source.PERSON)
    return {hint.turn_id: hint for hint in guessed if hint.turn_id in pks}


def next_batches(recipes: Mapping[str, Mapping[str, Any]]) -> dict[str, Batch]:
    """What waits in each of these lines, named with its own recipe. One whose recipe cannot be used fills no batch,
    and nothing has a place."""
    found = {}
    for line, recipe in line_recipes.recipes_from(recipes).items():
        filling, waiting = batches.queue(recipe, line)
        found[line] = Batch(filling, {pk: place for place, pk in enumerate(waiting, start=1)})
    return found


def tell(turn: Turn, judgement: Judgement | None, ballot: Ballot, batch: Batch) -> Journey:
    """The journey, from what is known. Nothing is asked of the database here."""
    status = Turn.Status
    if turn.kind == keeping.IMPORTED:
        return Journey("unused", _("imported"), unlearned(Reason.IMPORTED))
    if turn.status == status.ANSWERING:
        return Journey("writing", _("writing"), spoken(Stands.WRITING), "active")
    if turn.status == status.CLOSED:
        return closed(turn)
    if turn.line == Turn.Line.SIDE:
        why = joined(unlearned(Reason.SIDE), _("Titles and summaries are side requests."))
        return Journey("unused", _("side request"), why)
    if not (turn.learns and turn.session.learns):
        why = joined(unlearned(Reason.OFF), _("The conversation itself is stored."))
        return Journey("unused", _("off the record"), why)
    if turn.status == status.SERVED and turn.pictures:
        return Journey("unused", _("holds a picture"), unlearned(Reason.PICTURE))
    if turn.status == status.SERVED:
        waits = joined(spoken(Stands.UNANSWERED), _("Your next message, a thumb or a correction will be judged."))
        if turn.is_cut:
            waits = joined(_("It was cut off at its length limit."), ASKED_OF_HALF)
        return Journey("served", _("not taught yet"), waits)
    if turn.status == status.OBSERVED:
        sample = judgement.sample if judgement else None
        if judgement is not None and sample is not None and sample.status == Sample.Status.CLAIMED:
            return of_sample(judgement, ballot, batch)  # the verdict waits for the run's end
        votes = 2 * settings.JUDGE_VOTES
        said = spoken(Stands.JUDGING)
        if 0 < ballot.asked <= votes:
            cast = _("%(n)s of up to %(most)s votes are in.") % {"n": ballot.asked, "most": votes}
            said = f"{said} {cast}"
        return Journey("judging", _("being judged"), said, "active", ballot.asked, votes)
    if judgement is None:
        return Journey("judged", _("judged"), _("A verdict stands."))
    if judgement.sample is None:
        if judgement.reason_code == Reason.TRUNCATED.code:
            return Journey("unused", _("cut short"), half())
        why = judgement.reason or ledger.told(turn, judgement).sentence
        if judgement.reason_code == Reason.KEPT.code:
            said = sentence(judgement, ballot, spoken(Reason.KEPT))
            return Journey("unused", _("kept for examining"), said, colour(judgement))
        label = _("unclear") if judgement.reason_code == "unclear" else verdict(judgement) or _("not taught")
        tone = "" if judgement.reason_code == "unclear" else colour(judgement)
        return Journey("unused", label, sentence(judgement, ballot, unlearned(why)), tone)
    return of_sample(judgement, ballot, batch)


def closed(turn: Turn) -> Journey:
    if turn.finish_reason == "error":
        return Journey("closed", _("failed"), joined(_("The reply failed."), unlearned(Reason.STOPPED)), "bad")
    if turn.finish_reason == "abort":
        return Journey("closed", _("stopped"), unlearned(Reason.STOPPED))
    return Journey("closed", _("not taught"), unlearned(Stands.CLOSED))


ASKED_OF_HALF = gettext_lazy(
    "What you ask for, or write in its place, teaches. A thumb does not: it may be for what is missing."
)


def half() -> str:
    return f"{unlearned(Reason.TRUNCATED)} {ASKED_OF_HALF}"


def joined(*sentences: object) -> str:
    return " ".join(map(str, sentences))


def unlearned(why: str) -> str:
    """A reason of the ledger's, or of a row, as a sentence in the reader's language.

    >>> unlearned(Reason.NEUTRAL)
    'Not learned: neutral, and no hint.'
    """
    return _("Not learned: %(why)s.") % {"why": _(str(why)).removesuffix(".")}


def spoken(said: str) -> str:
    """The ledger's words as a sentence of their own, in the reader's language.

    >>> spoken(Stands.WRITING)
    'The reply is being written.'
    """
    said = _(str(said))
    return f"{said[:1].upper()}{said[1:]}."


def waits(judgement: Judgement, sample: Sample, ballot: Ballot, batch: Batch) -> Journey:
    """The journey of a turn whose sample no run has."""
    filling, place = batch.filling, batch.places.get(sample.pk)
    ready, size = filling.ready, filling.size
    if sample.step is not None and not (sample.drop_reason or sample.run_id):
        step = _("It is a step of an attempt, learned together with all of its group.")
        said = joined(step, filling.full_sentence)
        return Journey("batch", _("waits with its group"), sentence(judgement, ballot, said), colour(judgement))
    if place is None:
        left = None if sample.drop_reason else sample.run_id or sample.passed_by_id
        aside = _("Run %(run)s left it aside: “Learn now” in the console takes it up.") % {"run": left}
        said = aside if left else _("No run takes it as things are: by the recipe, or since it was taken back.")
        return Journey("batch", _("set aside"), sentence(judgement, ballot, said), colour(judgement))
    label = _("lesson %(place)s of %(all)s") % {"place": place, "all": size if place <= size else ready}
    said = sentence(judgement, ballot, joined(_("It is a lesson."), filling.full_sentence))
    return Journey("batch", label, said, colour(judgement), min(ready, size), size, filling=filling)


def of_sample(judgement: Judgement, ballot: Ballot, batch: Batch) -> Journey:
    """The journey of a turn that made a sample."""
    sample = judgement.sample
    assert sample is not None
    if sample.status == Sample.Status.READY:
        return waits(judgement, sample, ballot, batch)
    if sample.status == Sample.Status.STALE:
        why = sample.drop_reason or str(Stands.STALE)
        return Journey("unused", _("not taught"), sentence(judgement, ballot, unlearned(why)), colour(judgement))
    run = sample.run
    if sample.status == Sample.Status.CLAIMED or run is None or run.checkpoint is None:
        return learning(judgement, ballot, run)
    if sample.left_out:
        group = _("%(checkpoint)s learned from its group.") % {"checkpoint": run.checkpoint}
        said = f"{group} {unlearned(sample.left_out)}"
        return Journey("trained", _("not learned"), sentence(judgement, ballot, said), colour(judgement))
    return trained(judgement, ballot, run.checkpoint)


def learning(judgement: Judgement, ballot: Ballot, run: Run | None) -> Journey:
    if run is None or run.status == Run.Status.QUEUED:
        said = sentence(judgement, ballot, _("It is about to be learned."))
        return Journey("learning", _("waits for training"), said, "active")
    progress: Mapping[str, Any] = run.progress or {}
    done = int(100 * (progress.get("share") or 0))
    has_share = "share" in progress
    label = _("training %(share)s %%") % {"share": done} if has_share else _("training")
    eta_s = progress.get("eta_s")
    said = _("Run %(run)s is learning it.") % {"run": run.pk}
    if eta_s and eta_s > 30:
        left = _("About %(n)s min to go.") % {"n": max(1, round(eta_s / 60))}
        said = f"{said} {left}"
    return Journey("learning", label, sentence(judgement, ballot, said), "active", done, 100 if has_share else 0)


def trained(judgement: Judgement, ballot: Ballot, checkpoint: Checkpoint) -> Journey:
    now = {
        Checkpoint.Status.CANDIDATE: _("The gate is examining it."),
        Checkpoint.Status.PASSED: _("It passed the gate and waits for a person's yes."),
        Checkpoint.Status.APPROVED: _("It was approved and is about to go live."),
        Checkpoint.Status.LIVE: _("It is live: it writes the replies now."),
        Checkpoint.Status.RETIRED: _("It was live and is not any more."),
        Checkpoint.Status.REJECTED: _("It was rejected and will not answer."),
    }[Checkpoint.Status(checkpoint.status)]
    by = _("Learned by %(checkpoint)s.") % {"checkpoint": checkpoint}
    label = _("taught to %(checkpoint)s") % {"checkpoint": checkpoint}
    return Journey("trained", label, sentence(judgement, ballot, f"{by} {now}"), colour(judgement))


def spent(judgement: Judgement) -> str:
    """Why nothing more that is said of a reply can teach; empty where it can. Late feedback teaches once more."""
    if judgement.sample is None or judgement.sample.status != Sample.Status.TRAINED:
        return ""
    if getattr(judgement, "is_emptied", False):
        return _("What this reply taught was erased, so it teaches nothing more.")
    return _("This reply has taught twice already, so it teaches nothing more.") if judgement.learned_id else ""


def barred(turn: Turn, *, spent: str = "", is_erased: bool = False) -> str:
    """Why nothing that a person writes beside this reply will teach, for the box to say before it is written; empty
    where it may. `is_erased`: its person has asked that all that is theirs be deleted."""
    if is_erased:
        return _("You asked to have everything deleted, this chat too. Nothing you write here will be taught.")
    key = turn.session.key
    if not turn.session.learns:
        return _("This chat is off the record: what you write here is kept with it, and will not be taught.")
    if not turn.learns and key is not None and not key.learns:
        return _(
            "This chat came through a key that is served only: what you write here is kept with it, and will not be "
            "taught."
        )
    if not turn.learns:
        return _("This message is off the record: what you write here is kept with it, and will not be taught.")
    if turn.kind == keeping.IMPORTED:
        return _("Another model wrote this reply: what you write here is kept with it, and will not be taught.")
    if turn.line != Turn.Line.MAIN:
        return _("A side request never teaches: what you write here is kept with it, and will not be taught.")
    if sample_rows.is_held_out(turn):
        return _(
            "This question belongs to the exam of candidates: what you write here is kept with it, and will not be "
            "taught."
        )
    return joined(spent, _("What you write is kept.")) if spent else ""


def beside(judgement: Judgement | None) -> str:
    """Whose word the verdict is, and whose outranks it; empty while it is undecided."""
    if judgement is None:
        return ""
    source = precedence.of_reward(judgement.reward_from) or precedence.of_hint(judgement.hint_from)
    return _(str(source.beside)) if source else ""


def verdict(judgement: Judgement) -> str:
    """The reward in words; empty when there is none.

    >>> verdict(Judgement(reward=-1)), verdict(Judgement())
    ('judged bad', '')
    """
    words = {1: _("judged good"), -1: _("judged bad"), 0: _("judged neutral")}
    return words.get(judgement.reward, "") if judgement.reward is not None else ""


def colour(judgement: Judgement) -> str:
    """The tone of a verdict: how good the reply was, and not how far it has come.

    >>> colour(Judgement(reward=-1)), colour(Judgement(reward=1)), colour(Judgement(reward=0)), colour(Judgement())
    ('bad', 'good', '', '')
    """
    return {1: "good", -1: "bad"}.get(judgement.reward, "") if judgement.reward is not None else ""


def sentence(judgement: Judgement, ballot: Ballot, then: str) -> str:
    """What was decided and by whom, then what follows from it."""
    parts = []
    if judgement.reward is not None:
        source = precedence.of_reward(judgement.reward_from)
        has_said = source is not None and source.kind != "inferred"
        judge = _("the judge (%(votes)s)") % {"votes": tally(ballot)}
        by = _(str(source.yours)) if source and has_said else judge
        judged = {
            1: _("Judged good by %(by)s."),
            -1: _("Judged bad by %(by)s."),
            0: _("Judged neutral by %(by)s."),
        }
        parts.append(judged[judgement.reward] % {"by": by})
    elif ballot.asked:
        parts.append(_("The judge could not say (%(votes)s).") % {"votes": tally(ballot)})
    if judgement.hint:
        worded = precedence.of_hint(judgement.hint_from) or precedence.HINTS[-1]
        parts.append(_("It teaches %(hint)s.") % {"hint": _(str(worded.yours))})
    return " ".join([*parts, then])


def tally(ballot: Ballot) -> str:
    """The votes, counted.

    >>> tally(Ballot([1, 1, -1, None], asked=4, failed=1))
    '2 good, 1 bad, 1 failed'
    """
    counts = Counter(ballot.scores)
    words = ((1, _("%(n)s good")), (-1, _("%(n)s bad")), (0, _("%(n)s neutral")))
    said = [word % {"n": counts[score]} for score, word in words if counts[score]]
    if ballot.failed:
        said.append(_("%(n)s failed") % {"n": ballot.failed})
    return ", ".join(said) or _("no votes")
