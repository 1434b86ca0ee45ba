"""What survives of a history is found out once, however many others come in between."""

from __future__ import annotations

from chat import stories


def test_what_survives_of_many_long_histories_is_found_out_once(monkeypatch):
    looked_at: list[str] = []
    collapse_blanks = stories.collapse_blanks

    def counted(text: str) -> str:
        looked_at.append(text)
        return collapse_blanks(text)

    monkeypatch.setattr(stories, "collapse_blanks", counted)
    histories = [
        [
            {"role": ("user", "assistant")[n % 2], "content": f"Talk {talk}  message {n} " + "and so on " * 40}
            for n in range(80)
        ]
        for talk in range(64)
    ]

    first = [stories.chain(history) for history in histories]
    assert len(looked_at) == 5120  # 64 conversations of 80 messages, some 400 characters each
    assert [stories.chain(history) for history in histories] == first
    assert len(looked_at) == 5120
    assert len(set(first)) == 64
