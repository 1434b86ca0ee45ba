"""The recipe: every knob of learning with its reason, and the presets that were measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, Self

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.errors import TalkbackError
from training.objective.step_advantages import Baseline
from training.recipes import published


class RecipeInvalid(TalkbackError):
    """A recipe cannot be used: it names an unknown preset or knob, or sets what makes no sense together."""

    code, status = "recipe_invalid", 422


class Gate(BaseModel):
    """A gate sets what a run's candidate is asked, and the limits it must keep. Measured on SmolLM2-135M
    (docs/explanation/gate.md, decision 1); generous enough for any model. The other numbers are constants of
    gate/findings.py, gate/personal_part.py and gate/meter.py."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    off: bool = False
    """Asks only whether the engine answers with the new weights."""

    # How much is asked

    prompts: int = Field(12, ge=1)
    """Held-out prompts that both checkpoints answer. Twelve take about a minute on two cores."""

    max_new_tokens: int = Field(96, ge=1)
    """Tokens at which replies of both are cut. Most of what a collapse looks like shows earlier."""

    pack: int = Field(1000, ge=0)
    """Items of the general pack that are asked; 0 asks none. They are the first of the file, which is varied from the
    first on."""

    own: int = Field(12, ge=0)
    """People's own kept corrections that are asked about. Each person comes in turn, the newest first."""

    meter: int = Field(6, ge=0)
    """Replies on which the overfitting meter reads entropy, distance from the base, and gap. Each costs up to three
    scores."""

    tasks: int = Field(48, ge=0)
    """Held-out tasks that agents play with both, four times each, in every world that taught it; 0 asks none. With 48 a
    fall of 0.2 in what is solved is seen in 19 of 20 exams, with 20 in 15; below 10 nothing can be told."""

    # How far it may move

    shortest: float = Field(0.1, ge=0)
    """Least mean length over live's. A person may ask for one sentence instead of ten, never for nothing."""

    longest: float = Field(4.0, gt=0)
    """Most mean length over live's."""

    variety: float = Field(0.75, ge=0, le=1)
    """Least share of different replies. "You lie." to everything is no style."""

    fluency: float = Field(0.6, ge=0)
    """Most fall of the replies' mean log-prob under the base, nats a token. Recipes that kept the subject fell by 0.4
    in all, those whose replies were half nonsense by 1.0 and more."""

    worst_fluency: float = Field(-2.6, le=0)
    """Least mean log-prob itself. Many small falls, each against the last live one, also end somewhere."""

    own_gain: float = 0.0
    """Least gain over live on kept corrections of a taught kind, nats a token. The whole interval must lie above it; a
    negative number asks only that it does no worse than that."""

    pack_share: float = Field(0.05, ge=0, le=1)
    """Most fall of the general pack's share of right answers, beyond noise."""

    kl: float = Field(2.5, ge=0)
    """Most mean log-ratio to the base a token of its own replies."""


WRITTEN = 2
"""Times as many tokens of a rewrite as of a reply are learned: nothing else teaches how a long reply ends, and it
costs no pass of a frozen model (decision 8)."""

PATIENCE = 6
"""Batches that wait before a run begins without the rewrites that its recipe awaits."""

MAX_GRAD_NORM = 1.0
"""Scales a longer gradient down to this length. The reference's."""

REMOVED = frozenset({
    "top_k", "support", "trust", "w_kept", "w_dpo", "dpo_beta", "w_again", "advantage_clip", "clip_low", "clip_high",
    "importance_cap", "most_kl", "warmup", "weight_decay", "max_grad_norm", "lora_alpha", "holdout_after",
    "gate.handful", "gate.temperature", "gate.hints", "gate.examples", "gate.again", "gate.empty", "gate.repetition",
    "gate.preference", "gate.rated", "gate.certainty", "gate.own_fall", "gate.own_enough", "gate.own_keeps",
    "gate.pack_nats", "gate.gap", "gate.copied", "gate.entropy",
})  # fmt: skip
"""Knobs that were, each a constant now or gone. A run that was made with them still shows and verifies."""


def written(max_tokens: int | None) -> int | None:
    """Return how many tokens of a rewrite are learned beside `max_tokens` of a reply; None: all."""
    return None if max_tokens is None else WRITTEN * max_tokens


class Recipe(BaseModel):
    """A recipe sets all that shapes learning. A run keeps a copy, so a checkpoint can say how it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # What is learned

    w_rl: float = Field(1.0, ge=0)
    """Weight of the judged reward in the advantage; 0 asks the judge for no score."""

    w_opd: float = Field(1.0, ge=0)
    """Weight of the teacher, who reads the hint; 0 asks the judge for no hint."""

    w_sft: float = Field(0.0, ge=0)
    """Weight of the supervised loss on rewrites; 0 leaves them to the teacher. A small model does little of
    what a hint says; a rewrite shows it."""

    w_closed: float = Field(0.0, ge=0)
    """Weight of closed questions of our own, some in each update. Their right answers become likelier than their wrong
    ones, so that a style costs less of what the base knows."""

    distillation: Literal["token", "topk", "vocabulary"] = "token"
    """How the teacher is heard: by the served token, by 50 ids and a tail, or by the whole vocabulary. The first is a
    log-prob gap in the advantage, the others a reverse KL at each position over the student's likeliest ids. A
    distribution has far less
    variance than one token, and keeps more of the content (decision 1)."""

    teacher: Literal["base", "policy"] = "base"
    """The model that reads the hint: base or policy. No run can wear the base down."""

    demonstrations: int = Field(0, ge=0)
    """Conversations ending in a rewrite that the teacher reads first. They come from the run's batch and its replay. A
    small model follows what it sees done."""

    replay: int = Field(0, ge=0)
    """Rewrites of earlier runs that are learned again. All together weigh what the batch's own would
    alone, or what one would where no person wrote. Few rewrites by themselves are learned word by word."""

    rehearsal: float = Field(0.0, ge=0, lt=1)
    """Share of a batch that is ordinary prompts, held to the base's answers. So a style does not cost skill. With
    `w_sft` there are no more rows than rewrites. Needs a distribution."""

    baseline: Baseline = "index"
    """What an agent's step is compared with: index, pooled, outcome or episode_plus_step. Index is the group's attempts
    at the same step, pooled all its steps, outcome no step's score, and the last the outcome and the scores, each for
    itself. Index learned fastest with right step scores; votes at random ruin it (docs/reference/episodes.md)."""

    beta: float = Field(0.02, ge=0)
    """Weight of the k3 KL to the base. Without it a policy trained on few words drifts from all others."""

    # How it is learned

    batch_size: int = Field(16, ge=1)
    """Samples in a run; an agent's attempt is one, and groups are whole. The reference's number."""

    awaits: float = Field(0.0, ge=0, lt=1)
    """Share of a batch that must be rewrites before a run begins by itself, where people write. A run on few of
    them loses some of what was learned before. Once six batches wait it begins without."""

    updates: int = Field(1, ge=1)
    """Optimiser updates on a run's batch."""

    lr: float = Field(1e-4, gt=0)
    """Adam's rate, constant. Small models want more than large ones, LoRA more than full weights."""

    epsilon: float = Field(1e-8, gt=0)
    """Adam's ε. At 1e-8 every weight moves as far as the rate, also those that a lesson hardly speaks of. At 1e-3 each
    moves by its own share of the gradient, and wants a higher rate (decision 8)."""

    weights: Literal["lora", "full"] = "lora"
    """What trains: an adapter, or every weight. An adapter takes megabytes and swaps in milliseconds."""

    lora_rank: int = Field(16, ge=1)
    """The adapter's rank; its alpha is twice that. The reference's."""

    base_bits: Literal[16, 4] = 16
    """Bits of the frozen base under an adapter: 16, or 4. 4 is NF4: a quarter of the memory, where bitsandbytes runs.
    The engine still serves 16 bits; where the two are too far apart, as on small models, `max_gap` stops the run."""

    micro_batch: int = Field(1, ge=1)
    """Sequences in one pass. More take memory and change nothing but rounding."""

    # What it is learned from

    max_tokens: int | None = Field(None, ge=1)
    """Tokens learned of a reply, from its start, and twice as many of a rewrite; null: all. A cut bounds
    a run's minutes however long replies are."""

    max_age: int = Field(2, ge=0)
    """Checkpoints that may lie between the one that served a sample and the live one. Beyond it a sample is stale."""

    max_gap: float = Field(0.5, gt=0)
    """Mean gap of log-probs between learner and engine on equal weights, nats a token. Beyond it a run stops: one of
    the two is wrong."""

    holdout: float = Field(0.1, ge=0, lt=1)
    """Share of each person's corrected turns, after twelve, that the gate asks about and that never trains."""

    # When its candidate passes

    gate: Gate = Gate()
    """What the exam asks of the candidate, and the limits it is held to."""

    @property
    def written_tokens(self) -> int | None:
        """Tokens that are learned of a rewrite, from its start; None: all."""
        return written(self.max_tokens)

    @property
    def shows(self) -> int:
        """Demonstrations that a teacher reads: none where no loss hears the teacher, or where rewrites are not learned,
        since a reply that was rewritten loses its hint for them."""
        return self.demonstrations if self.w_opd and self.w_sft else 0

    @property
    def awaited(self) -> int:
        """Rewrites that a run waits for, where people write: none where rewrites are not learned."""
        return int(self.awaits * self.batch_size) if self.w_sft else 0

    @property
    def replays(self) -> int:
        """Earlier rewrites that are learned again: none where rewrites are not learned."""
        return self.replay if self.w_sft else 0

    @model_validator(mode="after")
    def _teaches_something(self) -> Self:
        if self.w_rl == self.w_opd == self.w_sft == 0:
            raise ValueError(_("w_rl, w_opd and w_sft are all 0: nothing would be learned"))
        if self.base_bits == 4 and self.weights == "full":
            raise ValueError(_("base_bits 4 needs weights lora: only a frozen base can be held in 4 bits"))
        if self.rehearsal and self.distillation == "token":
            raise ValueError(
                _("rehearsal holds the policy to the base's distributions: it needs distillation topk or vocabulary")
            )
        return self


PRESETS: dict[str, Recipe] = {
    "combined": Recipe(),
    "binary": Recipe(w_opd=0),
    "opd": Recipe(w_rl=0),
    "topk": Recipe(w_rl=0, distillation="topk"),
    "embedded": Recipe(
        distillation="vocabulary",
        w_rl=0.2,
        w_sft=2.5,
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
    "agents": Recipe(
        w_opd=0,  # hints are of people's turns
        w_sft=0,
        beta=0.002,  # what an agent has to learn lies far from the base
        batch_size=32,
        updates=2,
        lr=5e-4,
        micro_batch=4,
        gate=Gate(pack=32),
    ),
    "24gb": Recipe(base_bits=4, micro_batch=1, max_tokens=1024),
}
"""Measured settings by name; `embedded` is the default of the CPU profile (decisions 1 and 8), and `agents` has
four tasks of eight attempts, and the rate at which SmolLM2 learned the world till (docs/explanation/
agents-demonstration.md). Each trains an adapter, and every weight where a recipe that starts from it says so
(`preset`)."""

FULL_RATE = 0.1
"""Share of an adapter's rate that full weights take: an adapter's update is scaled down by its low rank. The
reference's 1e-5 beside 1e-4."""

FULL_EPSILON = 0.2
"""Share of an adapter's ε that full weights take: SmolLM2-135M has 28 times as many of them under the same clipped
gradient, so each one's share is a fifth. Calculated, not measured."""


def preset(name: str, weights: str | None = None) -> Recipe:
    """Return the preset of this name for an adapter or for every weight; None: for an adapter, or as the recipe of this
    name in training/recipes was published. Raises RecipeInvalid."""
    if name not in PRESETS:
        return _published(name, weights)
    recipe = PRESETS[name]
    if weights != "full":
        return recipe
    epsilon = recipe.epsilon if recipe.epsilon == Recipe().epsilon else recipe.epsilon * FULL_EPSILON
    changed = {"weights": weights, "lr": recipe.lr * FULL_RATE, "epsilon": epsilon, "base_bits": 16}
    return recipe.model_copy(update=changed)


def _published(name: str, weights: str | None) -> Recipe:
    if name not in published():
        every = ", ".join(sorted([*PRESETS, *published()]))
        raise RecipeInvalid(_("There is no preset %(name)r; there are %(every)s.") % {"name": name, "every": every})
    recipe = read(published()[name].recipe)
    if weights in (None, recipe.weights):
        return recipe
    return recipe.model_copy(update={"weights": weights, "lr": recipe.lr / FULL_RATE})


def read(text: str | Mapping[str, object]) -> Recipe:
    """Read a recipe that a person wrote, from JSON or a mapping; "preset" names the one it starts from, whose rate is
    that of the weights that the recipe trains. Raises RecipeInvalid."""
    try:
        fields = dict(json.loads(text) if isinstance(text, str) else text)
    except (json.JSONDecodeError, TypeError, ValueError) as error:
        raise RecipeInvalid(_("The recipe is not a JSON object: %(why)s.") % {"why": error}) from error
    if gone := ", ".join(name for name in knobs(fields) if name in REMOVED):
        said = _("The recipe names knobs that are gone: %(knobs)s. Delete them: each is fixed, as in the presets.")
        raise RecipeInvalid(said % {"knobs": gone})
    weights = fields.get("weights")
    start = preset(str(fields.pop("preset", "embedded")), None if weights is None else str(weights))
    if "rehearsal" not in fields and fields.get("distillation") == "token":
        fields["rehearsal"] = 0.0  # nothing there could hold to the base
    if isinstance(limits := fields.get("gate"), Mapping):  # what it does not name stays as the preset has it
        fields["gate"] = start.gate.model_dump() | dict(limits)
    try:
        return Recipe.model_validate({**start.model_dump(), **fields})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "recipe"
        said = _("The recipe's %(where)s cannot be used: %(why)s.")
        raise RecipeInvalid(said % {"where": where, "why": first["msg"]}) from error


def stored(recipe: Mapping[str, object]) -> Recipe:
    """Read a recipe as a run keeps it. Knobs that one of the two versions does not know stand at their default.

    >>> stored({"updates": 8, "clip_low": 0.2, "gate": {"prompts": 4, "handful": 4}}).updates
    8
    """
    known = {name: value for name, value in recipe.items() if name in Recipe.model_fields}
    return Recipe.model_validate(known | {"gate": gate_of(recipe)})


def gate_of(recipe: Mapping[str, object]) -> Gate:
    """Read the gate of a recipe as a run keeps it, as `stored` does."""
    kept = recipe.get("gate")
    known = kept if isinstance(kept, Mapping) else {}
    return Gate(**{name: value for name, value in known.items() if name in Gate.model_fields})


def knobs(recipe: Mapping[str, object]) -> dict[str, object]:
    """Return a recipe's values by the names of its knobs, those of its gate by both names.

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
    """Return each knob's reason, by the same names."""
    found = {name: field.description or "" for name, field in Recipe.model_fields.items() if name != "gate"}
    return found | {f"gate.{name}": field.description or "" for name, field in Gate.model_fields.items()}
