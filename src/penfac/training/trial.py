"""One trial: a request becomes a run folder, a loop, and what it leaves behind.

Whatever trains comes through here.
"""

import contextlib
import logging
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.engines.base import Engine, Job
from penfac.engines.build import build_engine
from penfac.envs.gym import Watch, check_id
from penfac.errors import (
    ConfigError,
    OutOfMemory,
    PenfacError,
    StorageError,
)
from penfac.runs.folder import (
    Lock,
    RunFolder,
    create_folder,
    probe_storage,
    read_config,
    storage,
)
from penfac.runs.learners import documents, learner_document, learners_of
from penfac.runs.recorder import Recorder
from penfac.settings.configs import check, from_values
from penfac.training.events import Limits, Listener, Outcome, Trial
from penfac.training.interruption import Interruption, Watchdog
from penfac.training.request import (
    Request,
    check_document,
    env_options,
    resolve,
    versions,
)
from penfac.training.restore import restore


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
    before = document.get("steps")
    if steps is not None:
        if steps < 1:
            raise ConfigError(f"--steps {steps}: must be at least 1")
        document["steps"] = steps
    check_document(folder / "config.json", document)
    if document["steps"] != before:  # it takes both commands to get there again
        typed = filter(None, (document.get("command"), limits.command))
        document["command"] = " && ".join(map(str, typed))
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
            f"{document['env']}: a call lasted more than {limits.env_timeout:g} s, the limit of "
            "--env-timeout; `penfac resume` continues"
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
                "out of memory; use fewer worlds or smaller networks"
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
        check(cfg)
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
        eval_episodes=document["eval_episodes"],
    )
    seeds = [r.learner.seed for r in recorders]
    return build_engine(job, document["engine"], seeds, own, limits.at_once)
