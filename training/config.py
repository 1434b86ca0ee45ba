"""The recipe: every knob of learning, each with its reason, and the presets that were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import TalkbackError
from core.textfiles import read_text


class RecipeInvalid(TalkbackError):
    """The recipe cannot be used: an unknown name, an unknown key, or settings that make no sense together."""

    code, status = "recipe_invalid", 422


class Gate(BaseModel):
    """What a run's candidate must keep to, and how much of it is asked. Measured on SmolLM2-135M (docs/gate.md,
    decision 0001); generous enough for any model."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # How much is asked

    prompts: int = Field(12, ge=1)
    """Held-out prompts asked of both: about a minute on two cores."""

    handful: int = Field(4, ge=1)
    """Prompts asked at once, of both checkpoints: eight replies fill the embedded engine's batch."""

    max_new_tokens: int = Field(96, ge=1)
    """Where a reply is cut. Both are cut alike, and most of what a collapse looks like shows earlier."""

    temperature: float = Field(0.7, gt=0)
    """As chat samples; each prompt has one fixed seed for both."""

    hints: int = Field(2, ge=0)
    """How many of the run's own hints preference is measured with; each costs two scores a reply."""

    examples: int = Field(8, ge=0)
    """How many of the run's own rated replies and rewrites preference is measured with."""

    pack: int = Field(1000, ge=0)
    """How many items of the general pack are asked, the first of the file: it is varied from the first on. 0 asks
    none."""

    own: int = Field(12, ge=0)
    """How many held-out corrections of people's own are asked of both, everybody's turn in turn, the newest first."""

    meter: int = Field(6, ge=0)
    """On how many of the held-out replies the overfitting meter reads entropy, the distance from the base and the gap;
    each costs up to three scores."""

    again: int = Field(6, ge=0)
    """How many questions whose replies people corrected, and that the candidate learned from, are asked again of both,
    the newest first. They decide nothing: they are what a person looks at first."""

    # Whether the replies are still replies

    empty: float = Field(0.1, ge=0)
    """More replies without a word than live has, at most, as a share."""

    shortest: float = Field(0.1, ge=0)
    """Mean length over live's, at least. A person may well ask for one sentence instead of ten, never for nothing."""

    longest: float = Field(4.0, gt=0)
    """Mean length over live's, at most."""

    repetition: float = Field(0.15, ge=0)
    """More repeated 4-grams than live has, at most, as a share."""

    variety: float = Field(0.75, ge=0, le=1)
    """Different replies as a share, at least: "You lie." to everything is no style."""

    fluency: float = Field(0.6, ge=0)
    """Fall of the replies' mean log-prob a token under the base, at most, in nats. Recipes that kept the subject
    fell by 0.4 in all, those whose replies were half nonsense by 1.0 and more."""

    worst_fluency: float = Field(-2.6, le=0)
    """The mean log-prob itself, at least: many small falls, each against the last live one, also end somewhere."""

    # Whether they please no less

    preference: float = Field(0.03, ge=0)
    """Fall of the hint's pull on the replies, at most, in nats a token, beyond the noise of so few prompts."""

    rated: float = Field(0.02, ge=0)
    """Fall of the log-prob of what people rated up (rise of what they rated down), at most, beyond the noise."""

    certainty: float = Field(2.0, ge=0)
    """Standard errors that count as noise: twelve sampled replies differ by luck, and a person waited for this."""

    own_fall: float = Field(0.03, ge=0)
    """Fall on the held-out corrections, at most, in nats a token: the whole interval must lie below it to fail."""

    own_enough: int = Field(5, ge=2)
    """Held-out corrections from which on an interval is believed; with fewer the exam says how many are wanting."""

    own_gain: float = 0.0
    """Gain over live on the held-out corrections of a kind that it was taught, at least, in nats a token: the whole
    interval must lie above it. What was learned has to show where it never trained; a negative number asks only that
    it does no worse than that."""

    own_keeps: float = Field(0.5, ge=0, le=1)
    """Where live has the lesson already, the share of its gain over the base that the candidate must keep, for
    certain, instead: what is learned cannot be won twice."""

    # Whether it can still do what it could

    pack_share: float = Field(0.05, ge=0, le=1)
    """Fall of the share of the general pack that is answered rightly, at most, beyond the noise of so few items."""

    pack_nats: float = Field(0.5, ge=0)
    """Fall of the mean log-prob a token of the pack's right answers and texts, at most, beyond the noise."""

    # Whether it learned by heart

    gap: float = Field(1.0, ge=0)
    """How much more it may have moved on the replies that it trained on than on others, in nats a token."""

    copied: float = Field(0.2, ge=0, le=1)
    """More of its replies' token 6-grams out of what it was trained on than of live's, at most, as a share."""

    entropy: float = Field(0.1, ge=0)
    """Entropy of its replies over live's, at least: a policy that is sure of everything has stopped choosing."""

    kl: float = Field(2.5, ge=0)
    """Mean log-ratio to the base a token of its own replies, at most."""


WRITTEN = 2
"""How many times as many tokens of a rewrite are learned as of a reply: nothing else teaches how a long reply ends, and
a rewrite costs no frozen model's pass (decision 8)."""


PATIENCE = 6
"""How many batches wait before a run begins without the rewrites that its recipe awaits."""


def written(max_tokens: int | None) -> int | None:
    """How much of a rewrite is learned where so much of a reply is; None: all."""
    return None if max_tokens is None else WRITTEN * max_tokens


class Recipe(BaseModel):
    """All that shapes learning. A run keeps a copy, so a checkpoint can say how it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # What is learned

    w_rl: float = Field(1.0, ge=0)
    """Weight of the judged reward in the advantage; 0 asks the judge for no score."""

    w_opd: float = Field(1.0, ge=0)
    """Weight of what the teacher would rather do; 0 asks the judge for no hint."""

    distillation: Literal["token", "topk", "vocabulary"] = "token"
    """How the teacher is heard: the served token's log-prob gap in the advantage, or the reverse KL of each
    position's distribution, over `top_k` ids and a tail, or over the whole vocabulary. A distribution has far
    less variance than one sampled token, and keeps more of the content (decision 0001)."""

    top_k: int = Field(50, ge=1)
    """How many ids a top-k distillation looks at; the rest is one tail bin."""

    support: Literal["student", "teacher", "union"] = "student"
    """Whose top k: a reverse KL has its mass where the student has its own."""

    teacher: Literal["base", "policy"] = "base"
    """Who is shown the hint: the base, which no run can wear down, or the live policy."""

    demonstrations: int = Field(0, ge=0)
    """How many conversations that end as a person wrote the teacher is shown before the prompt, out of the run's own
    batch and those that it learns again. A small model follows what it sees done; of two people it kept more of the
    content for one, and no more for the other (decision 8)."""

    trust: float = Field(1.0, ge=0)
    """Weight of the same divergence on samples without a teacher; needs a distribution. A reward says that something
    was right or wrong, not what would be better: what it does not say is left to the policy that the run starts from.
    The base would draw out of it what it was taught (decision 0008)."""

    w_sft: float = Field(0.0, ge=0)
    """Weight of the supervised loss on replies that people rewrote; 0 leaves a rewrite to the teacher alone. A small
    model does little of what a hint says; what a person wrote shows it (decision 0008)."""

    w_kept: float = Field(1.0, ge=0)
    """Weight, in that loss, of all that people let stand in a run's rewrites, beside 1 for all that they changed; no
    token that was let stand counts more than one that was changed. The policy says it of itself, so there is nothing in
    it to learn but itself; without any of it, a phrase is learned and not what follows it."""

    w_dpo: float = Field(0.0, ge=0)
    """Weight of the preference for what people wrote over the replies that they wrote it in place of (DPO,
    arXiv:2305.18290). All rewrites together, replayed ones among them, count what the whole batch does once they are as
    many as its replies (decision 8)."""

    dpo_beta: float = Field(0.1, gt=0)
    """DPO's β: a preference of some 1/β nats beside the base's is enough, and what is preferred more pulls less. The
    paper's."""

    replay: int = Field(0, ge=0)
    """How many rewrites of earlier runs are learned again beside those of a batch: a few learned by themselves are
    learned word by word. By `w_sft` all together weigh what those of the batch would alone, or what one would where
    no person wrote, by `w_dpo` each what a reply does; with `demonstrations` teachers are shown them too. In the one
    pair of lines that differ in it alone, of one person, 0.86 of the content was kept with it and 0.73 without
    (decision 8)."""

    rehearsal: float = Field(0.0, ge=0, lt=1)
    """Share of a batch that is ordinary prompts, held to the base's own answers behind their opening, so that a style
    does not cost skill; with `w_sft`, no more than there are rewrites (decision 8). Needs a distribution, as `trust`
    does."""

    w_closed: float = Field(0.0, ge=0)
    """Weight of closed questions of our own, some in each update: that their right answers be likelier than their wrong
    ones. What a style moves of what the base knows is more often lost than won (decision 8)."""

    w_again: float = Field(0.0, ge=0)
    """Weight of what replies say again, six tokens in a row and more, that it be less likely (unlikelihood,
    arXiv:1908.04319); of a reply as many tokens as of a rewrite. What was rewarded, or says itself again in the rewrite
    too, is left as it is. As much do texts of our own weigh that rightly say things again, code and tables among them:
    that they stay as likely (decision 8)."""

    advantage_clip: float | None = Field(1.0, gt=0)
    """Bound of the teacher's token gap in the advantage; one unlikely token would otherwise outweigh a reply."""

    clip_low: float = Field(0.2, gt=0, lt=1)
    """PPO's clip below 1."""

    clip_high: float = Field(0.28, gt=0)
    """PPO's clip above 1; the wider side lets unlikely tokens rise (DAPO)."""

    importance_cap: float = Field(2.0, ge=1)
    """Truncation of the weight for drift between the served policy and the one that starts the run."""

    beta: float = Field(0.02, ge=0)
    """Weight of the k3 KL to the base; without it a policy trained on few words drifts from all others."""

    most_kl: float | None = Field(None, gt=0)
    """How far from the base a run may go, in nats a token of its own replies (k3): it takes no further update once the
    batch is beyond that. Adam's steps are as long as the rate whatever is left to learn, so a lesson that is known
    would go on being learned, and the content with it (decision 0008); null takes all updates."""

    # How it is learned

    batch_size: int = Field(16, ge=1)
    """Effective samples a run claims. The reference's number."""

    awaits: float = Field(0.0, ge=0, lt=1)
    """Share of a batch that is to be rewrites before a run begins by itself, where people write at all: a run on few of
    them moves on what it gathered before, and loses some of what it was taught. Once `PATIENCE` batches wait it begins
    without (decision 8)."""

    updates: int = Field(1, ge=1)
    """Optimiser updates on a run's batch."""

    lr: float = Field(1e-4, gt=0)
    """Adam's rate, constant. Small models want more than large ones, LoRA more than full weights."""

    warmup: int = Field(0, ge=0)
    """Updates over which a run's rate rises to `lr`; Adam's first steps are as long as the rate, whatever the
    gradient."""

    epsilon: float = Field(1e-8, gt=0)
    """Adam's ε: what a weight's gradient must be well above for a step as long as the rate. Next to nothing is Adam as
    everybody has it, where the weights that a lesson hardly speaks of move as far as those that it is about. The
    gradient's length is `max_grad_norm` at most, so over millions of weights 1e-3 lets each move by its own share, and
    wants a higher rate (decision 0008)."""

    weight_decay: float = Field(0.1, ge=0)
    """The reference's."""

    max_grad_norm: float = Field(1.0, gt=0)
    """The gradient is scaled down to this length. The reference's."""

    weights: Literal["lora", "full"] = "lora"
    """An adapter, which swaps by name in milliseconds and takes megabytes, or every weight."""

    lora_rank: int = Field(16, ge=1)
    """The adapter's rank. The reference's."""

    lora_alpha: int = Field(32, ge=1)
    """The adapter's scale is alpha / rank."""

    base_bits: Literal[16, 4] = 16
    """4 holds the frozen base in NF4, a quarter of its memory, where bitsandbytes runs; the adapter is as ever. The
    engine still serves 16 bits: on models of billions of weights the two are close, on small ones `max_gap` stops the
    run."""

    micro_batch: int = Field(1, ge=1)
    """Sequences a pass; more costs memory and changes nothing but rounding."""

    # Which samples, and what of them

    max_tokens: int | None = Field(None, ge=1)
    """How much of a reply is learned from: its first tokens; null takes all. A causal model needs none of the rest,
    so a run's minutes are bounded whatever people let it say. Of what people wrote, `WRITTEN` times as much."""

    max_age: int = Field(2, ge=0)
    """A sample served more than this many checkpoints ago is stale: its log-probs speak of another policy."""

    max_gap: float = Field(0.5, gt=0)
    """Mean |learner − engine| log-prob a token, on equal weights, beyond which a run stops: one of them is wrong."""

    holdout: float = Field(0.1, ge=0, lt=1)
    """Share of each person's corrected turns that never trains: the gate asks candidates about them."""

    holdout_after: int = Field(12, ge=0)
    """A person's first corrections, this many, all teach: the first lessons are to show."""

    # When its candidate passes

    gate: Gate = Gate()
    """What the exam asks of the candidate, and the limits it is held to."""

    @property
    def written_tokens(self) -> int | None:
        """How much of a rewrite is learned: its first tokens; None: all."""
        return written(self.max_tokens)

    @property
    def shows(self) -> int:
        """How many demonstrations a teacher is shown: none where no loss hears him, or where rewrites are not learned,
        since a reply that was rewritten loses its hint for them."""
        return self.demonstrations if self.w_opd and self.w_sft else 0

    @property
    def prefers(self) -> float:
        """The weight of preferences: none where rewrites are not learned, since a preference alone may make both
        answers unlikely."""
        return self.w_dpo if self.w_sft else 0.0

    @property
    def awaited(self) -> int:
        """How many rewrites a run waits for, where people write: none where rewrites are not learned."""
        return int(self.awaits * self.batch_size) if self.w_sft else 0

    @property
    def replays(self) -> int:
        """How many earlier rewrites are learned again: none where rewrites are not learned."""
        return self.replay if self.w_sft else 0

    @model_validator(mode="after")
    def _teaches_something(self) -> Self:
        if self.w_rl == self.w_opd == self.w_sft == 0:
            raise ValueError("w_rl, w_opd and w_sft are all 0: nothing would be learned")
        if self.base_bits == 4 and self.weights == "full":
            raise ValueError("base_bits 4 needs weights lora: only a frozen base can be held in 4 bits")
        if self.updates < self.warmup:
            raise ValueError("warmup is longer than the run")
        if self.rehearsal and (self.distillation == "token" or not self.trust):
            raise ValueError(
                "rehearsal holds the policy to the base's distributions: it needs distillation topk or vocabulary, "
                "and trust above 0"
            )
        return self


PRESETS: dict[str, Recipe] = {
    "combined": Recipe(),
    "binary": Recipe(w_opd=0),
    "opd": Recipe(w_rl=0),
    "topk": Recipe(w_rl=0, distillation="topk"),
    "topk-teacher": Recipe(w_rl=0, distillation="topk", support="teacher"),
    "topk-union": Recipe(w_rl=0, distillation="topk", support="union"),
    "embedded": Recipe(
        distillation="vocabulary",
        w_rl=0.2,
        w_sft=2.5,
        w_kept=1.5,
        demonstrations=4,
        replay=16,
        rehearsal=0.25,
        w_closed=0.4,
        awaits=0.5,
        teacher="policy",
        beta=0.1,
        lr=3e-3,
        epsilon=1e-3,
        updates=4,
        max_tokens=128,
        micro_batch=4,
        gate=Gate(pack=32),
    ),
    "24gb": Recipe(base_bits=4, micro_batch=1, max_tokens=1024),
}
"""Vetted settings by name; `embedded` is the default of the CPU profile (decisions 0001 and 0008). Each
trains an adapter, and every weight where a recipe that starts from it says so (`preset`)."""

FULL_RATE = 0.1
"""Of an adapter's rate, what every weight takes: an adapter's update is scaled down by its low rank, a full one is not.
The reference's 1e-5 beside 1e-4."""

FULL_EPSILON = 0.2
"""Of an adapter's ε, what every weight takes: of SmolLM2-135M they are 28 times as many under the same clipped
gradient, so that each one's share is a fifth. Reckoned, not measured."""


def preset(name: str, weights: str = "lora") -> Recipe:
    """The preset of this name for an adapter or for every weight. Raises RecipeInvalid."""
    if name not in PRESETS:
        raise RecipeInvalid(f"There is no preset {name!r}; there are {', '.join(sorted(PRESETS))}.")
    recipe = PRESETS[name]
    if weights != "full":
        return recipe
    epsilon = recipe.epsilon if recipe.epsilon == Recipe().epsilon else recipe.epsilon * FULL_EPSILON
    changed = {"weights": weights, "lr": recipe.lr * FULL_RATE, "epsilon": epsilon, "base_bits": 16}
    return recipe.model_copy(update=changed)


def read(text: str | Mapping[str, object]) -> Recipe:
    """A recipe from JSON or a mapping; "preset" names the one it starts from, whose rate is that of the weights that
    the recipe trains. Raises RecipeInvalid."""
    try:
        fields = dict(json.loads(text) if isinstance(text, str) else text)
    except (json.JSONDecodeError, TypeError, ValueError) as error:
        raise RecipeInvalid(f"The recipe is not a JSON object: {error}.") from error
    start = preset(str(fields.pop("preset", "embedded")), str(fields.get("weights", "lora")))
    if "rehearsal" not in fields and (fields.get("distillation") == "token" or fields.get("trust") == 0):
        fields["rehearsal"] = 0.0  # nothing there could hold to the base
    if isinstance(limits := fields.get("gate"), Mapping):  # what it does not name stays as the preset has it
        fields["gate"] = start.gate.model_dump() | dict(limits)
    try:
        return Recipe.model_validate({**start.model_dump(), **fields})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "recipe"
        raise RecipeInvalid(f"The recipe's {where} cannot be used: {first['msg']}.") from error


def knobs(recipe: Mapping[str, object]) -> dict[str, object]:
    """A recipe's values by the names of its knobs, those of its gate by both names.

    >>> knobs({"updates": 8, "gate": {"prompts": 4}})
    {'updates': 8, 'gate.prompts': 4}
    """
    found: dict[str, object] = {}
    for name, value in recipe.items():
        found |= (
            {f"{name}.{inner}": one for inner, one in value.items()} if isinstance(value, Mapping) else {name: value}
        )
    return found


def reasons() -> dict[str, str]:
    """What each knob is for, by the same names."""
    found = {name: field.description or "" for name, field in Recipe.model_fields.items() if name != "gate"}
    return found | {f"gate.{name}": field.description or "" for name, field in Gate.model_fields.items()}


def gate_of(recipe: Mapping[str, object]) -> Gate:
    """The gate of a recipe as a run keeps it; a knob that one of them does not know stands at its default."""
    kept = recipe.get("gate")
    known = kept if isinstance(kept, Mapping) else {}
    return Gate(**{name: value for name, value in known.items() if name in Gate.model_fields})


def current() -> Recipe:
    """The recipe of this installation: the file that RECIPE names, else the preset for where it learns."""
    from django.conf import settings

    from training import outside

    if not settings.RECIPE:
        return PRESETS["combined" if outside.is_outside() else "embedded"]
    try:
        text = read_text(settings.RECIPE)
    except OSError as error:
        raise RecipeInvalid(f"RECIPE names {settings.RECIPE}, which cannot be read: {error.strerror}.") from error
    recipe = read(text)
    if recipe.weights == "full" and not settings.SPARE_ENGINE_URL:
        raise RecipeInvalid(
            "The recipe's weights can be full only with a second engine, which answers for the base and for candidates "
            "while full weights are live: set SPARE_ENGINE_URL, or set weights to lora."
        )
    if outside.is_outside():
        outside.check(recipe)
    return recipe
