"""Write accounts, and what people and operators have of their own: keys, folders, prompts, notices, the audit log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as Browser

from accounts.deeds import KINDS
from accounts.models import Account, Deed, Device, Invitation, Role
from benchmarks.seeding.amounts import Amounts, Draw, every, write
from chat.api_keys import ApiKey, digest
from chat.composing.prompts import SavedPrompt
from chat.listing.folders import Folder
from chat.operator_rules import ClientRules
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint, Line, Member
from checkpoints.notice_rows import Notice
from webapp.notifications.models import Announcement, Delivery, Webhook

LINES = 5
RULES = 'title = "Our own"\n\n[[known]]\nwhere = "system"\nstarts = "You are our own client"\n'


@dataclass
class People:
    """Who is there."""

    administrator: User
    talker: User
    everyone: list[User]
    keys: list[ApiKey] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)

    @property
    def staff(self) -> list[User]:
        return [one for one in self.everyone if one.is_staff]


def seed_people(amounts: Amounts, draw: Draw) -> People:
    """An administrator, a talker, and others of each role, none of whom has a password; keys, folders and prompts."""
    roles = [Role.ADMINISTRATOR, Role.TALKER, Role.OPERATOR, Role.REVIEWER, Role.REVIEWER]
    password = make_password(None)
    people = [
        User(
            username=("ana", "ben")[place] if place < 2 else f"person-{place}",
            password=password,
            email=f"person-{place}@example.org",
            is_staff=(role := roles[place] if place < len(roles) else Role.TALKER) != Role.TALKER,
            is_superuser=role == Role.ADMINISTRATOR,
            is_active=place < 2 or place % 13 != 12,
            date_joined=draw.moment(place / amounts.people),
            last_login=draw.moment(draw.random.random()),
        )
        for place in range(max(amounts.people, len(roles)))
    ]
    write(people)
    write(
        Account(user=one, role=roles[place] if place < len(roles) else Role.TALKER) for place, one in enumerate(people)
    )
    write(Consent(user=one, learns=place % 7 != 6) for place, one in enumerate(people))
    found = People(people[0], people[1], people)
    found.keys = [
        ApiKey(
            user=people[place % max(2, len(people) // 2)], name=f"laptop {place}", prefix="tb-seed0",
            digest=digest(f"tb-seeded-{place}"), created_at=draw.moment(0.01),
            used_at=draw.moment(draw.random.random()), revoked_at=draw.now if place % 9 == 8 else None,
        )
        for place in range(amounts.people * 2)
    ]  # fmt: skip
    found.folders = [
        Folder(user=people[place % 2], name=f"{draw.words[100 + place]} {place}") for place in range(amounts.people)
    ]
    write(found.keys)
    write(found.folders)
    write(
        SavedPrompt(
            user=people[place % 3], name=f"{draw.words[200 + place]} {place}", is_shared=place % 3 == 2,
            text=f"{draw.question()} Answer for {{{{reader}}}}.",
        )
        for place in range(amounts.people)
    )  # fmt: skip
    _sign_in(found, draw)
    return found


def _sign_in(people: People, draw: Draw) -> None:
    browsers = [
        Browser(session_key=f"seeded{place:026}", session_data="", expire_date=draw.now + timedelta(days=9))
        for place in range(2 * len(people.everyone))
    ]
    write(browsers)
    write(
        Device(user=people.everyone[place // 2], session=browser, browser="Firefox on Linux", address="10.0.0.1")
        for place, browser in enumerate(browsers)
    )


def seed_lines(people: People) -> list[Line]:
    """Lines of teams, each with two members who are neither the administrator nor the talker."""
    base = Checkpoint.objects.get(number=0)
    lines = every(LINES, lambda place: Line(name=f"team-{place}", title=f"Team {place}", start=base))
    write(lines)
    write(
        Member(user=one, line=lines[place // 2], pools=place % 2 == 0)
        for place, one in enumerate(people.everyone[5 : 5 + 2 * LINES])
    )
    return lines


def seed_notices(amounts: Amounts, draw: Draw, people: People, checkpoints: list[Checkpoint]) -> None:
    """What happened without an operator, of which five are unread, and what was sent of it."""
    count = amounts.checkpoints
    write(
        Notice(
            level=("info", "warning", "error")[place % 3],
            text=f"{draw.question().rstrip('?')}: have a look.",
            checkpoint=draw.random.choice(checkpoints),
            at=draw.moment(place / count),
            read_by=people.administrator if place < count - 5 else None,
            read_at=draw.moment(place / count) if place < count - 5 else None,
        )
        for place in range(count)
    )
    hooks = every(
        3, lambda n: Webhook(url=f"https://hook{n}.example.org/", events=["candidate"], made_by=people.administrator)
    )
    write(hooks)
    told = [
        Announcement(
            event="candidate", key=f"candidate-{place}", text="A candidate waits.", at=draw.moment(place / count),
            path="/console/checkpoints/",
        )
        for place in range(count)
    ]  # fmt: skip
    write(told)
    write(
        Delivery(announcement=one, webhook=hook, status="sent", attempts=1, answer="200 OK", due_at=one.at)
        for one in told
        for hook in hooks
    )


def seed_deeds(amounts: Amounts, draw: Draw, people: People) -> None:
    """The audit log, invitations, and rules of clients."""
    kinds = [*KINDS]
    write(
        Deed(
            at=draw.moment(place / amounts.deeds), by=draw.random.choice(people.everyone),
            kind=kinds[place % len(kinds)], verb="signed in" if place % len(kinds) == 0 else "settings changed",
            whom=draw.random.choice(people.everyone) if place % 5 == 0 else None, about=f"thing {place}",
            address="10.0.0.1", outcome="refused" if place % 31 == 0 else "done",
        )
        for place in range(amounts.deeds)
    )  # fmt: skip
    write(
        Invitation(
            note=f"for colleague {place}", prefix=f"in{place:06}", digest=digest(f"invitation {place}"),
            made_by=people.administrator, made_at=draw.moment(0.9), ends_at=draw.now + timedelta(days=place % 5 - 2),
        )
        for place in range(amounts.people)
    )  # fmt: skip
    write([ClientRules(name="own-client", source=RULES, changed_by=people.administrator)])
