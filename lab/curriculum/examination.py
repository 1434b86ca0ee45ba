"""How well the judge's adapter does on phrasings that it never saw, asked as it is served.

The embedded engine serves the adapter by name beside the base. Each question gets its votes at the judge's
temperature, held to its grammar; what they come to is what `judge.votes.voting` says.
"""

from __future__ import annotations

import asyncio
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chat.rendering.renderer import Renderer
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from judge.hints import hint_words
from judge.votes import prompts, voting
from judge.votes.judge import TEMPERATURE
from lab.curriculum import lessons
from lab.curriculum.coverage import kind_of
from lab.curriculum.lessons import FAMILY, Lesson
from lab.curriculum.training import ANSWERS

NAME = "judge"
AT_ONCE = 12
MEANT = {answer: score for score, answer in ANSWERS.items()}


@dataclass(frozen=True)
class Case:
    """One lesson and what the judge said of it."""

    lesson: Lesson
    said: dict[str, tuple[str, ...]]
    """The votes' texts by question."""
    twin: Case | None = None
    """The same lesson without the injection."""

    @property
    def score(self) -> int | None:
        """What more than half of the votes say, None for a change of subject; 0 where they do not agree."""
        counts = Counter(MEANT[text.strip()] for text in self.said["score"] if text.strip() in MEANT)
        score, votes = counts.most_common(1)[0] if counts else (0, 0)
        return score if 2 * votes > len(self.said["score"]) else 0

    @property
    def hint(self) -> str:
        """The hint that the votes accept, in the words that most of them use; empty: none."""
        decisions = [voting.decision_of(text) for text in self.said["hint"]]
        worded = [
            voting.hint_of(text) if said == 1 else "" for text, said in zip(self.said["hint"], decisions, strict=True)
        ]
        usable = [bool(hint) and not hint_words.fault(hint, self.lesson.evidence.reply) for hint in worded]
        if not voting.is_accepted(decisions, usable):
            return ""
        return Counter(hint for hint, is_usable in zip(worded, usable, strict=True) if is_usable).most_common(1)[0][0]

    @property
    def is_scored_right(self) -> bool:
        return self.score == self.lesson.label.score

    @property
    def is_decided_right(self) -> bool:
        return bool(self.hint) == bool(self.lesson.label.hint)

    @property
    def is_named(self) -> bool:
        return names(self.hint, self.lesson.label.key, self.lesson.label.against)

    @property
    def row(self) -> dict[str, object]:
        label = self.lesson.label
        return {
            "kind": label.kind,
            "role": label.role,
            "tone": label.tone,
            "language": label.language,
            "unseen": label.is_unseen,
            "injection": label.injection,
            "said": label.text,
            "score": word(label.score),
            "scored": word(self.score) if "score" in self.said else None,
            "hint": label.hint,
            "hinted": self.hint,
            "named": self.is_named if label.hint else None,
        }


def word(score: int | None) -> int | str:
    """A score as a table shows it."""
    return "new" if score is None else score


def names(hint: str, key: Sequence[str], against: str = "") -> bool:
    """Whether `hint` names the asked-for change: every pattern of its key is in it, and none that says the contrary.

    >>> names("Use at most 30 words.", ["30", "word"]), names("Do not use a table.", ["table"], "not use")
    (True, False)
    """
    if not hint or (against and re.search(against, hint, re.IGNORECASE)):
        return False
    return all(re.search(pattern, hint, re.IGNORECASE) for pattern in key)


def examine(
    model: Path, adapter: Path, *, groups: int = 100, swayed: int = 40, votes: int = 3, seed: int = 11
) -> list[Case]:
    """Ask about held-out lessons, and about those of the first `swayed` groups once more with an injection in them."""
    plain = list(lessons.made("heldout", groups, seed, injections=False))
    twins = [lesson for lesson in plain if lesson.group < swayed and lesson.label.role != "person"]
    hostile = [lessons.swayed(lesson, "heldout", seed) for lesson in twins]
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        command = embedded_command(str(model), port, more=("--max-running-requests", str(AT_ONCE)))
        with EngineProcess(
            command, f"http://127.0.0.1:{port}", Path(folder) / "engine.log", environment=ONE_THREAD
        ) as process:
            engine = EngineClient(process.url, timeout_s=600)
            every = asyncio.run(
                asked(engine, Renderer.for_model(model), str(adapter.resolve()), [*plain, *hostile], votes)
            )
    before = {id(case.lesson): case for case in every}
    return [
        *every[: len(plain)],
        *(
            Case(case.lesson, case.said, before[id(twin)])
            for case, twin in zip(every[len(plain) :], twins, strict=True)
        ),
    ]


async def asked(engine: Engine, renderer: Renderer, adapter: str, every: Sequence[Lesson], votes: int) -> list[Case]:
    seats = asyncio.Semaphore(AT_ONCE)

    async def one(lesson: Lesson, asked: prompts.Asked) -> tuple[str, ...]:
        told = getattr(prompts.family(FAMILY), asked)
        sampling = Sampling(max_new_tokens=told.max_new_tokens, temperature=TEMPERATURE, regex=told.regex)
        prompt = renderer.prompt_ids(lesson.messages(asked))
        async with seats:
            replies = [engine.generate(prompt, sampling, adapter=NAME) for _ in range(votes)]
            return tuple(reply.text for reply in await asyncio.gather(*replies))

    try:
        await engine.load_adapter(NAME, adapter)
        said = await asyncio.gather(*(one(lesson, asked) for lesson in every for asked in lesson.questions))
    finally:
        await engine.aclose()
    texts = iter(said)
    return [Case(lesson, {asked: next(texts) for asked in lesson.questions}) for lesson in every]


def table(cases: Sequence[Case]) -> str:
    """The figures as a table: share and number of cases."""
    plain = [case for case in cases if case.twin is None]
    known = [case for case in plain if not case.lesson.label.is_unseen]
    hostile = [case for case in cases if case.twin is not None]
    rows = [("cases", "score", "hint or none", "names the change", "of those with a hint")]

    def row(title: str, some: Iterable[Case]) -> None:
        some = list(some)
        if not some:
            return
        asked = [case for case in some if case.lesson.label.hint]
        rows.append(
            (
                title,
                _share([case for case in some if "score" in case.said], lambda case: case.is_scored_right),
                _share(some, lambda case: case.is_decided_right),
                _share(asked, lambda case: case.is_named),
                _share([case for case in asked if case.hint], lambda case: case.is_named),
            )
        )

    row("held-out wordings", known)
    for title, attribute in (("from", "role"), ("tone", "tone"), ("language", "language")):
        for value in sorted({getattr(case.lesson.label, attribute) for case in known}):
            row(f"  {title} {value}", (case for case in known if getattr(case.lesson.label, attribute) == value))
    for score in ANSWERS:
        row(f"  score {word(score)}", (case for case in known if case.lesson.label.score == score))
    for kind in sorted({kind_of(case.lesson) for case in known}):
        row(f"  {kind}", (case for case in known if kind_of(case.lesson) == kind))
    row("  two changes at once", (case for case in known if case.lesson.label.kind == "change:two"))
    row("kinds of change that never trained", (case for case in plain if case.lesson.label.is_unseen))
    row("with an injection", hostile)
    if hostile:
        unchanged_score = _share(hostile, lambda case: case.twin is not None and case.score == case.twin.score)
        unchanged_hint = _share(hostile, lambda case: case.twin is not None and bool(case.hint) == bool(case.twin.hint))
        rows.append(("  verdict as without it", unchanged_score, unchanged_hint, "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _share(some: Sequence[Case], is_so: Callable[[Case], bool]) -> str:
    return f"{sum(map(is_so, some)) / len(some):.3f} ({len(some)})" if some else "-"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
