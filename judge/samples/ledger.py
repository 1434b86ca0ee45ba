"""The ledger: every turn became a sample, or says in a word of a short list why it did not.

A verdict's own reasons are `judge.samples.sample_rows.Reason`; what is true of a turn before its verdict, or of its
sample, is `Stands`. `why` tells it of one turn and `CODE` of many, in the database; they always say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Case, CharField, Count, F, Q, QuerySet, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from chat.search import keeping
from judge.models import Judgement
from judge.samples import sample_rows
from judge.samples.sample_rows import Reason
from training.models import Sample


class Stands(StrEnum):
    """Where a turn stands that has no verdict's reason, as a person reads it. Its name in lower case is the code."""

    SAMPLE = gettext_noop("it became a sample")
    STALE = gettext_noop("its sample was dropped before it was learned")
    REMOVED = gettext_noop("its sample was removed")
    WRITING = gettext_noop("the reply is being written")
    UNANSWERED = gettext_noop("nothing has come back after it yet")
    JUDGING = gettext_noop("what came back is being judged")
    CLOSED = gettext_noop("the conversation ended and nothing came back after it")

    @property
    def code(self) -> str:
        return self.name.lower()


SENTENCES: Mapping[str, str] = {one.code: str(one) for one in (*Stands, *Reason)}
"""Every code there is, and what it means, in English."""

ADVICE: Mapping[str, str] = {
    Stands.SAMPLE.code: gettext_noop("Nothing to do: it teaches, or has taught."),
    Stands.STALE.code: gettext_noop(
        "Samples grow old when checkpoints change faster than batches fill, and a later verdict takes "
        "the place of an earlier one. Many of them: fill batches sooner with a smaller batch_size, or raise max_age."
    ),
    Stands.REMOVED.code: gettext_noop("Nothing to do: a person had what it taught taken out."),
    Stands.WRITING.code: gettext_noop("Nothing to do: wait for the reply."),
    Stands.UNANSWERED.code: gettext_noop("Nothing to do: a next message, a thumb or a correction will be judged."),
    Stands.JUDGING.code: gettext_noop("Wait. If it stays so, the judge's worker or its server is away: see the loop."),
    Stands.CLOSED.code: gettext_noop(
        "A thumb or a correction still opens it again. Clients that close sessions early can give "
        "feedback by POST /v1/feedback."
    ),
    Reason.SIDE.code: gettext_noop(
        "Nothing to do where these are titles and summaries. If main requests are among them, correct "
        "the rules under Clients."
    ),
    Reason.IMPORTED.code: gettext_noop("Nothing to do: what is said from then on in such a chat may teach."),
    Reason.UNCOUNTED.code: gettext_noop(
        "Read the sentence of one of them: its world failed, the model's window was full, or too "
        "few attempts at its task count."
    ),
    Reason.OFF.code: gettext_noop("Nothing to do: the person, the key or the session said no."),
    Reason.STOPPED.code: gettext_noop("Many of them: look for time-outs of the client, or for an engine that fails."),
    Reason.TRUNCATED.code: gettext_noop(
        "Have the client ask for more tokens (max_tokens), or use a model with a longer window. "
        "Guidance, a rewrite and accepted hints teach all the same; its reward and its end do not."
    ),
    Reason.EMPTY.code: gettext_noop("The model ended at once. Many of them: look at the checkpoint that is live."),
    Reason.PICTURE.code: gettext_noop(
        "Nothing to do: such replies are answered and judged by what is said of them in words. What is said without "
        "pictures in the same chat teaches."
    ),
    Reason.HELD_OUT.code: gettext_noop("Nothing to do: what the exam asks must not be learned."),
    Reason.KEPT.code: gettext_noop(
        "Nothing to do: a share of each person's corrections (the recipe's holdout) shows whether "
        "candidates do better on what they never trained on."
    ),
    Reason.NO_SIGNAL.code: gettext_noop("Nothing came back that a judge could read. A thumb would decide it."),
    Reason.NO_QUORUM.code: gettext_noop(
        "Too few of the judge's votes could be read. Read some of them: a judge that babbles wants "
        "another model or prompt, one that is late wants more time (JUDGE_DEADLINE_S) or room (JUDGE_MAX_NEW_TOKENS)."
    ),
    Reason.NEUTRAL.code: gettext_noop(
        "Nothing to do: what came back neither praised nor blamed. A judge that says so too often "
        "shows it under Judges."
    ),
    Reason.UNCLEAR.code: gettext_noop(
        "Nothing to do: a judge that is not sure teaches nothing. Decide some under Rewards, or "
        "move its threshold on the judge's page."
    ),
    Reason.NEW_TOPIC.code: gettext_noop("Nothing to do: the next message was about something else."),
    Reason.UNMEASURED.code: gettext_noop("Measure it: Judges, Measure now. People's words teach meanwhile."),
    Reason.TIED.code: gettext_noop(
        "Decide it under Rewards, or leave it neutral. Many ties: ask more votes (JUDGE_VOTES=5)."
    ),
    Reason.NOT_ASKED.code: gettext_noop(
        "The recipe learns from another kind of signal. The combined recipe takes both."
    ),
    Reason.UNTRUSTED.code: gettext_noop(
        "Name a better judge (JUDGES or JUDGE_URL), or let these votes teach with JUDGE_TEACHES=1 "
        "once Judges shows that they are good enough."
    ),
    Reason.WISH_WAITS.code: gettext_noop(
        "The person is asked under the reply to say it so that it holds for every reply. A hint "
        "that speaks of an earlier reply is edited under Hints."
    ),
    Reason.HINT_WAITS.code: gettext_noop("Accept or reject it under Hints."),
    Reason.HINT_REJECTED.code: gettext_noop(
        "Nothing to do: a reviewer said no. Hints and the audit log say who and why."
    ),
    Reason.PERSONAL.code: gettext_noop("Nothing to do: it stays out. Read its sentence if there are many."),
    Reason.MARKS_LOST.code: gettext_noop("Mark the words once more, on a reply of the model as it is served now."),
    Reason.LEARNED.code: gettext_noop("Nothing to do: it was learned before this was said, and once is enough."),
    Reason.WITHDRAWN.code: gettext_noop(
        "What it taught is in weights already: Unlearning learns them again without it."
    ),
    Reason.NO_JUDGE.code: gettext_noop(
        "Measure the judges anew, or overrule the floor, under Judges. People's words teach meanwhile."
    ),
    Reason.WEIGHTS_GONE.code: gettext_noop(
        "Full weights are swapped in place, so a verdict must come before the next swap. "
        "Adapters stay: keep their folders."
    ),
    Reason.TOO_LONG.code: gettext_noop(
        "The hint does not fit beside so long a conversation. Shorter guidance helps, or a longer window."
    ),
    Reason.LAID_OUT_ANEW.code: gettext_noop(
        "The model's chat template was changed after the reply. Turns from now on are well."
    ),
    Reason.NOT_SCORED.code: gettext_noop("Read the sentence of one of them: the engine says what it refuses."),
    Reason.UNREADABLE.code: gettext_noop("Read the sentence of one of them."),
}
"""What to do about each, in a sentence or two. A code that is not here needs nothing."""


@dataclass(frozen=True)
class Why:
    """Why a turn taught nothing, or that it did: a word of the list, and the sentence."""

    code: str
    english: str
    """As rows keep it."""

    @property
    def sentence(self) -> str:
        return _(self.english) if self.english else ""

    @property
    def is_sample(self) -> bool:
        return self.code == Stands.SAMPLE.code


def why(turn: Turn) -> Why:
    """What the ledger says of this turn."""
    return told(turn, Judgement.objects.select_related("sample").filter(turn=turn).first())


def told(turn: Turn, judgement: Judgement | None) -> Why:
    """The same from the verdict, which was read already with its sample; nothing is asked of the database."""
    sample = judgement.sample if judgement else None
    if sample is not None:
        if sample.status != Sample.Status.STALE:
            return _stands(Stands.SAMPLE)
        return Why(Stands.STALE.code, sample.drop_reason or str(Stands.STALE))
    if turn.status == Turn.Status.ANSWERING:
        return _stands(Stands.WRITING)
    if turn.status == Turn.Status.JUDGED and judgement is not None and judgement.reason_code:
        return Why(judgement.reason_code, judgement.reason or SENTENCES.get(judgement.reason_code, ""))
    unfit = sample_rows.unfit(turn)
    if unfit and unfit != Reason.HELD_OUT:
        return Why(unfit.code, str(unfit))
    return _stands(
        {
            Turn.Status.OBSERVED: Stands.JUDGING,
            Turn.Status.CLOSED: Stands.CLOSED,
            Turn.Status.JUDGED: Stands.REMOVED,
        }.get(Turn.Status(turn.status), Stands.UNANSWERED)
    )


def _stands(one: Stands) -> Why:
    return Why(one.code, str(one))


def _coded(condition: Q, one: Stands | Reason) -> When:
    return When(condition, then=Value(one.code))


CODE = Case(
    _coded(Q(judgement__sample__status=Sample.Status.STALE), Stands.STALE),
    _coded(Q(judgement__sample__isnull=False), Stands.SAMPLE),
    _coded(Q(status=Turn.Status.ANSWERING), Stands.WRITING),
    When(
        Q(status=Turn.Status.JUDGED, judgement__isnull=False) & ~Q(judgement__reason_code=""),
        then=F("judgement__reason_code"),
    ),
    _coded(Q(learns=False) | Q(session__learns=False), Reason.OFF),
    _coded(Q(kind=keeping.IMPORTED), Reason.IMPORTED),
    _coded(~Q(line=Turn.Line.MAIN), Reason.SIDE),
    _coded(~Q(finish_reason__in=("stop", "length", "tool_calls")), Reason.STOPPED),
    _coded(Q(response_ids=[]), Reason.EMPTY),
    _coded(Q(pictures__gt=0), Reason.PICTURE),
    _coded(Q(status=Turn.Status.OBSERVED), Stands.JUDGING),
    _coded(Q(status=Turn.Status.CLOSED), Stands.CLOSED),
    _coded(Q(status=Turn.Status.JUDGED), Stands.REMOVED),
    default=Value(Stands.UNANSWERED.code),
    output_field=CharField(),
)
"""`why(turn).code`, asked of the database."""


def meaning(code: str) -> str:
    """What a code means, in the reader's language."""
    return _(SENTENCES.get(code, code.replace("_", " ")))


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    code: str
    turns: int
    share: float
    """Of all turns that were counted."""

    @property
    def sentence(self) -> str:
        return meaning(self.code)

    @property
    def advice(self) -> str:
        return _(advice) if (advice := ADVICE.get(self.code)) else ""


def counted(turns: QuerySet[Turn]) -> list[Entry]:
    """How many of these turns each code has, samples first and then the most frequent; they add up to all of them."""
    rows = turns.annotate(why=CODE).order_by().values_list("why").annotate(turns=Count("pk"))
    counts = dict(rows)
    total = sum(counts.values())
    first = sorted(counts, key=lambda code: (code != Stands.SAMPLE.code, -counts[code], code))
    return [Entry(code, counts[code], counts[code] / total) for code in first]


def counted_by(turns: QuerySet[Turn], column: str) -> dict[object, dict[str, int]]:
    """The same for each value of a column (session__user, session__client, session …): value to code to count."""
    rows = turns.annotate(why=CODE).order_by().values_list(column, "why").annotate(turns=Count("pk"))
    table: dict[object, dict[str, int]] = {}
    for value, code, number in rows:
        table.setdefault(value, {})[code] = number
    return table
