"""The run folders of a bundle, and training that leaves a bundle."""

import contextlib
import dataclasses
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from penfac.envs.trust import refuse_unasked
from penfac.errors import ConfigError, RunFolderBusy, StorageError
from penfac.policy import Policy
from penfac.runs.checkpoints import Arrays, Meta
from penfac.runs.folder import BEST, create_folder
from penfac.runs.learners import learner_config
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run
from penfac.runs.storage import Lock
from penfac.training import trial
from penfac.training.bundle import (
    DOCUMENTS,
    TABLES,
    Bundle,
    PackedLearner,
    Rows,
    names,
    pack,
    read_bundle,
    read_rows,
    refuse_existing,
    refuse_foreign,
    writing,
)
from penfac.training.limits import Limits, Outcome
from penfac.training.listener import Listener
from penfac.training.request import Request

SCRATCH = "penfac-into-"  # the names of temporary folders begin with this
OWNED = "owner.lock"
YOUNG = 60.0  # seconds

# --- training ------------------------------------------------------------------------------


def start_into(
    file: Path, request: Request, limits: Limits, listener: Listener
) -> Outcome:
    """Begin a new run that leaves two files; its folders end with this process."""
    refuse_existing(file, "choose another --into, or continue it with `penfac resume`")
    with scratch(file.absolute(), limits) as (home, within):
        outcome = trial.start(dataclasses.replace(request, out=home), within, listener)
        return dataclasses.replace(outcome, folder=names(file)[1])


def resume_into(
    file: Path, limits: Limits, listener: Listener, steps: int | None = None
) -> Outcome:
    """Go on with such a run, in its two files."""
    config = read_bundle(names(file)[1])[1]
    if config.search is not None:
        raise ConfigError(
            f"{file}: is a search; unpack it with `penfac runs unpack`, then resume"
        )
    refuse_unasked(config.env, file, limits.trust)
    with scratch(file.absolute(), limits) as (home, within):
        folder = unpack(file, home, pictures=False)
        outcome = trial.resume(folder, within, listener, steps)
        return dataclasses.replace(outcome, folder=names(file)[1])


def sweep_scratch() -> None:
    """Remove the temporary folders of processes that were killed.

    Their lock is free then. One that was made a moment ago may not be locked yet.
    """
    for home in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with contextlib.suppress(OSError, RunFolderBusy, StorageError):
            found = home.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if ours and time.time() - found.st_mtime > YOUNG:
                with Lock(home, OWNED):
                    shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def scratch(file: Path, limits: Limits) -> Iterator[tuple[Path, Limits]]:
    """A temporary place for run folders, and limits that pack each checkpoint."""
    sweep_scratch()
    with (
        writing(file),
        tempfile.TemporaryDirectory(prefix=SCRATCH) as home,
        Lock(Path(home), OWNED),
    ):
        saved = lambda folder: pack(Run.open(folder), file)  # noqa: E731
        yield Path(home), dataclasses.replace(limits, pictures=False, saved=saved)


# --- unpacking -----------------------------------------------------------------------------


def unpack(file: Path, out: Path, pictures: bool = True) -> Path:
    """Make the run folders of a bundle under `out`; return the run's own."""
    table, state = names(file)
    bundle, config, tensors = read_bundle(state)
    rows = read_rows(table)
    home = out if config.search is None else out / "tune"

    def fill(folder: Path) -> None:
        with refuse_foreign(state):
            unpack_into(Run(folder, config), bundle, tensors, rows, pictures)

    return create_folder(home, config.algo, config.env, None, fill)


def unpack_into(
    run: Run, bundle: Bundle, tensors: Arrays, rows: Rows, pictures: bool
) -> None:
    trial.write_configs(run)
    recorders = []
    for k, learner in enumerate(run.learners):
        packed = bundle.learners[k]
        if (packed.arm, packed.seed) != (learner.arm, learner.seed):
            raise ValueError(f"{learner} is {packed.arm}, {packed.seed}")
        recorder = Recorder(learner, learner_config(run.config, learner))
        recorders.append(recorder)
        write_rows(recorder, packed, rows)
        write_checkpoint(recorder, packed, tensors, tensors.get(f"{BEST}/{k}"))
        write_documents(recorder, packed)
        if f"policy/{k}" in tensors:
            policy = tensors[f"policy/{k}"].tobytes()
            recorder.folder.write("policy/policy.safetensors", policy)
        if pictures:
            recorder.fill_tensorboard()
        recorder.folder.close()
    recorders[0].folder.write("log.txt", bundle.log.encode())
    if pictures:
        recorders[0].draw(run.path, recorders, now=True)


def write_rows(recorder: Recorder, packed: PackedLearner, rows: Rows) -> None:
    learner = recorder.learner
    for table, name in TABLES.items():
        own = rows.get((learner.arm or "", str(learner.seed), table), [])
        columns = packed.columns[table]
        if own and columns:
            recorder.folder.append(name, [{c: row[c] for c in columns} for row in own])
    recorder.folder.close()


def write_checkpoint(
    recorder: Recorder, packed: PackedLearner, tensors: Arrays, best: np.ndarray | None
) -> None:
    if packed.meta is None:
        recorder.rewind(None)
        return
    meta = msgspec.convert(packed.meta, Meta, from_attributes=True)
    recorder.rewind(meta, None if best is None else best.tobytes())
    prefix = f"{packed.stack}/"
    arrays = {
        name.removeprefix(prefix): np.array(whole[packed.row])
        for name, whole in tensors.items()
        if name.startswith(prefix)
    }
    if best is not None:
        arrays[BEST] = best
        recorder.folder.write_policy(BEST, Policy.load(recorder.folder.path / BEST))
    evaluated = meta.counters["evaluated_at"] == meta.counters["step"]
    recorder.folder.save_checkpoint(meta.update, arrays, meta, evaluated)


def write_documents(recorder: Recorder, packed: PackedLearner) -> None:
    for name in DOCUMENTS:
        document = getattr(packed, name.rpartition("/")[2])
        if document is not None:
            recorder.folder.write_json(f"{name}.json", document)
