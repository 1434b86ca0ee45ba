"""Everything of a person's goes, in slices, once, whatever dies in between."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from privacy import erasures, tasks
from privacy.models import Erasure


@pytest.fixture
def person(django_user_model, db):
    return django_user_model.objects.create_user("ben")


@pytest.fixture
def talk(person):
    """Conversations with so many turns each."""

    def talk(*turns):
        for many in turns:
            session = Session.objects.create(user=person)
            for position in range(many):
                said = [{"role": "user", "content": "Hello"}]
                Turn.objects.create(
                    session=session, position=position, status="served", messages=said, checkpoint=Checkpoint.live()
                )

    return talk


def test_a_long_conversation_goes_in_slices_and_each_is_counted_once(person, talk, monkeypatch):
    monkeypatch.setattr(erasures, "SLICE", 2)
    talk(5, 1)
    erasure = erasures.go_on(erasures.ask(person, revokes_keys=False), slices=2)
    assert (erasure.status, Turn.objects.count(), erasure.gone["replies"]) == ("asked", 2, 4)

    def dies(self, **_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Erasure, "save", dies)  # after the deleting, before the count
        with pytest.raises(KeyboardInterrupt):
            erasures.go_on(erasure)
    assert (Turn.objects.count(), Erasure.objects.get().gone["replies"]) == (2, 4)  # the slice was undone with it

    done = erasures.go_on(erasure)
    assert (done.status, done.gone["conversations"], done.gone["replies"]) == ("done", 2, 6)
    assert not Session.objects.exists()
    assert erasures.go_on(done) == done


def test_what_is_begun_after_the_wish_stays(person, talk):
    talk(1)
    erasure = erasures.ask(person, revokes_keys=False)
    assert erasures.ask(person, revokes_keys=False) == erasure  # the same wish while it stands
    later = Session.objects.create(user=person, created_at=timezone.now())
    assert erasures.go_on(erasure).status == "done"
    assert Session.objects.get() == later


def test_an_erasure_that_went_with_its_account_has_nothing_left_to_do(person, talk):
    talk(1)
    erasure = erasures.ask(person, revokes_keys=False)
    tasks.erase(str(erasure.pk))
    assert Erasure.objects.get().status == "done"
    person.delete()
    tasks.erase(str(erasure.pk))  # the queue brings it once more
    assert not Erasure.objects.exists()
