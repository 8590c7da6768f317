"""Copy a run folder to another place, completely or not at all."""

import contextlib
import os
import shutil
from pathlib import Path

from penfac.errors import ConfigError, PenfacError
from penfac.runs.config import read_config
from penfac.runs.folder import RunFolder
from penfac.runs.storage import Lock, refuse_links, storage, temporary_in

LEFT_BEHIND = shutil.ignore_patterns("lock", ".tmp-*", ".probe-*")


def copy_run(run: Path, target: Path, locked: bool = False) -> None:
    """Copy a learner's folder, in place of an earlier copy; `locked` by the caller."""
    if run.resolve() == target.resolve():
        return
    check_target(run, target)
    refuse_links(run)
    lock = contextlib.nullcontext() if locked else Lock(run)
    with lock, storage(target):  # no process writes while we read
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_in(target.parent)
        try:
            shutil.copytree(run, temporary, ignore=LEFT_BEHIND)
            RunFolder(temporary).load_checkpoint()  # raises if none is good
            put(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_target(run: Path, target: Path) -> None:
    """Refuse to replace anything but another learner's folder."""
    home, place = run.resolve(), target.resolve()
    if home in place.parents or place in home.parents:
        raise ConfigError(f"{target}: must not be inside the run {run}, nor around it")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        config = read_config(target)
    except PenfacError:
        raise ConfigError(
            f"{target}: exists and is not a saved model; choose another folder"
        ) from None
    if len(config.seeds) > 1 or config.arms is not None:
        raise ConfigError(
            f"{target}: is a run of several learners; choose another folder"
        )


def put(temporary: Path, target: Path) -> None:
    """Move the copy to its place; if that fails, restore the older folder."""
    if not target.exists():
        os.rename(temporary, target)
        return
    aside = temporary_in(target.parent)
    with Lock(target):  # a process may be learning there
        os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(aside, target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
