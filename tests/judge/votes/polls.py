"""A poll of one judge."""

from __future__ import annotations

from judge.votes import judges
from judge.votes.evidence import Evidence
from judge.votes.judges import Ask

SEEN = Evidence((("user", "What is 2 and 2?"),), "Five.", (("user", "No, four."),))


def asked(who, seen=SEEN, question="score"):
    (said,) = judges.ask([Ask(who, question, seen)])
    return said
