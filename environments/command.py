"""Play, rate and list simulated people."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from core.errors import TalkbackError
from core.visible import escape_hidden
from environments import personas, tasks
from environments.actor import KEY as ACTOR_KEY
from environments.actor import Actor
from environments.client import KEY, LOCAL, URL, Client
from environments.errors import Unplayable
from environments.personas import Persona, Split
from environments.sessions import Exchange, play
from environments.tasks import Task
from environments.users import ModelUser, ScriptedUser
from environments.wishes import WISHES
from environments.worlds.command import add_worlds

Result = TypeVar("Result")


def main(arguments: Sequence[str] | None = None) -> int:
    said = parser().parse_args(arguments)
    try:
        return asyncio.run(said.run(said)) or 0
    except TalkbackError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m environments", description="People who talk to Talkback.")
    verbs = parser.add_subparsers(required=True)

    playing = verbs.add_parser("play", help="play sessions and say how each went")
    _who_is_asked(playing)
    playing.add_argument(
        "--persona", default="student", help="student, teacher, assistant, wishes joined by +, or a file"
    )
    playing.add_argument("--composed", type=int, metavar="N", help="N personas composed at random instead")
    playing.add_argument("--tasks", help=TASKS)
    playing.add_argument("--rewrites", type=int, default=2, help="changes that are asked for before a person gives up")
    playing.add_argument("--thumb", action="store_true", help="give the last reply a thumb as well")
    playing.add_argument(
        "--writes",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of the complaints: also put it right in the correction box",
    )
    playing.add_argument("--files", action="store_true", help="the work lies in a file; for models that can use tools")
    playing.add_argument("--actor", metavar="URL", help="an OpenAI-compatible server whose model words what is said")
    playing.add_argument("--actor-model", default="", help="which of its models")
    playing.add_argument("--actor-key", default=os.environ.get(ACTOR_KEY, ""), help=f"or in {ACTOR_KEY}")
    playing.add_argument("--json", action="store_true", help="every exchange as a JSON line instead of the table")
    playing.set_defaults(run=played)

    rates = verbs.add_parser(
        "rates", help="how often first replies obey each wish unasked, with a key that learns nothing"
    )
    _who_is_asked(rates)
    rates.add_argument("--tasks", default="open:40", help=TASKS)
    rates.set_defaults(run=rated)

    people = verbs.add_parser("people", help="list wishes and personas")
    people.add_argument("--split", choices=get_args(Split), default="train")
    people.set_defaults(run=listed)

    add_worlds(verbs)
    return parser


TASKS = "open:8, arithmetic:8, homework:8, or a file of prompts; left out: 8 that fit the persona"


def _who_is_asked(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default=os.environ.get(URL) or LOCAL, help=f"where Talkback answers, or in {URL}")
    parser.add_argument("--key", default=os.environ.get(KEY, ""), help=f"its API key, or in {KEY}")
    parser.add_argument("--model", help="name@number of a checkpoint; left out: what is live")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=get_args(Split), default="train", help="whose tasks and phrasings")
    parser.add_argument("--max-tokens", type=int, default=192, help="the longest reply")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="sessions at the same time")


async def played(said: argparse.Namespace) -> None:
    people = _people(said)
    sessions = [(person, task) for person in people for task in _tasks(said, person)]
    actor = Actor(said.actor, said.actor_key, said.actor_model) if said.actor else None
    async with _client(said) as client:

        async def one(number: int) -> list[Exchange]:
            person, task = sessions[number]
            user = (
                ModelUser(person, actor, said.seed, patience=said.rewrites, writes=said.writes)
                if actor
                else ScriptedUser(person, said.seed, split=said.split, patience=said.rewrites, writes=said.writes)
            )
            return await play(
                client,
                user,
                task,
                most_rewrites=said.rewrites,
                seed=said.seed + 100 * number,
                model=said.model,
                max_tokens=said.max_tokens,
                temperature=said.temperature,
                thumb=said.thumb,
            )

        every = await _at_once(one, len(sessions), said.at_once)
    if actor:
        await actor.aclose()
    if said.json:
        for (person, _), exchanges in zip(sessions, every, strict=True):
            for exchange in exchanges:
                print(escape_hidden(json.dumps({"persona": person.name, **_row(exchange)}, ensure_ascii=False)))
        return
    print(table([(person, task, each) for (person, task), each in zip(sessions, every, strict=True)]))


async def rated(said: argparse.Namespace) -> None:
    asked = _tasks(said, personas.STUDENT)
    async with _client(said) as client:

        async def one(number: int) -> tuple[str, bool]:
            answer = await client.complete(
                [{"role": "user", "content": asked[number].prompt}],
                model=said.model,
                seed=said.seed + number,
                max_tokens=said.max_tokens,
                temperature=said.temperature,
                done=True,
            )
            return answer.text, answer.finish_reason == "stop"

        replies = await _at_once(one, len(asked), said.at_once)
    for wish in WISHES.values():
        share = sum(wish.holds(text, finished=finished) for text, finished in replies) / len(replies)
        print(f"{wish.name:<16} {share:.2f}")
    print(f"of {len(replies)} first replies, {sum(finished for _, finished in replies)} of which came to their end")


async def listed(said: argparse.Namespace) -> None:
    for wish in WISHES.values():
        against = f" (not with {', '.join(wish.opposes)})" if wish.opposes else ""
        print(f"{wish.name:<16} {wish.hint}{against}")
    print()
    for person in personas.NAMED.values():
        print(f"{person.name:<16} {', '.join(person.wishes)}")
    print(f"{len(personas.compositions(said.split))} {said.split} compositions, for instance:")
    for person in personas.composed(said.split, 5, seed=1):
        print(f"  {person.name}")


def table(sessions: Sequence[tuple[Persona, Task, Sequence[Exchange]]]) -> str:
    """One line a session and the means: style of the first and the last reply, what was asked for, how it ended."""
    lines = [f"{'persona':<28} {'task':<24} {'first':>5} {'last':>5}  {'ended':<9} asked for"]
    firsts, lasts, accepted, requests, tokens = [], [], 0, 0, 0
    for person, task, exchanges in sessions:
        heard = [each for each in exchanges if each.said]
        styles = [personas.style(person, each.reply, finished=each.finish_reason == "stop") for each in heard]
        said = heard[-1].said
        assert said is not None
        ended = "accepted" if said.accepts else "gave up"
        asked = ", ".join(each.said.asked for each in heard if each.said and each.said.asked)
        lines.append(
            f"{person.name[:28]:<28} {task.id[:24]:<24} {styles[0]:>5.2f} {styles[-1]:>5.2f}  {ended:<9} {asked or '-'}"
        )
        firsts.append(styles[0])
        lasts.append(styles[-1])
        accepted += said.accepts
        requests += len(exchanges)
        tokens += sum(each.prompt_tokens + each.completion_tokens for each in exchanges)
    count = len(sessions)
    lines.append(
        f"{count} sessions, {requests} requests, {tokens} tokens: style of first replies {sum(firsts) / count:.2f}, "
        f"of last ones {sum(lasts) / count:.2f}, {accepted} accepted"
    )
    return "\n".join(lines)


def _people(said: argparse.Namespace) -> list[Persona]:
    if said.composed:
        return personas.composed(said.split, said.composed, said.seed)
    if _is_file(said.persona):
        return personas.load(said.persona)
    return [personas.named(said.persona, said.split)]


def _tasks(said: argparse.Namespace, person: Persona) -> list[Task]:
    wanted = said.tasks or f"{tasks.FITTING[person.scene]}:8"
    if _is_file(wanted):
        found = tasks.load(wanted)
    else:
        kind, _, number = wanted.partition(":")
        if kind not in get_args(tasks.Kind) or not number.isdecimal() or int(number) < 1:
            raise Unplayable(f"--tasks {wanted}: it reads open:8, arithmetic:8 or homework:8, or names a file.")
        found = tasks.tasks(cast(tasks.Kind, kind), said.split, int(number), said.seed)
    return [tasks.filed(task) for task in found] if getattr(said, "files", False) else found


def _is_file(text: str) -> bool:
    return Path(text).suffix in (".json", ".jsonl") or Path(text).is_file()


def _client(said: argparse.Namespace) -> Client:
    if not said.key:
        raise Unplayable(
            f"Give an API key with --key or in {KEY}; `python3 manage.py create_key --name play` makes one."
        )
    return Client(said.url, said.key)


async def _at_once(one: Callable[[int], Awaitable[Result]], count: int, most: int) -> list[Result]:
    room = asyncio.Semaphore(max(1, most))

    async def turn(number: int) -> Result:
        async with room:
            return await one(number)

    return list(await asyncio.gather(*(turn(number) for number in range(count))))


def _row(exchange: Exchange) -> dict[str, Any]:
    said = exchange.said
    return {
        "task": exchange.task_id,
        "request": exchange.messages[-1]["content"],
        "reply": exchange.reply,
        "finish_reason": exchange.finish_reason,
        "completion_id": exchange.completion_id,
        "model": exchange.model,
        "results": list(exchange.results),
        "said": said.text if said else None,
        "accepts": said.accepts if said else None,
        "asked": said.asked if said else None,
    }
