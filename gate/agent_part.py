"""Agents' part of the exam, in rows: ask people's players to play held-out tasks with both, wait, and read the pairs.

The application imports no world. It says what is to be played (episodes.exams), and players that hold a key of the
person ask for it and play it as ordinary held-out episodes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from checkpoints.models import SHARED, Checkpoint
from core.states import moved
from episodes import exams
from episodes.models import Episode, Exam, Group
from gate import agent_pairs
from gate.agent_pairs import ATTEMPTS, Attempt, Pair, Played
from gate.findings import Check
from gate.models import Examination
from training.config import Gate
from training.models import Run

WAIT_S = 1800
"""Without an attempt begun or ended for so long, no player is at it, and the exam goes on without this part."""

ASIDE = "checks"
"""Where an exam's progress keeps what was found of all else, while agents play."""

RECENT = timedelta(days=30)
"""A person's world counts as played while a held-out task of it was begun within these."""

WORLDS = 4
"""Worlds that one exam asks for at most, those first that taught the candidate most: each one more makes every
interval wider."""


SAYS = {
    "ended": gettext_noop("Its player ended it:"),
    "unplayed": gettext_noop(
        "No player of %(who)s was at it for %(minutes)s minutes. To have it played before a person decides: "
        "`%(command)s`."
    ),
}
"""Why it was not played, as gate.findings.SAYS."""


def ask(exam: Examination, limits: Gate) -> None:
    """Ask for all that is to be played; asked again, nothing is new. An exam that is only looked at asks nothing."""
    if limits.tasks and exam.pk:
        for person, world in find_worlds(exam.checkpoint):
            exams.ask(
                exam.checkpoint,
                exam.against,
                person,
                world,
                tasks=limits.tasks,
                attempts=ATTEMPTS,
                seed=1000 + exam.checkpoint.number,
            )


def find_worlds(checkpoint: Checkpoint) -> list[tuple[int, str]]:
    """(person, world) of the groups that taught this candidate, and of those of its line who play held-out tasks."""
    run = Run.that_made(checkpoint)
    taught = Group.objects.filter(episodes__samples__run=run) if run is not None else Group.objects.none()
    of_line = Q(user__membership=None) if checkpoint.line_id == SHARED else Q(user__membership__line=checkpoint.line_id)
    known = Group.objects.filter(of_line, split=Group.Split.HELDOUT, created_at__gte=timezone.now() - RECENT)
    found: list[tuple[int, str]] = []
    for groups in (taught, known.filter(user__is_active=True)):
        counted = groups.order_by().values("user", "world").annotate(number=Count("pk", distinct=True))
        found += [(row["user"], row["world"]) for row in counted.order_by("-number", "user", "world")]
    return list(dict.fromkeys(found))[:WORLDS]


def of(exam: Examination) -> list[Exam]:
    """What this exam asked to have played."""
    asked = Exam.objects.filter(candidate=exam.checkpoint_id, live=exam.against_id)
    return list(asked.select_related("candidate", "live").order_by("pk"))


def is_waiting(exam: Examination) -> bool:
    """Whether anything is still to be played. What no player is at lapses; what was played in full is over."""
    # Each is looked at: any() would stop at the first.
    return sum(_is_open(one, exam.started_at) for one in of(exam)) > 0


def set_aside(exam: Examination) -> list[Check] | None:
    """What was found of all else before agents had played; None: nothing was set aside."""
    found = exam.progress.get(ASIDE)
    return None if found is None else [Check(**{**one, "worst": tuple(one["worst"])}) for one in found]


def wait(exam: Examination, checks: Sequence[Check]) -> None:
    """Set aside what was found, so that the engine is not asked again, and tell the pages that agents are awaited."""
    if ASIDE not in exam.progress:
        exam.progress |= {"phase": gettext_noop("agents"), ASIDE: [asdict(check) for check in checks]}
        exam.save()
        moved.send(sender=Examination, pk=exam.pk, status="agents")


def count_played(asked: Sequence[Exam]) -> tuple[int, int]:
    """(attempts that ended, attempts that were asked for)."""
    ended = sum(min(_ended(one, who), one.tasks * one.attempts) for one in asked for who in _sides(one))
    return ended, sum(2 * one.tasks * one.attempts for one in asked)


def call_off(checkpoint: Checkpoint, reason: str, *, against: Checkpoint | None = None) -> None:
    """Have nothing more be played of this candidate; `against` is what it is still held against, if it is."""
    asked = Exam.objects.filter(candidate=checkpoint, ended_at=None)
    for one in asked.exclude(live=against) if against is not None else asked:
        exams.end(one, reason)


def ask_anew(checkpoint: Checkpoint, against: Checkpoint) -> None:
    """Hold it against this one from now on: what was called off when another went live is played again."""
    call_off(checkpoint, f"{against} went live meanwhile: it is asked for anew.", against=against)
    Exam.objects.filter(candidate=checkpoint, live=against).update(ended_at=None, lapsed_at=None, reason="")


def findings(exam: Examination) -> list[Check]:
    """Read what was played into the exam's row, which the caller saves, and hold it to the limits."""
    played = [_read(one) for one in of(exam)]
    exam.agents = [one.written() for one in played]
    return [check for one in played for check in agent_pairs.findings(one, len(played))]


def command(exam: Exam) -> str:
    """What plays it."""
    return f"python3 -m environments worlds exam --world {exam.world}"


def _is_open(exam: Exam, since: datetime) -> bool:
    """Whether the gate, which has waited since then, still does."""
    if exam.ended_at is not None or exam.lapsed_at is not None:
        return False
    if is_played(exam):
        exams.end(exam)
        return False
    last, now = _last_sign(exam), timezone.now()
    if last is None or now - max(last, since) < timedelta(seconds=WAIT_S):
        return True
    Exam.objects.filter(pk=exam.pk, ended_at=None).update(lapsed_at=now)
    return False


def is_played(exam: Exam) -> bool:
    """Whether all pairs have ended."""
    return all(_ended(exam, who) >= exam.tasks * exam.attempts for who in _sides(exam))


def _sides(exam: Exam) -> tuple[Checkpoint, Checkpoint]:
    return exam.live, exam.candidate


def _ended(exam: Exam, who: Checkpoint) -> int:
    """Attempts of this checkpoint that ended, however they did."""
    ended = Episode.objects.filter(group__in=exam.groups.filter(checkpoint=who)).exclude(ending="")
    return ended.filter(attempt__lt=exam.attempts).count()


def _last_sign(exam: Exam) -> datetime | None:
    """When an attempt of it was last begun or ended, or it was asked for; None while one is played."""
    played = Episode.objects.filter(group__in=exam.groups)
    if played.filter(status=Episode.Status.PLAYING).exists():
        return None
    seen = played.aggregate(began=Max("created_at"), ended=Max("ended_at"))
    return max(at for at in (exam.created_at, seen["began"], seen["ended"]) if at is not None)


# Pairs


@dataclass(frozen=True)
class _Side:
    """An attempt as its row says it, with why it says nothing of the agent."""

    attempt: Attempt
    left_out: str = ""


def _read(exam: Exam) -> Played:
    groups = {who.pk: _first_groups(exam, who) for who in _sides(exam)}
    sides = {pk: _attempts(exam, list(found.values())) for pk, found in groups.items()}
    live, candidate = sides[exam.live_id], sides[exam.candidate_id]
    left_out: Counter[str] = Counter()
    pairs = []
    for task, attempt in sorted(live.keys() | candidate.keys()):
        both = live.get((task, attempt)), candidate.get((task, attempt))
        if both[0] is None or both[1] is None:
            left_out[gettext_noop("played by one of them alone")] += 1
        elif why := both[0].left_out or both[1].left_out:
            left_out[why] += 1
        else:
            pairs.append(Pair(task, attempt, both[0].attempt, both[1].attempt))
    tasks = groups[exam.live_id].keys() | groups[exam.candidate_id].keys()
    whole = is_played(exam) or (exam.ended_at is not None and not exam.reason)
    why = "" if whole else _why(exam)
    return Played(
        exam.pk,
        exam.world,
        exam.user_id,
        exam.tasks * exam.attempts,
        whole,
        why,
        pairs,
        dict(left_out),
        {task: (_number(groups[exam.live_id], task), _number(groups[exam.candidate_id], task)) for task in tasks},
    )


def _number(groups: Mapping[str, Group], task: str) -> int | None:
    return groups[task].pk if task in groups else None


def _why(exam: Exam) -> str:
    """Why it was not played to the end, and what would play it."""
    if exam.ended_at is not None:
        return f"{SAYS['ended']} {exam.reason}"
    return SAYS["unplayed"] % {"who": exam.user, "minutes": WAIT_S // 60, "command": command(exam)}


def _first_groups(exam: Exam, who: Checkpoint) -> dict[str, Group]:
    """The first group of each task that this checkpoint played."""
    found: dict[str, Group] = {}
    for group in exam.groups.filter(checkpoint=who).order_by("pk"):
        found.setdefault(group.task, group)
    return found


def _attempts(exam: Exam, groups: Sequence[Group]) -> dict[tuple[str, int], _Side]:
    """By task and number, those that ended."""
    episodes = Episode.objects.filter(group__in=groups, attempt__lt=exam.attempts).exclude(ending="")
    rows = list(episodes.select_related("group"))
    turns: dict[UUID, list[Turn]] = defaultdict(list)
    sessions = [row.session_id for row in rows if row.session_id is not None]
    wanted = Turn.objects.filter(session__in=sessions).exclude(status=Turn.Status.ANSWERING)
    for turn in wanted.only("session", "checkpoint", "message", "tools", "marks", "response_ids").iterator():
        turns[turn.session_id].append(turn)
    return {(row.group.task, row.attempt): _side(row, turns[row.session_id] if row.session_id else []) for row in rows}


def _side(episode: Episode, turns: Sequence[Turn]) -> _Side:
    left_out = {
        Episode.Ending.INFRA_ERROR: gettext_noop("the world failed"),
        Episode.Ending.CANCELLED: gettext_noop("called off"),
    }.get(Episode.Ending(episode.ending), "")
    if not left_out and any(turn.checkpoint_id != episode.group.checkpoint_id for turn in turns):
        left_out = gettext_noop("answered by other weights")
    attempt = Attempt(
        episode.ending == Episode.Ending.SOLVED,
        episode.ending == Episode.Ending.TRUNCATED,
        len(turns),
        sum(not has_valid_call(turn.message, turn.tools, turn.marks) for turn in turns),
        sum(len(turn.response_ids) for turn in turns),
    )
    return _Side(attempt, left_out)


def has_valid_call(message: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], marks: Sequence[str]) -> bool:
    """Whether a reply calls as its tools want it: each call a tool that is there, with its required arguments as a
    JSON object, and one call at least. Where there are no tools, words are the action, and every reply does.

    >>> tools = [{"function": {"name": "add", "parameters": {"required": ["a"]}}}]
    >>> call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    >>> has_valid_call({"tool_calls": [call]}, tools, []), has_valid_call({"content": "4"}, tools, [])
    (True, False)
    """
    if not tools:
        return True
    offered = {tool.get("function", {}).get("name"): tool["function"] for tool in tools if tool.get("function")}
    calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    if not calls or "call_unparsed" in marks:
        return False
    return all(call.get("name") in offered and _fits(call, offered[call["name"]]) for call in calls)


def _fits(call: Mapping[str, Any], tool: Mapping[str, Any]) -> bool:
    try:
        given = json.loads(call.get("arguments") or "{}")
    except ValueError:
        return False
    required = (tool.get("parameters") or {}).get("required") or ()
    return isinstance(given, dict) and set(required) <= given.keys()
