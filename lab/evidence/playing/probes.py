"""What a newcomer would get: held-out prompts, first answers, pinned weights, nothing learned from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from core.textfiles import read_lines
from environments.client import Completion
from environments.tasks import Task
from environments.users import ScriptedUser
from environments.wishes import WISHES
from lab.evidence.compared_arms import Arm, guided
from lab.evidence.measures import content
from lab.evidence.plan import Plan, seed_of
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.turnstile import Rank, Turnstile

PACK = Path(__file__).parent / "general.jsonl"
"""The general pack, of which no model chose the items. The gate's is made of what the base has right: there a share can
only fall, whatever was learned."""

NAME = "talkback"
"""What the private Talkback calls its model."""

BASE = 0
"""The number of the model as it came."""

READING = 4
"""Texts that are read at once: more would only wait for each other."""


class Answers(Protocol):
    """Talkback, as far as a probe needs it."""

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        session: str | None = None,
        name: str | None = None,
    ) -> Completion: ...


class Reader(Protocol):
    """Gives the log-probs of a reply's tokens, natural and at temperature 1, under one checkpoint; 0 is the base."""

    async def logprobs(self, messages: Sequence[Mapping[str, Any]], reply: str, number: int = BASE) -> list[float]: ...


class Reading:
    """A reader that is asked a few texts at a time."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._room = reader, asyncio.Semaphore(READING)

    async def logprobs(self, messages: Sequence[Mapping[str, Any]], reply: str, number: int = BASE) -> list[float]:
        async with self._room:
            return await self._reader.logprobs(messages, reply, number)


@dataclass(frozen=True)
class Probe:
    """Whom it asks: one arm of one seed at one number of updates."""

    arm: Arm
    seed: int
    update: int
    number: int
    """The checkpoint."""

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.seed}/{self.update}"


@dataclass(frozen=True)
class Question:
    """One held-out task as it is asked."""

    task: Task
    plain: list[dict[str, Any]]
    sent: list[dict[str, Any]]
    """The same but for prompt-only, which is told every wish beforehand, and few-shot, which is shown them."""


def questions(
    plan: Plan, seed: int, *, told: Sequence[str] = (), shown: Sequence[Mapping[str, Any]] = ()
) -> list[Question]:
    """The held-out tasks of a seed in the words of its person, with these hints told beforehand, or these messages
    before them."""
    person, found = ScriptedUser(plan.own(seed), seed_of("probe", seed)), []
    for task in plan.heldout(seed):
        opening = person.opening(task)
        sent = guided(opening, told) if told else opening
        found.append(Question(task, _user(opening), [*map(dict, shown), *_user(sent)]))
    return found


async def ask(
    plan: Plan,
    probe: Probe,
    client: Answers,
    reader: Reader,
    rows: Journal,
    turnstile: Turnstile,
    rank: Rank,
    *,
    shown: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Ask everything that is not among the rows, with these messages before each question, and write a row a reply, and
    one for the other persona."""
    own, other = plan.own(probe.seed), plan.other(probe.seed)
    told = [WISHES[name].hint for name in own.wishes] if probe.arm.kind == "prompt" else []

    async def one(at: int, question: Question) -> None:
        key = f"{probe.key}/own/{at}"
        if (row := rows.get(key)) is None:
            async with turnstile.inside(rank):
                reply = await client.complete(
                    question.sent,
                    model=f"{NAME}@{probe.number}",
                    seed=seed_of("probe", probe.seed, question.task.id),
                    max_tokens=plan.sizes.reply_tokens,
                    temperature=plan.sizes.temperature,
                    session=f"probe-{key.replace('/', '-')}",
                    name=f"evidence-probe-{key}",
                )
            read = await content.read(reader, question.plain, reply.text)
            distant = at < plan.sizes.read and read is not None
            kl = await _distance(reader, question, reply.text, probe.number, read.fluency) if distant and read else None
            row = rows.write(
                key,
                arm=probe.arm.name,
                seed=probe.seed,
                update=probe.update,
                set="own",
                persona=asdict(own),
                **_said(question, reply),
                reading=asdict(read) if read else None,
                kl=kl,
            )
        _also(rows, row, f"{probe.key}/other/{at}", set="other-persona", persona=asdict(other))

    asked = questions(plan, probe.seed, told=told, shown=shown)
    await asyncio.gather(*(one(at, what) for at, what in enumerate(asked)))


async def ask_references(
    plan: Plan,
    arm: Arm,
    seed: int,
    client: Answers,
    reader: Reader,
    rows: Journal,
    turnstile: Turnstile,
    rank: Rank,
) -> None:
    """Further replies of the base to what probes ask, every second one told to be brief: what the measure of content
    takes its scale from. None of them is scored, and none is asked twice for two seeds."""

    async def one(at: int, question: Question) -> None:
        key = f"reference/{question.task.id}/{at}"
        if key in rows:
            return
        sent = _user(guided(question.plain[-1]["content"], [content.BRIEFLY])) if at % 2 else question.plain
        async with turnstile.inside(rank):
            reply = await client.complete(
                sent,
                model=f"{NAME}@{BASE}",
                seed=seed_of("reference", question.task.id, at),
                max_tokens=plan.sizes.reply_tokens,
                temperature=plan.sizes.temperature,
                session=key.replace("/", "-"),
                name=f"evidence-{key}",
            )
        read = await content.read(reader, question.plain, reply.text)
        if key in rows:  # another seed asks the same at the same time
            return
        rows.write(
            key,
            arm=arm.name,
            seed=seed,
            update=0,
            set="reference",
            persona=None,
            **_said(question, reply),
            reading=asdict(read) if read else None,
            kl=None,
        )

    await asyncio.gather(
        *(one(at, question) for at in range(plan.sizes.references) for question in questions(plan, seed))
    )


def copied(rows: Journal, before: Probe, now: Probe) -> None:
    """The same weights answer the same prompts as before with the same seeds: what they said is written down for `now`
    too, and not asked again."""
    for row in [row for set_ in ("own", "other") for row in rows.under(f"{before.key}/{set_}/")]:
        _also(rows, row, row["key"].replace(before.key, now.key, 1), arm=now.arm.name, update=now.update)


async def ask_pack(plan: Plan, probe: Probe, reader: Reader, rows: Journal, model: str) -> None:
    """Which answer of each item of the general pack is likeliest, by its mean log-prob a token."""

    async def one(item: Mapping[str, Any]) -> None:
        key = f"{probe.key}/pack/{item['id']}"
        if key in rows:
            return
        sent = [{"role": "user", "content": item["prompt"]}]
        answers = [item["right"], *item["wrong"]]
        nats = [_mean(await reader.logprobs(sent, answer, probe.number)) for answer in answers]
        likeliest = answers[nats.index(max(nats))]
        rows.write(
            key,
            arm=probe.arm.name,
            seed=probe.seed,
            update=probe.update,
            set="pack",
            persona=None,
            task=item,
            messages=sent,
            reply=likeliest,
            finish_reason="stop",
            prompt_tokens=0,
            completion_tokens=0,
            model=model,
            kl=None,
            right=likeliest == item["right"],
            nats=[round(one, 4) for one in nats],
        )

    await asyncio.gather(*map(one, pack(plan.sizes.pack)))


def pack(items: int) -> list[dict[str, Any]]:
    """The first so many items; the file is varied from the first line on."""
    return [json.loads(line) for line in read_lines(PACK)[:items]]


async def _distance(reader: Reader, question: Question, reply: str, number: int, base: float) -> float:
    """Mean over the reply's tokens of log π(y|sent) − log base(y|plain), in nats: how far it is from what the base
    would say unasked. One sample of the KL divergence; 0 of the base without guidance. `base` is the second mean."""
    if number == BASE and question.sent == question.plain:
        return 0.0
    return round(_mean(await reader.logprobs(question.sent, reply, number)) - base, 4)


def _user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _said(question: Question, reply: Completion) -> dict[str, Any]:
    """What was asked and answered, as a row has it."""
    return {
        "task": asdict(question.task),
        "messages": question.sent,
        "reply": reply.text,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "model": reply.model,
    }


def _also(rows: Journal, row: Mapping[str, Any], key: str, **changed: Any) -> None:
    if key not in rows:
        rows.write(key, **{name: value for name, value in row.items() if name != "key"} | changed)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
