"""The ledger as a page: it adds up, is narrowed, divided, and opens to the turns behind each number."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from chat.models import Session, Turn
from judge.models import Judgement
from judge.samples.sample_rows import Reason

HERE = "/console/ledger/"


@pytest.fixture
def five_turns(make_turn, make_lesson):
    """A sample, two turns without a quorum, one that waits, and an old neutral one."""
    make_lesson()
    for _ in range(2):
        Judgement.objects.create(turn=make_turn("judged"), reason=Reason.NO_QUORUM, reason_code=Reason.NO_QUORUM.code)
    make_turn("served")
    old = make_turn("judged", created_at=timezone.now() - timedelta(days=30))
    Judgement.objects.create(turn=old, reason=Reason.NEUTRAL, reason_code=Reason.NEUTRAL.code)
    return old


def numbers(page: str) -> dict[str, int]:
    """The turns of each reason, as the page has them."""
    rows = re.findall(r'id="reason-(\w+)".*?aria-label="(\d+) of \d+"', page, re.S)
    return {code: int(number) for code, number in rows}


def test_only_staff_come_in(client, talker):
    assert client.get(HERE).status_code == 302
    client.force_login(talker)
    assert client.get(HERE).status_code == 403


def test_before_the_first_conversation_it_says_how_to_begin(console):
    assert "No turn in this time" in console.get(HERE).content.decode()
    assert "No conversation yet." in console.get(HERE, {"time": "all"}).content.decode()


def test_all_reasons_add_up_to_all_turns(console, five_turns):
    lately = console.get(HERE).content.decode()
    assert numbers(lately) == {"sample": 1, "no_quorum": 2, "unanswered": 1}
    assert "<strong>4</strong>" in lately
    ever = numbers(console.get(HERE, {"time": "all"}).content.decode())
    assert sum(ever.values()) == Turn.objects.count() == 5
    assert ever["neutral"] == 1


def test_each_reason_says_what_to_do_about_it(console, five_turns):
    page = console.get(HERE).content.decode()
    assert "Too few of the judge&#x27;s votes could be read. Read some of them" in page
    assert "Nothing to do: it teaches, or has taught." in page


def test_a_reason_opens_to_its_turns_with_the_verdicts_own_sentence(console, make_turn):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reason="talkback@3 is no longer served: swapped.", reason_code="weights_gone")
    page = console.get(HERE, {"code": "weights_gone"}).content.decode()
    assert f"/console/turns/{turn.pk}/" in page
    assert "talkback@3 is no longer served: swapped." in page
    assert "No turn says so here and in this time." in console.get(HERE, {"code": "neutral"}).content.decode()


def test_turns_off_the_record_are_counted_and_not_read(console, make_turn):
    make_turn("served", text="Seventy thousand.", learns=False)
    page = console.get(HERE, {"code": "off"}).content.decode()
    assert numbers(page) == {"off": 1}
    assert "One turn off the record" in page or "1 turn off the record" in page
    assert "Seventy thousand" not in page


@pytest.fixture
def others(talker):
    """Turns of another person, through a client, in a session with a name."""
    eve = get_user_model().objects.create_user("eve")
    session = Session.objects.create(user=eve, client="openclaw", external_id="agent:main")
    messages = [{"role": "user", "content": "hi"}]
    for position in range(3):
        Turn.objects.create(session=session, position=position, status="closed", finish_reason="stop",
                            response_ids=[1], messages=messages, checkpoint_id=1)  # fmt: skip
    return session


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"person": "eve"}, {"closed": 3}),
        ({"client": "openclaw"}, {"closed": 3}),
        ({"client": ""}, {"sample": 1, "no_quorum": 2, "unanswered": 1}),
        ({"person": "eve", "client": ""}, {}),
        ({"time": "yesterday", "by": "moon", "code": "no such", "session": "none"}, None),
    ],
)
def test_it_is_narrowed_by_person_and_client_and_any_address_shows_a_ledger(
    console, five_turns, others, query, expected
):
    everything = {"sample": 1, "no_quorum": 2, "unanswered": 1, "closed": 3}
    assert numbers(console.get(HERE, query).content.decode()) == (everything if expected is None else expected)


def test_it_is_narrowed_to_a_session(console, five_turns, others):
    page = console.get(HERE, {"session": str(others.pk)}).content.decode()
    assert numbers(page) == {"closed": 3}
    assert "session agent:main" in page


@pytest.mark.parametrize(
    ("by", "says"),
    [("client", "openclaw"), ("client", "the browser"), ("person", "eve"), ("session", "agent:main · eve")],
)
def test_it_is_divided_and_each_part_leads_to_its_own(console, five_turns, others, by, says):
    page = console.get(HERE, {"by": by}).content.decode()
    table = page[page.index('id="groups-title"') :]
    assert says in table
    if says == "the browser":
        narrowed = re.search(r'href="\?([^"]*)">the browser', table)[1].replace("&amp;", "&")
        assert numbers(console.get(f"{HERE}?{narrowed}").content.decode())["no_quorum"] == 2


def test_a_sample_that_grew_too_old_is_counted_and_says_by_how_much(console, make_lesson):
    why = "Served by talkback@0, 3 updates of the weights away from talkback@3: at most 2 may lie between."
    make_lesson().sample.move("stale", drop_reason=why)
    make_lesson(hint="Say it kindly.")

    assert numbers(console.get(HERE).content.decode()) == {"sample": 1, "stale": 1}
    assert why in console.get(HERE, {"code": "stale"}).content.decode()
