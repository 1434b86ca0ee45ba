"""Who answers a reply: a scripted person, or a model that plays one. Detectors decide what is accepted, in both."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from environments import phrasings
from environments.actor import Speaker
from environments.editing import edited
from environments.matter import answers, names
from environments.personas import Persona, parts
from environments.tasks import Task, is_own
from environments.wishes import WISHES

LOWER, BARE = 0.15, 0.15
"""The shares of sessions that are typed in lower case, and without a last full stop."""


ANSWER = "answer"
"""What everybody wants besides what they wish for."""
ANSWER_HINT = "Answer what I asked, and tell me something about it."


@dataclass(frozen=True)
class Said:
    """What a person says of a reply. `asked` is the one wish that a complaint is about, or ANSWER; without one, they
    are done."""

    text: str
    accepts: bool
    asked: str | None
    instead: str | None = None
    """What they put into the correction box: the reply as they would have had it."""

    @property
    def hint(self) -> str:
        """What was asked for, in one sentence, as a person would say it beforehand; "" where nothing was."""
        if self.asked is None:
            return ""
        return ANSWER_HINT if self.asked == ANSWER else WISHES[self.asked].hint


class User(Protocol):
    """A person who talks, one session at a time: `opening` begins it."""

    def opening(self, task: Task) -> str: ...

    async def hear(self, reply: str, *, finished: bool) -> Said: ...


class Keeper(User, Protocol):
    """A person who wants what they accepted in a file."""

    async def wants_saved(self, file: str) -> str: ...

    async def sees(self, file: str, *, saved: bool) -> Said: ...


class _Person:
    """One session of a persona: what was asked for so far, and what is asked for next.

    One unmet wish at a time is asked for: the first from a place that the task decides, those that were not named yet
    in this session before the others. A person who asked one of our open questions wants an answer before all. After
    `patience` complaints the person gives up.
    """

    def __init__(self, persona: Persona, seed: int, *, patience: int = 2, writes: float = 0.0) -> None:
        """`writes`: the share of complaints beside which they also put into the correction box what they would have
        had."""
        self.persona, self.seed, self.patience, self.writes = persona, seed, patience, writes
        self._session, self._question, self._asked = "", "", list[str]()

    def _begin(self, task: Task) -> None:
        self._session, self._question, self._asked = task.id, task.prompt, []

    def _unmet(self, reply: str, *, finished: bool) -> str | None:
        if is_own(self._question) and not answers(self._question, reply):
            return ANSWER
        obeyed = parts(self.persona, reply, finished=finished)
        start = self._rng("order").randrange(len(obeyed))
        order = [*obeyed][start:] + [*obeyed][:start]
        return min((name for name in order if not obeyed[name]), key=self._asked.count, default=None)

    def _instead(self, reply: str, *, finished: bool) -> str | None:
        rng = self._rng(f"writes:{len(self._asked)}")
        if rng.random() >= self.writes:
            return None
        return edited(self.persona, reply, asked=self._question, finished=finished, rng=rng)

    def _rng(self, what: str) -> random.Random:
        """The same for the same persona, seed, task and purpose, whatever was played before."""
        return random.Random(f"{self.persona.name}:{self.seed}:{self._session}:{what}")


class ScriptedUser(_Person):
    """Says natural lines from the files, the same ones for the same seed, task and turn.

    A session has one tone. Polite and chatty people give up politely, cross ones curtly, plain ones either way.
    """

    def __init__(
        self,
        persona: Persona,
        seed: int,
        *,
        split: phrasings.Split | None = None,
        patience: int = 2,
        writes: float = 0.0,
    ) -> None:
        """`split`: whose phrasings; None: those of the persona's own split."""
        super().__init__(persona, seed, patience=patience, writes=writes)
        self.split: phrasings.Split = split or persona.split
        self._tone, self._used = "plain", set[str]()

    def opening(self, task: Task) -> str:
        self._begin(task)
        self._used = set()
        tones = phrasings.read("tones")
        self._tone = self._rng("tone").choices([*tones], [tone["share"] for tone in tones.values()])[0]
        return self._drawn("openings", task.kind).replace("{prompt}", task.prompt)

    async def hear(self, reply: str, *, finished: bool) -> Said:
        wish = self._unmet(reply, finished=finished)
        if wish is None:
            return Said(self._typed(self._drawn("closings", "accepts")), accepts=True, asked=None)
        if len(self._asked) >= self.patience:
            curtly = self._tone == "cross" or (self._tone == "plain" and self._rng("temper").random() < 0.5)
            kind = "gives_up.curtly" if curtly else "gives_up.politely"
            return Said(self._typed(self._drawn("closings", kind)), accepts=False, asked=None)
        self._asked.append(wish)
        complaint = self._drawn("complaints", self._fault(wish, reply)).replace("{prompt}", self._question)
        framed = self._drawn("tones", self._tone, again=True).replace("{said}", complaint)
        return Said(self._typed(framed), accepts=False, asked=wish, instead=self._instead(reply, finished=finished))

    def _fault(self, wish: str, reply: str) -> str:
        """Which sort of complaint fits."""
        if wish == ANSWER:
            return ANSWER if names(self._question, reply) else f"{ANSWER}.beside"
        fault = WISHES[wish].fault
        return fault(reply) if fault else wish

    async def wants_saved(self, file: str) -> str:
        return self._drawn("closings", "saves").replace("{file}", file)

    async def sees(self, file: str, *, saved: bool) -> Said:
        kind = "accepts" if saved else "unsaved"
        return Said(self._drawn("closings", kind).replace("{file}", file), accepts=saved, asked=None)

    def _drawn(self, file: str, kind: str, *, again: bool = False) -> str:
        """A line of this kind that was not said yet in this session; `again`: or that was."""
        every = [line for line in phrasings.lines(file, kind, self.split) if again or line not in self._used]
        if not every:  # more complaints about one wish than there are wordings
            every = list(phrasings.lines(file, kind, self.split))
        line = self._rng(f"{file}:{kind}:{len(self._used)}").choice(every)
        self._used.add(line)
        return line

    def _typed(self, text: str) -> str:
        rng = self._rng("typing")
        text = text.lower() if rng.random() < LOWER else text
        return text.rstrip(".") if rng.random() < BARE else text


class ModelUser(_Person):
    """A model words what is said; detectors decide what is asked for and what is accepted, and what stands in the
    correction box is an editor's, as a scripted person's is.

    The first message is the task's own prompt, so that its numbers stay as they are.
    """

    def __init__(
        self, persona: Persona, actor: Speaker, seed: int = 0, *, patience: int = 2, writes: float = 0.0
    ) -> None:
        super().__init__(persona, seed, patience=patience, writes=writes)
        self._actor, self._heard = actor, list[dict[str, str]]()

    def opening(self, task: Task) -> str:
        self._begin(task)
        self._heard = [{"role": "user", "content": BEGIN}, {"role": "assistant", "content": task.prompt}]
        return task.prompt

    async def hear(self, reply: str, *, finished: bool) -> Said:
        wish = self._unmet(reply, finished=finished)
        if wish is None:
            return Said(await self._says(reply, CONTENT), accepts=True, asked=None)
        if len(self._asked) >= self.patience:
            return Said(await self._says(reply, TIRED), accepts=False, asked=None)
        self._asked.append(wish)
        again = " You have asked for this before." if self._asked.count(wish) > 1 else ""
        unmet = NO_ANSWER if wish == ANSWER else UNMET.format(hint=WISHES[wish].hint)
        text = await self._says(reply, unmet + again)
        return Said(text, accepts=False, asked=wish, instead=self._instead(reply, finished=finished))

    async def wants_saved(self, file: str) -> str:
        return await self._says("", SAVE.format(file=file))

    async def sees(self, file: str, *, saved: bool) -> Said:
        text = await self._says("", (SAVED if saved else UNSAVED).format(file=file))
        return Said(text, accepts=saved, asked=None)

    async def _says(self, reply: str, what: str) -> str:
        """The person sees replies as what the assistant said, and themselves as who speaks."""
        heard = f"The assistant said:\n<reply>\n{reply}\n</reply>\n" if reply else ""
        self._heard.append({"role": "user", "content": f"{heard}{what} {MANNER}"})
        said = await self._actor.says(
            [{"role": "system", "content": played(self.persona)}, *self._heard],
            seed=self._rng(f"says:{len(self._heard)}").randrange(2**31),
        )
        self._heard.append({"role": "assistant", "content": said})
        return said


SCENES = {
    "talk": "You play a person who talks to an assistant about everyday things.",
    "student": "You play a student who has homework in maths done by an assistant. You cannot solve it yourself, and "
    "what you hand in must not look as if a machine had written it.",
    "teacher": "You play a teacher who has an assistant write comments under homework. You only instruct.",
    "assistant": "You play a teaching assistant who has an assistant write comments under homework. You only instruct.",
}
BEGIN = "Begin the conversation."
UNMET = "You are not content yet. There is one thing that you want changed now: {hint} Ask for that, and nothing else."
NO_ANSWER = "That is no answer to what you asked. Say so, and ask it again."
CONTENT = "You are content with it. Say so, and ask for nothing more."
TIRED = "It is still not as you want it, and you have had enough. Say that you leave it, and ask for nothing more."
SAVE = "Ask for this to be added at the end of the file {file}, with nothing in it lost."
SAVED = "You looked into {file}, and it is there. Say thanks, and ask for nothing more."
UNSAVED = "You looked into {file}, and it is not there as you wanted. Say that you leave it."
MANNER = "Write only what you say, in one or two sentences, in your own words."


def played(persona: Persona) -> str:
    """What the model is told of the person it plays: who it is and what it wants, never how that is detected."""
    wanted: Sequence[str] = [WISHES[name].hint for name in persona.wishes]
    return (
        f"{SCENES[persona.scene]} What you want of every reply: {' '.join(wanted)} You never solve the task yourself."
    )
