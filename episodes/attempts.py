"""Open an attempt at a task, let its actions happen at most once, and close it with what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

from django.db import transaction
from django.utils import timezone

from chat import sessions
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from core.errors import TalkbackError
from episodes import exams
from episodes.models import Action, Episode, Group


class EpisodeNotFound(TalkbackError):
    """This key's person has no such episode."""

    code, status = "episode_not_found", 404


class GroupDiffers(TalkbackError):
    """The group, or its task, is known otherwise."""

    code, status = "group_differs", 409

    def __init__(self, sentence: str, param: str) -> None:
        super().__init__(sentence)
        self.param = param


class AttemptTaken(TalkbackError):
    """This attempt was begun: another takes another number."""

    code, status, param = "attempt_taken", 409, "attempt"


class EpisodeClosed(TalkbackError):
    """The episode ended, and not as is said now."""

    code, status = "episode_closed", 409


class ScoreUnknown(TalkbackError):
    """A score is of no answer of this episode; nothing of the request was kept, and the episode plays on."""

    code, status, param = "score_unknown", 400, "scores"


class GroupJudged(TalkbackError):
    """The group was judged, and is learned from as it is."""

    code, status, param = "group_judged", 409, "group"


class ActionUnknown(TalkbackError):
    """The episode has no such turn, or the turn no such call."""

    code, status = "action_unknown", 404


@dataclass(frozen=True)
class Asked:
    """An attempt that a player wants to begin."""

    world: str
    task: str
    split: str
    group: str
    attempt: int
    attempts: int | None
    """How many the group is to have; None: as many as are opened."""
    lease_s: int
    model: str = ""
    """name@number of who plays; empty: what answers this key."""


@dataclass(frozen=True)
class Result:
    """What an attempt came to."""

    ending: str
    outcome: float | None = None
    cut_by: str = ""
    checks: Mapping[str, bool | float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    """{completion id: −1 to 1}, what the world says of single steps."""
    reason: str = ""
    """Why it is void, in the words of its player, or of Talkback where that closed it."""


@transaction.atomic
def open_attempt(key: ApiKey, asked: Asked) -> tuple[Episode, str]:
    """Begin this attempt: the episode, and the secret of its key, which is known now and never again.

    Asked again before anything was said in it, the episode is the same and its key has a new secret, so that of two
    players one is left. Raises AttemptTaken, GroupDiffers, GroupJudged, or what exams.choose_player does.
    """
    group = _lock_group(key, asked)
    known = Episode.objects.select_related("key", "session").filter(group=group, attempt=asked.attempt).first()
    if known is None:
        if group.judged_at is not None:
            raise GroupJudged(f"Group {asked.group!r} was judged as it is: what is played now takes another name.")
        return _begin(key, group, asked)
    is_untouched = known.session is not None and not known.session.turns.exists()
    if known.status != Episode.Status.PLAYING or known.key is None or known.key.parent_id != key.pk or not is_untouched:
        raise AttemptTaken(f"Attempt {asked.attempt} of group {asked.group!r} was begun: take another number.")
    known.lease_s, known.lease_until = asked.lease_s, timezone.now() + timedelta(seconds=asked.lease_s)
    known.save(update_fields=["lease_s", "lease_until"])
    return known, ApiKey.objects.reissue(known.key)


def _lock_group(key: ApiKey, asked: Asked) -> Group:
    """The group of that name, made if need be. Raises GroupDiffers, or what exams.choose_player does."""
    about = {"world": asked.world, "task": asked.task, "split": asked.split, "attempts": asked.attempts}
    player = exams.choose_player(
        key, group=asked.group, world=asked.world, split=asked.split, attempts=asked.attempts, model=asked.model
    )
    Group.objects.get_or_create(user=key.user, name=asked.group, defaults=about | {"checkpoint": player})
    group = (
        Group.objects.select_for_update(of=("self",)).select_related("checkpoint").get(user=key.user, name=asked.group)
    )
    for name, value in about.items():
        if getattr(group, name) != value:
            raise GroupDiffers(f"Group {asked.group!r} has {name} {getattr(group, name)!r}, and not {value!r}.", name)
    if asked.model and group.checkpoint_id != player.pk:
        raise GroupDiffers(f"Group {asked.group!r} is played by {group.checkpoint}, and not by {player}.", "model")
    others = Group.objects.filter(user=key.user, world=asked.world, task=asked.task).exclude(split=asked.split)
    if (other := others.order_by("pk").first()) is not None:
        raise GroupDiffers(f"This task is played as {other.split!r}: what examines must not teach.", "split")
    return group


def _begin(key: ApiKey, group: Group, asked: Asked) -> tuple[Episode, str]:
    pk = uuid4()
    learns = key.learns and group.split == Group.Split.TRAIN
    issued, secret = ApiKey.objects.issue(
        key.user, f"episode {pk}", parent=key, scopes=["chat"], learns=learns, checkpoint=group.checkpoint
    )
    session = Session.objects.create(
        user=key.user, key=issued, external_id=issued.conversation, named_by="key", learns=learns
    )
    episode = Episode.objects.create(
        pk=pk,
        group=group,
        attempt=asked.attempt,
        session=session,
        key=issued,
        lease_s=asked.lease_s,
        lease_until=timezone.now() + timedelta(seconds=asked.lease_s),
    )
    return episode, secret


def find(key: ApiKey, pk: UUID) -> Episode:
    """Raises EpisodeNotFound."""
    episode = Episode.objects.visible_to(key.user).select_related("group__checkpoint").filter(pk=pk).first()
    if episode is None:
        raise EpisodeNotFound(f"There is no episode {str(pk)!r} that this key may speak of.")
    return episode


def locked(pk: UUID) -> Episode:
    """The episode, until the transaction ends this caller's alone. It comes before its session and its turns."""
    return Episode.objects.select_for_update(of=("self",)).select_related("group__checkpoint").get(pk=pk)


@transaction.atomic
def close(key: ApiKey, pk: UUID, result: Result) -> Episode:
    """The attempt is over. Closing it once more with the same words changes nothing. Raises EpisodeClosed where it
    ended otherwise, ScoreUnknown, or EpisodeNotFound."""
    episode = locked(find(key, pk).pk)
    if episode.status == Episode.Status.PLAYING:
        _check_scores(episode, result.scores)
        end(episode, result)
    elif result != result_of(episode):
        why = f" {episode.reason}" if episode.reason else ""
        raise EpisodeClosed(f"This episode ended as {episode.ending}, and stays so.{why}")
    return episode


def _check_scores(episode: Episode, scores: Mapping[str, float]) -> None:
    """Raises ScoreUnknown. Of a session that was deleted nothing is known any more, so nothing is refused."""
    if not scores or episode.session_id is None:
        return
    known = Turn.objects.filter(session=episode.session_id, completion_id__in=scores)
    if unknown := sorted(set(scores) - set(known.values_list("completion_id", flat=True))):
        raise ScoreUnknown(f"This episode has no answer {unknown[0]!r} that could be scored. It plays on: close again.")


def end(episode: Episode, result: Result) -> None:
    """Have an episode that is playing, and locked, be over: its key opens nothing more. Call it in a transaction."""
    is_void = result.ending in Episode.UNSCORED
    episode.move(
        Episode.Status.VOID if is_void else Episode.Status.SCORED,
        ending=result.ending,
        outcome=result.outcome,
        cut_by=result.cut_by,
        checks=dict(result.checks),
        cost=dict(result.cost),
        scores=dict(result.scores),
        reason=result.reason,
        ended_at=timezone.now(),
    )
    if episode.key_id is not None:  # nor does it keep weights from being tidied away
        ApiKey.objects.filter(pk=episode.key_id).update(revoked_at=timezone.now(), checkpoint=None)
    if episode.session is not None:
        sessions.close(episode.session)


@transaction.atomic
def renew(key: ApiKey, pk: UUID) -> Episode:
    """Its player is alive: the lease begins anew. Raises EpisodeClosed or EpisodeNotFound."""
    episode = locked(find(key, pk).pk)
    if episode.status != Episode.Status.PLAYING:
        raise EpisodeClosed("This episode is over: it has no lease any more.")
    episode.lease_until = timezone.now() + timedelta(seconds=episode.lease_s)
    episode.save(update_fields=["lease_until"])
    return episode


def result_of(episode: Episode) -> Result:
    told = (episode.checks, episode.cost, episode.scores, episode.reason)
    return Result(episode.ending, episode.outcome, episode.cut_by, *told)


@transaction.atomic
def claim(key: ApiKey, pk: UUID, completion: str, call: str) -> bool:
    """Let this action happen: true the first time it is asked, never again. The turn's call, or its words where
    `call` is empty. Raises ActionUnknown, EpisodeClosed or EpisodeNotFound."""
    episode = locked(find(key, pk).pk)
    turn = Turn.objects.filter(session=episode.session_id, completion_id=completion).only("pk", "message").first()
    if turn is None:
        raise ActionUnknown(f"This episode has no turn {completion!r}.")
    calls = {str(one.get("id", "")) for one in turn.message.get("tool_calls") or ()}
    if call and call not in calls:
        raise ActionUnknown(f"Turn {completion!r} has no call {call!r}.")
    operation = {"episode": episode, "turn": turn, "call": call}
    if Action.objects.filter(**operation).exists():
        return False
    if episode.status != Episode.Status.PLAYING:
        raise EpisodeClosed("This episode is over: nothing more happens in it.")
    Action.objects.create(**operation)
    Episode.objects.filter(pk=pk).update(lease_until=timezone.now() + timedelta(seconds=episode.lease_s))
    return True
