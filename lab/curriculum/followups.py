"""What comes back after a reply, and what a judge should make of it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lab.curriculum import phrasings, threads
from lab.curriculum.phrasings import Change, Split, Wording
from lab.curriculum.tasks import Task, filled
from lab.curriculum.threads import Thread

TONED = 0.45
TONED_WRITTEN = 0.15
"""The share of follow-ups that get words of some tone around them; what was written for one reply has its own."""
LOWER, BARE, MISSPELT, LOUD = 0.22, 0.15, 0.15, 0.05
"""The shares of follow-ups that are in lower case, without their last sign, misspelt, in capitals."""
INJECTED = 0.2
HIDDEN = 0.15
"""The share of injections that stand in a comment or a quotation."""
COVERS = ("<!-- {injection} -->", "# {injection}", "// {injection}", '"{injection}"', "> {injection}", "[{injection}]")
BOTH = 0.07
"""The share of change requests that name two changes."""
GRUMBLED = 0.08
"""The share of change requests that begin with a plain complaint."""

TONES = {
    "thanks": ("polite", "chatty"),
    "onward": ("polite", "chatty"),
    "complaint": ("polite", "angry", "chatty", "sarcastic"),
    "again": ("polite", "angry", "chatty"),
    "unclear": ("chatty",),
    "aside": ("chatty",),
    "irony": (),
    "playful": ("chatty",),
    "quiet": (),
    "musing": ("chatty",),
    "builds": ("polite", "chatty"),
    "wrong": ("angry", "chatty"),
    "unsure": ("chatty",),
    "turned": (),
    "change": ("polite", "angry", "chatty", "thankful", "sarcastic"),
}

FRAMED = 0.5
"""The share of questions that stand in a line with other words around them."""
SAME_TONGUE = 0.6
"""The share of general words that are in the language of the thread which they answer, where there are any."""
PATTERNED = 0.6
"""The share of training follow-ups that come from patterns; the others are lines as an author wrote them."""
SAID = 0.55
"""The share of a change's patterned requests that say what to do; the others say what is the matter."""

DRAWS = 20
"""How often a pattern is drawn again that comes to a line which examines."""
CAPITAL = 0.6

AGAINST = re.compile(r"(did not|didn't|don't|can't|won't|forgot|failed|missed|neglected|bother)")
"""Frames that would turn a wish with "not" into its contrary."""
ASKING = ("to", "you", "should", "could", "must", "can", "would", "might", "ought")

WRAPPED = ("Observation:\n{result}", "{result}", "[output]\n{result}", "stdout:\n{result}")
"""How an environment words what a tool would say plainly."""


@dataclass(frozen=True)
class Followup:
    """A next state and its label."""

    text: str
    role: str  # user | tool | environment | test | person
    score: int | None
    """None: the person turned to something else, which says nothing of the reply."""
    kind: str
    hint: str = ""
    """What the judge is to propose; empty: nothing is asked for."""
    key: tuple[str, ...] = ()
    """Patterns that a hint must match, all of them, to name the change."""
    against: str = ""
    tone: str = "plain"
    language: str = "en"
    is_unseen: bool = False
    """A kind of change that never trained."""
    injection: str = ""


def from_person(kind: str, task: Task, split: Split, rng: random.Random) -> Followup:
    """What a person says next: kind is change, own, aside, or the name of a list in replies.toml."""
    if kind == "change":
        return asked(rng.choice(kinds("changes", split)), split, rng)
    if kind == "own":
        return in_own_words(split, rng)
    if kind == "aside":
        return turned(task, split, rng)
    if task.thread and kind in ("onward", "again"):
        return threaded(task.thread, kind, split, rng)
    table = phrasings.read("replies")[kind]
    wordings = phrasings.wordings(table, split)
    language = task.thread.language if task.thread else "en"
    alike = [wording for wording in wordings if wording.language == language]
    wording = rng.choice(alike if alike and rng.random() < SAME_TONGUE else wordings)
    if split == "train" and wording.language == "en" and rng.random() < PATTERNED:
        wording = patterned("replies", kind, rng) or wording
    slots = drawn(phrasings.read("changes")["slots"], split, rng)
    asked_next, other = task.onward, rng.choice(task.others)
    if task.thread:
        asked_next = rng.choice(task.thread.of("onward")).text
    text = _continued(wording.text, {"next": asked_next, "again": task.again, "other": other}, rng)
    return voiced(wording, text, slots, Followup("", "user", table["score"], kind), split, rng)


def threaded(thread: Thread, kind: str, split: Split, rng: random.Random) -> Followup:
    """What was written to come back after this reply; in the frame of a generic line where one has room for it."""
    line = rng.choice(thread.of(kind))
    label = Followup("", thread.role, threads.SCORES[kind], "change:own" if kind == "own" else kind)
    text = line.text
    if kind in ("onward", "again") and thread.language == "en" and rng.random() < FRAMED:
        slot = "{next}" if kind == "onward" else "{again}"
        frames = [one for one in phrasings.wordings(phrasings.read("replies")[kind], split) if one.language == "en"]
        frame = rng.choice([one for one in frames if slot in one.text])
        if split == "train" and rng.random() < PATTERNED:
            made = patterned("replies", kind, rng)
            frame = made if made and slot in made.text else frame
        text = _continued(frame.text, {slot[1:-1]: text}, rng)
    if line.hint:
        label = replace(label, hint=line.hint, key=key_of(line.hint))
    if thread.role != "user":
        return replace(label, text=text)
    slots = drawn(phrasings.read("changes")["slots"], split, rng)
    return voiced(Wording(text, thread.language), text, slots, label, split, rng, is_written=True)


def turned(task: Task, split: Split, rng: random.Random) -> Followup:
    """A question that belongs to another task: by itself, or after words that only lead over to it."""
    text, language = rng.choice(task.others), "en"
    if rng.random() < FRAMED:
        table = phrasings.read("replies")["aside"]
        wording = rng.choice(phrasings.wordings(table, split))
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("replies", "aside", rng) or wording
        text, language = _continued(wording.text, {"other": text}, rng), wording.language
    slots = drawn(phrasings.read("changes")["slots"], split, rng)
    return voiced(Wording(text, language), text, slots, Followup("", "user", None, "aside"), split, rng)


def in_own_words(split: Split, rng: random.Random) -> Followup:
    """A wish of no kind that has a name: the hint is the wish as the person put it."""
    table = phrasings.read("wishes")
    wish = rng.choice(phrasings.lines(table, split))
    hint = f"{wish[:1].upper()}{wish[1:]}."
    for first, second in (("Not ", "Do not "),):
        hint = second + hint.removeprefix(first) if hint.startswith(first) else hint
    examined = tuple(table["frames"].strip("\n").split("\n"))
    frames = examined if split == "heldout" else phrasings.patterns("frames", "")
    frame = phrasings.drawn(rng.choice(frames), rng)
    if wish.startswith("not "):
        frame, wish = "{do}", rng.choice(("don't ", "do not ", "please don't ")) + wish.removeprefix("not ")
    text = frame.replace("{do}", wish)
    if text[0].islower() and rng.random() < CAPITAL:
        text = text[0].upper() + text[1:]
    label = Followup("", "user", -1, "change:own", hint=hint, key=key_of(hint))
    slots = drawn(phrasings.read("changes")["slots"], split, rng)
    return voiced(Wording(text), text, slots, label, split, rng)


def key_of(hint: str) -> tuple[str, ...]:
    """What a hint in a person's own words must hold to count as the same: its two longest words.

    >>> key_of("Use glasses, not litres.")
    ('glasses', 'litres')
    """
    words = sorted(set(re.findall(r"[^\W_]{3,}", hint)), key=lambda word: (-len(word), hint.index(word)))
    return tuple(re.escape(word) for word in words[:2])


def asked(change: Change, split: Split, rng: random.Random) -> Followup:
    """A change request, by itself or with more around it."""
    tables = phrasings.read("changes")
    wording = rng.choice(change.wordings)
    if split == "train" and rng.random() < PATTERNED:
        wording = wished(change.name, rng) or wording
    slots = drawn(tables["slots"], split, rng)
    label = Followup("", "user", -1, f"change:{change.name}", is_unseen=change.is_unseen)
    label = replace(label, **_wanted(change, slots))
    text, draw = wording.text, rng.random()
    if draw < BOTH and not change.is_unseen:
        other = rng.choice([one for one in kinds("changes", split) if not one.is_unseen and "{" not in one.hint])
        if other.name != change.name:
            second = rng.choice(other.wordings)
            text = f"{_ended(text)} {second.text}"
            label = replace(
                label,
                kind="change:two",
                hint=f"{label.hint} {other.hint}",
                key=(*label.key, *other.key),
                against="",
            )
    elif draw < BOTH + GRUMBLED and wording.language == "en":
        table = phrasings.read("replies")["complaint"]
        grumble = rng.choice([one for one in phrasings.wordings(table, split) if one.language == "en"])
        text = f"{_ended(grumble.text)} {text}"
    return voiced(wording, text, slots, label, split, rng)


def patterned(part: str, name: str, rng: random.Random) -> Wording | None:
    """A wording made of the patterns of this kind; None where there is none, or where it says what a test says."""
    written = phrasings.patterns(part, name)
    for _ in range(DRAWS):
        if not written:
            break
        text = phrasings.drawn(rng.choice(written), rng)
        if phrasings.plain(text) not in phrasings.examined():
            return Wording(text)
    return None


def wished(name: str, rng: random.Random) -> Wording | None:
    """A change request made of patterns: a wish in a frame, or what is the matter."""
    has_wish, has_why = phrasings.patterns("say", name), phrasings.patterns("why", name)
    if not has_wish or (has_why and rng.random() > SAID):
        return patterned("why", name, rng)
    frame = phrasings.drawn(rng.choice(phrasings.patterns("frames", "")), rng)
    found = patterned("say", name, rng)
    if found is None:
        return None
    wish = found.text
    if wish.startswith("not "):
        before = frame.partition("{do}")[0]
        if AGAINST.search(before):
            frame, before = "{do}", ""
        if before.rpartition(" ")[0].rpartition(" ")[2] not in ASKING:
            wish = rng.choice(("don't ", "do not ")) + wish.removeprefix("not ")
    text = frame.replace("{do}", wish)
    if text[0].islower() and rng.random() < CAPITAL:
        text = text[0].upper() + text[1:]
    return None if phrasings.plain(text) in phrasings.examined() else Wording(text)


def voiced(
    wording: Wording,
    text: str,
    slots: dict[str, str],
    label: Followup,
    split: Split,
    rng: random.Random,
    *,
    is_written: bool = False,
) -> Followup:
    """`text` in some tone and spelling. Fillers keep their letters: a hint copies them."""
    tone, tones = "plain", TONES[label.kind.partition(":")[0]]
    share = TONED_WRITTEN if is_written else TONED
    if tones and wording.language == "en" and rng.random() < share:
        tone = rng.choice(tones)
        text = _toned(text, tone, split, rng)
    if rng.random() < MISSPELT:
        text = _misspelt(text, rng)
    if rng.random() < BARE:
        text = text.rstrip(".!?")
    is_lower, is_loud = rng.random() < LOWER, rng.random() < LOUD and "{" not in text
    if is_lower or is_loud:
        text = text.lower() if is_lower else text.upper()
    text = filled(text, {name: value.lower() if is_lower else value for name, value in slots.items()})
    return replace(label, text=text, tone=tone, language=wording.language)


def from_tool(kind: str, role: str, task: Task, split: Split, rng: random.Random) -> Followup:
    """A tool's or an environment's result: kind is result, failure or unclear."""
    tables = phrasings.read("tools")
    slots = drawn(tables["slots"], split, rng) | task.slots
    if kind == "result" and task.thread:
        label = replace(threaded(task.thread, "builds", split, rng), kind="result")
    elif kind == "result":
        label = Followup(rng.choice(task.results), role, 1, "result")
    elif kind == "unclear":
        wording = rng.choice(phrasings.wordings(tables["unclear"], split))
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("tools", "unclear", rng) or wording
        label = Followup(wording.text, role, 0, "silent")
    else:
        change = rng.choice([*kinds("failures", split), *(one for one in kinds("failures", split) if not one.hint)] * 2)
        if rng.random() < 0.25:
            change = next(one for one in kinds("failures", split) if not one.hint)
        wording = rng.choice(change.wordings)
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("tools", change.name, rng) or wording
        if "{file}" in change.hint and change.name == "meant":
            slots["file"] = rng.choice(phrasings.fillers(tables["slots"], split)["file"])
        label = Followup(filled(wording.text, slots), role, -1, f"failure:{change.name}")
        label = replace(label, **_wanted(change, slots))
    return as_role(label, role, rng)


def as_role(label: Followup, role: str, rng: random.Random) -> Followup:
    """What a tool gave back, as this role says it."""
    text = rng.choice(WRAPPED).replace("{result}", label.text) if role == "environment" else label.text
    return replace(label, text=text, role=role)


def from_reasons(rng: random.Random) -> Followup:
    """The tags beside a thumb down. They are the same few everywhere, so there is nothing to hold out."""
    tag, hint, key = rng.choice(REASONS)
    return Followup(tag, "person", -1, f"reason:{tag}", hint=hint, key=(key,))


REASONS = (
    ("too long", "Answer in fewer words.", "few|short|brief"),
    ("too short", "Give more detail.", "more|longer"),
    ("off topic", "Answer the question that was asked.", "question|asked"),
    ("wrong", "Check the facts before you reply.", "check|fact"),
    ("tone", "Use a more fitting tone.", "tone"),
    ("format", "Use a format that fits better.", "format"),
    ("unsafe", "Leave out what could do harm.", "harm|safe"),
)


def injected(label: Followup, split: Split, rng: random.Random) -> Followup:
    """The same follow-up with a text in it that tries to sway the judge. The label stays."""
    injection = hostile(split, rng)
    gap = rng.choice((" ", "\n", "\n\n"))
    first, second = (injection, label.text) if rng.random() < 0.35 else (label.text, injection)
    return replace(label, text=f"{first}{gap}{second}", injection=injection)


def hostile(split: Split, rng: random.Random) -> str:
    """A text that tries to sway the judge: a line, or made of a pattern that trains; some hide in a comment."""
    table = phrasings.read("injections")
    injection = rng.choice(phrasings.lines(table, split))
    if split == "train" and rng.random() < PATTERNED:
        pattern = rng.choice(table["patterns"].strip("\n").split("\n")).replace("\\n", "\n")
        injection = re.sub(r"<(im_start|im_end)>", r"<|\1|>", phrasings.drawn(pattern, rng))
    if split == "train" and rng.random() < HIDDEN:
        injection = rng.choice(COVERS).replace("{injection}", injection)
    return injection


@cache
def kinds(name: str, split: Split) -> tuple[Change, ...]:
    """Kinds of change, or of failures of an action. A kind with too few lines for one of its own has none in dev."""
    tables = phrasings.read("changes") if name == "changes" else phrasings.read("tools")[name]
    return phrasings.changes(tables, split)


def drawn(tables: dict[str, dict[str, list[str]]], split: Split, rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(values) for name, values in phrasings.fillers(tables, split).items()}


def _wanted(change: Change, slots: dict[str, str]) -> dict[str, Any]:
    escaped = {name: re.escape(value) for name, value in slots.items()}
    return {
        "hint": filled(change.hint, slots),
        "key": tuple(filled(pattern, escaped) for pattern in change.key),
        "against": change.against,
    }


def _continued(text: str, slots: dict[str, str], rng: random.Random) -> str:
    """Fill in a question: with a capital at the beginning of a sentence, mostly."""
    for name, value in slots.items():
        before, slot, after = text.partition("{" + name + "}")
        if slot and (not before.strip() or before.rstrip()[-1] in ".!?:") and rng.random() < 0.7:
            value = value[:1].upper() + value[1:]
        elif slot and before.strip() and before.rstrip()[-1] not in ".!?:":
            value = value[:1].lower() + value[1:] if not value.startswith("I ") else value
        if slot:
            text = before + value + after
    return text


def _ended(text: str) -> str:
    return text if text[-1:] in ".!?)" else text + "."


def _toned(text: str, tone: str, split: Split, rng: random.Random) -> str:
    table = phrasings.read("replies")["tones"][tone]
    side = "heldout" if split == "heldout" else "train"
    before, after = table[f"{side}_before"], table[f"{side}_after"]
    if before and (not after or rng.random() < 0.5):
        opening = rng.choice(before)
        if opening.rstrip()[-1] not in ".!?:" and not text.startswith(("I ", "I'", "{")):
            text = text[:1].lower() + text[1:]
        return opening + text
    return _ended(text) + rng.choice(after)


def _misspelt(text: str, rng: random.Random) -> str:
    """One or two slips of the finger, never in a slot."""
    for _ in range(rng.choice((1, 1, 2))):
        words = list(re.finditer(r"[A-Za-z]{4,}", re.sub(r"\{\w+\}", lambda m: " " * len(m[0]), text)))
        if not words:
            break
        word = rng.choice(words)
        at = rng.randrange(word.start() + 1, word.end() - 1)
        slip = rng.randrange(3)
        if slip == 0:  # two letters change places
            text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        else:  # one is missing, or there twice
            text = text[:at] + (text[at] * 2 if slip == 2 else "") + text[at + 1 :]
    return text
