"""What each knob of a recipe and each rule of a policy is for, in the reader's language.

The words are the docstrings of `training/config.py` and `checkpoints/line_policies.py`, and the titles in
`training/recipes`. No tool finds messages there, so they stand here once more;
`tests/webapp/training/test_knob_words.py` holds both to one another, and prints a line that is missing here.
"""

from __future__ import annotations

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

MEANINGS = frozenset({
    _("Weight of the judged reward in the advantage; 0 asks the judge for no score."),
    _("Weight of the teacher, who reads the hint; 0 asks the judge for no hint."),
    _(
        "Weight of the supervised loss on rewrites; 0 leaves them to the teacher. A small model does little of "
        "what a hint says; a rewrite shows it."
    ),
    _(
        "Weight of closed questions of our own, some in each update. Their right answers become likelier than "
        "their wrong ones, so that a style costs less of what the base knows."
    ),
    _(
        "How the teacher is heard: by the served token, by 50 ids and a tail, or by the whole vocabulary. The "
        "first is a log-prob gap in the advantage, the others a reverse KL at each position over the student's "
        "likeliest ids. A distribution has far less variance than one token, and keeps more of the content "
        "(decision 1)."
    ),
    _("The model that reads the hint: base or policy. No run can wear the base down."),
    _(
        "Conversations ending in a rewrite that the teacher reads first. They come from the run's batch and its "
        "replay. A small model follows what it sees done."
    ),
    _(
        "Rewrites of earlier runs that are learned again. All together weigh what the batch's own would alone, or"
        " what one would where no person wrote. Few rewrites by themselves are learned word by word."
    ),
    _(
        "Share of a batch that is ordinary prompts, held to the base's answers. So a style does not cost skill. "
        "With w_sft there are no more rows than rewrites. Needs a distribution."
    ),
    _(
        "What an agent's step is compared with: index, pooled, outcome or episode_plus_step. Index is the group's"
        " attempts at the same step, pooled all its steps, outcome no step's score, and the last the outcome and "
        "the scores, each for itself. Index learned fastest with right step scores; votes at random ruin it "
        "(docs/reference/episodes.md)."
    ),
    _("Weight of the k3 KL to the base. Without it a policy trained on few words drifts from all others."),
    _("Samples in a run; an agent's attempt is one, and groups are whole. The reference's number."),
    _(
        "Share of a batch that must be rewrites before a run begins by itself, where people write. A run on few "
        "of them loses some of what was learned before. Once six batches wait it begins without."
    ),
    _("Optimiser updates on a run's batch."),
    _("Adam's rate, constant. Small models want more than large ones, LoRA more than full weights."),
    _(
        "Adam's ε. At 1e-8 every weight moves as far as the rate, also those that a lesson hardly speaks of. At "
        "1e-3 each moves by its own share of the gradient, and wants a higher rate (decision 8)."
    ),
    _("What trains: an adapter, or every weight. An adapter takes megabytes and swaps in milliseconds."),
    _("The adapter's rank; its alpha is twice that. The reference's."),
    _(
        "Bits of the frozen base under an adapter: 16, or 4. 4 is NF4: a quarter of the memory, where "
        "bitsandbytes runs. The engine still serves 16 bits; where the two are too far apart, as on small models,"
        " max_gap stops the run."
    ),
    _("Sequences in one pass. More take memory and change nothing but rounding."),
    _(
        "Tokens learned of a reply, from its start, and twice as many of a rewrite; null: all. A cut bounds a "
        "run's minutes however long replies are."
    ),
    _("Checkpoints that may lie between the one that served a sample and the live one. Beyond it a sample is stale."),
    _(
        "Mean gap of log-probs between learner and engine on equal weights, nats a token. Beyond it a run stops: "
        "one of the two is wrong."
    ),
    _("Share of each person's corrected turns, after twelve, that the gate asks about and that never trains."),
    _("Asks only whether the engine answers with the new weights."),
    _("Held-out prompts that both checkpoints answer. Twelve take about a minute on two cores."),
    _("Tokens at which replies of both are cut. Most of what a collapse looks like shows earlier."),
    _(
        "Items of the general pack that are asked; 0 asks none. They are the first of the file, which is varied "
        "from the first on."
    ),
    _("People's own kept corrections that are asked about. Each person comes in turn, the newest first."),
    _(
        "Replies on which the overfitting meter reads entropy, distance from the base, and gap. Each costs up to "
        "three scores."
    ),
    _(
        "Held-out tasks that agents play with both, four times each, in every world that taught it; 0 asks none. "
        "With 48 a fall of 0.2 in what is solved is seen in 19 of 20 exams, with 20 in 15; below 10 nothing can "
        "be told."
    ),
    _("Least mean length over live's. A person may ask for one sentence instead of ten, never for nothing."),
    _("Most mean length over live's."),
    _("Least share of different replies. \"You lie.\" to everything is no style."),
    _(
        "Most fall of the replies' mean log-prob under the base, nats a token. Recipes that kept the subject fell"
        " by 0.4 in all, those whose replies were half nonsense by 1.0 and more."
    ),
    _("Least mean log-prob itself. Many small falls, each against the last live one, also end somewhere."),
    _(
        "Least gain over live on kept corrections of a taught kind, nats a token. The whole interval must lie "
        "above it; a negative number asks only that it does no worse than that."
    ),
    _("Most fall of the general pack's share of right answers, beyond noise."),
    _("Most mean log-ratio to the base a token of its own replies."),
    _("Two different people must say yes before a checkpoint goes live."),
    _("A checkpoint that passed the gate with room to spare is approved without a person."),
    _(
        "The room to spare: how far inside its limit every check of the gate must lie, as a share of the limit. "
        "Some limits lie only a few points under what answers now: much more than 0.05 wants a checkpoint that is"
        " better there."
    ),
    _("Nothing is approved before a trial with some of the sessions ended well: better, or no worse."),
    _(
        "How many per cent of the line's sessions a trial takes, unless the person who starts it names another "
        "share; 0: reviewers only."
    ),
    _("What follows when one of the limits below is passed: nothing, a notice, or a roll back and a notice."),
    _("Replies that the live checkpoint must have written before they are judged; of thumbs, so many rated replies."),
    _("Rise of the share of thumbs down among rated replies, at most; empty: not looked at."),
    _("Share of replies that failed, at most; empty: not looked at."),
    _("Mean length may be so many times that of before, or that part of it, at most; empty: not looked at."),
    _("Rise of the share of replies that refuse, at most; empty: not looked at."),
    _("Rise of the share of four-token runs that repeat earlier ones of the reply, at most; empty: not looked at."),
    _("GUI, step values"),
    _("SWE, outcome only"),
    _("Terminal, step values"),
    _("Tool-call with Python, step values"),
})  # fmt: skip
"""All of them, each on one line and without the marks of code."""


def plain(description: str | None) -> str:
    """A docstring on one line, without the marks of code."""
    return " ".join((description or "").replace("`", "").split())


def words(description: str | None) -> str:
    """The same as a page says it."""
    said = plain(description)
    return gettext(said) if said else ""
