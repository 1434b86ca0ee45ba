"""Whatever two people say, change and take back, by either door: their last words stand, and no other's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.api_keys import ApiKey
from chat.models import Turn
from feedback.models import Feedback
from tests.feedback.conftest import answer

PEOPLE = ("ana", "ben")
TAGS = st.lists(st.sampled_from(["wrong", "too long", "mine"]), unique=True, max_size=3)
WORDS = st.sampled_from(["", "Be brief.", "Use metres."])

THUMBS = st.fixed_dictionaries({"thumb": st.sampled_from(["up", "down"])}, optional={"tags": TAGS})
SAYINGS = st.one_of(
    THUMBS,
    st.just({"thumb": None}),
    st.fixed_dictionaries({"correction": WORDS}),
    st.fixed_dictionaries({"guidance": WORDS}),
    st.fixed_dictionaries({"verdict": st.sampled_from(["passed", "failed"]), "output": WORDS}),
    st.just({"verdict": None}),
    st.just({"withdraw": True}),
)
CLICKS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("thumb"), "value": st.sampled_from([1, -1])}, optional={"tags": TAGS}),
    st.just({"kind": "thumb", "value": 0}),
    st.fixed_dictionaries({"kind": st.sampled_from(["rewrite", "guidance"]), "text": WORDS}),
)
PERSON = st.sampled_from(PEOPLE)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("api"), PERSON, PERSON, SAYINGS),
        st.tuples(st.just("page"), PERSON, PERSON, CLICKS),
    ),
    max_size=12,
)

SIGNS = {"up": 1, "passed": 1, "down": -1, "failed": -1}


class Memory:
    """What one person's words come to, remembered simply: kind to (value, text, tags)."""

    def __init__(self) -> None:
        self.stands: dict[str, tuple[int, str, list[str]]] = {}

    def say(self, kind: str, value: int = 0, text: str = "", tags: list[str] | None = None) -> None:
        before = self.stands.pop(kind, None)
        if not (value or text):
            return
        if tags is None and before and before[0] == value:
            tags = before[2]
        self.stands[kind] = (value, text, tags or [])

    def hear(self, door: str, said: dict) -> None:
        if door == "page" and "tags" in said:  # reasons, which change no thumb
            thumb = self.stands.get("thumb")
            if thumb and thumb[0] == said["value"]:
                self.stands["thumb"] = (*thumb[:2], said["tags"])
        elif door == "page":
            tags = said.get("tags") if said.get("value") else None
            self.say(said["kind"], said.get("value", 0), said.get("text", ""), tags)
        elif "withdraw" in said:
            self.stands.clear()
        elif "thumb" in said:
            self.say("thumb", SIGNS.get(said["thumb"], 0), tags=said.get("tags"))
        elif "verdict" in said:
            value = SIGNS.get(said["verdict"], 0)
            self.say("verdict", value, said.get("output", "") if value else "")
        else:
            ((field, text),) = said.items()
            self.say({"correction": "rewrite"}.get(field, field), text=text)


class Person:
    def __init__(self, user) -> None:
        self.user = user
        _, self.secret = ApiKey.objects.issue(user, "laptop")
        self.page = Client()
        self.page.force_login(user)
        self.memory = Memory()
        self.turn = answer(user)

    def speaks(self, door: str, turn: Turn, said: dict, retry: str = "") -> int:
        """Say it of this turn by this door. The status of the answer."""
        if door == "page":
            tags = {"tags": ["", *said["tags"]]} if "tags" in said else {}
            answer = self.page.post(f"/turns/{turn.pk}/feedback/", said | tags, headers={"HX-Request": "true"})
        else:
            body = json.dumps({"completion_id": turn.completion_id} | said)
            headers = {"Authorization": f"Bearer {self.secret}"} | ({"Idempotency-Key": retry} if retry else {})
            answer = self.page.post("/v1/feedback", body, content_type="application/json", headers=headers)
        return answer.status_code


@pytest.mark.django_db
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_last_words_stand_one_of_a_kind(ana, ben, steps):
    people = {"ana": Person(ana), "ben": Person(ben)}
    for door, who, whose, said in steps:
        person, turn = people[who], people[whose].turn
        if who == whose:
            assert person.speaks(door, turn, said) == 200
            person.memory.hear(door, said)
        else:
            assert person.speaks(door, turn, said) == 404

    for person in people.values():
        rows = list(Feedback.objects.standing().filter(turn=person.turn))
        assert {row.kind: (row.value, row.text, row.tags) for row in rows} == person.memory.stands
        assert len({row.kind for row in rows}) == len(rows)
        assert {row.by for row in rows} <= {person.user}
        person.turn.refresh_from_db()
        spoken = Feedback.objects.filter(turn=person.turn).exists()
        assert person.turn.status == (Turn.Status.OBSERVED if spoken else Turn.Status.SERVED)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_all_at_once_one_of_them_has_the_last_word(ana):
    person = Person(ana)

    def speak(number: int) -> int:
        try:
            said = {
                "thumb": ("up", "down")[number % 2],
                "tags": [str(number)],
                "verdict": "failed",
                "exit_code": number,
            }
            return person.speaks("api", person.turn, said, retry=str(number))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(speak, range(1, 17))) == {200}
    thumb, verdict = Feedback.objects.standing().order_by("kind")
    assert thumb.tags == [str(verdict.exit_code)]  # a request is carried out whole
    assert Feedback.objects.count() == 32
