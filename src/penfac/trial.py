"""One trial: a request becomes a run folder, a loop, and what it leaves behind.

Whatever trains comes through here.
"""

import contextlib
import dataclasses
import logging
import resource
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.configs import from_values
from penfac.engines.base import Counters, Engine, Job
from penfac.engines.build import build_engine
from penfac.envs.gym import Watch, check_id
from penfac.errors import (
    ConfigError,
    OutOfMemory,
    PenfacError,
    StorageError,
)
from penfac.interruption import Interruption, StopRequested, Watchdog
from penfac.learners import Learner, documents, learner_document, learners_of
from penfac.recorder import Recorder
from penfac.request import (
    Request,
    check_document,
    env_options,
    identity,
    resolve,
    versions,
)
from penfac.restore import restore
from penfac.runs import (
    Lock,
    RunFolder,
    create_folder,
    probe_storage,
    read_config,
    storage,
)
from penfac.train import Evaluated, Event, Failed, Schedule, Settled, Updated, train
from penfac.types import EvalPoint


@dataclass
class Limits:
    """How this process runs; none of it reaches the result."""

    stop_after: float | None = None
    checkpoint_every: float = 15.0  # seconds
    env_timeout: float = 300.0
    command: str = ""
    at_once: int | None = None  # learners that share a program on a device
    until: int | None = None  # stop at this step, of a run that is to be longer
    pictures: bool = True  # curves and TensorBoard
    saved: Callable[[Path], None] | None = None  # called after every checkpoint of all


@dataclass
class Outcome:
    """How a trial ended."""

    folder: Path
    exit_code: int
    reason: str
    steps: int  # of all seeds
    steps_now: int  # ... of them since this process took over
    seconds: float
    finals: dict[Learner, EvalPoint]  # the last evaluation
    scores: dict[Learner, float]  # mean minus std of the last tenth of evaluations
    errors: dict[Learner, str]


class Listener:
    """Who wants to hear how it goes. Does nothing; the command line overrides."""

    def started(self, folder: Path, document: dict[str, Any], done: int) -> None: ...

    def updated(self, who: Learner, counters: Counters, event: Updated) -> None: ...

    def evaluated(self, who: Learner, counters: Counters, point: EvalPoint) -> None: ...

    def noted(self, text: str) -> None: ...


# --- running ---------------------------------------------------------------------------


def start(request: Request, limits: Limits, listener: Listener) -> Outcome:
    """A new run in a new folder."""
    document = resolve(request)
    folder = create_folder(request.out, request.algo, request.env, request.name)
    document |= {
        "command": limits.command,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
    }
    try:
        return run(folder, document, limits, listener, fresh=True)
    except ConfigError:
        # nothing was learned: an environment we cannot use leaves no folder behind
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
            folder.parent.parent.rmdir()
        raise


def resume(
    folder: Path, limits: Limits, listener: Listener, steps: int | None = None
) -> Outcome:
    """Go on exactly where a run stopped; `steps` may give it a longer budget."""
    document = read_config(folder)
    if steps is not None:
        if steps < 1:
            raise ConfigError(f"--steps {steps}: needs at least 1")
        document["steps"] = steps
    check_document(folder / "config.json", document)
    check_id(document["env"])
    return run(folder, document, limits, listener, fresh=False)


def run(
    folder: Path,
    document: dict[str, Any],
    limits: Limits,
    listener: Listener,
    fresh: bool,
) -> Outcome:
    """Everything between the lock and its release."""
    learners = learners_of(folder, document)
    allow_open_files(8 * len(learners))
    probe_storage(folder)
    locks = [Lock(folder)]
    try:
        for learner in learners:
            with storage(learner.path):
                learner.path.mkdir(parents=True, exist_ok=True)
            if learner.path != folder:
                locks.append(Lock(learner.path))
        recorders = [
            Recorder(
                RunFolder(x.path), x, learner_document(document, x), limits.pictures
            )
            for x in learners
        ]
        if fresh:
            write_configs(folder, document)
        return _run_locked(folder, document, limits, listener, recorders, fresh)
    finally:
        for lock in locks:
            lock.release()


def allow_open_files(needed: int) -> None:
    """Hundreds of learners have thousands of files; a soft limit is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def write_configs(folder: Path, document: dict[str, Any]) -> None:
    """config.json of the run, of each arm and seed; what a killed process left goes."""
    for path, own in documents(folder, document).items():
        with storage(path):
            path.mkdir(parents=True, exist_ok=True)
        home = RunFolder(path)
        home.sweep()
        home.write_json("config.json", own)


def _run_locked(
    folder: Path,
    document: dict[str, Any],
    limits: Limits,
    listener: Listener,
    recorders: list[Recorder],
    fresh: bool,
) -> Outcome:
    watch = Watch()

    def on_hang() -> None:
        message = (
            f"{document['env']}: a call lasted more than {limits.env_timeout:g} s; "
            "--env-timeout sets how long one may, `penfac resume` goes on"
        )
        for recorder in recorders:
            recorder.status("failed", 3, message)
        print(
            f"penfac: {message}", file=sys.stderr, flush=True
        )  # the process ends here

    with Interruption(limits.stop_after) as interruption, logging_to(recorders[0]):
        watchdog = Watchdog(watch, limits.env_timeout, on_hang)
        try:
            engine = engine_for(
                document, limits, interruption, watch, recorders, listener
            )
            counters = restore(engine, recorders, listener.noted, fresh)
            if not fresh:  # only now is it known to fit the checkpoints
                write_configs(folder, document)
            listener.started(folder, document, sum(c.step for c in counters))
            trial = Trial(
                folder, document, limits, listener, recorders, engine, counters
            )
            return trial.go(interruption)
        except StorageError as error:
            where = fail(recorders, error)
            raise StorageError(f"{error}; {where}" if where else str(error)) from error
        except PenfacError as error:
            fail(recorders, error)
            raise
        except MemoryError as error:
            fail(recorders, error)
            raise OutOfMemory(
                "out of memory; fewer worlds or smaller networks help"
            ) from error
        except Exception as error:
            fail(recorders, error)
            if "RESOURCE_EXHAUSTED" in str(error):
                raise OutOfMemory(f"out of device memory: {error}") from error
            log = recorders[0].folder.path / "log.txt"
            raise PenfacError(
                f"unexpected {type(error).__name__}: {error} (the traceback is in {log})"
            ) from error
        finally:
            watchdog.stop()
            for recorder in recorders:
                recorder.folder.close()


@contextlib.contextmanager
def logging_to(recorder: Recorder):
    """What our modules log goes to the run's log.txt while the run lasts."""
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: recorder.folder.log(record.getMessage())
    logger = logging.getLogger("penfac")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)


def fail(recorders: list[Recorder], error: BaseException) -> str | None:
    """The traceback goes to the log, the line to status.json or wherever it could."""
    code = error.exit_code if isinstance(error, PenfacError) else 1
    where = None
    for recorder in recorders:
        with contextlib.suppress(StorageError):
            recorder.folder.log("".join(traceback.format_exception(error)))
        where = recorder.status("failed", code, str(error))
    return where


def engine_for(
    document: dict[str, Any],
    limits: Limits,
    interruption: Interruption,
    watch: Watch,
    recorders: list[Recorder],
    listener: Listener,
) -> Engine:
    def note(text: str) -> None:
        recorders[0].folder.log(text)
        listener.noted(text)

    algo = ALGORITHMS[document["algo"]]
    own = [from_values(algo.config, r.document["config"]) for r in recorders]
    for cfg in dict.fromkeys(own):
        algo.check(cfg)
    job = Job(
        algo=algo,
        cfg=own[0],
        env_id=document["env"],
        options=env_options(document),
        steps=document["steps"],
        restarts=document["restarts"],
        poll=interruption.poll,
        watch=watch,
        note=note,
    )
    seeds = [r.learner.seed for r in recorders]
    return build_engine(job, document["engine"], seeds, own, limits.at_once)


class Trial:
    """The loop's events on their way to disk and to whoever listens."""

    def __init__(
        self,
        folder: Path,
        document: dict[str, Any],
        limits: Limits,
        listener: Listener,
        recorders: list[Recorder],
        engine: Engine,
        counters: list[Counters],
    ):
        self.folder, self.document, self.limits = folder, document, limits
        self.listener, self.recorders = listener, recorders
        self.engine, self.counters = engine, counters
        self.errors: dict[int, PenfacError] = {}
        self.began = self.checkpointed = time.monotonic()
        self.steps_before = sum(c.step for c in counters)

    def go(self, interruption: Interruption) -> Outcome:
        for recorder in self.recorders:
            recorder.status("running", None, "")
        document = self.document
        until = self.limits.until or document["steps"]
        schedule = Schedule(
            min(document["steps"], until),
            document["eval_every"],
            document["eval_episodes"],
            document["eval_unit"],
        )
        short = schedule.steps < document["steps"]
        reason, code = f"reached step {until}" if short else "finished", 0
        events = train(self.engine, self.counters, schedule)
        try:
            while (event := self.next_event(events)) is not None:
                if isinstance(event, Settled):
                    self.checkpoint_if_due()
                    interruption.poll()
                else:
                    self.handle(event)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
        self.leave(reason, code)
        if code == 0 and self.errors:
            code = next(iter(self.errors.values())).exit_code
            what = "learners" if "arms" in document else "seeds"
            reason = f"{len(self.errors)} of {len(self.recorders)} {what} failed"
        return self.outcome(reason, code)

    def next_event(self, events: Iterator[Event]) -> Event | None:
        """The next event; what stops us here finds counters and files in agreement, so
        whatever is whole is saved before it goes on its way."""
        try:
            return next(events, None)
        except StopRequested:
            raise
        except Exception:
            for i in range(len(self.recorders)):
                with contextlib.suppress(Exception):
                    self.save(i)
            raise

    def handle(self, event: Evaluated | Updated | Failed) -> None:
        i = event.learner
        recorder, counters = self.recorders[i], self.counters[i]
        who = recorder.learner
        if isinstance(event, Updated):
            recorder.updated(counters, event.progress)
            self.listener.updated(who, counters, event)
        elif isinstance(event, Evaluated):
            recorder.evaluated(event.point)
            recorder.draw(self.folder, self.recorders)
            self.listener.evaluated(who, counters, event.point)
        else:
            self.errors[i] = event.error
            recorder.fault(event.error)
            self.save(i)
            recorder.status("failed", event.error.exit_code, str(event.error))
            self.listener.noted(f"{who}: {event.error}")

    def checkpoint_if_due(self) -> None:
        if time.monotonic() - self.checkpointed >= self.limits.checkpoint_every:
            self.save_all()
            self.tell_saved()
            self.checkpointed = time.monotonic()

    def tell_saved(self) -> None:
        if self.limits.saved is not None:
            self.limits.saved(self.folder)

    def save_all(self) -> None:
        for i in range(len(self.recorders)):
            if i not in self.errors:
                self.save(i)

    def save(self, i: int) -> None:
        recorder, counters = self.recorders[i], self.counters[i]
        meta = {
            "identity": identity(recorder.document),
            "counters": dataclasses.asdict(counters),
            "versions": versions(),
        }
        recorder.checkpoint(
            counters, self.engine.snapshot(i), meta, self.engine.policy(i)
        )

    def leave(self, reason: str, code: int) -> None:
        """Save everything and say how it stands."""
        self.save_all()
        self.recorders[0].draw(self.folder, self.recorders, now=True)
        state = "finished" if reason == "finished" else "stopped"
        for i, recorder in enumerate(self.recorders):
            if i not in self.errors:
                recorder.status(state, code, reason if state == "stopped" else "")
        self.tell_saved()
        with contextlib.suppress(PenfacError):
            self.engine.close()

    def outcome(self, reason: str, code: int) -> Outcome:
        finals = {r.learner: r.last_point for r in self.recorders if r.last_point}
        return Outcome(
            folder=self.folder,
            exit_code=code,
            reason=reason,
            steps=sum(c.step for c in self.counters),
            steps_now=sum(c.step for c in self.counters) - self.steps_before,
            seconds=time.monotonic() - self.began,
            finals=finals,
            scores={r.learner: authors_score(r.curve.returns) for r in self.recorders},
            errors={self.recorders[i].learner: str(e) for i, e in self.errors.items()},
        )


def authors_score(returns: list[float]) -> float:
    """Mean minus standard deviation of the last tenth of the evaluations, the very last
    one left out: what the authors ranked settings by."""
    if len(returns) < 2:
        return returns[-1] if returns else float("nan")
    tenth = max(1, len(returns) // 10)
    tail = returns[:-1][-tenth:]
    return statistics.fmean(tail) - (statistics.pstdev(tail) if len(tail) > 1 else 0.0)
