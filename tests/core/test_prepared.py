"""What is prepared reads and writes as the ORM would, and is composed once."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from core.prepared import Prepared, insert, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> Session:
    ana = get_user_model().objects.create_user("ana")
    key, _ = ApiKey.objects.issue(ana, "laptop")
    session = Session.objects.create(user=ana, key=key, external_id="s1")
    live = Checkpoint.objects.get(status="live")
    first = None
    for position in range(4):
        first = Turn.objects.create(
            session=session,
            position=position,
            checkpoint=live,
            follows=first,
            messages=[{"role": "user", "content": f"Nº {position}"}],
            chain="ab"[position % 2],
            asked={"n": position},
        )
    return session


def as_told(rows) -> list[dict[str, object]]:
    return [{name: value for name, value in vars(row).items() if name != "_state"} for row in rows]


def test_rows_are_the_querysets_own(session):
    def build(pk, chains, since):
        followers = Turn.objects.filter(follows=OuterRef("pk"))
        turns = Turn.objects.filter(session=pk, chain__in=chains, created_at__gte=since)
        return turns.annotate(is_followed=Exists(followers)).only("id", "chain", "asked").order_by("-position")[:3]

    prepared: Prepared[Turn] = Prepared(build)
    long_ago = timezone.now() - timedelta(days=1)
    for chains in (["a"], ["a", "b"], ["b", "c", "d"]):
        assert as_told(prepared.ask(session.pk, chains, long_ago)) == as_told(build(session.pk, chains, long_ago))
    assert prepared.ask(session.pk, ["a"], timezone.now() + timedelta(days=1)) == []
    assert prepared.ask(uuid4(), ["a"], long_ago) == []


def test_related_rows_come_with_it(session, django_assert_num_queries):
    prepared: Prepared[Session] = Prepared(
        lambda key, name: Session.objects.select_related("user", "key").filter(key=key, external_id=name)
    )
    with django_assert_num_queries(1):
        found = prepared.first(session.key_id, "s1")
        assert (found, found.user.username, found.key.name) == (session, "ana", "laptop")
    assert prepared.first(session.key_id, "s2") is None


def test_it_is_composed_once_for_each_kind_of_values(session):
    composed = []

    def build(pks):
        composed.append(len(pks))
        return Turn.objects.filter(pk__in=pks)

    prepared: Prepared[Turn] = Prepared(build)
    pks = [turn.pk for turn in session.turns.all()]
    for some in (pks[:1], pks[1:2], pks[:2], pks[2:]):
        assert {turn.pk for turn in prepared.ask(some)} == set(some)
    assert composed == [1, 2]


def test_a_value_that_is_no_parameter_is_refused(session):
    prepared: Prepared[Turn] = Prepared(lambda pk, start: Turn.objects.filter(session=pk, text__startswith=start))
    with pytest.raises(ValueError, match=r"values \[1\] of a prepared query are not parameters"):
        prepared.ask(session.pk, "x")


def fresh(session: Session, **fields: object) -> Turn:
    about = {"position": 9, "checkpoint": Checkpoint.live(), "messages": [{"role": "user", "content": "Nº 9"}]}
    return Turn(session=session, **about | fields)


def test_a_row_that_is_inserted_is_as_one_that_was_saved(session, django_assert_num_queries):
    turn = fresh(session, follows=session.turns.first(), asked={"n": [1, None]}, logprobs=[-0.5], first_token_s=0.25)
    with django_assert_num_queries(1):
        insert(turn)
    assert not turn._state.adding
    stored = Turn.objects.get(pk=turn.pk)
    (one,), (other,) = as_told([turn]), as_told([stored])
    assert one == other
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(fresh(session))  # two turns at one position
    turn.text = "Later."
    turn.save()
    assert Turn.objects.get(pk=turn.pk).text == "Later."


def test_rows_are_updated_where_all_of_it_is_so(session, django_assert_num_queries):
    first, second, *_ = session.turns.all()
    at = timezone.now()
    values = {
        "served_at": at,
        "follows": second,
        "asked": {"é": [1, None]},
        "error": "100% wrong",
        "first_token_s": None,
    }
    with django_assert_num_queries(1):
        assert update(Turn, {"pk": first.pk, "status": first.status}, values) == 1
    assert update(Turn, {"pk": second.pk, "status": "judged"}, values) == 0
    first.refresh_from_db()
    second.refresh_from_db()
    assert {name: getattr(first, name) for name in values} == values
    assert second.error == ""


def test_an_update_that_fails_spoils_its_transaction_as_any_does(session):
    first, second, *_ = session.turns.all()
    with transaction.atomic():
        with pytest.raises(IntegrityError):
            update(Turn, {"pk": first.pk}, {"position": second.position})
        with pytest.raises(TransactionManagementError):
            Turn.objects.count()
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_lock_is_asked_for_each_time(session):
    from django.db import connection

    from chat import sessions

    for _ in range(2):
        with CaptureQueriesContext(connection) as asked, transaction.atomic():
            assert sessions.locked(session.pk) == session
        if connection.features.has_select_for_update:
            assert any("FOR UPDATE" in query["sql"] for query in asked)
