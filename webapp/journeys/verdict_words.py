"""Say in words what was decided of a turn, by whom, and why it is not learned."""

from __future__ import annotations

from django.utils.translation import gettext as _

from judge.models import Judgement
from judge.votes import precedence
from webapp.journeys.ballots import Ballot, tally


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
