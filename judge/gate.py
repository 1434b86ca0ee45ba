"""The exam: a candidate against what answers in its line, on prompts that never train. It passes or not, with numbers.

Three questions. Does the engine really answer with these weights? Are the replies still replies? Do they please no
less than before? All three are asked through the engine, and a worker that dies half-way goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from chat.rendering import Renderer
from core.errors import IllegalMove
from core.states import moved
from feedback.models import Feedback
from gpu_workers.engine import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Completion, Sampling
from judge import figures, heldout, hints, pooling
from judge.models import Examination
from judge.sittings import sitting
from training import batches, cleaning, promotion
from training.models import Checkpoint, Decision, Run
from training.promotion import Unproven, ensure_loaded

Answer = TypeVar("Answer")

PRIORITY = 5
"""Before votes, after people."""

SAME = 1e-4
"""Nats a token. Two sets of weights that give the same reply log-probs closer than this are the same."""

SEAT_S = 120
"""How long a dead examiner's seat stays taken; it is kept anew for each handful of prompts."""


@dataclass(frozen=True)
class Limits:
    """What a candidate must keep to. Measured on SmolLM2-135M (docs/decisions/0001); generous enough for any model."""

    prompts: int = 12
    """Held-out prompts asked of both: about a minute on two cores."""

    handful: int = 4
    """Prompts asked at once, of both checkpoints: eight replies fill the embedded engine's batch."""

    max_new_tokens: int = 96
    """Where a reply is cut. Both are cut alike, and most of what a collapse looks like shows earlier."""

    temperature: float = 0.7
    """As chat samples; each prompt has one fixed seed for both."""

    hints: int = 2
    """How many of the run's own hints preference is measured with; each costs two scores a reply."""

    examples: int = 8
    """How many of the run's own rated replies and rewrites preference is measured with."""

    empty: float = 0.1
    """More replies without a word than live has, at most, as a share."""

    shortest: float = 0.1
    """Mean length over live's, at least. A person may well ask for one sentence instead of ten, never for nothing."""

    longest: float = 4.0
    """Mean length over live's, at most."""

    repetition: float = 0.15
    """More repeated 4-grams than live has, at most, as a share."""

    variety: float = 0.75
    """Different replies as a share, at least: "You lie." to everything is no style."""

    fluency: float = 0.6
    """Fall of the replies' mean log-prob a token under the base, at most, in nats. Recipes that kept the subject
    fell by 0.4 in all, those whose replies were half nonsense by 1.0 and more."""

    worst_fluency: float = -2.6
    """The mean log-prob itself, at least: many small falls, each against the last live one, also end somewhere."""

    preference: float = 0.03
    """Fall of the hint's pull on the replies, at most, in nats a token, beyond the noise of so few prompts."""

    rated: float = 0.02
    """Fall of the log-prob of what people rated up (rise of what they rated down), at most, beyond the noise."""

    certainty: float = 2.0
    """Standard errors that count as noise: twelve sampled replies differ by luck, and a person waited for this."""


LIMITS = Limits()


@dataclass(frozen=True)
class Check:
    """One question of the exam, answered."""

    name: str
    passed: bool
    value: float
    limit: float
    sentence: str


@dataclass(frozen=True)
class Rated:
    """A reply that people judged, by its ids; `sign` 1 for what is wanted, -1 for what is not."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    sign: int


def examine(checkpoint_id: str, *, engine: Engine, renderer: Renderer, limits: Limits = LIMITS) -> None:
    """Move a candidate to PASSED or REJECTED. Does nothing for any other state, or when somebody else examines it.

    Raises EngineUnavailable when the engine does not answer; asking again goes on where this stopped.
    """
    with sitting(f"exam {checkpoint_id}", for_s=SEAT_S) as seat:
        if seat is None:
            return
        checkpoint = Checkpoint.objects.get(pk=checkpoint_id)
        if checkpoint.status != Checkpoint.Status.CANDIDATE or cleaning.is_step(checkpoint):
            return
        exam = _begun(checkpoint)
        try:
            _say(exam, "loading", 0, limits.prompts)
            checks = _applied(checkpoint, engine)
            if all(check.passed for check in checks):
                wishes = _wishes(checkpoint.run, limits)
                asked = heldout.prompts()[: limits.prompts]
                for start in range(0, len(asked), limits.handful):
                    if not seat.renew(SEAT_S):
                        return
                    _compare(exam, asked[start : start + limits.handful], wishes, engine, renderer, limits)
                rated = _rated(checkpoint.run, renderer, limits)
                _say(exam, "preference", limits.prompts, limits.prompts)
                checks += collapsed(exam.pairs, limits) + preferred(exam.pairs, wishes, limits)
                checks += _preferred_examples(exam, rated, engine, limits)
        except AdapterMissing as error:  # loaded, and let go of again at once: that says nothing of the weights
            raise EngineUnavailable(str(error)) from error
        except (AdapterInvalid, Unproven) as error:
            checks = [Check("applied", False, 0.0, 0.0, str(error))]
        except EngineRefused as error:
            checks = [Check("answered", False, 0.0, 0.0, f"The engine refused a question of the exam: {error}")]
        if seat.renew(SEAT_S):
            _close(exam, checkpoint, checks)


def _begun(checkpoint: Checkpoint) -> Examination:
    """The exam's row; what an earlier attempt found is kept if it was against the same live checkpoint."""
    live = Checkpoint.live(checkpoint.line_id)
    exam, _ = Examination.objects.get_or_create(checkpoint=checkpoint, defaults={"against": live})
    if exam.against_id != live.pk:
        exam.against, exam.pairs, exam.started_at = live, [], timezone.now()
        exam.save()
    return exam


def _close(exam: Examination, checkpoint: Checkpoint, checks: Sequence[Check]) -> None:
    """Move the candidate and write the result, all or nothing: who was quicker has the last word.

    `checkpoint` is the row as it was read when it was a candidate: from no other state is it moved.
    """
    failed = [check for check in checks if not check.passed]
    exam.checks = [asdict(check) for check in checks]
    exam.passed, exam.finished_at = not failed, timezone.now()
    exam.progress = {"phase": "done", "done": len(exam.pairs), "total": len(exam.pairs)}
    reason = " ".join(check.sentence for check in failed)
    try:
        with transaction.atomic():
            checkpoint.move(Checkpoint.Status.REJECTED if failed else Checkpoint.Status.PASSED, reason=reason)
            if failed:
                Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.REJECT, by=None, reason=reason)
            exam.save()
    except IllegalMove:
        return
    moved.send(sender=Examination, pk=exam.pk, status="done")


def _say(exam: Examination, phase: str, done: int, total: int) -> None:
    """Write how far the exam has come, and tell whoever watches."""
    exam.progress = {"phase": phase, "done": done, "total": total}
    exam.save()
    moved.send(sender=Examination, pk=exam.pk, status=phase)


# Is the adapter applied?


def _applied(checkpoint: Checkpoint, engine: Engine) -> list[Check]:
    """Whether the engine answers the probe as the learner does, and otherwise than with the weights it came from."""
    parent = checkpoint.parent
    asked, answered = checkpoint.probe.get("prompt_ids", []), checkpoint.probe.get("response_ids", [])

    async def proved() -> tuple[promotion.Proof, float]:
        await ensure_loaded(checkpoint, engine)
        proof = await promotion.prove(checkpoint, engine)
        if parent is None or not parent.adapter:
            return proof, proof.shift  # it came from the base, and that is what the proof has looked at
        new, old = await asyncio.gather(*(_logprobs(who, engine, asked, answered) for who in (checkpoint, parent)))
        return proof, figures.mean([abs(after - before) for after, before in zip(new, old, strict=True)])

    proof, change = _run(engine, proved)
    said = f"The engine's log-probs of the probe are {change:.4f} from those of {parent or 'the base'}."
    return [
        Check("applied", proof.passed, proof.gap, proof.limit, proof.sentence),
        Check("new", change >= SAME, change, SAME, said),
    ]


# The same prompts, side by side


def _compare(
    exam: Examination,
    prompts: Sequence[heldout.HeldOut],
    wishes: Sequence[str],
    engine: Engine,
    renderer: Renderer,
    limits: Limits,
) -> None:
    """Have both answer these prompts and the base read the replies; keep the pairs. Known pairs are not asked again."""
    known = {pair["id"] for pair in exam.pairs}
    todo = [held for held in prompts if held.id not in known]
    if not todo:
        return
    against, candidate = exam.against, exam.checkpoint
    seeds = {held.id: 1000 + number for number, held in enumerate(heldout.prompts())}

    async def pair(held: heldout.HeldOut) -> dict[str, Any]:
        messages = [{"role": "user", "content": held.prompt}]
        prompt_ids = renderer.prompt_ids(messages)
        hinted = [renderer.prompt_ids(hints.placed(messages, wish)) for wish in wishes]
        sampling = Sampling(max_new_tokens=limits.max_new_tokens, temperature=limits.temperature, seed=seeds[held.id])
        replies = await asyncio.gather(*(_generate(who, engine, prompt_ids, sampling) for who in (against, candidate)))
        found: dict[str, Any] = {"id": held.id, "prompt": held.prompt}
        for side, reply in zip(("live", "candidate"), replies, strict=True):
            found |= {side: reply.text, f"{side}_tokens": len(reply.ids)}
            found[f"{side}_repeated"] = round(figures.repeated(reply.ids), 4)
            found |= {f"{side}_{name}": value for name, value in (await read(prompt_ids, hinted, reply)).items()}
        return found

    async def read(
        prompt_ids: Sequence[int], hinted: Sequence[Sequence[int]], reply: Completion
    ) -> dict[str, float | None]:
        """Under the base: the reply's mean log-prob a token as asked, with the hints, and what the hints pull."""
        if not reply.ids:
            return {"fluency": None, "pull": None}
        plain, *under = await asyncio.gather(*(_score(None, engine, ids, reply.ids) for ids in (prompt_ids, *hinted)))
        if not under:
            return {"fluency": round(plain, 4), "pull": None}
        return {"fluency": round(figures.mean(under), 4), "pull": round(figures.mean(under) - plain, 4)}

    async def pairs() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(pair, todo)))

    exam.pairs = [*exam.pairs, *_run(engine, pairs)]
    _say(exam, "replies", len(exam.pairs), limits.prompts)


def collapsed(pairs: Sequence[dict[str, Any]], limits: Limits) -> list[Check]:
    """Whether the candidate's replies are still replies, each figure against live's."""
    live, candidate = _side(pairs, "live"), _side(pairs, "candidate")

    empty, empty_before = _emptiness(candidate["text"]), _emptiness(live["text"])
    ratio = figures.mean(candidate["tokens"]) / max(1.0, figures.mean(live["tokens"]))
    again, again_before = figures.mean(candidate["repeated"]), figures.mean(live["repeated"])
    variety = figures.variety(candidate["text"])
    checks = [
        Check(
            "not empty",
            empty <= empty_before + limits.empty,
            empty,
            empty_before + limits.empty,
            f"{empty:.0%} of its replies have no word in them (live {empty_before:.0%}).",
        ),
        Check(
            "length",
            limits.shortest <= ratio <= limits.longest,
            ratio,
            limits.shortest if ratio < 1 else limits.longest,
            f"Its replies are {ratio:.2f} times as long as live's; {limits.shortest:g} to {limits.longest:g} is fine.",
        ),
        Check(
            "repetition",
            again <= again_before + limits.repetition,
            again,
            again_before + limits.repetition,
            f"{again:.0%} of its four-token runs repeat earlier ones (live {again_before:.0%}).",
        ),
        Check(
            "variety",
            variety >= min(limits.variety, figures.variety(live["text"])),
            variety,
            limits.variety,
            f"{variety:.0%} of its replies to different prompts differ (at least {limits.variety:.0%}).",
        ),
    ]
    if candidate["fluency"] and live["fluency"]:
        fluency, before = figures.mean(candidate["fluency"]), figures.mean(live["fluency"])
        limit = max(before - limits.fluency, min(limits.worst_fluency, before))
        checks.append(
            Check(
                "fluency",
                fluency >= limit,
                fluency,
                limit,
                f"The base gives its replies {fluency:.2f} nats a token (live {before:.2f}, limit {limit:.2f}).",
            )
        )
    return checks


def _emptiness(texts: Sequence[str]) -> float:
    return figures.share([figures.is_empty(text) for text in texts])


def _side(pairs: Sequence[dict[str, Any]], side: str) -> dict[str, list[Any]]:
    return {
        "text": [pair[side] for pair in pairs],
        "tokens": [pair[f"{side}_tokens"] for pair in pairs],
        "repeated": [pair[f"{side}_repeated"] for pair in pairs],
        "fluency": [pair[f"{side}_fluency"] for pair in pairs if pair[f"{side}_fluency"] is not None],
    }


# Is it liked no less?


def preferred(pairs: Sequence[dict[str, Any]], wishes: Sequence[str], limits: Limits) -> list[Check]:
    """Whether the replies follow the run's own hints no less than live's do, as the base reads them.

    The pull of a hint on a reply is log p_base(reply | prompt + hint) − log p_base(reply | prompt), a token.
    """
    both = [pair for pair in pairs if pair["live_pull"] is not None and pair["candidate_pull"] is not None]
    if not wishes or not both:
        return []
    changes = [pair["candidate_pull"] - pair["live_pull"] for pair in both]
    said = "The hints of its run pull on its replies {change:+.3f} nats a token more than on live's"
    return [_no_worse("preference", changes, limits.preference, limits, said)]


def _preferred_examples(exam: Examination, rated: Sequence[Rated], engine: Engine, limits: Limits) -> list[Check]:
    """Whether the candidate likes what people liked, and dislikes what they disliked, no less than live does."""
    if not rated:
        return []

    async def change(reply: Rated) -> float:
        before, after = await asyncio.gather(
            *(_score(who, engine, reply.prompt_ids, reply.response_ids) for who in (exam.against, exam.checkpoint))
        )
        return reply.sign * (after - before)

    async def changes() -> list[float]:
        return list(await asyncio.gather(*map(change, rated)))

    said = "What people rated or wrote moves {change:+.3f} nats a token the wanted way"
    return [_no_worse("rated replies", _run(engine, changes), limits.rated, limits, said)]


def _no_worse(name: str, changes: Sequence[float], margin: float, limits: Limits, said: str) -> Check:
    """Whether the mean change is no fall beyond the margin and the noise of the changes themselves."""
    change, limit = figures.mean(changes), -margin - limits.certainty * figures.noise(changes)
    return Check(name, change >= limit, change, limit, f"{said.format(change=change)} (at least {limit:.3f}).")


def _wishes(run: Run | None, limits: Limits) -> list[str]:
    """The run's most frequent hints that speak of any reply; a rewrite speaks of one."""
    if run is None:
        return []
    said = pooling.judged(run).filter(hint_from__in=("guidance", "votes"))
    general = [hint for hint in said.values_list("hint", flat=True) if not hints.is_rewrite(hint)]
    return sorted(dict.fromkeys(general), key=general.count, reverse=True)[: limits.hints]


def _rated(run: Run | None, renderer: Renderer, limits: Limits) -> list[Rated]:
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
    return found[: limits.examples]


# Asking


def _run(engine: Engine, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    async def once() -> Answer:
        try:
            return await ask()
        finally:
            await engine.aclose()

    return asyncio.run(once())


async def _generate(who: Checkpoint, engine: Engine, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
    async def ask() -> Completion:
        return await engine.generate(prompt_ids, sampling, adapter=who.adapter or None, priority=PRIORITY)

    return await _held(who, engine, ask)


async def _score(
    who: Checkpoint | None, engine: Engine, prompt_ids: Sequence[int], response_ids: Sequence[int]
) -> float:
    """The mean log-prob a token of these ids; None asks the base."""
    return figures.mean(await _logprobs(who, engine, prompt_ids, response_ids))


async def _logprobs(
    who: Checkpoint | None, engine: Engine, prompt_ids: Sequence[int], response_ids: Sequence[int]
) -> tuple[float, ...]:
    async def ask() -> tuple[float, ...]:
        adapter = who.adapter or None if who else None
        return (await engine.score(prompt_ids, response_ids, adapter=adapter, priority=PRIORITY)).logprobs

    return await _held(who, engine, ask)


async def _held(who: Checkpoint | None, engine: Engine, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask; if the engine has forgotten the adapter (it was started again), have it loaded and ask once more."""
    try:
        return await ask()
    except AdapterMissing:
        if who is None:
            raise
        await ensure_loaded(who, engine)
        return await ask()
