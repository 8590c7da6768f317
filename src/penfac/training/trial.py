"""Start or resume a run: lock its folder, restore its learners, train them."""

import contextlib
import dataclasses
import logging
import os
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from penfac.algos import ALGORITHMS
from penfac.engines.base import Job
from penfac.engines.build import build_engine
from penfac.envs.calls import Watch
from penfac.envs.gym import check_id
from penfac.errors import (
    ConfigError,
    OutOfMemory,
    PenfacError,
    RunFolderBusy,
    StorageError,
    one_line,
)
from penfac.runs.config import FILE, RunConfig, check_config
from penfac.runs.folder import RunFolder, create_folder
from penfac.runs.learners import configs_of, learner_config
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run
from penfac.runs.sealed import newest_meta
from penfac.runs.storage import Lock, make_folder, probe_storage, refuse_links
from penfac.training.crew import crew_of
from penfac.training.environment import find_env
from penfac.training.interruption import Interruption, Watchdog
from penfac.training.limits import Limits, Outcome
from penfac.training.listener import Listener
from penfac.training.loop import Loop
from penfac.training.place import place_of, tell_place
from penfac.training.request import Request, resolve, stamp
from penfac.training.restore import restore
from penfac.training.tracked import tracked

HANDOVER = 60.0  # seconds: the workers of a driver that was killed save and leave
NO_LOCK = (
    "this file system has no locks, so nothing stops a second process from training "
    "here; start none"
)


def start(request: Request, limits: Limits, listener: Listener) -> Outcome:
    """Begin a new run in a new folder."""
    out = request.out.absolute()  # an environment may change the folder of the process
    config = stamp(resolve(request), limits.command)
    fill = lambda home: write_configs(Run(home, config))  # noqa: E731
    folder = create_folder(out, request.algo, request.env, request.name, fill)
    named = request.out / folder.relative_to(out)
    tell_place(config, request.on, listener.noted)
    try:
        return train_run(Run(folder, config), limits, listener, named, fresh=True)
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
    run = Run(folder.absolute(), Run.open(folder).config)
    find_env(run, limits.trust)
    config = run.config
    if steps is not None and steps != config.steps:
        # both commands are needed to get there again
        typed = " && ".join(filter(None, (config.command, limits.command)))
        config = replace(config, steps=steps, command=typed)
        check_config(config)
        refuse_shorter(run, steps)
    return train_run(Run(run.path, config), limits, listener, folder)


def refuse_shorter(run: Run, steps: int) -> None:
    """Refuse a budget that is smaller than what a learner has done of the old one."""
    found = (newest_meta(learner.path) for learner in run.learners)
    done = max((meta.counters.get("step", 0) for meta in found if meta), default=0)
    done = min(done, run.config.steps)  # the last update goes beyond the budget
    if steps < done:
        raise ConfigError(
            f"--steps {steps}: {run.path} has done {done:,} steps; must be at least that"
        )


def train_silently(run: Run, limits: Limits) -> int:
    """Train a run in a worker process; return its exit code."""
    give_up = time.monotonic() + HANDOVER
    while True:
        try:
            check_id(run.config.env)  # imports the module of the user's environment
            with (
                open(os.devnull, "w", encoding="utf-8") as nowhere,
                contextlib.redirect_stdout(nowhere),
            ):
                return train_run(run, limits, Listener()).exit_code
        except RunFolderBusy as error:
            if time.monotonic() > give_up:
                return error.exit_code
            time.sleep(0.2)
        except PenfacError as error:
            return error.exit_code


def train_run(
    run: Run,
    limits: Limits,
    listener: Listener,
    named: Path | None = None,
    fresh: bool = False,
) -> Outcome:
    """Train a run, at an absolute path, under its locks; the user calls it `named`."""
    named = named or run.path
    allow_open_files(8 * len(run.learners))
    refuse_links(run.path)
    probe_storage(run.path)
    with contextlib.ExitStack() as locks:
        if not locks.enter_context(Lock(run.path)).held:
            listener.noted(f"{named}: {NO_LOCK}")
        for learner in run.learners:
            make_folder(learner.path)
            if learner.path != run.path:
                locks.enter_context(Lock(learner.path))
        recorders = [
            Recorder(x, learner_config(run.config, x), limits.pictures)
            for x in run.learners
        ]
        with tracked(run, limits, recorders, listener.noted):
            outcome = train_locked(run, limits, listener, recorders, named, fresh)
        return dataclasses.replace(outcome, folder=named)


def train_locked(
    run: Run,
    limits: Limits,
    listener: Listener,
    recorders: list[Recorder],
    named: Path,
    fresh: bool,
) -> Outcome:
    """Build the engine, restore the learners, and train."""

    def on_hang() -> None:
        message = (
            f"{run.config.env}: a call lasted more than {limits.env_timeout:g} s, the "
            "limit of --env-timeout; `penfac resume` continues"
        )
        for recorder in recorders:
            recorder.write_status("failed", 3, message)
        # the process ends here: nobody else can report it
        print(f"penfac: {one_line(message)}", file=sys.stderr, flush=True)

    def note(text: str) -> None:
        recorders[0].folder.log(text)
        listener.noted(text)

    watch = Watch()
    with (
        Interruption(limits.stop_after) as interruption,
        logging_to(recorders[0]),
        record_failures(recorders),
        Watchdog(watch, limits.env_timeout, on_hang),
    ):
        job = job_of(run.config)._replace(
            cfg=recorders[0].config.settings,
            poll=interruption.poll,
            watch=watch,
            note=note,
        )
        seeds = [r.learner.seed for r in recorders]
        settings = [r.config.settings for r in recorders]
        with crew_of(run.config, limits, job, len(seeds)) as crew:
            job, kind = job._replace(crew=crew), run.config.engine
            engine = build_engine(job, kind, seeds, settings, limits.at_once)
            counters = restore(engine, recorders, listener.noted, fresh)
            if not fresh:  # only now is it known to fit the checkpoints
                write_configs(run)
            recorders[0].folder.log(place_of(run.config))
            listener.started(named, run.config, sum(c.step for c in counters))
            loop = Loop(run, limits, listener, recorders, engine, counters)
            listener.attached(loop)
            return loop.train(interruption)


def job_of(config: RunConfig) -> Job:
    """What an engine needs to know of a run."""
    return Job(
        algo=ALGORITHMS[config.algo],
        cfg=config.settings,
        env_id=config.env,
        options=config.env_options,
        steps=config.steps,
        restarts=config.restarts,
        eval_episodes=config.eval_episodes,
    )


def allow_open_files(needed: int) -> None:
    """Raise the limit on open files: hundreds of learners need thousands of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def write_configs(run: Run) -> None:
    """Write config.json of the run, of each arm and of each learner; sweep the folders."""
    for path, config in configs_of(run.path, run.config).items():
        make_folder(path)
        home = RunFolder(path)
        home.sweep()
        home.write_json(FILE, config.to_document())


# --- failures ------------------------------------------------------------------------------


@contextlib.contextmanager
def logging_to(recorder: Recorder) -> Iterator[None]:
    """Send what our modules log to the run's log.txt while the run lasts."""
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


@contextlib.contextmanager
def record_failures(recorders: list[Recorder]) -> Iterator[None]:
    """Leave every failure in the run's files; raise it as a PenfacError."""
    try:
        yield
    except StorageError as error:
        where = record_failure(recorders, error)
        raise StorageError(f"{error}; {where}" if where else str(error)) from error
    except PenfacError as error:
        record_failure(recorders, error)
        raise
    except MemoryError as error:
        record_failure(recorders, error)
        raise OutOfMemory(
            "out of memory; use fewer worlds or smaller networks"
        ) from error
    except Exception as error:
        record_failure(recorders, error)
        if "RESOURCE_EXHAUSTED" in str(error):
            raise OutOfMemory(f"out of device memory: {error}") from error
        log = recorders[0].folder.path / "log.txt"
        raise PenfacError(
            f"unexpected {type(error).__name__}: {error} (the traceback is in {log})"
        ) from error
    finally:
        for recorder in recorders:
            recorder.folder.close()


def record_failure(recorders: list[Recorder], error: BaseException) -> str | None:
    """Write traceback and status; return where a status went that its folder refused."""
    code = error.exit_code if isinstance(error, PenfacError) else 1
    where = None
    for recorder in recorders:
        with contextlib.suppress(StorageError):
            recorder.folder.log("".join(traceback.format_exception(error)))
        where = recorder.write_status("failed", code, str(error))
    return where
