"""A whole run as two files, however many learners it has: NAME.csv and NAME.safetensors.

For a far host that gives back few files. The CSV holds every row of every learner's
progress and evaluations. The other file holds the newest checkpoint and policy of each,
arrays of the same shape stacked along a leading axis. `penfac.training.unpack` makes the
run folders again, with the bytes they would have had.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.policy import Policy, PolicyFileError
from penfac.runs import csv_files
from penfac.runs.checkpoints import FAULTS, Arrays, Checkpoint
from penfac.runs.config import RunConfig, parse_config
from penfac.runs.csv_files import Mark, read_csv, read_header
from penfac.runs.folder import BEST, RunFolder
from penfac.runs.learners import Learner
from penfac.runs.run import Run
from penfac.runs.storage import (
    Lock,
    make_folder,
    read_file,
    storage,
    sync_folder,
    write_file,
)

FORMAT = 1
ANY = 2**40  # bytes of a file: as many as fit into memory
TABLES = {name.removesuffix(".csv"): name for name in csv_files.KEPT}
DOCUMENTS = ("status", "fault", "policy/policy")  # JSON files kept as they are
Rows = dict[tuple[str, str, str], list[dict[str, str]]]  # by arm, seed and table


class PackedMeta(msgspec.Struct, frozen=True):
    """What a bundle keeps of a checkpoint's state.json."""

    identity: dict[str, Any]
    counters: dict[str, int]
    versions: dict[str, str]
    update: int
    csv: dict[str, Mark]


class PackedLearner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a bundle keeps of one learner, its arrays and rows apart."""

    arm: str | None
    seed: int
    stack: int | None = None  # which stack holds its arrays; None: no checkpoint
    row: int | None = None  # ... and in which row
    meta: PackedMeta | None = None
    columns: dict[str, list[str]]  # by table
    status: dict[str, Any] | None = None
    fault: dict[str, Any] | None = None
    policy: dict[str, Any] | None = msgspec.field(default=None, name="policy/policy")


class Bundle(msgspec.Struct, frozen=True):
    """The text of NAME.safetensors."""

    format: int
    document: dict[str, Any]  # of config.json
    learners: list[PackedLearner]
    log: str


def names(file: Path) -> tuple[Path, Path]:
    """NAME.csv and NAME.safetensors, whichever of them, or NAME, is given."""
    known = file.suffix in (".csv", ".safetensors")
    stem = file.name.removesuffix(file.suffix) if known else file.name
    return file.with_name(f"{stem}.csv"), file.with_name(f"{stem}.safetensors")


def is_bundle(path: Path) -> bool:
    return not path.is_dir() and names(path)[1].is_file()


def parts(file: Path) -> tuple[Path, Path]:
    """What both files are called until both are whole."""
    table, state = names(file)
    return table.with_name(f".{table.name}.part"), state.with_name(
        f".{state.name}.part"
    )


def refuse_existing(file: Path, way_out: str) -> None:
    """Refuse to write over a file, unless a killed process of ours left half a bundle."""
    there, unfinished = [[p.exists() for p in f(file)] for f in (names, parts)]
    if there == [True, False] and unfinished == [False, True]:
        return
    for path in filter(Path.exists, names(file)):
        raise RunFolderBusy(f"{path}: exists; {way_out}")


@contextlib.contextmanager
def writing(file: Path) -> Iterator[None]:
    """Only this process writes the bundle. Its lock goes: two files, no third."""
    make_folder(file.parent)
    name = names(file)[1].with_suffix(".lock").name
    with Lock(file.parent, name):
        try:
            yield
        finally:
            (file.parent / name).unlink(missing_ok=True)


# --- packing -------------------------------------------------------------------------------


def pack_run(folder: Path, file: Path) -> tuple[Path, Path]:
    """Pack a run folder that is not in use."""
    refuse_existing(file, "choose another --out")
    run = Run.open(folder)
    with Lock(folder), writing(file):
        try:
            run.refuse_changed()
            pack(run, file)
        except FAULTS as error:
            raise CorruptFile(f"{folder}: is not a penfac run ({error!r})") from error
    return names(file)


def pack(run: Run, file: Path) -> None:
    """Write both files. A kill in between leaves rows that no checkpoint knows, which
    unpacking cuts off, and never a checkpoint without its rows."""
    # of a search, the arms that it left behind are part of it
    run = Run(run.path, replace(run.config, alive=None))
    stacks: dict[str, list[Arrays]] = defaultdict(list)
    learners, tensors = [], {}
    for k, learner in enumerate(run.learners):
        packed, best = pack_learner(learner, stacks)
        learners.append(packed)
        policy = learner.path / "policy" / "policy.safetensors"
        if policy.is_file():
            tensors[f"policy/{k}"] = np.frombuffer(read_file(policy, ANY), np.uint8)
        if best is not None:
            tensors[f"{BEST}/{k}"] = best
    for n, stack in enumerate(stacks.values()):
        for name in stack[0]:
            tensors[f"{n}/{name}"] = np.stack([arrays[name] for arrays in stack])
    log = run.learners[0].path / "log.txt"
    words = read_file(log, ANY).decode() if log.is_file() else ""
    bundle = Bundle(FORMAT, run.config.to_document(), learners, words)
    text = json.dumps(msgspec.to_builtins(bundle))
    state = tensors_to_bytes(tensors, {"penfac": text, "seal": seal(text, tensors)})
    write_both(file, all_rows(run.learners), state)


def write_both(file: Path, table: bytes, state: bytes) -> None:
    """Write both under other names, then rename them, the rows first."""
    with storage(file.parent):
        try:
            write_file(parts(file)[0], table, sync=True)
            write_file(parts(file)[1], state, sync=True)
        except BaseException:
            for part in parts(file):
                part.unlink(missing_ok=True)
            raise
        for part, path in zip(parts(file), names(file), strict=True):
            os.replace(part, path)
        sync_folder(file.parent)


def pack_learner(
    learner: Learner, stacks: dict[str, list[Arrays]]
) -> tuple[PackedLearner, np.ndarray | None]:
    """Describe a learner; its arrays join those of the same shapes, except its best
    policy: a file, whose length is its own."""
    packed: dict[str, Any] = {}
    best = None
    checkpoint = RunFolder(learner.path).load_checkpoint()
    if checkpoint is not None:
        refuse_damaged(learner, checkpoint)
        arrays, meta = checkpoint.arrays, checkpoint.meta
        best = arrays.pop(BEST, None)
        shapes = json.dumps([[n, a.shape, str(a.dtype)] for n, a in arrays.items()])
        stack = stacks[shapes]
        packed = {"stack": list(stacks).index(shapes), "row": len(stack)}
        packed["meta"] = msgspec.convert(meta, PackedMeta, from_attributes=True)
        stack.append(arrays)
    for name in DOCUMENTS:
        path = learner.path / f"{name}.json"
        if path.is_file():
            packed[name.rpartition("/")[2]] = read_document(path)
    columns = {t: read_header(learner.path / n) for t, n in TABLES.items()}
    who = {"arm": learner.arm, "seed": learner.seed}
    return PackedLearner(**who, columns=columns, **packed), best


def refuse_damaged(learner: Learner, checkpoint: Checkpoint) -> None:
    """A bundle holds what its run had, or is not written."""
    if checkpoint.complaints:
        what = "; ".join(checkpoint.complaints)
        raise CorruptFile(f"{what}; `penfac resume` goes on from the one before")
    for name, mark in checkpoint.meta.csv.items():
        if not csv_files.fits(csv_files.bytes_of(learner.path / name), mark):
            raise csv_files.differs(learner.path / name)
    if not (learner.path / "policy").is_dir():
        return  # killed between its first checkpoint and its policy
    try:
        Policy.load(learner.path)
    except PolicyFileError as error:
        raise CorruptFile(str(error)) from None


def read_document(path: Path) -> dict[str, Any]:
    try:
        return msgspec.convert(json.loads(read_file(path)), dict[str, Any])
    except FAULTS as error:
        raise CorruptFile(f"{path}: is not from penfac ({error})") from None


def all_rows(learners: list[Learner]) -> bytes:
    """All CSV files of all learners as one, told apart by its first three columns."""
    rows, columns = [], dict.fromkeys(("arm", "seed", "table"))
    for learner in learners:
        for table, name in TABLES.items():
            who = {"arm": learner.arm or "", "seed": learner.seed, "table": table}
            rows += [who | row for row in read_csv(learner.path / name)]
            columns |= dict.fromkeys(read_header(learner.path / name))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def seal(text: str, tensors: Arrays) -> str:
    """The sha256 of everything else in the file."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# --- reading -------------------------------------------------------------------------------


def read_bundle(path: Path) -> tuple[Bundle, RunConfig, Arrays]:
    """Read and check NAME.safetensors."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        with safe_open(path, framework="numpy") as file:  # type: ignore[no-untyped-call]
            text, sealed = file.metadata()["penfac"], file.metadata().get("seal")
            document = json.loads(text)
            version = document["format"]
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, *FAULTS) as error:
        raise CorruptFile(f"{path}: is not a penfac bundle") from error
    if not isinstance(version, int) or version > FORMAT:
        raise CorruptFile(
            f"{path}: has format {version}; this penfac reads up to {FORMAT}"
        )
    if sealed != seal(text, tensors):
        raise CorruptFile(f"{path}: is damaged (the sha256 does not match)")
    with refuse_foreign(path):
        bundle = msgspec.convert(document, Bundle)
    return bundle, parse_config(path, bundle.document), tensors


@contextlib.contextmanager
def refuse_foreign(path: Path):
    """Refuse a file of another shape than ours."""
    try:
        yield
    except FAULTS as error:
        raise CorruptFile(f"{path}: is not a penfac bundle ({error!r})") from error


def read_rows(path: Path) -> Rows:
    """Rows by arm, seed and table, each with the columns of all tables."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a bundle has two files")
    found: Rows = {}
    for row in read_csv(path):
        try:
            key = row.pop("arm"), row.pop("seed"), row.pop("table")
        except KeyError as error:
            raise CorruptFile(f"{path}: has no column {error}") from None
        found.setdefault(key, []).append(row)
    return found
