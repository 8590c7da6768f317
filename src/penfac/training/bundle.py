"""A whole run as two files, however many learners it has: NAME.csv and NAME.safetensors.

For a far host that gives back few files. The CSV holds every row of every learner's
progress and evaluations; the other the newest checkpoint and policy of each, arrays of
the same shape stacked along a leading axis. Run folders come out of them again, with the
bytes they would have had.
"""

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.runs.folder import (
    CSV_FILES,
    Lock,
    RunFolder,
    create_folder,
    read_config,
    read_csv,
    storage,
)
from penfac.runs.learners import learner_document, learners_of
from penfac.runs.recorder import Recorder
from penfac.training import trial
from penfac.training.events import Limits, Listener, Outcome
from penfac.training.request import Request, check_document

FORMAT = 1
TABLES = {name.removesuffix(".csv"): name for name in CSV_FILES}


def names(file: Path) -> tuple[Path, Path]:
    """NAME.csv and NAME.safetensors, whichever of them, or NAME, was given."""
    known = file.suffix in (".csv", ".safetensors")
    stem = file.name.removesuffix(file.suffix) if known else file.name
    return file.with_name(f"{stem}.csv"), file.with_name(f"{stem}.safetensors")


def is_bundle(path: Path) -> bool:
    return not path.is_dir() and names(path)[1].is_file()


# --- training into two files ------------------------------------------------------------


def start_into(
    file: Path, request: Request, limits: Limits, listener: Listener
) -> Outcome:
    """A new run that leaves two files; its folders live and die with this process."""
    for path in names(file):
        if path.exists():
            raise RunFolderBusy(
                f"{path}: exists; choose another --into, or continue it with "
                f"`penfac resume`"
            )
    with scratch(file, limits) as (home, within):
        outcome = trial.start(dataclasses.replace(request, out=home), within, listener)
        return dataclasses.replace(outcome, folder=names(file)[1])


def resume_into(
    file: Path, limits: Limits, listener: Listener, steps: int | None = None
) -> Outcome:
    """Go on with such a run, in its two files."""
    if "search" in read_state(names(file)[1])[0]["document"]:
        raise ConfigError(
            f"{file}: is a search; unpack it with `penfac runs unpack`, then resume"
        )
    with scratch(file, limits) as (home, within):
        folder = unpack(file, home, pictures=False)
        outcome = trial.resume(folder, within, listener, steps)
        return dataclasses.replace(outcome, folder=names(file)[1])


@contextlib.contextmanager
def scratch(file: Path, limits: Limits) -> Iterator[tuple[Path, Limits]]:
    """A place for run folders, and limits under which each checkpoint is packed."""
    with storage(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    name = names(file)[1].with_suffix(".lock").name
    lock = Lock(file.parent, name)
    try:
        with tempfile.TemporaryDirectory(prefix="penfac-") as home:
            saved = lambda folder: pack(folder, file)  # noqa: E731
            yield Path(home), dataclasses.replace(limits, pictures=False, saved=saved)
    finally:
        (file.parent / name).unlink(missing_ok=True)  # two files, no third
        lock.release()


# --- packing --------------------------------------------------------------------------


def pack(folder: Path, file: Path) -> None:
    """Write both files; a kill in between leaves rows that no checkpoint knows, which
    unpacking cuts off, and never a checkpoint without its rows."""
    document = read_config(folder)
    document.pop("alive", None)  # a search's: what it left behind is part of it
    learners, tensors = [], {}
    stacks: dict[str, list[dict[str, np.ndarray]]] = {}
    for k, learner in enumerate(learners_of(folder, document)):
        home = RunFolder(learner.path)
        about: dict[str, Any] = {"arm": learner.arm, "seed": learner.seed}
        saved = home.load_checkpoint()
        if saved is not None:
            arrays, meta, _ = saved
            shape = json.dumps([[n, a.shape, str(a.dtype)] for n, a in arrays.items()])
            stack = stacks.setdefault(shape, [])
            about |= {"stack": list(stacks).index(shape), "row": len(stack)}
            about["meta"] = {key: meta[key] for key in KEPT}
            stack.append(arrays)
        about["columns"] = {t: header(learner.path / n) for t, n in TABLES.items()}
        for name in ("status", "fault", "policy/policy"):
            path = learner.path / f"{name}.json"
            if path.is_file():
                about[name] = json.loads(path.read_text(encoding="utf-8"))
        policy = learner.path / "policy" / "policy.safetensors"
        if policy.is_file():
            tensors[f"policy/{k}"] = np.frombuffer(policy.read_bytes(), np.uint8)
        learners.append(about)
    for n, stack in enumerate(stacks.values()):
        for name in stack[0]:
            tensors[f"{n}/{name}"] = np.stack([arrays[name] for arrays in stack])
    log = folder_log(folder, document)
    about = {"format": FORMAT, "document": document, "learners": learners, "log": log}
    text = json.dumps(about)
    table, state = names(file)
    home = RunFolder(file.parent)
    home.write(table.name, every_row(folder, document), sync=True)
    data = tensors_to_bytes(tensors, {"penfac": text, "seal": seal(text, tensors)})
    home.write(state.name, data, sync=True)


def seal(text: str, tensors: dict[str, np.ndarray]) -> str:
    """The sha256 of all that the file says."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


KEPT = ("identity", "counters", "versions", "update", "csv")  # of a checkpoint's meta


def folder_log(folder: Path, document: dict[str, Any]) -> str:
    path = learners_of(folder, document)[0].path / "log.txt"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def every_row(folder: Path, document: dict[str, Any]) -> bytes:
    """All CSV files of all learners as one, told apart by its first three columns."""
    rows, columns = [], dict.fromkeys(("arm", "seed", "table"))
    for learner in learners_of(folder, document):
        for table, name in TABLES.items():
            who = {"arm": learner.arm or "", "seed": learner.seed, "table": table}
            rows += [who | row for row in read_csv(learner.path / name)]
            columns |= dict.fromkeys(header(learner.path / name))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def header(path: Path) -> list[str]:
    """The columns of a CSV file; none where there is no file yet."""
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


# --- unpacking ------------------------------------------------------------------------


def unpack(file: Path, out: Path, pictures: bool = True) -> Path:
    """The run folders of a bundle, under `out`; the run's own is returned."""
    table, state = names(file)
    about, tensors = read_state(state)
    document = about["document"]
    check_document(state, document)
    rows = read_rows(table)
    home = out / "tune" if "search" in document else out
    folder = create_folder(home, document["algo"], document["env"], None)
    try:
        unpack_into(folder, about, tensors, rows, pictures)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)  # whole, or not at all
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
        if isinstance(error, OURS):
            what = f"{state}: is not a penfac bundle ({error!r})"
            raise CorruptFile(what) from error
        raise
    return folder


# what a file of another shape than ours runs into
OURS = (KeyError, IndexError, TypeError, ValueError, AttributeError)


def unpack_into(
    folder: Path,
    about: dict[str, Any],
    tensors: dict[str, np.ndarray],
    rows: dict[tuple[str, str, str], list[dict[str, str]]],
    pictures: bool,
) -> None:
    document, recorders = about["document"], []
    trial.write_configs(folder, document)
    for k, learner in enumerate(learners_of(folder, document)):
        home, told = RunFolder(learner.path), about["learners"][k]
        who = learner.arm or "", str(learner.seed)
        own = {
            name: [
                {column: row[column] for column in told["columns"][table]}
                for row in rows.get((*who, table), [])
            ]
            for table, name in TABLES.items()
        }
        recorder = Recorder(home, learner, learner_document(document, learner))
        recorders.append(recorder)
        unpack_learner(recorder, told, own, tensors, k)
        if pictures:
            recorder.tell_board()
        home.close()
    recorders[0].folder.write("log.txt", about["log"].encode())
    if pictures:
        recorders[0].draw(folder, recorders, now=True)


def unpack_learner(
    recorder: Recorder,
    told: dict[str, Any],
    tables: dict[str, list[dict[str, str]]],
    tensors: dict[str, np.ndarray],
    k: int,
) -> None:
    """One learner's folder, as training would have left it."""
    home = recorder.folder
    for name, rows in tables.items():
        if rows and rows[0]:
            home.append(name, rows)
    home.close()
    meta = told.get("meta")
    recorder.rewind(meta)
    if meta is not None:
        stack, row = told["stack"], told["row"]
        prefix = f"{stack}/"
        arrays = {
            name.removeprefix(prefix): np.array(whole[row])
            for name, whole in tensors.items()
            if name.startswith(prefix)
        }
        counters = meta["counters"]
        evaluated = counters["evaluated_at"] == counters["step"]
        home.save_checkpoint(meta["update"], arrays, dict(meta), evaluated)
    for name in ("status", "fault", "policy/policy"):
        if name in told:
            home.write_json(f"{name}.json", told[name])
    if f"policy/{k}" in tensors:
        home.write("policy/policy.safetensors", tensors[f"policy/{k}"].tobytes())


def read_state(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        with safe_open(path, framework="numpy") as file:  # type: ignore[no-untyped-call]
            text, told = file.metadata()["penfac"], file.metadata().get("seal")
            about = json.loads(text)
            version = about["format"]
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{path}: is not a penfac bundle") from error
    if not isinstance(version, int) or version > FORMAT:
        raise CorruptFile(
            f"{path}: has format {version}; this penfac reads up to {FORMAT}"
        )
    if told != seal(text, tensors):
        raise CorruptFile(f"{path}: is damaged (the sha256 does not match)")
    if not isinstance(about.get("document"), dict):
        raise CorruptFile(f"{path}: is not a penfac bundle (it has no document)")
    return about, tensors


def read_rows(path: Path) -> dict[tuple[str, str, str], list[dict[str, str]]]:
    """Rows by (arm, seed, table), each with the columns of all tables."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a bundle has two files")
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in read_csv(path):
        try:
            who = row.pop("arm"), row.pop("seed"), row.pop("table")
        except KeyError as error:
            raise CorruptFile(f"{path}: has no column {error}") from None
        found.setdefault(who, []).append(row)
    return found


def pack_run(folder: Path, file: Path) -> tuple[Path, Path]:
    """Pack a run folder that is not in use."""
    for path in names(file):
        if path.exists():
            raise RunFolderBusy(f"{path}: exists; choose another --out")
    check_document(folder / "config.json", read_config(folder))
    with storage(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder)
    try:
        pack(folder, file)
    except OURS as error:
        raise CorruptFile(f"{folder}: is not a penfac run ({error!r})") from error
    finally:
        lock.release()
    return names(file)
