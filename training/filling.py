"""The next batch of a line as far as it is filled, and the sentences that say so. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from training.agents import groups
from training.config import PATIENCE

HERE = "\0"
"""Where a sentence has its "now"."""


@dataclass(frozen=True)
class Filling:
    """The next batch of a line, as far as it is filled."""

    size: int
    """How many lessons a run claims: replies, and attempts of agents. Its last group may bring more."""
    ready: int = 0
    """That wait for it; where rewrites are awaited they may be more than a run claims."""
    said: int = 0
    """Of these, those of which a person, or a world by an attempt's outcome, said something, and not judges' votes
    alone."""
    rewrites: int = 0
    """Of these, those in whose place a person wrote."""
    awaited: int = 0
    """How many rewrites a run waits for; 0 where no person writes."""
    groups: tuple[int, ...] = ()
    """The attempts of each group that waits, in turn: these are among those that are ready."""
    set_aside: int = 0
    """Lessons beside those, whose run failed or that one passed over: only a person's "learn now" takes them up."""

    @property
    def attempts(self) -> int:
        """How many of what waits are attempts of agents."""
        return sum(self.groups)

    @property
    def taken(self) -> int:
        """How many a run would claim now: replies first, then whole groups."""
        replies = min(self.ready - self.attempts, self.size)
        waiting = [groups.Waiting(at, count) for at, count in enumerate(self.groups)]
        return replies + sum(one.attempts for one in groups.first(waiting, self.size - replies))

    @property
    def unwritten(self) -> int:
        """Rewrites that are still awaited: none where people said something of a whole batch."""
        return max(0, self.awaited - self.rewrites) if self.said < self.size else 0

    @property
    def most(self) -> int:
        """How many samples a run begins with, whatever they are."""
        return self.size * PATIENCE if self.unwritten else self.size

    @property
    def wanting(self) -> int:
        """How many more samples a run begins with, whatever they are; 0: it is full."""
        return max(0, self.most - self.ready)

    @property
    def sooner(self) -> int:
        """How many more it begins with where `unwritten` of them are rewrites."""
        return max(self.size - self.ready, self.unwritten, 0)

    @property
    def sentence(self) -> str:
        """How many lessons wait and when training starts: the one sentence for it on every page, in every command and
        every answer. "now" is the word that a page may make a button of.

        >>> Filling(16, ready=9).sentence, Filling(16).sentence
        ('9 of 16 lessons. Training starts at 16, or now.', '0 of 16 lessons. Training starts at 16.')
        >>> Filling(16, ready=18).sentence
        '16 of 16 lessons, and 2 more after them. Training can start now.'
        >>> Filling(16, ready=13, groups=(8, 4)).sentence
        '13 of 16 lessons; 12 of these are attempts. Training starts at 16, or now.'
        >>> Filling(16, ready=24, groups=(6, 6, 6, 6)).sentence  # whole groups
        '18 of 16 lessons, and 6 more after them; 24 of these are attempts. Training can start now.'
        """
        return "".join(self.parts)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The sentence as what stands before "now", that word, and what stands after it; where it does not say "now",
        all of it is in front."""
        if self.ready >= self.size:
            said = _("%(lessons)s Training can start %(now)s.")
        elif self.ready:
            said = _("%(lessons)s Training starts at %(size)s, or %(now)s.")
        else:
            said = _("%(lessons)s Training starts at %(size)s.")
        before, here, after = (said % {"lessons": self.lessons, "size": self.size, "now": HERE}).partition(HERE)
        return before, pgettext("training starts", "now") if here else "", after

    @property
    def lessons(self) -> str:
        """How many lessons wait for the next training: the first half of the sentence."""
        taken = self.taken
        if self.ready > taken and self.groups:
            said = _("%(n)s of %(size)s lessons, and %(more)s more after them; %(played)s of these are attempts.")
        elif self.ready > taken:
            said = _("%(n)s of %(size)s lessons, and %(more)s more after them.")
        elif self.groups:
            said = _("%(n)s of %(size)s lessons; %(played)s of these are attempts.")
        else:
            said = _("%(n)s of %(size)s lessons.")
        return said % {"n": taken, "size": self.size, "more": self.ready - taken, "played": self.attempts}

    @property
    def why_it_waits(self) -> str:
        """Why training does not start by itself although there are enough lessons, in one line; empty where it does.

        >>> Filling(size=16, ready=20, said=3, rewrites=3, awaited=4).why_it_waits
        'The recipe waits for 1 more rewrite, for 13 more lessons from people, or for 76 more of any kind.'
        """
        if self.ready < self.size or not self.wanting:
            return ""
        said = self.size - self.said
        rewrites = ngettext("%(n)s more rewrite", "%(n)s more rewrites", self.unwritten) % {"n": self.unwritten}
        lessons = ngettext("%(n)s more lesson from people", "%(n)s more lessons from people", said) % {"n": said}
        waits = _("The recipe waits for %(rewrites)s, for %(lessons)s, or for %(more)s more of any kind.")
        return waits % {"rewrites": rewrites, "lessons": lessons, "more": self.wanting}

    @property
    def full_sentence(self) -> str:
        """The sentence, and why training waits where it does."""
        return f"{self.sentence} {self.why_it_waits}".rstrip()
