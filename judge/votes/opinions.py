"""What the steps of a verdict hand on: an Opinion, the Signals in it, or the Silence instead of a sample.

judge.votes.deciding makes opinions, judge.samples.teaching lessons of them, judge.samples.composing samples;
judge.verdicts calls the three."""

from __future__ import annotations

from dataclasses import dataclass

from chat.models import Turn
from judge.samples.sample_rows import Reason
from judge.samples.teacher import Unreadable


@dataclass(frozen=True)
class Opinion:
    """What the evidence comes to, before it is known whether it can teach."""

    reward: int | None = None
    reward_from: str = ""
    confidence: float | None = None
    """How likely the reward is right; where votes are not sure enough of any, what they lean to."""
    topic: str = ""
    """`new`: votes say that the subject changes."""
    hints: tuple[str, ...] = ()
    """A person's own words, or the hints that a quorum of votes proposes; what becomes of them is
    judge.hints.proposals'."""
    hint_from: str = ""
    hint_confidence: float | None = None
    """How likely a change is asked for; 1 for a person's own words."""
    source: str = ""
    """Hint.Source of the least trusted text that the judge read, or `said`: it decides which policy holds."""
    may_accept: bool = False
    """The hints of the judges that worded it were measured, and are good enough for a policy to accept them."""
    note: Reason | None = None
    """What of the evidence could not be used."""
    rule: str = ""
    """The visible rule (judge.votes.visible_rules) that decided the reward."""
    token_rewards: tuple[int, ...] = ()
    """-1, 0 or 1 a response id, where people marked words; empty where nothing is known of single tokens."""
    is_trusted: bool = True
    """False: votes alone gave the reward, and the votes of this judge do not teach."""

    def reward_of_whole(self, turn: Turn) -> int | None:
        """The reward, where it may be of the whole reply: a thumb on one that was cut may be for what is missing."""
        return None if turn.is_cut else self.reward


@dataclass(frozen=True)
class Signals:
    """What of an opinion a recipe learns from."""

    reward: int
    """Of the whole reply; 0: none."""
    token_rewards: tuple[int, ...]
    """One a response id; empty: the reward falls on all of them."""
    hints: tuple[str, ...]
    """The wordings that the teacher is to be shown."""
    rewrite: str
    """What a person wrote instead of the reply."""

    @property
    def is_empty(self) -> bool:
        return not (self.reward or any(self.token_rewards) or self.hints or self.rewrite)


@dataclass(frozen=True)
class Silence:
    """Why there is no sample, or not all of one: a sentence for a person, and the code that the ledger counts."""

    reason: str
    code: str

    @classmethod
    def of(cls, reason: Reason) -> Silence:
        return cls(reason, reason.code)

    @classmethod
    def of_error(cls, error: Unreadable) -> Silence:
        return cls(str(error)[:200], error.code)
