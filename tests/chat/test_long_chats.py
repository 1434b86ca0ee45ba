"""A chat of a thousand turns: what its page weighs, what it asks of the database, and how all of it is reached."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chat import branches
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from judge.models import Judgement
from training.models import Sample

REPLY = (
    "A rainbow is an arc of light in *many* colours, with `red` on the outside.\n\n"
    "- It needs rain.\n- It needs sun.\n\n```python\nprint('an arc')\n```\n\n"
    "The eye sees it where rain and sun meet, at 42 degrees around the shadow of one's own head. "
) * 2


def chat_of(session: Session, length: int) -> list[Turn]:
    """So many judged turns, each behind the one before."""
    live = Checkpoint.live()
    turns = [
        Turn(
            session=session, position=n, checkpoint=live, status="judged", finish_reason="stop", text=REPLY,
            response_ids=[1, 2], messages=[{"role": "user", "content": f"What is a rainbow? ({n + 1})"}],
            request_chain=f"{n:064x}",
        )
        for n in range(length)
    ]  # fmt: skip
    for before, turn in pairwise(turns):
        turn.follows = before
    return Turn.objects.bulk_create(turns)


@pytest.fixture
def long_chat(ana) -> Session:
    """A thousand turns, each judged, each third one taught by hand."""
    session = Session.objects.create(user=ana, title="A thousand rainbows")
    turns = chat_of(session, 1000)
    live = Checkpoint.live()
    samples = [
        Sample(checkpoint=live, reward=-1.0, prompt_ids=[5], response_ids=[1, 2], behaviour_logprobs=[-1.0, -1.0])
        for _ in turns
    ]
    Sample.objects.bulk_create(samples)
    Judgement.objects.bulk_create(
        Judgement(turn=turn, reward=-1, reward_from="votes", sample=sample)
        for turn, sample in zip(turns, samples, strict=True)
    )
    taught = [turn for n, turn in enumerate(turns) if n % 3 == 0]
    Feedback.objects.bulk_create(
        Feedback(turn=turn, by=ana, kind="thumb", value=-1, tags=["too long"]) for turn in taught
    )
    Feedback.objects.bulk_create(
        Feedback(turn=turn, by=ana, kind="guidance", text="Answer in one sentence.") for turn in taught
    )
    return session


def test_the_page_of_a_thousand_turns_is_light_and_asks_little(client: Client, ana, long_chat):
    client.force_login(ana)
    address = f"/chats/{long_chat.pk}/"
    client.get(address)  # what is kept for a while is read once
    with CaptureQueriesContext(connection) as seen:
        page = client.get(address)
    assert len(seen) <= 16  # four of them are of the list of chats, and one of the reader's role
    assert len(page.content) <= 200_000
    assert len(re.findall("<article", page.content.decode())) == branches.SHOWN


def test_all_of_a_chat_is_reached_from_its_newest_page(client: Client, ana):
    session = Session.objects.create(user=ana)
    chat_of(session, 30)
    client.force_login(ana)
    seen, address = [], f"/chats/{session.pk}/"
    pages = 0
    while address:
        html = client.get(address).content.decode()
        seen = re.findall(r'aria-label="Turn (\d+)"', html) + seen
        link = re.search(r'id="earlier".*?href="([^"]+)"', html)
        address, pages = link[1] if link else "", pages + 1
    assert seen == [str(n) for n in range(1, 31)]
    assert pages == 3  # 12, 12 and 6


def test_a_page_of_long_replies_shows_fewer_of_them_and_the_newest_whatever_its_length(client: Client, ana):
    session = Session.objects.create(user=ana)
    live = Checkpoint.live()
    # 5,000 characters each but the last: behind its 9 and 5 the two before make 10,014, and a third would be too much.
    for n, text in enumerate([*["long " * 1000] * 6, "The end."]):
        said = [{"role": "user", "content": "Hello"}]
        Turn.objects.create(
            session=session, position=n, checkpoint=live, status="served", finish_reason="stop", text=text,
            messages=said, follows=session.turns.last(),
        )  # fmt: skip
    client.force_login(ana)
    html = client.get(f"/chats/{session.pk}/").content.decode()
    assert re.findall(r'aria-label="Turn (\d+)"', html) == ["5", "6", "7"]
    Turn.objects.filter(session=session, position=6).update(text="long " * 4000)
    html = client.get(f"/chats/{session.pk}/").content.decode()
    assert re.findall(r'aria-label="Turn (\d+)"', html) == ["7"]


def test_what_is_in_the_boxes_under_a_reply_is_brought_on_first_use_to_its_person_alone(client: Client, ana, ben):
    session = Session.objects.create(user=ana)
    (turn,) = chat_of(session, 1)
    client.force_login(ana)
    page = client.get(f"/chats/{session.pk}/").content.decode()
    assert "What should it do next time?" not in page
    assert f'data-from="/turns/{turn.pk}/teach/"' in page
    assert "What should it do next time?" in client.get(f"/turns/{turn.pk}/teach/").content.decode()
    assert "The reply as plain text" in client.get(f"/turns/{turn.pk}/marking/").content.decode()
    client.force_login(ben)
    assert client.get(f"/turns/{turn.pk}/teach/").status_code == 404
    assert client.get(f"/turns/{turn.pk}/marking/").status_code == 404
