"""The figures of a run that have a chart: what each shows, how it is read, and what is worrying. Plain data; where a
limit is says training/monitoring/limits.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """What one chart shows, and how a person reads it."""

    key: str
    title: str
    names: Mapping[str, str]
    """Figures by their names in a run's metrics, and what their lines are called."""
    reading: str
    worry: str
    from_zero: bool = False


LOSS_PARTS = {
    "loss": "loss",
    "policy_loss": "policy",
    "distillation_loss": "teacher",
    "supervised_loss": "rewrites, before w_sft",
    "closed_loss": "closed questions, before w_closed",
    "kl_loss": "KL to the base, before beta",
}

ABOUT = (
    About(
        "loss",
        "Loss",
        LOSS_PARTS,
        "What the updates make smaller; the parts are what the recipe adds up to it.",
        "Rising from update to update is worrying: the rate is too high. Only the direction means something, since "
        "each batch has a level of its own.",
    ),
    About(
        "kl",
        "KL to the base",
        {"kl": "KL"},
        "How far the policy has moved from the base model, in nats per token of these replies.",
        "A steep rise is worrying: what the lesson does not speak of is changing too. More beta or fewer updates "
        "hold it.",
        from_zero=True,
    ),
    About(
        "entropy",
        "Entropy",
        {"entropy": "entropy"},
        "How undecided the policy is about the next token, in nats.",
        "A fall towards 0 is worrying: it says the same thing whatever is asked. A sudden rise means that it comes "
        "apart.",
        from_zero=True,
    ),
    About(
        "clip",
        "Clip fraction",
        {"clip_fraction": "share of tokens"},
        "The share of tokens that have moved as far as one run lets them.",
        "Above about 0.3 is worrying: much of the batch teaches no more, and the rate or the updates are too high.",
        from_zero=True,
    ),
    About(
        "gap",
        "Engine and learner",
        {"gap_mean": "mean", "gap_p99": "99th percentile"},
        "How far apart the engine that served the replies and the learner are on the same weights, in nats per token.",
        "It should be near 0: at the limit the run stops, since one of the two does not run what it says.",
        from_zero=True,
    ),
    About(
        "grad_norm",
        "Gradient norm",
        {"grad_norm": "before clipping"},
        "The length of each update's gradient, before it is scaled down to its limit.",
        "Spikes far above the others are worrying: one sample outweighs the batch. Exactly 0 teaches nothing.",
        from_zero=True,
    ),
    About(
        "adapter_norm",
        "Adapter norm",
        {"adapter_norm": "adapter"},
        "How large the adapter’s numbers are together, the random ones that it began with and earlier runs included.",
        "It grows slowly over runs; a leap within one is worrying.",
    ),
    About(
        "closed",
        "Closed questions",
        {"closed_right": "answered right"},
        "The share of the closed questions of each update whose right answer was likelier than the wrong ones, before "
        "it learned from them. Each update asks others.",
        "Far lower than in earlier runs is worrying: what the model knew is going. Of sixteen questions a tenth either "
        "way is chance.",
    ),
    About(
        "speed",
        "Tokens a second",
        {"tokens_per_s": "reply tokens"},
        "How many tokens of replies were learned from in a second.",
        "Falling within a run is worrying: the machine is short of memory, or something else works on it.",
        from_zero=True,
    ),
)

ADVANTAGES = About(
    "advantages",
    "Advantages",
    {"advantage_max": "highest", "advantage_mean": "mean", "advantage_min": "lowest"},
    "How much better (above 0) or worse (below 0) than expected the tokens of each update were.",
    "Everything at 0 teaches nothing; everything on one side only praises or only blames.",
)

LENGTHS = About(
    "lengths",
    "Reply lengths",
    {},
    "How long the replies are that the run learns from, in tokens.",
    "All of them alike, or all at the length limit, is worrying: the policy may be learning a length and not a manner.",
)

USAGE = (
    About(
        "cpu",
        "Processor",
        {"cpu": "cores busy"},
        "How many cores the learner’s processes kept busy.",
        "Far fewer than in other runs is worrying: something else works on the machine.",
        from_zero=True,
    ),
    About(
        "memory",
        "Memory",
        {"memory_mib": "MiB"},
        "What the learner’s processes hold of the machine’s memory, in MiB.",
        "A rise that does not end is worrying: the run may end for want of memory.",
        from_zero=True,
    ),
    About(
        "gpu",
        "GPU",
        {"gpu": "share busy"},
        "The share of time in which the learner’s cards were at work, an engine on the same cards included.",
        "Long stretches near 0 are worrying: the card waits for the processor.",
        from_zero=True,
    ),
    About(
        "gpu_memory",
        "GPU memory",
        {"gpu_mib": "MiB"},
        "What is in use of the learner’s cards’ memory, in MiB, an engine on the same cards included.",
        "Near what the cards have is worrying: the run goes on with smaller parts, or ends.",
        from_zero=True,
    ),
)
"""What a run takes of the machine, by the columns of its usage, over time."""

HIDDEN = {"update", "at_s", "advantage_histogram", "reply_tokens_mean", "reply_tokens_max", "attempts", "steps"}
"""What the other figures are counted by, and what is drawn in another shape."""
