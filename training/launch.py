"""Where a job is learned: in this process, or by several that torchrun starts and this one watches over.

A group is given its job in a folder of its own, says there how it goes, and ends with the process that started it:

    python -m torch.distributed.run --standalone --nproc-per-node N -m training.launch FOLDER

| in the folder | |
|---|---|
| `job.json` | the job |
| `said` | a named pipe: a line of JSON for each thing that is said; it ends when all of the group have ended |
| `learned.json` | what the job left, besides the weights |
| `failure-RANK.json` | why a process ended |
| `output.log` | everything else that the group wrote |
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings

from core import stops
from core.errors import TalkbackError
from gpu_workers.errors import AdapterInvalid, NothingLearned, OutOfMemory
from gpu_workers.servers import leases
from gpu_workers.types import Example
from training import learning, snapshots
from training.config import Recipe
from training.jobs import Job, Learned, Listener
from training.objective.closed_questions import Question

log = logging.getLogger(__name__)

SILENCE_S = 900
"""A group that says nothing for so long will say nothing more."""

LISTEN_S = 0.5
"""How often a silent group is looked at."""

END_S = 30
"""How long a group that was stopped may take to be gone."""

NAMED = {kind.code: kind for kind in (NothingLearned, AdapterInvalid, OutOfMemory)}


class GroupEnded(TalkbackError):
    """Processes that learned together ended before they were done, without a reason of their own."""

    code, status = "group_ended", 500


def processes() -> int:
    """How many processes learn together: what LEARN_PROCESSES says, else one for each card that this one may use."""
    import torch

    return settings.LEARN_PROCESSES or max(1, torch.cuda.device_count())


def learn(job: Job, ledger: Listener, *, home: Path, processes: int = 1) -> Learned:
    """Do a job by so many processes; by one: here. Raises what learning raises, what the ledger raises, and GroupEnded.
    `home` is the folder that groups have for themselves."""
    with leases.lease(home.parent / "leases", _cards(), "learner"):
        return _learn(settle_dtype(job), ledger, home, processes)


def settle_dtype(job: Job) -> Job:
    """Settle what the base is computed in, once for all processes and for a run that goes on from a snapshot: "auto"
    times the machine, and a busy one may answer otherwise the next time."""
    if job.dtype != "auto":
        return job
    import torch

    from gpu_workers.learner.policy import chosen_dtype

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return replace(job, dtype=snapshots.dtype(job) or str(chosen_dtype("auto", device)).removeprefix("torch."))


def _cards() -> list[str]:
    """The GPUs that were given to this process by name."""
    return [card for card in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if card]


def _learn(job: Job, ledger: Listener, home: Path, processes: int) -> Learned:
    if processes == 1:
        return learning.learn(job, ledger)
    while True:
        try:
            with Group(job, home, processes) as group:
                return group.followed(ledger)
        except OutOfMemory as failure:
            if job.recipe.micro_batch == 1:
                raise
            smaller = job.recipe.micro_batch // 2
            log.warning("%s The processes begin anew with a micro-batch of %s.", failure, smaller)
        job = replace(job, recipe=job.recipe.model_copy(update={"micro_batch": smaller}))


class Group:
    """Processes that do a job together, for as long as the `with` lasts."""

    def __init__(self, job: Job, home: Path, processes: int) -> None:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in home.iterdir():  # by a worker that was killed
            shutil.rmtree(left, ignore_errors=True)
        self.processes = processes
        self.folder = Path(tempfile.mkdtemp(dir=home))
        self.pids: list[int] = []
        (self.folder / "job.json").write_text(json.dumps(_written(job)))
        os.mkfifo(self.folder / "said")
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        self._environment.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")

    def __enter__(self) -> Group:
        self._ear = os.open(self.folder / "said", os.O_RDONLY | os.O_NONBLOCK)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(self.processes), "-m", "training.launch", str(self.folder)]
        with (self.folder / "output.log").open("wb") as output:
            self._torchrun = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # its other end is ours alone: where it closes, its reader ends
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=Path(__file__).parents[1],
                start_new_session=True,
            )
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._torchrun.stdin is not None
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._torchrun.kill()
        self._torchrun.stdin.close()
        self._torchrun.wait()
        with suppress(GroupEnded):
            for _ in self._lines(END_S):
                pass
        os.close(self._ear)
        shutil.rmtree(self.folder, ignore_errors=True)

    def followed(self, ledger: Listener) -> Learned:
        """Pass on what the group says until it is done. Raises GroupEnded, and Stopped where it is silent for longer
        than a stop may take."""
        for line in self._lines(SILENCE_S, partial(stops.check, LISTEN_S)):
            kind, said = next(iter(json.loads(line).items()))
            if kind == "pid":
                self.pids.append(said)
            elif kind == "figures":
                ledger.keep(said)
            else:
                ledger.beat(**said)
        self._torchrun.wait()
        self.pids.clear()  # all of them have ended
        found = self.folder / "learned.json"
        if not found.exists():
            raise self._failure()
        return Learned(**json.loads(found.read_text()))

    def _lines(self, patience_s: float, in_silence: Callable[[], None] = lambda: None) -> Iterator[str]:
        """What the group says, line by line, until no process of it is left; `in_silence` is called while it says
        nothing. Raises GroupEnded after a silence."""
        heard, since = b"", time.monotonic()
        while True:
            if select.select([self._ear], [], [], LISTEN_S)[0]:
                piece = os.read(self._ear, 1 << 16)
                if not piece:
                    return
                since = time.monotonic()
                *lines, heard = (heard + piece).split(b"\n")
                yield from (line.decode() for line in lines)
            elif not self.pids and self._torchrun.poll() is not None:  # no process ever spoke
                return
            elif time.monotonic() - since > patience_s:
                raise GroupEnded(f"The {self.processes} learning processes said nothing for {patience_s:.0f} s.")
            else:
                in_silence()

    def _failure(self) -> TalkbackError:
        """The first reason that a process had a name for, else the first that it had, else how it was ended."""
        notes = [json.loads(path.read_text()) for path in self.folder.glob("failure-*.json")]
        notes.sort(key=lambda note: (note["code"] not in NAMED, note["at"]))
        if notes and notes[0]["code"] in NAMED:
            return NAMED[notes[0]["code"]](notes[0]["message"])
        output = (self.folder / "output.log").read_text(errors="replace")
        ended = [name for name in re.findall(r"\((SIG\w+)\)", output) if name != "SIGTERM"]  # which ends the rest
        if ended:
            why = f"one was ended by {ended[0]}"
        elif notes:
            why = notes[0]["message"]
        else:
            why = next(iter(reversed(output.split("\n")[:-1])), "they left no word")
        return GroupEnded(f"The {self.processes} learning processes ended before they were done: {why}.")


# In each process of a group


class Teller:
    """A Listener that says everything to the process that started the group."""

    def __init__(self, said: TextIO) -> None:
        self.said = said

    def tell(self, **what: Any) -> None:
        """Write one line; in one piece, as several processes write."""
        self.said.write(json.dumps(what) + "\n")
        self.said.flush()

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None:
        self.tell(beat={"phase": phase, "done": done, "total": total, "work": work, "force": force})

    def keep(self, figures: dict[str, Any]) -> None:
        self.tell(figures=figures)

    def skip(self, work: int) -> None:
        """A group has no snapshot to go on from."""


class Silent:
    """A Listener for those whose figures the first process says already."""

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None: ...

    def keep(self, figures: dict[str, Any]) -> None: ...

    def skip(self, work: int) -> None: ...


def main() -> None:
    folder = Path(sys.argv[1])
    threading.Thread(target=_end_with_starter, daemon=True).start()
    rank = int(os.environ["RANK"])
    with (folder / "said").open("w") as said:  # open in all of them: it ends with the last
        teller = Teller(said)
        teller.tell(pid=os.getpid())
        with _noted(folder / f"failure-{rank}.json"):
            import torch
            import torch.distributed as dist

            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
            learned = learning.learn(_read(folder), teller if rank == 0 else Silent())
            if rank == 0:
                draft = folder / "learned.draft"
                draft.write_text(json.dumps(asdict(learned)))
                draft.rename(folder / "learned.json")
            dist.barrier()
            dist.destroy_process_group()


def _end_with_starter() -> None:
    """End at once when the process that started the group has ended, however: the kernel closes the pipe."""
    while os.read(0, 1):
        pass
    os._exit(1)


@contextmanager
def _noted(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as failure:
        code = failure.code if isinstance(failure, TalkbackError) else ""
        if isinstance(failure, MemoryError) or "out of memory" in str(failure).lower():
            code = OutOfMemory.code
        message = str(failure) if isinstance(failure, TalkbackError) else f"{type(failure).__name__}: {failure}"
        path.write_text(json.dumps({"code": code, "message": message, "at": time.time()}))
        raise


LISTS: dict[str, type[Example] | type[Question]] = {
    "examples": Example,
    "replayed": Example,
    "questions": Question,
}
"""What a job has several of, by field."""


def _written(job: Job) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(job).items() if name not in ("recipe", *LISTS)},
        "start": None if job.start is None else str(job.start),
        "folder": str(job.folder),
        "snapshot": None,  # a group is killed with the process that started it, in the middle of an update
        "recipe": job.recipe.model_dump(),
        **{name: [asdict(one) for one in getattr(job, name)] for name in LISTS},
    }


def _read(folder: Path) -> Job:
    fields = json.loads((folder / "job.json").read_text())
    return Job(
        **{
            **fields,
            "start": None if fields["start"] is None else Path(fields["start"]),
            "folder": Path(fields["folder"]),
            "recipe": Recipe.model_validate(fields["recipe"]),
            **{name: [kind(**one) for one in fields[name]] for name, kind in LISTS.items()},
        }
    )


if __name__ == "__main__":
    main()
