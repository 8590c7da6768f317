"""What a learner's newest checkpoint says of its other files, for those who read them."""

from pathlib import Path
from typing import Any

from penfac.errors import ConfigError, CorruptFile
from penfac.runs import checkpoints
from penfac.runs.checkpoints import Meta
from penfac.runs.config import FILE, RunConfig, differences
from penfac.runs.csv_files import bytes_of, differs, fits, reading
from penfac.runs.folder import RunFolder
from penfac.settings.registry import settings_of


def newest_meta(path: Path) -> Meta | None:
    """The newest state.json that verifies; None where no checkpoint was written yet.

    The arrays are not read: a thousand learners take a fraction of a second."""
    complaints = {}
    for folder in checkpoints.newest_first(path / "checkpoints"):
        try:
            return checkpoints.read_meta(folder)
        except CorruptFile as error:
            complaints[folder] = str(error)
    if not complaints:
        return None
    if all(folder.exists() for folder in complaints):
        raise CorruptFile("; ".join(complaints.values()))
    return newest_meta(path)  # a process that learns has removed one meanwhile


# --- rows ----------------------------------------------------------------------------------


def checked_bytes(path: Path, name: str) -> bytes:
    """The bytes of a CSV file, which must begin as its checkpoint remembers."""
    with reading(path / name, "cannot be read"):
        meta = newest_meta(path)  # first: the file may grow meanwhile
        data = bytes_of(path / name)
        if meta is None or fits(data, meta.csv.get(name)):
            return data
        # a run that was resumed from the checkpoint before a damaged one has cut it back
        loaded = RunFolder(path).load_checkpoint()
        data = bytes_of(path / name)
    if loaded is None or not fits(data, loaded.meta.csv.get(name)):
        raise differs(path / name)
    return data


def newer_rows(path: Path, name: str) -> int:
    """How many rows of a CSV file no checkpoint vouches for yet."""
    meta = newest_meta(path)
    mark = None if meta is None else meta.csv.get(name)
    if mark is None:
        return max(0, bytes_of(path / name).count(b"\n") - 1)
    try:
        with open(path / name, "rb") as file:
            file.seek(mark.bytes)
            return file.read().count(b"\n")
    except OSError:
        return 0


# --- config.json -----------------------------------------------------------------------------


def refuse_changed(path: Path, config: RunConfig) -> None:
    """Refuse a learner's config that is not the one its newest checkpoint was made with."""
    meta = newest_meta(path)
    if meta is not None:
        refuse_other(path, meta.identity, config)


def refuse_other(path: Path, saved: dict[str, Any], config: RunConfig) -> None:
    """Refuse a config that differs from the identity which a checkpoint has saved."""
    own = config.identity()
    if not isinstance(saved.get("config"), dict):
        raise CorruptFile(
            f"{path}: its checkpoint is not from penfac (it has no config)"
        )
    earlier = settings_of(config.algo).earlier
    saved = saved | {"config": {**earlier, **saved["config"]}}
    if "seed" not in saved:  # made before checkpoints named their learner
        own = {key: own[key] for key in own.keys() - {"seed", "arm"}}
    if changes := differences(saved, own):
        raise ConfigError(
            f"{path}: {FILE} was changed since the checkpoint: {'; '.join(changes)}"
        )
