"""Sources of hints: whose words they are, and why a hint of one waits for a person."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from judge.hints import acceptance, back_references, hint_words
from judge.models import Hint

OWN_WORDS = (Hint.Source.PERSON, Hint.Source.SAID)
"""Whose words stand as a person wrote them: no judge made them up."""

TRUSTED = (Hint.Source.PERSON, Hint.Source.SAID, Hint.Source.USER)
"""Whose words are the person's own. Only hints of these are merged without a person."""

FROM: dict[str, str] = {
    Hint.Source.PERSON: "a person's own words",
    Hint.Source.SAID: "the user's own next message",
    Hint.Source.USER: "what the user said",
    Hint.Source.ENVIRONMENT: "an environment",
    Hint.Source.TEST: "a test's output",
    Hint.Source.TOOL: "a tool's text",
    Hint.Source.FILE: "a file's text",
    Hint.Source.WEB: "the web",
}

WAITS: dict[str, str] = {
    Hint.Source.PERSON: gettext_noop("What comes from a person's own words waits for a person."),
    Hint.Source.SAID: gettext_noop("What comes from the user's own next message waits for a person."),
    Hint.Source.USER: gettext_noop("What comes from what the user said waits for a person."),
    Hint.Source.ENVIRONMENT: gettext_noop("What comes from an environment waits for a person."),
    Hint.Source.TEST: gettext_noop("What comes from a test's output waits for a person."),
    Hint.Source.TOOL: gettext_noop("What comes from a tool's text waits for a person."),
    Hint.Source.FILE: gettext_noop("What comes from a file's text waits for a person."),
    Hint.Source.WEB: gettext_noop("What comes from the web waits for a person."),
}
"""As rows keep it; pages translate it."""


def why_it_waits(text: str, source: str, confidence: float | None, *, trusted: bool, may_accept: bool = False) -> str:
    """Why a person is asked, in a sentence; empty when the policy accepts it. `may_accept`: the hints of its judges
    were measured, and are good enough to be accepted without a person."""
    if source != Hint.Source.PERSON and not trusted:
        return gettext_noop("The votes of this judge teach nothing by themselves.")
    if not acceptance.passes(source, confidence):
        least = acceptance.threshold(source)
        if least is None:
            return WAITS[source]
        return f"It is sure by {confidence or 0:.2f}; it takes {least:.2f} to be accepted without a person."
    if source not in OWN_WORDS and not may_accept:
        return gettext_noop(
            "A judge worded it, whose hints were not measured to be good enough to go without a person."
        )
    if source not in TRUSTED and (lure := hint_words.lure(text)):
        return f"It holds {lure}, and comes from {FROM.get(source, source)}."
    return refers_back(text)


def refers_back(text: str) -> str:
    """Why a hint that speaks of an earlier reply waits for a person's wording; empty where it speaks of none."""
    back = back_references.find_references(hint_words.guidance_in(text))
    return back_references.refusal(back)[:200] if back else ""
