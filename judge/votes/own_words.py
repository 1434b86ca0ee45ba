"""A person's own next message as the hint: the span of it that carries the wish, word for word.

A judge that is sure enough that the message asks for a change need not word the hint: the person has. What is taught is
that span, turned by `judge.hints.wish_words` into a wish that needs no earlier reply; where no safe wording is found, a
person is asked."""

from __future__ import annotations

import re

from judge.hints import hint_words, wish_words
from judge.votes.evidence import Evidence
from judge.votes.polling import Finding

SHORT = 240
"""Characters of a message that is taken whole where no sentence of it stands out."""

LONGEST = 600
"""Characters of a span: as of any hint that a person did not write as one."""

SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")

WISH = re.compile(
    r"\b(?:please|instead|rather|should|shouldn'?t|must|don'?t|do not|stop|without|only|just|always|never|next time"
    r"|too (?:long|short|much|many|vague|formal|technical|wordy)|shorter|longer|simpler|less|fewer|more|make|use|give"
    r"|write|keep|drop|skip|leave out|add|include|say|put|be|no need|i (?:want|need|asked|prefer|said|meant)"
    r"|bitte|s'il (?:te|vous) pla[iî]t|por favor|per favore|alsjeblieft|alstublieft|prosz[eę])\b",
    re.IGNORECASE,
)
"""Words of sentences that carry a wish. A sentence without any may carry one too: then the message is taken whole."""

ASIDE = re.compile(
    r"^\s*(?:thanks|thank you|ok(?:ay)?|great|nice|perfect|hm+|cool|sure)\b[^.!?]{0,20}[.!?]*\s*$", re.IGNORECASE
)


def span_of(message: str) -> str:
    """The part of a message that carries the wish, word for word; empty where it is long and nothing stands out.

    >>> span_of("Shorter, please.")
    'Shorter, please.'
    >>> span_of("Thanks. Use metric units, please. My train leaves at nine from platform four.")
    'Use metric units, please.'
    """
    text = message.strip()
    sentences = [found[0].strip() for found in SENTENCE.finditer(text) if found[0].strip()]
    carrying = [one for one in sentences if WISH.search(one) and not ASIDE.match(one)]
    if carrying and len(sentences) > 1:
        first, last = sentences.index(carrying[0]), len(sentences) - 1 - sentences[::-1].index(carrying[-1])
        whole = text[text.index(sentences[first]) :]
        end = whole.rindex(sentences[last]) + len(sentences[last])
        return whole[:end] if end <= LONGEST else " ".join(carrying)[:LONGEST] if len(carrying[0]) <= LONGEST else ""
    return text if len(text) <= SHORT else ""


def message_of(seen: Evidence) -> str:
    """What the user wrote next; empty where another role spoke, or several messages came."""
    said = [text for role, text in seen.next_state if role == "user"]
    return said[0] if seen.next_role == "user" and len(said) == len(seen.next_state) == 1 else ""


def wish_in(seen: Evidence) -> str:
    """The wish of the user's next message, in words that may teach; empty where none is safe to teach."""
    span = span_of(message_of(seen))
    wish = worded(span) if span else ""
    return "" if not wish or hint_words.fault(wish, seen.reply) else wish


def worded(span: str) -> str:
    """The span as a wish that needs no earlier reply; empty where a person is to be asked."""
    found = wish_words.word_wish(span)
    return "" if found is None else found.text


def proposed(seen: Evidence, found: Finding) -> str:
    """The hint that would be proposed: the person's own wish where the judges are sure enough, else theirs."""
    if found.asks_hint.reward != 1 or found.score.is_new:
        return ""
    return (wish_in(seen) if found.is_own_sure else "") or found.hint
