"""Read an attempt step by step: what the agent was shown, what it did, what came back, and what was said of that."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Func, IntegerField, Prefetch
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from episodes.models import Episode
from judge.models import Judgement, Vote
from judge.votes import precedence
from training.models import Sample
from webapp.console.worlds import sights

LONG = 600
"""Characters from which a text is folded."""
LONGEST = 20_000
"""Characters of a text that are shown."""

WORLD, BY_WORLD = "world", gettext_noop("the world’s rule")
"""`Judgement.reward_from` where the world itself scored the step, and how pages say so."""


class Length(Func):
    """How many entries a JSON list has, counted by the database."""

    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return super().as_sql(compiler, connection, function="JSONB_ARRAY_LENGTH", **options)


@dataclass(frozen=True)
class Text:
    """Words of an agent, a tool or a world, as a page shows them."""

    whole: str

    @property
    def shown(self) -> str:
        return self.whole[:LONGEST]

    @property
    def is_long(self) -> bool:
        return len(self.whole) > LONG

    @property
    def is_cut(self) -> bool:
        return len(self.whole) > LONGEST

    def __bool__(self) -> bool:
        return bool(self.whole)


@dataclass(frozen=True)
class Doing:
    """A tool call: its name, and its arguments as JSON with spaces, or as the model wrote them where they are none."""

    name: str
    arguments: Text
    is_json: bool = True

    @property
    def sentence(self) -> str:
        return f"{self.name}({self.arguments.whole})"


@dataclass(frozen=True)
class Message:
    role: str
    text: Text
    calls: tuple[Doing, ...] = ()


@dataclass(frozen=True)
class Said:
    """One judge's vote on a step."""

    vote: Vote
    reason: Text


@dataclass
class Step:
    """One reply of an attempt. `index` counts from 0."""

    index: int
    turn: Turn
    is_hidden: bool
    """Its words are another person's alone to read; they are not here."""
    shown: tuple[Message, ...] = ()
    """What came since the step before."""
    is_anew: bool = False
    """The history is another than at the step before: `shown` is all of it."""
    is_result: bool = False
    """`shown` is what came back at the step before."""
    calls: tuple[Doing, ...] = ()
    text: Text = field(default_factory=lambda: Text(""))
    thought: Text = field(default_factory=lambda: Text(""))
    came_back: tuple[Message, ...] = ()
    votes: tuple[Said, ...] = ()
    score: float | None = None
    whose: str = ""
    """Who gave the score, in words."""
    judgement: Judgement | None = None
    sample: Sample | None = None
    sample_step: int = 0
    """Under which index its worth is kept."""

    @property
    def number(self) -> int:
        return self.index + 1

    @property
    def prompt_tokens(self) -> int:
        return self.turn.prompt_length or 0  # type: ignore[attr-defined]  # it is annotated

    @property
    def reply_tokens(self) -> int:
        return self.turn.reply_length or 0  # type: ignore[attr-defined]  # it is annotated

    @property
    def doing(self) -> str:
        """What it did, on one line."""
        if self.is_hidden:
            return _("(off the record)")
        return did(self.calls, self.text)

    @property
    def result(self) -> str:
        """What came back, on one line."""
        if self.is_hidden:
            return _("(off the record)") if self.turn.next_state else ""
        return came(self.came_back)


BRIEF = ("prompt_ids", "response_ids", "logprobs", "asked", "sampling")
"""Columns as long as a prompt that no page of these shows."""


def steps(episodes: Sequence[Episode], reader: User, *, brief: bool = False) -> dict[UUID, list[Step]]:
    """The steps of each attempt, the first one first: its replies on the main line. Four queries, however many.

    `brief`: without what the agent was shown, and without the reasons of votes.
    """
    turns = Turn.objects.filter(session__in=[episode.session_id for episode in episodes], line=Turn.Line.MAIN)
    turns = turns.select_related("session", "checkpoint", "judgement__sample__run")
    turns = turns.annotate(prompt_length=Length("prompt_ids"), reply_length=Length("response_ids"))
    long = ("judgement__teacher", "judgement__evidence", *(f"judgement__sample__{name}" for name in LONG_OF_SAMPLE))
    turns = turns.defer(*BRIEF, *long, *(("messages", "tools") if brief else ()))
    if not brief:
        votes = Vote.objects.filter(question=Vote.Question.SCORE).defer("probabilities")
        turns = turns.prefetch_related(Prefetch("votes", queryset=votes))
    by_session: dict[UUID, list[Turn]] = defaultdict(list)
    for turn in turns.order_by("position", "created_at"):
        by_session[turn.session_id].append(turn)
    return {
        episode.pk: _steps(by_session[episode.session_id] if episode.session_id else [], episode, reader, brief)
        for episode in episodes
    }


LONG_OF_SAMPLE = (
    "prompt_ids", "response_ids", "behaviour_logprobs", "sampled_logprobs", "mask", "rewards", "teacher_prompt_ids",
    "rewrite_ids",
)  # fmt: skip


def _steps(turns: Sequence[Turn], episode: Episode, reader: User, brief: bool) -> list[Step]:
    found: list[Step] = []
    for index, turn in enumerate(turns):
        judgement: Judgement | None = getattr(turn, "judgement", None)
        sample = judgement.sample if judgement else None
        kept = sample.step if sample is not None and sample.step is not None else index
        step = Step(index, turn, sights.is_hidden(turn, reader), judgement=judgement, sample=sample, sample_step=kept)
        step.score, step.whose = _scored(turn, episode, judgement, sample)
        if not step.is_hidden:
            _read(step, turns[index - 1] if index else None, brief)
        found.append(step)
    return found


def _read(step: Step, before: Turn | None, brief: bool) -> None:
    """Put the step's words in."""
    turn = step.turn
    step.calls = tuple(doings(turn.message))
    step.text = Text(turn.text)
    step.thought = Text(str(turn.message.get("reasoning_content") or ""))
    step.came_back = tuple(map(message_of, turn.next_state))
    if brief:
        return
    new, step.is_anew = since(turn.messages, before.messages if before else [])
    step.shown = tuple(map(message_of, new))
    step.is_result = before is not None and not step.is_anew and new == before.next_state
    step.votes = tuple(Said(vote, Text(vote.raw)) for vote in turn.votes.all())


def _scored(
    turn: Turn, episode: Episode, judgement: Judgement | None, sample: Sample | None
) -> tuple[float | None, str]:
    """A step's score and who gave it; None and nothing where none is known."""
    by_world = episode.scores.get(turn.completion_id)
    if judgement is None or not judgement.reward_from:
        return (None, "") if by_world is None else (float(by_world), _(BY_WORLD))
    source = precedence.of_reward(judgement.reward_from)
    whose = source.words if source else judgement.reward_from
    if judgement.reward_from == WORLD:
        whose, score = BY_WORLD, judgement.reward if by_world is None else by_world
    else:
        score = judgement.reward
    return sample.reward if sample is not None and sample.episode_id is not None else score, _(whose)


def since(messages: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> tuple[list[Any], bool]:
    """What of a request is new since the one before, its reply aside; and whether it is all of it, since the history
    was rewritten.

    >>> asked = {"role": "user", "content": "?"}
    >>> since([asked, {"role": "assistant"}, {"role": "tool", "content": "3"}], [asked])
    ([{'role': 'tool', 'content': '3'}], False)
    >>> since([{"role": "user", "content": "shorter"}], [asked])
    ([{'role': 'user', 'content': 'shorter'}], True)
    """
    told = len(before)
    if not told:
        return list(messages), False
    if list(messages[:told]) != list(before):
        return list(messages), True
    new = list(messages[told:])
    return new[1:] if new and new[0].get("role") == "assistant" else new, False


def message_of(message: Mapping[str, Any]) -> Message:
    return Message(str(message.get("role", "")), Text(words_of(message.get("content"))), tuple(doings(message)))


def words_of(content: Any) -> str:
    """A message's words; what is no text is named.

    >>> words_of([{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}])
    'Look: [image_url]'
    """
    if not isinstance(content, list):
        return str(content or "")
    parts = (part if isinstance(part, Mapping) else {"text": part} for part in content)
    return " ".join(str(part["text"]) if "text" in part else f"[{part.get('type', '?')}]" for part in parts)


def told(turn: Turn) -> str:
    """What a turn did and what came back, on one line."""
    back = came([message_of(one) for one in turn.next_state])
    doing = did(tuple(doings(turn.message)), Text(turn.text))
    return f"{doing} → {back}" if back else doing


def did(calls: Sequence[Doing], text: Text) -> str:
    if calls:
        return "; ".join(call.sentence for call in calls)
    return " ".join(text.whole.split()) or _("(nothing)")


def came(messages: Sequence[Message]) -> str:
    return " ".join(" ".join(message.text.whole.split()) for message in messages)


def doings(message: Mapping[str, Any]) -> Iterable[Doing]:
    """The tool calls of a message."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        written = str(function.get("arguments") or "")
        try:
            yield Doing(str(function.get("name", "")), Text(json.dumps(json.loads(written), ensure_ascii=False)))
        except ValueError:
            yield Doing(str(function.get("name", "")), Text(written), is_json=False)
