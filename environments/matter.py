"""Whether a reply is an answer to what was asked, as far as its words show: no opinion, English only.

A person who asks wants an answer, whatever else they wish for, and says so where there is none. It is asked of
Talkback's own open questions alone (`tasks.is_own`): each of them wants more than a word for an answer, as others may
not. This is what a person sees; how much of the content is kept is measured apart from it, on other grounds
(lab/evidence/measures/content.py).
"""

from __future__ import annotations

from environments.prose import words

TELLING = 5
"""Letters of a word that tells something, mostly."""
NAMING, SHORTEST = 4, 3
"""Letters of a word that may name the matter, and of the shortest that may: bees, and a hum."""
STEM = 5
"""Letters that tell one word from another: "stripes" and "striped" are one."""
LEAST = 4
"""Different words that tell something, of a reply that tells anything."""
_ASKING = (
    "about after also always another around away because been before being best better between could different does "
    "doing down each even ever every find first from give going good have help here into just keep know less like long "
    "look make many mean more most much need never often only other people quickly really right said same should simple"
    " some something start stop such sure take talk tell than that their them then there these they thing things think "
    "this those time turn until used using very want well were what when where which while who whole will with within "
    "would your yourself all and any are big but can day did few for get got had has him his how its let new not off "
    "old one our out own put say see she the too try two use was way who why you"
)
ASKING = frozenset(_ASKING.split())
"""Words of a question that name no matter."""


def matter(text: str, least: int = NAMING) -> set[str]:
    """How the words of `least` letters or more begin that may name what it is about.

    >>> sorted(matter("Why do zebras have stripes?"))
    ['strip', 'zebra']
    """
    return {word[:STEM] for each in words(text) if len(word := each.lower()) >= least and word not in ASKING}


def telling(text: str) -> set[str]:
    """The different words of some length, in small letters."""
    return {word.lower() for word in words(text) if len(word) >= TELLING}


def names(question: str, reply: str) -> bool:
    """Whether the reply says a word of the matter that was asked about; true where the question names none.

    >>> names("Why do zebras have stripes?", "Hang on, that is not all.")
    False
    >>> names("Why do cats purr?", "Purring is made by muscles."), names("What does a bee eat?", "Bees live on nectar.")
    (True, True)
    """
    asked, said = matter(question, SHORTEST), matter(reply, SHORTEST)
    return not asked or any(one.startswith(other) or other.startswith(one) for one in asked for other in said)


def tells(question: str, reply: str) -> bool:
    """Whether the reply says more than the question did: `LEAST` words of some length that are not in it.

    >>> tells("Why is a straw bent in a glass of water?", "As you can see, a straw is bent in a glass of water.")
    False
    """
    asked = {word[:STEM].lower() for word in words(question)}
    return len({word[:STEM] for word in telling(reply) - ASKING} - asked) >= LEAST


def answers(question: str, reply: str) -> bool:
    """Whether the reply is on the matter, and tells something."""
    return names(question, reply) and tells(question, reply)
