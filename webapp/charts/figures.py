"""The figures of a run that have a chart: what each shows, how it is read, and what is worrying. Plain data; where a
limit is says training/monitoring/limits.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext_noop as _


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
    "loss": _("loss"),
    "policy_loss": _("policy"),
    "distillation_loss": _("teacher"),
    "supervised_loss": _("rewrites, before w_sft"),
    "closed_loss": _("closed questions, before w_closed"),
    "kl_loss": _("KL to the base, before beta"),
}

ABOUT = (
    About(
        "loss",
        _("Loss"),
        LOSS_PARTS,
        _("What the updates make smaller; the parts are what the recipe adds up to it."),
        _(
            "Rising from update to update is worrying: the rate is too high. Only the direction means something, since "
            "each batch has a level of its own."
        ),
    ),
    About(
        "kl",
        _("KL to the base"),
        {"kl": "KL"},
        _("How far the policy has moved from the base model, in nats per token of these replies."),
        _(
            "A steep rise is worrying: what the lesson does not speak of is changing too. More beta or fewer updates "
            "hold it."
        ),
        from_zero=True,
    ),
    About(
        "entropy",
        _("Entropy"),
        {"entropy": _("entropy")},
        _("How undecided the policy is about the next token, in nats."),
        _(
            "A fall towards 0 is worrying: it says the same thing whatever is asked. A sudden rise means that it comes "
            "apart."
        ),
        from_zero=True,
    ),
    About(
        "clip",
        _("Clip fraction"),
        {"clip_fraction": _("share of tokens")},
        _("The share of tokens that have moved as far as one run lets them."),
        _("Above about 0.3 is worrying: much of the batch teaches no more, and the rate or the updates are too high."),
        from_zero=True,
    ),
    About(
        "gap",
        _("Engine and learner"),
        {"gap_mean": _("mean"), "gap_p99": _("99th percentile")},
        _(
            "How far apart the engine that served the replies and the learner are on the same weights, in nats per "
            "token."
        ),
        _("It should be near 0: at the limit the run stops, since one of the two does not run what it says."),
        from_zero=True,
    ),
    About(
        "grad_norm",
        _("Gradient norm"),
        {"grad_norm": _("before clipping")},
        _("The length of each update's gradient, before it is scaled down to its limit."),
        _("Spikes far above the others are worrying: one sample outweighs the batch. Exactly 0 teaches nothing."),
        from_zero=True,
    ),
    About(
        "adapter_norm",
        _("Adapter norm"),
        {"adapter_norm": _("adapter")},
        _(
            "How large the adapter’s numbers are together, the random ones that it began with and earlier runs "
            "included."
        ),
        _("It grows slowly over runs; a leap within one is worrying."),
    ),
    About(
        "closed",
        _("Closed questions"),
        {"closed_right": _("answered right")},
        _(
            "The share of the closed questions of each update whose right answer was likelier than the wrong ones, "
            "before it learned from them. Each update asks others."
        ),
        _(
            "Far lower than in earlier runs is worrying: what the model knew is going. Of sixteen questions a tenth "
            "either way is chance."
        ),
    ),
    About(
        "speed",
        _("Tokens a second"),
        {"tokens_per_s": _("reply tokens")},
        _("How many tokens of replies were learned from in a second."),
        _("Falling within a run is worrying: the machine is short of memory, or something else works on it."),
        from_zero=True,
    ),
)

ADVANTAGES = About(
    "advantages",
    _("Advantages"),
    {"advantage_max": _("highest"), "advantage_mean": _("mean"), "advantage_min": _("lowest")},
    _("How much better (above 0) or worse (below 0) than expected the tokens of each update were."),
    _("Everything at 0 teaches nothing; everything on one side only praises or only blames."),
)

LENGTHS = About(
    "lengths",
    _("Reply lengths"),
    {},
    _("How long the replies are that the run learns from, in tokens."),
    _(
        "All of them alike, or all at the length limit, is worrying: the policy may be learning a length and not a "
        "manner."
    ),
)

USAGE = (
    About(
        "cpu",
        _("Processor"),
        {"cpu": _("cores busy")},
        _("How many cores the learner’s processes kept busy."),
        _("Far fewer than in other runs is worrying: something else works on the machine."),
        from_zero=True,
    ),
    About(
        "memory",
        _("Memory"),
        {"memory_mib": "MiB"},
        _("What the learner’s processes hold of the machine’s memory, in MiB."),
        _("A rise that does not end is worrying: the run may end for want of memory."),
        from_zero=True,
    ),
    About(
        "gpu",
        "GPU",
        {"gpu": _("share busy")},
        _("The share of time in which the learner’s cards were at work, an engine on the same cards included."),
        _("Long stretches near 0 are worrying: the card waits for the processor."),
        from_zero=True,
    ),
    About(
        "gpu_memory",
        _("GPU memory"),
        {"gpu_mib": "MiB"},
        _("What is in use of the learner’s cards’ memory, in MiB, an engine on the same cards included."),
        _("Near what the cards have is worrying: the run goes on with smaller parts, or ends."),
        from_zero=True,
    ),
)
"""What a run takes of the machine, by the columns of its usage, over time."""

HIDDEN = {"update", "at_s", "advantage_histogram", "reply_tokens_mean", "reply_tokens_max", "attempts", "steps"}
"""What the other figures are counted by, and what is drawn in another shape."""
