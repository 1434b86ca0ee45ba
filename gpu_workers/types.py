"""Types are what goes to an engine and a learner, and what comes back. Log-probs are natural logs, lengths tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

NARROWEST = 1e-9
"""The `top_p` that leaves nothing but the likeliest token."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of a reply; names and meanings are SGLang's."""

    max_new_tokens: int = 256
    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = -1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    ignore_eos: bool = False
    seed: int | None = None
    skip_special_tokens: bool = True
    """False: control tokens are a part of the text; some models write their tool calls with one."""
    json_schema: str = ""
    """A JSON schema, as JSON text, that the reply must satisfy; only what it allows is ever drawn."""
    regex: str = ""
    """A regular expression that the whole reply must match."""
    top_logprobs: int = 0
    """How many of the likeliest tokens are wanted beside each one that is drawn."""

    @property
    def nucleus(self) -> float:
        """`top_p` as engines take it: above 0. Where it is 0, the likeliest token alone is left."""
        return max(self.top_p, NARROWEST)


Top = tuple[tuple[tuple[int, float], ...], ...]
"""For each token the likeliest ones at its place with their log-probs, likeliest first."""


@dataclass(frozen=True)
class Delta:
    """One piece of a reply, as it is sampled. The last one has a finish reason."""

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # as sampled: log softmax(logits / temperature), one an id
    finish_reason: str | None = None  # stop | length | abort
    prompt_tokens: int = 0
    cached_tokens: int = 0
    weight_version: str = ""
    top: Top = ()  # one entry an id, where Sampling.top_logprobs asked for them


@dataclass(frozen=True)
class Completion:
    """One whole reply. `ids` holds the stop token when there is one; `text` does not."""

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # as sampled: log softmax(logits / temperature), one an id
    finish_reason: str  # stop | length | abort
    prompt_tokens: int
    cached_tokens: int = 0
    weight_version: str = ""
    top: Top = ()  # one entry an id, where Sampling.top_logprobs asked for them


@dataclass(frozen=True)
class Scored:
    """Log-probs at temperature 1 of response ids after a prompt, one an id, the first one real."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: Top = ()  # the likeliest at each place, where they were asked for and the engine has them


@dataclass(frozen=True)
class Choices:
    """Log-probs of some ids as the next token: natural logs at temperature 1, in the order they were named."""

    logprobs: tuple[float, ...]
    prompt_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Example:
    """One sample as the learner takes it. Sequence lengths that disagree raise ValueError."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    behaviour_logprobs: Sequence[float]  # T = 1, under the checkpoint that served it
    mask: Sequence[float] = field(default=())  # 1 learns, 0 does not; empty means all ones
    teacher_prompt_ids: Sequence[int] | None = None  # the hinted prompt; None: no teacher
    reward: float = 0.0
    rewards: Sequence[float] = field(default=())  # one a response id, in place of `reward`; empty: it holds for all
    weight: float = 1.0
    kind: str = "turn"  # turn | rehearsal
    rewrite: tuple[Sequence[int], Sequence[int]] | None = None
    """The prompt and what a person wrote in place of the response, its end included; None: no person did."""
    decided: Sequence[bool] = field(default=())
    """One a token of what they wrote: whether they decided on it, or let it stand; empty: all of it is theirs."""
    demonstrations: int = 0
    """How many conversations stand before the teacher's prompt, in `teacher_prompt_ids`."""
    is_hinted: bool = True
    """Whether a hint stands in `teacher_prompt_ids`, where there are any."""
    spans: Sequence[Sequence[int]] = field(default=())
    """Where several replies stand in `response_ids`, with what came in between: the first place of each, and the one
    behind its last; empty: all of it is one reply. What lies between them was not sampled, and is under mask 0."""

    def __post_init__(self) -> None:
        if not self.prompt_ids or not self.response_ids:
            raise ValueError("an example needs a prompt and a response")
        for name in ("behaviour_logprobs", "mask", "rewards"):
            values = getattr(self, name)
            if (name == "behaviour_logprobs" or values) and len(values) != len(self.response_ids):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.response_ids)} response tokens")
        if any(not 0 <= first < last <= len(self.response_ids) for first, last in self.spans):
            raise ValueError(f"spans {list(self.spans)} do not lie within {len(self.response_ids)} response tokens")
        if self.rewrite is not None and not all(self.rewrite):
            raise ValueError("a rewrite needs a prompt and an answer")
        written = len(self.rewrite[1]) if self.rewrite is not None else 0
        if self.decided and len(self.decided) != written:
            raise ValueError(f"decided has {len(self.decided)} entries for a rewrite of {written} tokens")

    @property
    def has_teacher(self) -> bool:
        return self.teacher_prompt_ids is not None

    @property
    def replies(self) -> Sequence[Sequence[int]]:
        """The spans of its replies: the tokens that were sampled."""
        return self.spans or [(0, len(self.response_ids))]

    @property
    def has_reward(self) -> bool:
        """Whether any token that learns is rewarded."""
        rewards = self.rewards or [self.reward] * len(self.response_ids)
        return any(reward and learns for reward, learns in zip(rewards, self.mask or [1.0] * len(rewards), strict=True))


DEEPEST = 100
"""How many lists and objects of a client may stand inside each other."""

NO_CHARACTERS = re.compile("[\x00\ud800-\udfff\ufdd0-\ufdef]")
"""U+0000, halves of characters, and those that Unicode leaves to programs: here they mark forged control tokens."""


def storable(text: str) -> str:
    """`text` as a database keeps it and a prompt can hold it: where a model or a client wrote what is no character,
    U+FFFD stands."""
    if "\x00" not in text and (text.isascii() or is_sound(text)):
        return text
    return NO_CHARACTERS.sub("\ufffd", text)


def is_sound(text: str) -> bool:
    """Tell that no half of a character is in it, and none like U+FDD0. Many times faster than to look for one: most
    texts are long and sound."""
    try:
        return b"\xef\xb7" not in text.encode()  # how U+FDC0 to U+FDFF begin
    except UnicodeEncodeError:
        return False
