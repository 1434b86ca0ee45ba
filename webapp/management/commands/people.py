"""Manage people from the command line: what the page People does, and with no account needed."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.urls import reverse

from accounts import deeds, invitations, roles
from accounts.models import Role
from core.errors import TalkbackError
from core.visible import visible
from webapp.management.terminal import TerminalCommand
from webapp.people import closing
from webapp.people.names import check_name
from webapp.people.password_reset import link_for


class Command(TerminalCommand):
    help = "List people and invitations; add, invite, close, open, sign out and remove accounts; change roles."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="every account: name, role, open or closed, last sign-in")
        add = actions.add_parser("add", help="make an account, and print a link that sets its password")
        add.add_argument("name")
        add.add_argument("--role", choices=Role.values, default=Role.TALKER.value)
        add.add_argument("--email", default="")
        invite = actions.add_parser("invite", help="print a link by which one person makes themselves an account")
        invite.add_argument("--role", choices=Role.values, default=Role.TALKER.value)
        invite.add_argument("--days", type=int, default=invitations.DAYS, help="how long it is good for")
        invite.add_argument("--note", default="", help="for whom it is")
        actions.add_parser("invitations", help="every invitation that may still be used")
        withdraw = actions.add_parser("withdraw", help="have an invitation open nothing")
        withdraw.add_argument("number", type=int, help="as `people invitations` lists it")
        role = actions.add_parser("role", help="change a person's role")
        role.add_argument("name")
        role.add_argument("role", choices=Role.values)
        for action, says in (
            ("deactivate", "close an account: it signs in nowhere, and its keys open nothing"),
            ("activate", "open a closed account again"),
            ("sign-out", "end the sessions in all browsers"),
            ("remove-factor", "remove a lost second factor"),
            ("link", "print a link that sets a new password"),
        ):
            one = actions.add_parser(action, help=says)
            one.add_argument("name")
        for prints in (add, invite, one):  # the last of those above is `link`
            prints.add_argument("--address", help="where people reach this Talkback, as in http://localhost:8000")
        remove = actions.add_parser("remove", help="remove an account with all that is its person's")
        remove.add_argument("name")
        remove.add_argument("--yes", action="store_true", help="do it: it cannot be undone")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        getattr(self, f"do_{action.replace('-', '_')}")(**options)

    def do_list(self, **options: Any) -> None:
        for user in User.objects.select_related("account").order_by("username"):
            state = "open" if user.is_active else "closed"
            seen = f"signed in {user.last_login:%Y-%m-%d %H:%M} UTC" if user.last_login else "never signed in"
            name = visible(user.get_username(), one_line=True)
            self.stdout.write(f"{name:<20} {roles.kept_role(user):<14} {state:<7} {seen}")

    def do_add(self, name: str, role: str, email: str, address: str | None, **options: Any) -> None:
        try:
            user = User(username=check_name(name), email=email)
        except ValidationError as fault:
            raise CommandError(" ".join(fault.messages)) from fault
        user.set_unusable_password()
        user.save()
        roles.give(user, Role(role))
        deeds.note("people", "account made", whom=user, about=role)
        self.stdout.write(self.place(address) + link_for(user))

    def do_invite(self, role: str, days: int, note: str, address: str | None, **options: Any) -> None:
        row, secret = self.tried(lambda: invitations.invite(role, by=None, note=note, days=days))
        deeds.note("people", "invitation made", about=f"{row}, {row.role}")
        self.stdout.write(self.place(address) + reverse("join", args=[secret]))

    def do_invitations(self, **options: Any) -> None:
        for row in invitations.open_ones():
            note = visible(row.note, one_line=True)
            said = f"{row.pk:<5} {row.prefix}…  {row.role:<14} until {row.ends_at:%Y-%m-%d %H:%M} UTC  {note}"
            self.stdout.write(said.rstrip())

    def do_withdraw(self, number: int, **options: Any) -> None:
        row = invitations.open_ones().filter(pk=number).first()
        if row is None:
            raise CommandError(f"No invitation {number} is open: `people invitations` shows those that are.")
        invitations.withdraw(row)
        deeds.note("people", "invitation withdrawn", about=str(row))
        self.stdout.write("The invitation opens nothing any more.")

    def do_role(self, name: str, role: str, **options: Any) -> None:
        user = self.find(name)
        before = self.tried(lambda: roles.give(user, Role(role)))
        deeds.note("people", "role changed", whom=user, about=f"{before} to {role}")
        self.stdout.write(f"{name} was {before}, and is {role} now.")

    def do_deactivate(self, name: str, **options: Any) -> None:
        user = self.find(name)
        self.tried(lambda: closing.deactivate(user))
        deeds.note("people", "account closed", whom=user)
        self.stdout.write(f"{name} is signed out, and the account is closed.")

    def do_activate(self, name: str, **options: Any) -> None:
        user = self.find(name)
        closing.activate(user)
        deeds.note("people", "account opened", whom=user)
        self.stdout.write(f"{name} may sign in again.")

    def do_sign_out(self, name: str, **options: Any) -> None:
        user = self.find(name)
        number = closing.sign_out(user)
        deeds.note("people", "signed out everywhere", whom=user, about=f"browsers: {number}")
        self.stdout.write(f"{name} is signed out in all browsers.")

    def do_remove_factor(self, name: str, **options: Any) -> None:
        user = self.find(name)
        number = closing.remove_factors(user)
        deeds.note("people", "second factor removed", whom=user, refused=not number)
        if not number:
            raise CommandError(f"{name} had no second factor, and is signed out.")
        self.stdout.write(f"{name} has no second factor now, and is signed out.")

    def do_link(self, name: str, address: str | None, **options: Any) -> None:
        user = self.find(name)
        if not user.is_active:
            raise CommandError(f"The account of {name} is closed: `people activate {name}` opens it.")
        deeds.note("people", "password link made", whom=user)
        self.stdout.write(self.place(address) + link_for(user))

    def do_remove(self, name: str, yes: bool, **options: Any) -> None:
        user = self.find(name)
        if not yes:
            raise CommandError(f"This removes {name} with all conversations, for good: say --yes if it is meant.")
        gone = self.tried(lambda: closing.remove(user))
        deeds.note("people", "account removed", whom=None if gone else user)
        self.stdout.write(f"{name} is removed." if gone else f"{name} is closed; a worker removes what is left.")

    def find(self, name: str) -> User:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no person called {name!r}: `people list` shows those there are.")
        return user

    def tried(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def place(self, address: str | None) -> str:
        return (address or settings.ADDRESS).rstrip("/")
