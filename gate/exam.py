"""The exam: a candidate against what answers in its line, on prompts that never train. It passes or not, with numbers.

Does the engine really answer with these weights? Are the replies still replies? Can it still do what it could
(gate.general_pack)? Does it please no less than before, also where corrections never trained (gate.personal_part)? Did
it learn by heart (gate.meter)? All this is asked through the engine, and a worker that dies half-way goes on where it
stopped. Do agents solve no fewer tasks (gate.agent_part)? That is played by others, and the exam waits for them. The
limits are those of the run's recipe (training.config.Gate)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from chat.rendering.renderer import Renderer
from checkpoints import loading, notices, rulings
from checkpoints.loading import Unproven, ensure_loaded
from checkpoints.models import SHARED, Checkpoint, Decision
from checkpoints.proofs import Proof
from core import statistics
from core.errors import IllegalMove
from core.states import moved
from feedback.models import Feedback
from gate import agent_part, asked_again, exam_requests, general_pack, meter, personal_part, reply_figures
from gate.findings import RATED, SAYS, Check, collapsed, kept_up, no_worse, pleased, preferred
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Completion, Sampling
from judge.hints import hint_words
from judge.models import Judgement
from judge.samples import exam_questions, personal_holdout, pooling
from judge.sittings import Seat, sitting
from training import batches, config
from training.config import Gate
from training.models import Run, Sample
from training.provenance import cleaning

SAME = 1e-4
"""Nats a token. Two sets of weights that give the same reply log-probs closer than this are the same."""

HANDFUL = 4
"""Prompts asked at once, of both checkpoints: eight replies fill the embedded engine's batch."""

WISHES = 2
"""The run's own hints that preference is measured with; each costs two scores a reply."""

EXAMPLES = 8
"""The run's own rated replies and rewrites that preference is measured with."""

AGAIN = 6
"""Corrected questions that are asked again, the newest first. They decide nothing: a person looks at them first."""

SEAT_S = 120
"""How long a dead examiner's seat stays taken; it is kept anew for each handful of prompts."""


class SeatLost(Exception):
    """Another worker examines it by now."""


@dataclass(frozen=True)
class Rated:
    """A reply that people judged, by its ids; `sign` 1 for what is wanted, -1 for what is not."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    sign: int


@dataclass(frozen=True)
class Plan:
    """What the exam asks, settled before it begins: so its progress has one total."""

    prompts: Sequence[exam_questions.ExamQuestion]
    items: Sequence[general_pack.Item]
    kept: Sequence[Judgement]
    again: Sequence[Turn]

    @property
    def total(self) -> int:
        return len(self.prompts) + len(self.items) + len(self.kept) + len(self.again)


def examine(checkpoint_id: str, *, engine: Engine, renderer: Renderer, limits: Gate | None = None) -> None:
    """Move a candidate to PASSED or REJECTED, by the limits of its run's recipe where no others are given. Does nothing
    for any other state, or when another worker examines it.

    Raises EngineUnavailable when the engine does not answer; asking again goes on where this stopped.
    """
    with sitting(f"exam {checkpoint_id}", for_s=SEAT_S) as seat:
        if seat is None:
            return
        checkpoint = Checkpoint.objects.get(pk=checkpoint_id)
        if checkpoint.status != Checkpoint.Status.CANDIDATE or cleaning.is_step(checkpoint):
            return
        held_to = limits or config.gate_of(run.recipe if (run := Run.that_made(checkpoint)) else {})
        try:
            exam = _begun(checkpoint)
            checks = agent_part.set_aside(exam)
            if checks is None:
                checks = _examined(exam, seat, engine, renderer, held_to)
            _keep(seat)
        except SeatLost:
            return
        if all(check.passed for check in checks):
            if agent_part.is_waiting(exam):
                agent_part.wait(exam, checks)
                return
            checks += agent_part.findings(exam)
        _close(exam, checkpoint, checks)


def look(checkpoint: Checkpoint, *, engine: Engine, renderer: Renderer, limits: Gate | None = None) -> Examination:
    """The exam of a checkpoint once more, whatever its state: nothing is kept and nothing moves. Against what it was
    examined against, or where it never was, against the weights that it came from; the base against itself."""
    before = Examination.objects.filter(checkpoint=checkpoint).select_related("against").first()
    against = before.against if before is not None else checkpoint.parent or checkpoint
    exam = Examination(checkpoint=checkpoint, against=against)
    held_to = limits or config.gate_of(run.recipe if (run := Run.that_made(checkpoint)) else {})
    checks = _examined(exam, None, engine, renderer, held_to)
    exam.checks, exam.passed = [asdict(check) for check in checks], all(check.passed for check in checks)
    return exam


def _keep(seat: Seat | None) -> None:
    """Stay the one who examines. Raises SeatLost."""
    if seat is not None and not seat.renew(SEAT_S):
        raise SeatLost


def _examined(exam: Examination, seat: Seat | None, engine: Engine, renderer: Renderer, limits: Gate) -> list[Check]:
    """All checks of the exam, what is known of earlier attempts not asked again. Raises SeatLost, EngineUnavailable."""
    checkpoint, run = exam.checkpoint, Run.that_made(exam.checkpoint)
    plan = _plan(exam, renderer, limits)
    try:
        _say(exam, gettext_noop("loading"), plan)
        with _timed(exam, gettext_noop("loading and proof")):
            checks = _applied(checkpoint, engine)
        if limits.off or not all(check.passed for check in checks):
            return checks
        agent_part.ask(exam, limits)  # so that it is played meanwhile
        wishes, known = _wishes(run), _known(run)
        for start in range(0, len(plan.prompts), HANDFUL):
            _keep(seat)
            with _timed(exam, gettext_noop("replies")):
                _compare(exam, plan.prompts[start : start + HANDFUL], wishes, known, engine, renderer, limits)
            _say(exam, gettext_noop("replies"), plan)
        _ask_pack(exam, seat, plan, engine, renderer)
        _ask_own(exam, seat, plan, engine, renderer, limits)
        _ask_again(exam, seat, plan, engine)
        _keep(seat)
        _say(exam, gettext_noop("preference"), plan)
        with _timed(exam, gettext_noop("rated replies")):
            rated = _preferred_examples(exam, _rated(run, renderer), engine)
        with _timed(exam, gettext_noop("meter")):
            metered = _metered(exam, engine, limits)
        checks += collapsed(exam.pairs, limits)
        checks += kept_up([general_pack.Row.read(row) for row in exam.pack], limits)
        checks += preferred(exam.pairs, wishes)
        checks += rated
        checks += pleased([personal_part.Row.read(row) for row in exam.personal], limits)
        return checks + metered
    except AdapterMissing as error:  # loaded, and let go of again at once: that says nothing of the weights
        raise EngineUnavailable(str(error)) from error
    except exam_requests.Unaskable as error:
        if error.who.pk == checkpoint.pk:
            return [Check("applied", False, 0.0, 0.0, str(error))]
        raise _waits(checkpoint, error) from error
    except (AdapterInvalid, Unproven) as error:
        return [Check("applied", False, 0.0, 0.0, str(error))]
    except EngineRefused as error:
        return [Check("answered", False, 0.0, 0.0, f"{SAYS['refused']} {error}")]


def _waits(checkpoint: Checkpoint, failure: exam_requests.Unaskable) -> EngineUnavailable:
    """Why a candidate waits for what it is held against, which cannot be asked: that says nothing of the candidate.
    Operators hear of it; another exam begins once something else answers."""
    why = f"{rulings.SAYS['exam waits'] % {'who': failure.who, 'checkpoint': checkpoint}} {failure}"
    notices.tell(f"weights {failure.who}", why, level="error", checkpoint=failure.who)
    return EngineUnavailable(why)


def _plan(exam: Examination, renderer: Renderer, limits: Gate) -> Plan:
    """What is asked. An exam that is only looked at asks no corrected questions again: their replies are kept."""
    checkpoint, again = exam.checkpoint, AGAIN if exam.pk else 0
    if limits.off:
        return Plan((), (), (), ())
    return Plan(
        exam_questions.questions()[: limits.prompts],
        general_pack.items()[: limits.pack],
        personal_holdout.of(checkpoint.line_id or SHARED, limits.own),
        asked_again.find_questions(Run.that_made(checkpoint), again, renderer.context_length),
    )


def _begun(checkpoint: Checkpoint) -> Examination:
    """The exam's row; what an earlier attempt found is kept if it was against the same live checkpoint."""
    live = Checkpoint.live(checkpoint.line_id)
    exam, _ = Examination.objects.get_or_create(checkpoint=checkpoint, defaults={"against": live})
    if exam.against_id != live.pk:
        exam.against, exam.started_at = live, timezone.now()
        exam.pairs, exam.pack, exam.personal, exam.agents, exam.meter, exam.progress = [], [], [], [], {}, {}
        agent_part.ask_anew(checkpoint, live)
        with transaction.atomic():
            exam.asked_again.all().delete()
            exam.save()
    return exam


def _close(exam: Examination, checkpoint: Checkpoint, checks: Sequence[Check]) -> None:
    """Move the candidate and write the result, all or nothing: who was quicker has the last word.

    `checkpoint` is the row as it was read when it was a candidate: from no other state is it moved.
    """
    failed = [check for check in checks if not check.passed]
    exam.checks = [asdict(check) for check in checks]
    exam.passed, exam.finished_at = not failed, timezone.now()
    exam.progress |= {"phase": "done", "done": exam.progress["total"]}
    exam.progress.pop(agent_part.ASIDE, None)
    reason = " ".join(check.sentence for check in failed)
    exam.pairs = _worst_first(exam.pairs, [name for check in failed if check.where == "pairs" for name in check.worst])
    try:
        with transaction.atomic():
            checkpoint.move(Checkpoint.Status.REJECTED if failed else Checkpoint.Status.PASSED, reason=reason)
            if failed:
                Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.REJECT, by=None, reason=reason)
            exam.save()
            if failed:
                agent_part.call_off(checkpoint, f"{checkpoint} was rejected.")
    except IllegalMove:
        return
    moved.send(sender=Examination, pk=exam.pk, status="done")


def _worst_first(pairs: Sequence[dict[str, Any]], worst: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs with those first that made a check fail."""
    place = {name: at for at, name in reversed(list(enumerate(worst)))}
    return sorted(pairs, key=lambda pair: place.get(pair["id"], len(worst)))


def _say(exam: Examination, phase: str, plan: Plan) -> None:
    """Write how far the exam has come, and tell the pages that watch. The total is the one that it began with, and what
    was done stays done: the worker that goes on with it may find that a question is gone since."""
    total = exam.progress.get("total", plan.total)
    done = len(exam.pairs) + len(exam.pack) + len(exam.personal) + (exam.asked_again.count() if exam.pk else 0)
    done = max(exam.progress.get("done", 0), min(done, total))
    exam.progress |= {"phase": phase, "done": done, "total": total}
    if exam.pk is None:  # it is only looked at
        return
    exam.save()
    moved.send(sender=Examination, pk=exam.pk, status=phase)


@contextmanager
def _timed(exam: Examination, part: str) -> Iterator[None]:
    """Add the seconds that this takes to those of its part; an attempt that ends half-way counts as well."""
    began = monotonic()
    try:
        yield
    finally:
        before = exam.progress.get("seconds", {})
        exam.progress["seconds"] = before | {part: round(before.get(part, 0.0) + monotonic() - began, 2)}


# Is the adapter applied?


def _applied(checkpoint: Checkpoint, engine: Engine) -> list[Check]:
    """Whether the engine answers the probe as the learner does, and otherwise than with the weights it came from."""
    parent = checkpoint.parent
    asked, answered = checkpoint.probe.get("prompt_ids", []), checkpoint.probe.get("response_ids", [])

    async def proved() -> tuple[Proof, float, str]:
        await ensure_loaded(checkpoint, engine)
        proof = await loading.prove(checkpoint, engine)
        if parent is None or not parent.adapter:
            return proof, proof.shift, str(parent or "the base")  # that is what the proof has looked at
        try:
            new, old = await asyncio.gather(
                *(exam_requests.logprobs(who, engine, asked, answered) for who in (checkpoint, parent))
            )
        except exam_requests.Unaskable as failure:
            if failure.who.pk != parent.pk or parent.status == Checkpoint.Status.LIVE:
                raise
            return proof, proof.shift, "the base"  # weights that answer no request may be gone for good
        change = statistics.mean([abs(after - before) for after, before in zip(new, old, strict=True)])
        return proof, change, str(parent)

    proof, change, of = exam_requests.run(engine, proved)
    said = SAYS["applied differs"] % {"change": f"{change:.4f}", "of": of}
    return [
        Check("applied", proof.passed, proof.gap, proof.limit, proof.sentence),
        Check("new", change >= SAME, change, SAME, said),
    ]


# The same prompts, side by side


def _compare(
    exam: Examination,
    prompts: Sequence[exam_questions.ExamQuestion],
    wishes: Sequence[str],
    known: Collection[tuple[int, ...]],
    engine: Engine,
    renderer: Renderer,
    limits: Gate,
) -> None:
    """Have both answer these prompts and the base read the replies; keep the pairs. Pairs that are there already are
    not asked again. `known` are the token runs of what the candidate was trained on."""
    there = {pair["id"] for pair in exam.pairs}
    todo = [question for question in prompts if question.id not in there]
    if not todo:
        return
    against, candidate = exam.against, exam.checkpoint
    seeds = {question.id: 1000 + number for number, question in enumerate(exam_questions.questions())}
    metered = {question.id for question in exam_questions.questions()[: min(limits.meter, limits.prompts)]}

    async def pair(question: exam_questions.ExamQuestion) -> dict[str, Any]:
        messages = [{"role": "user", "content": question.prompt}]
        prompt_ids = renderer.prompt_ids(messages)
        hinted = [renderer.prompt_ids(hint_words.placed(messages, wish)) for wish in wishes]
        sampling = Sampling(
            max_new_tokens=limits.max_new_tokens, temperature=exam_requests.TEMPERATURE, seed=seeds[question.id]
        )
        replies = await asyncio.gather(
            *(exam_requests.generate(who, engine, prompt_ids, sampling) for who in (against, candidate))
        )
        found: dict[str, Any] = {"id": question.id, "prompt": question.prompt}
        for side, reply in zip(("live", "candidate"), replies, strict=True):
            found |= {side: reply.text, f"{side}_tokens": len(reply.ids)}
            found[f"{side}_repeated"] = round(reply_figures.repeated(reply.ids), 4)
            found |= {f"{side}_{name}": value for name, value in (await read(prompt_ids, hinted, reply)).items()}
            if known:
                found[f"{side}_copied"] = round(reply_figures.copied(reply.ids, known, meter.COPIED), 4)
        if question.id in metered and all(reply.ids for reply in replies):
            found |= {"live_own": found["live_plain"]} | await sure(prompt_ids, *replies)
        return found

    async def sure(prompt_ids: Sequence[int], said: Completion, anew: Completion) -> dict[str, float]:
        """What each gives its own reply, and the candidate that of live, in nats per token."""
        asks = {"candidate_own": (candidate, anew), "candidate_on_live": (candidate, said)}
        if against.adapter:  # of the base it is known: it has read the reply
            asks["live_own"] = (against, said)
        values = await asyncio.gather(
            *(exam_requests.score(who, engine, prompt_ids, reply.ids) for who, reply in asks.values())
        )
        return {name: round(value, 4) for name, value in zip(asks, values, strict=True)}

    async def read(
        prompt_ids: Sequence[int], hinted: Sequence[Sequence[int]], reply: Completion
    ) -> dict[str, float | None]:
        """Under the base: the reply's mean log-prob a token as asked, with the hints, and what the hints pull."""
        if not reply.ids:
            return {"fluency": None, "pull": None, "plain": None}
        plain, *under = await asyncio.gather(
            *(exam_requests.score(None, engine, ids, reply.ids) for ids in (prompt_ids, *hinted))
        )
        found = {"fluency": round(statistics.mean(under or [plain]), 4), "plain": round(plain, 4)}
        return found | {"pull": round(statistics.mean(under) - plain, 4) if under else None}

    async def pairs() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(pair, todo)))

    exam.pairs = [*exam.pairs, *exam_requests.run(engine, pairs)]


# Is it liked no less?


def _preferred_examples(exam: Examination, rated: Sequence[Rated], engine: Engine) -> list[Check]:
    """Whether the candidate likes what people liked, and dislikes what they disliked, no less than live does."""
    if not rated:
        return []

    async def change(reply: Rated) -> float:
        before, after = await asyncio.gather(
            *(
                exam_requests.score(who, engine, reply.prompt_ids, reply.response_ids)
                for who in (exam.against, exam.checkpoint)
            )
        )
        return reply.sign * (after - before)

    async def changes() -> list[float]:
        return list(await asyncio.gather(*map(change, rated)))

    return [no_worse("rated replies", exam_requests.run(engine, changes), RATED)]


def _wishes(run: Run | None) -> list[str]:
    """The run's most frequent hints that speak of any reply; a rewrite speaks of one."""
    if run is None:
        return []
    said = pooling.judged(run).filter(hint_from__in=("guidance", "votes"))
    general = [hint for hint in said.values_list("hint", flat=True) if not hint_words.is_rewrite(hint)]
    return sorted(dict.fromkeys(general), key=general.count, reverse=True)[:WISHES]


def _rated(run: Run | None, renderer: Renderer) -> list[Rated]:
    """What people wrote instead, and the run's rated replies, as far as the exam has time for them."""
    if run is None:
        return []
    turns: dict[int | None, UUID] = dict(pooling.judged(run).values_list("sample", "turn"))
    rewrites: dict[UUID | None, str] = dict(
        Feedback.objects.standing()
        .filter(turn__in=pooling.judged(run).values("turn"), kind=Feedback.Kind.REWRITE)
        .values_list("turn_id", "text")
    )
    found = []
    for sample in batches.learned(run).exclude(response_ids=[]):
        room = renderer.context_length - len(sample.prompt_ids)
        ids = renderer.encode(rewrites.get(sample.origin or turns.get(sample.pk), ""))
        if ids and len(ids) <= room:
            found.append(Rated(sample.prompt_ids, ids, 1))
        elif sample.reward and len(sample.response_ids) <= room:
            found.append(Rated(sample.prompt_ids, sample.response_ids, 1 if sample.reward > 0 else -1))
    return found[:EXAMPLES]


# Can it still do what it could?


def _ask_pack(exam: Examination, seat: Seat | None, plan: Plan, engine: Engine, renderer: Renderer) -> None:
    """Ask both the general pack, as far as it was not asked; what live did on it in an earlier exam is known."""
    there = {row["mark"] for row in exam.pack}
    todo, known = [item for item in plan.items if item.mark not in there], general_pack.known(exam.against)
    for start in range(0, len(todo), general_pack.HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("general pack")):
            rows = general_pack.ask(todo[start : start + general_pack.HANDFUL], exam, known, engine, renderer)
        exam.pack = [*exam.pack, *(row.written() for row in rows)]
        _say(exam, gettext_noop("general pack"), plan)


# Is it better where it never trained?


def _ask_own(
    exam: Examination, seat: Seat | None, plan: Plan, engine: Engine, renderer: Renderer, limits: Gate
) -> None:
    """Ask both the corrections that people's lines kept, as far as they were not asked."""
    there = {row["turn"] for row in exam.personal}
    todo = [kept for kept in plan.kept if str(kept.turn_id) not in there]
    taught = personal_part.Lessons.of(exam.checkpoint) if todo else personal_part.Lessons()
    for start in range(0, len(todo), HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("kept corrections")):
            rows = personal_part.ask(todo[start : start + HANDFUL], taught, exam, engine, renderer, limits)
        exam.personal = [*exam.personal, *(row.written() for row in rows)]
        _say(exam, gettext_noop("kept corrections"), plan)


# What does it say now where a person corrected?


def _ask_again(exam: Examination, seat: Seat | None, plan: Plan, engine: Engine) -> None:
    """Ask the corrected questions that it learned from, as far as they were not asked."""
    there = set(exam.asked_again.values_list("turn", flat=True)) if plan.again else set()
    todo = [turn for turn in plan.again if turn.pk not in there]
    for start in range(0, len(todo), HANDFUL):
        _keep(seat)
        with _timed(exam, gettext_noop("corrected questions")):
            asked_again.ask(todo[start : start + HANDFUL], exam, engine)
        _say(exam, gettext_noop("corrected questions"), plan)


# Did it learn by heart?


def _metered(exam: Examination, engine: Engine, limits: Gate) -> list[Check]:
    """Read the overfitting meter, keep its figures, and hold to their limits those that have one."""
    found = meter.gauges(exam.pairs, _moved_on_own(exam, engine, limits), limits)
    exam.meter = {gauge.name: gauge.written() for gauge in found}
    return [
        Check(
            gauge.name,
            gauge.passed,
            gauge.value,
            gauge.limit,
            gauge.sentence,
            "pairs" if gauge.worst else "meter",
            () if gauge.passed else gauge.worst,
        )
        for gauge in found
        if gauge.limit is not None
    ]


def _moved_on_own(exam: Examination, engine: Engine, limits: Gate) -> list[float]:
    """By how much the candidate gives more to the run's own replies than live does, in nats per token each."""
    run = Run.that_made(exam.checkpoint)
    if run is None or not limits.meter:
        return []
    learned = list(batches.learned(run).exclude(response_ids=[])[: limits.meter])

    async def change(sample: Sample) -> float:
        after = await exam_requests.score(exam.checkpoint, engine, sample.prompt_ids, sample.response_ids)
        if sample.checkpoint_id == exam.against_id and len(sample.behaviour_logprobs) == len(sample.response_ids):
            return after - statistics.mean(sample.behaviour_logprobs)  # live served it: that was measured then
        return after - await exam_requests.score(exam.against, engine, sample.prompt_ids, sample.response_ids)

    async def changes() -> list[float]:
        return list(await asyncio.gather(*map(change, learned)))

    return exam_requests.run(engine, changes)


def _known(run: Run | None) -> set[tuple[int, ...]]:
    """The token runs of what the run trained on: the replies, and what people wrote instead."""
    known: set[tuple[int, ...]] = set()
    if run is not None:
        for response_ids, rewrite_ids in batches.learned(run).values_list("response_ids", "rewrite_ids"):
            known |= reply_figures.grams(response_ids, meter.COPIED) | reply_figures.grams(
                rewrite_ids or (), meter.COPIED
            )
    return known
