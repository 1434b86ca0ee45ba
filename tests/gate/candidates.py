"""What the gate's tests say of a candidate: what it is asked, what it answers, what it learned from."""

from __future__ import annotations

from checkpoints.models import Checkpoint
from judge.models import Judgement
from judge.samples import exam_questions
from training.config import Gate
from training.models import Sample

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]
LIMITS = Gate(prompts=4, pack=0)
ASKED = [question.prompt for question in exam_questions.questions()[:4]]
REPLIES = [f"Reply number {word} is about something else." for word in ("one", "two", "three", "four")]


def both_say(engine, live=REPLIES, candidate=REPLIES):
    """Live and candidate answer each held-out prompt with these; live is asked first."""
    for asked, first, second in zip(ASKED, live, candidate, strict=True):
        engine.says(first, to=asked[:20])
        engine.says(second, to=asked[:20])


def check(exam, name):
    return next(check for check in exam.checks if check["name"] == name)


def lesson(serve, candidate, hint="", hint_from="guidance", reward=0):
    turn = serve(status="judged")
    sample = Sample.objects.create(
        checkpoint=Checkpoint.live(),
        run=candidate.run,
        status="trained",
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids,
        behaviour_logprobs=turn.logprobs,
        reward=reward,
    )
    return Judgement.objects.create(turn=turn, sample=sample, hint=hint, hint_from=hint_from if hint else "")
