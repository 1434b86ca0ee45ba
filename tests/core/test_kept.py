"""What is kept by name stays within its room, and what was asked for last stays longest."""

from __future__ import annotations

from core.kept import Kept


def test_what_is_kept_stays_within_its_room_and_what_was_asked_for_last_stays():
    kept: Kept[str, int] = Kept(100)
    for name in "abcd":
        kept.put(name, ord(name), 25)
    assert kept.taken == 100
    assert kept.get("a") == 97

    kept.put("e", 101, 25)  # b was asked for longest ago

    assert [kept.get(name) for name in "abcde"] == [97, None, 99, 100, 101]
    assert (len(kept), kept.taken) == (4, 100)


def test_what_takes_more_than_a_quarter_of_the_room_is_not_kept():
    kept: Kept[str, int] = Kept(100)
    kept.put("small", 1, 25)
    kept.put("large", 2, 26)

    assert kept.get("small") == 1
    assert kept.get("large") is None
    assert kept.taken == 25


def test_what_is_put_twice_is_kept_and_counted_once():
    kept: Kept[str, int] = Kept(100)
    kept.put("one", 1, 20)
    kept.put("one", 1, 20)

    assert (len(kept), kept.taken) == (1, 20)
