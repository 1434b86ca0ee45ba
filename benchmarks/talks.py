"""What clients of a benchmark say: conversations of words that are drawn, as long as they have to be."""

from __future__ import annotations

import random

WORDS = (
    "the", "of", "a", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with",
    "his", "they", "I", "at", "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what",
    "all", "were", "we", "when", "your", "can", "said", "there", "use", "an", "each", "which", "she", "do", "how",
    "their", "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "so", "some", "her",
    "would", "make", "like", "him", "into", "time", "has", "look", "two", "more", "write", "go", "see", "number",
    "no", "way", "could", "people",
)  # fmt: skip


def words(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count)) + "."


class Talk:
    """One client's conversation: it grows by what the engine says and by a question a turn."""

    def __init__(self, number: int, history_tokens: int, said: str) -> None:
        self.number, self.said, self.turn = number, said, 0
        self.messages: list[dict[str, str]] = [{"role": "system", "content": f"You are helper {number}."}]
        if history_tokens:
            # About a token a word and a few a message: a long system prompt, then forty exchanges.
            self.messages[0]["content"] += " " + words(history_tokens // 4, number)
            each = history_tokens * 3 // 4 // 80
            for n in range(40):
                self.messages.append({"role": "user", "content": words(each, 1000 * number + n)})
                self.messages.append({"role": "assistant", "content": words(each, -1000 * number - n)})

    def next(self) -> list[dict[str, str]]:
        """The messages of the next request, after the reply to the last one."""
        if self.turn:
            self.messages.append({"role": "assistant", "content": self.said})
        self.turn += 1
        self.messages.append({"role": "user", "content": f"Question {self.turn} of {self.number}: what of it?"})
        return list(self.messages)
