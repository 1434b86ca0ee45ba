"""What a person says next: praise, complaints, wishes, another question, the tags beside a thumb."""

from __future__ import annotations

import random
from dataclasses import replace

from lab.curriculum import phrasings, threads
from lab.curriculum.followups import Followup, draw_fillers, key_of, kinds, wanted_by
from lab.curriculum.patterns import CAPITAL, PATTERNED, patterned, wished
from lab.curriculum.phrasings import Change, Split, Wording
from lab.curriculum.tasks import Task
from lab.curriculum.threads import Thread
from lab.curriculum.voices import end_sentence, voiced

FRAMED = 0.5
"""The share of questions that stand in a line with other words around them."""
SAME_TONGUE = 0.6
"""The share of general words that are in the language of the thread which they answer, where there are any."""
BOTH = 0.07
"""The share of change requests that name two changes."""
GRUMBLED = 0.08
"""The share of change requests that begin with a plain complaint."""

REASONS = (
    ("too long", "Answer in fewer words.", "few|short|brief"),
    ("too short", "Give more detail.", "more|longer"),
    ("off topic", "Answer the question that was asked.", "question|asked"),
    ("wrong", "Check the facts before you reply.", "check|fact"),
    ("tone", "Use a more fitting tone.", "tone"),
    ("format", "Use a format that fits better.", "format"),
    ("unsafe", "Leave out what could do harm.", "harm|safe"),
)


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
    slots = draw_fillers(phrasings.read("changes")["slots"], split, rng)
    asked_next, other = task.onward, rng.choice(task.others)
    if task.thread:
        asked_next = rng.choice(task.thread.of("onward")).text
    text = fill_question(wording.text, {"next": asked_next, "again": task.again, "other": other}, rng)
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
        text = fill_question(frame.text, {slot[1:-1]: text}, rng)
    if line.hint:
        label = replace(label, hint=line.hint, key=key_of(line.hint))
    if thread.role != "user":
        return replace(label, text=text)
    slots = draw_fillers(phrasings.read("changes")["slots"], split, rng)
    return voiced(Wording(text, thread.language), text, slots, label, split, rng, is_written=True)


def turned(task: Task, split: Split, rng: random.Random) -> Followup:
    """A question that belongs to another task: by itself, or after words that only lead over to it."""
    text, language = rng.choice(task.others), "en"
    if rng.random() < FRAMED:
        table = phrasings.read("replies")["aside"]
        wording = rng.choice(phrasings.wordings(table, split))
        if split == "train" and rng.random() < PATTERNED:
            wording = patterned("replies", "aside", rng) or wording
        text, language = fill_question(wording.text, {"other": text}, rng), wording.language
    slots = draw_fillers(phrasings.read("changes")["slots"], split, rng)
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
    slots = draw_fillers(phrasings.read("changes")["slots"], split, rng)
    return voiced(Wording(text), text, slots, label, split, rng)


def asked(change: Change, split: Split, rng: random.Random) -> Followup:
    """A change request, by itself or with more around it."""
    tables = phrasings.read("changes")
    wording = rng.choice(change.wordings)
    if split == "train" and rng.random() < PATTERNED:
        wording = wished(change.name, rng) or wording
    slots = draw_fillers(tables["slots"], split, rng)
    label = Followup("", "user", -1, f"change:{change.name}", is_unseen=change.is_unseen)
    label = replace(label, **wanted_by(change, slots))
    text, draw = wording.text, rng.random()
    if draw < BOTH and not change.is_unseen:
        other = rng.choice([one for one in kinds("changes", split) if not one.is_unseen and "{" not in one.hint])
        if other.name != change.name:
            second = rng.choice(other.wordings)
            text = f"{end_sentence(text)} {second.text}"
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
        text = f"{end_sentence(grumble.text)} {text}"
    return voiced(wording, text, slots, label, split, rng)


def from_reasons(rng: random.Random) -> Followup:
    """The tags beside a thumb down. They are the same few everywhere, so there is nothing to hold out."""
    tag, hint, key = rng.choice(REASONS)
    return Followup(tag, "person", -1, f"reason:{tag}", hint=hint, key=(key,))


def fill_question(text: str, slots: dict[str, str], rng: random.Random) -> str:
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
