"""Signing in with a password: who guesses waits, the owner gets in, and the log says who came and went."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from time import sleep

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.core import signing
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client

from core import brake
from core.brake import Brake
from installation.findings import free_port
from tests.webapp.conftest import Logged
from webapp.people import enter, signin

RIGHT = "correct horse battery"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, settings) -> Clock:
    """Counts of this test alone, in memory, and the time by which they are kept."""
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr(signin, "brake", Brake("sign-in"))
    clock = Clock()
    monkeypatch.setattr(brake, "time", clock)
    return clock


@pytest.fixture
def owner(db) -> User:
    return User.objects.create_user("ana", password=RIGHT)


def try_in(password: str, name: str = "ana", browser: Client | None = None, place: str = "203.0.113.7", **headers):
    """One form, sent from a browser at an address."""
    browser = browser or Client()
    return browser.post("/login/", {"username": name, "password": password}, REMOTE_ADDR=place, **headers)


def is_in(answer) -> bool:
    return answer.status_code == 302 and answer["Location"] == "/"


def test_sixty_wrong_passwords_and_then_the_right_one_does_not_get_in(owner):
    answers = [try_in(f"wrong {number}") for number in range(60)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 55  # five are free
    right = try_in(RIGHT)
    assert right.status_code == 429
    assert right["Retry-After"] == "30"
    assert "Too many wrong passwords. Wait 30 seconds, then try again. A sign-in link works meanwhile." in page(right)


def page(answer) -> str:
    return str(answer.content.decode())


def test_after_the_wait_the_right_password_gets_in_and_the_count_begins_anew(owner, clock):
    for _ in range(5):
        wrong = try_in("wrong")
    assert "That name and that password do not go together." in page(wrong)
    assert "Wait 30 seconds before you try again." in page(wrong)
    clock.now += 31
    assert is_in(try_in(RIGHT))
    assert [try_in("wrong").status_code for _ in range(5)] == [200] * 5


def test_each_further_wrong_one_doubles_the_wait_up_to_a_quarter_of_an_hour(owner, clock):
    waits = []
    for _ in range(12):
        if try_in("wrong").status_code == 200:
            waits.append(int(try_in("wrong").get("Retry-After", 0)))
        clock.now += 900
    # Attempts 1 and 2, then 3 and 4, are free; 5, and then one by one: 30 s, 1, 2, 4, 8, 15, 15 … minutes
    assert waits == [0, 0, 30, 60, 120, 240, 480, 900, 900, 900, 900, 900]


def test_a_stranger_elsewhere_does_not_lock_the_owner_out(owner):
    for _ in range(10):
        try_in("wrong", place="198.51.100.1")
    assert is_in(try_in(RIGHT))


def test_strangers_everywhere_make_a_new_browser_wait_a_minute_at_most_and_a_known_one_not_at_all(owner, clock):
    home = Client()
    assert is_in(try_in(RIGHT, browser=home))
    home.post("/logout/")
    for number in range(60):
        try_in("wrong", place=f"198.51.100.{number}")
        clock.now += 61
    last = try_in("wrong", place="192.0.2.1")
    assert last.status_code == 200

    new = try_in(RIGHT)
    assert (new.status_code, new["Retry-After"]) == (429, "60")
    assert is_in(try_in(RIGHT, browser=home))
    clock.now += 61
    assert is_in(try_in(RIGHT))


def test_a_browser_is_known_for_its_own_person_alone(owner, clock):
    User.objects.create_user("ben", password=RIGHT)
    bens = Client()
    assert is_in(try_in(RIGHT, "ben", browser=bens))
    for number in range(25):
        try_in("wrong", place=f"198.51.100.{number}")
    assert try_in(RIGHT, "ana", browser=bens).status_code == 429  # the count of strangers holds for it


def test_two_people_of_one_browser_both_stay_known(owner):
    User.objects.create_user("ben", password=RIGHT)
    shared = Client()
    for name in ("ana", "ben"):
        assert is_in(try_in(RIGHT, name, browser=shared))
        shared.post("/logout/")
    for number in range(20):  # as many as are free of one name from everywhere
        for name in ("ana", "ben"):
            try_in("wrong", name, place=f"198.51.100.{number}")
    for name in ("ana", "ben"):
        assert try_in(RIGHT, name).status_code == 429
        assert is_in(try_in(RIGHT, name, browser=shared))


def test_a_browser_of_many_people_carries_cookies_of_the_last_sixteen(hasher, db):
    shared = Client()
    for number in range(20):
        User.objects.create_user(f"person {number}", password=RIGHT)
        assert is_in(try_in(RIGHT, f"person {number}", browser=shared))
    carried = [one for name, one in shared.cookies.items() if name.startswith(signin.KNOWN) and one.value]
    assert len(carried) == signin.MOST_KNOWN == 16
    assert signin.cookie_of("person 19") in {one.key for one in carried}
    assert sum(len(f"{one.key}={one.value}; ") for one in carried) < 4096  # half of what nginx takes of a header


def test_a_known_browser_cannot_guess_for_ever_either(owner):
    home = Client()
    try_in(RIGHT, browser=home)
    home.post("/logout/")
    assert [try_in("wrong", browser=home).status_code for _ in range(7)] == [200] * 5 + [429] * 2


def test_a_made_up_cookie_makes_no_browser_known(owner):
    browser = Client()
    for number in range(7):
        browser.cookies[signin.cookie_of("ana")] = signing.dumps(f"{number}", key="made up", salt=signin.KNOWN + "ana")
        last = try_in("wrong", browser=browser)
    assert last.status_code == 429


def test_one_address_with_many_names_waits_too(owner):
    answers = [try_in("spring2026", f"person{number}").status_code for number in range(32)]
    assert answers == [200] * 30 + [429] * 2


def test_hosts_of_one_ipv6_network_count_as_one(owner):
    answers = [try_in("wrong", place=f"2001:db8::{number}").status_code for number in range(1, 8)]
    assert answers == [200] * 5 + [429] * 2
    assert is_in(try_in(RIGHT, place="2001:db8:0:1::1"))


def test_an_address_that_a_client_makes_up_is_not_believed(owner):
    answers = [try_in("wrong", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}").status_code for number in range(7)]
    assert answers == [200] * 5 + [429] * 2


def test_a_link_signs_in_whatever_is_locked(owner):
    for _ in range(9):
        try_in("wrong")
    assert is_in(Client().post(enter.link_for(owner)))


class Counting(MD5PasswordHasher):
    """A hasher that says how often it worked, and how many worked at once."""

    work = 0
    at_once = most_at_once = 0
    takes_s = 0.0
    lock = threading.Lock()

    def encode(self, password, salt):
        with self.lock:
            type(self).work += 1
            type(self).at_once += 1
            type(self).most_at_once = max(self.most_at_once, self.at_once)
        sleep(self.takes_s)
        with self.lock:
            type(self).at_once -= 1
        return super().encode(password, salt)


@pytest.fixture
def hasher(settings, monkeypatch):
    settings.PASSWORD_HASHERS = ["tests.webapp.people.test_signin.Counting"]
    for name in ("work", "at_once", "most_at_once"):
        monkeypatch.setattr(Counting, name, 0)
    return Counting


def test_names_that_exist_and_names_that_do_not_are_answered_alike(hasher, db):
    User.objects.create_user("ana", password=RIGHT)
    User.objects.create_user("shut", password=RIGHT, is_active=False)
    User.objects.create_user("linked").set_unusable_password()
    told = {}
    for number, name in enumerate(("ana", "shut", "linked", "unknown")):
        answers, before = [], hasher.work
        for _ in range(6):
            answer = try_in("wrong", name, place=f"203.0.113.{number}")
            answers.append((answer.status_code, answer.context["form"].non_field_errors()))
        told[name] = (answers, hasher.work - before)
    assert told["ana"] == told["shut"] == told["linked"] == told["unknown"]
    assert told["ana"][1] == 5  # one hash each, and none for the sixth


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_no_more_than_two_passwords_are_hashed_at_a_time(hasher, monkeypatch):
    monkeypatch.setattr(hasher, "takes_s", 0.05)
    with ThreadPoolExecutor(10) as many:
        list(many.map(lambda number: try_in("x", f"n{number}", place=f"203.0.113.{number}"), range(10)))
    assert (hasher.work, hasher.most_at_once) == (10, 2)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_line_that_is_too_long_says_so_and_costs_no_attempt(owner, monkeypatch):
    monkeypatch.setattr(signin, "_line", BoundedSemaphore(1))
    with signin.turn_to_hash():
        for _ in range(9):
            busy = try_in(RIGHT)
            assert (busy.status_code, busy["Retry-After"]) == (503, "10")
            assert "Too many people sign in at once. Wait 10 seconds" in page(busy)
    assert is_in(try_in(RIGHT))


def test_a_fault_of_the_database_costs_no_attempt(owner):
    def fail(execute, sql, *rest):
        if "auth_user" in sql:
            raise OperationalError("database or disk is full")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        answers = [try_in(RIGHT, browser=Client(raise_request_exception=False)) for _ in range(9)]
    assert {answer.status_code // 100 for answer in answers} == {5}  # nine, where five wrong passwords would lock
    assert is_in(try_in(RIGHT))


def test_the_count_is_kept_in_redis(owner, store, settings, monkeypatch):
    monkeypatch.setattr(brake, "PATIENCE_S", 20.0)
    brake._client.cache_clear()
    settings.REDIS_URL = store
    name = f"ana at {store} {threading.get_ident()}"
    for _ in range(5):
        try_in("wrong", name)
    monkeypatch.setattr(signin, "brake", Brake("sign-in"))  # as another process has it
    assert try_in("wrong", name).status_code == 429


def test_success_failure_lock_and_sign_out_are_logged_without_the_password(owner, logged: Logged):
    browser = Client()
    for _ in range(7):
        try_in("hunter2", browser=browser)
    try_in("x", "my-password-in-the-wrong-field", place="2001:db8::1")
    try_in(RIGHT, browser=browser, place="192.0.2.9")
    browser.post("/logout/", REMOTE_ADDR="192.0.2.9")
    assert [line.split("signin ")[1] for line in logged.of("webapp.people.signin")] == [
        *["sign-in failed: ana from 203.0.113.7"] * 4,
        "sign-in failed, locked for 30 s: ana from 203.0.113.7",  # and what comes meanwhile fills no log
        "sign-in failed: an unknown name from 2001:db8::1",
        "signed in with a password: ana from 192.0.2.9",
        "signed out: ana from 192.0.2.9",
    ]
    for secret in ("hunter2", RIGHT, "my-password"):
        assert secret not in logged.text


def test_a_form_that_is_not_filled_in_costs_no_attempt(owner):
    for _ in range(9):
        assert try_in("", "ana").status_code == 200
        assert try_in("wrong", "").status_code == 200
    assert is_in(try_in(RIGHT))


@pytest.mark.parametrize(
    ("password", "why"),
    [("8675309867530", "entirely numeric"), ("ana.lovelace1", "too similar to the username"), ("ana", "too short")],
)
def test_a_password_of_digits_or_like_the_name_is_refused(db, monkeypatch, capsys, password, why):
    User.objects.create_user("ana.lovelace")
    monkeypatch.setattr("getpass.getpass", lambda prompt="": password)
    with pytest.raises(CommandError, match="Aborting password change"):
        call_command("changepassword", "ana.lovelace", stderr=None)
    assert why in capsys.readouterr().err
    assert not User.objects.get(username="ana.lovelace").has_usable_password()
