"""Damaged and forged files: the right result, or one line that says what is wrong."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.campaign import bases, forgeries
from tests.campaign.bases import BASES, Base, Result, use
from tests.campaign.case import Case, changed, must, once, tree
from tests.campaign.commands import little_memory

CASES = 2000
# a refused command may note that it was there
NOTES = ("lock", "log.txt", "status.json", "fault.json")
# texts and times for people: no result is computed from them
FOR_PEOPLE = (*NOTES, "policy.json", "timing.csv")
# a forger who signs can choose the result: what is left is an answer, and nothing touched
SIGNED = (
    forgeries.sealed_state, forgeries.sealed_arrays, forgeries.signed_policy,
    forgeries.huge_policy, forgeries.sealed_bundle,
)  # fmt: skip
EXPECTED = "the right result, or a documented exit code and one line"
Change = Callable[[Path, random.Random], None]  # of a file, or of a folder


# --- bytes ---------------------------------------------------------------------------------


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flip_early(path: Path, rng: random.Random) -> None:
    """A bit of what is read first: lengths, keys, names of columns."""
    data = bytearray(path.read_bytes())
    data[rng.randrange(min(64, len(data)))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def cut_last(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def append(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 200)))


def twice(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() * 2)


def zeros(path: Path, rng: random.Random) -> None:
    """A block that never reached the disk."""
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    path.write_bytes(data)


def noise(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


def huge_header(path: Path, rng: random.Random) -> None:
    """safetensors: the length of its header says 2^60."""
    path.write_bytes((1 << 60).to_bytes(8, "little") + path.read_bytes()[8:])


# --- places --------------------------------------------------------------------------------


def outside(path: Path) -> Path:
    return Path.cwd().parent / "outside"


def gone(path: Path, rng: random.Random) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def link_out(path: Path, rng: random.Random) -> None:
    to = outside(path) / ("victim" if path.is_dir() else "precious.txt")
    gone(path, rng)
    to = Path(os.path.relpath(to, path.parent)) if rng.random() < 0.5 else to
    path.symlink_to(to)


def link_nowhere(path: Path, rng: random.Random) -> None:
    gone(path, rng)
    path.symlink_to(outside(path) / "made-by-us")


def hard_link(path: Path, rng: random.Random) -> None:
    gone(path, rng)
    os.link(outside(path) / "precious.txt", path)


def link_itself(path: Path, rng: random.Random) -> None:
    gone(path, rng)
    path.symlink_to(path.name)


def endless(path: Path, rng: random.Random) -> None:
    gone(path, rng)
    path.symlink_to("/dev/zero")


def fifo(path: Path, rng: random.Random) -> None:
    gone(path, rng)
    os.mkfifo(path)


def other_kind(path: Path, rng: random.Random) -> None:
    """A folder in the place of a file, a file in the place of a folder."""
    was_folder = path.is_dir()
    gone(path, rng)
    path.write_text("not a folder") if was_folder else path.mkdir()


def strangers(path: Path, rng: random.Random) -> None:
    """Names in a folder that nobody of us gave."""
    for name in ("update-999999", ".tmp-1-x", "a\nb", "\x1b[31mred", "-rf", "update--1",
                 "seed-7", "..."):  # fmt: skip
        (path / name).mkdir()
    (path / "update-999998").symlink_to(outside(path) / "victim")
    (path / ".tmp-2-y").symlink_to(outside(path) / "precious.txt")
    (path / "steps-9.safetensors").symlink_to(outside(path) / "precious.txt")


BYTES: tuple[Change, ...] = (
    flip, flip, flip_early, cut, cut_last, empty, append, twice, zeros, noise,
)  # fmt: skip
PLACES: tuple[Change, ...] = (
    gone, link_out, link_nowhere, hard_link, link_itself, endless, fifo, other_kind,
)  # fmt: skip
FOLDERS: tuple[Change, ...] = (
    gone,
    link_out,
    link_nowhere,
    fifo,
    other_kind,
    strangers,
)


def changes_of(path: Path) -> list[Change]:
    """What can happen to a file or a folder."""
    if path.is_dir():
        return list(FOLDERS)
    found = [*BYTES, *PLACES]
    if path.suffix == ".safetensors":
        found += [huge_header]
    if path.stat().st_size == 0:
        found = [append, *PLACES]
    return found + forgeries.of(path)


# --- cases ---------------------------------------------------------------------------------


def cases(home: Path, rng: random.Random) -> list[Case]:
    """Every change of every file under every command, in a random order, so many."""
    found = []
    for kind, base in BASES.items():
        whole = home / "base" / "work" / base.folder
        for path in [whole, *sorted(whole.rglob("*"))]:
            name = str(path.relative_to(whole.parent))
            for change in changes_of(path):
                how = getattr(change, "__name__", "") or change.args[0]
                for command in (*base.uses, *base.functions):
                    found.append(
                        (f"{kind}/{name} {how}, {command}", kind, path, change, command)
                    )
    rng.shuffle(found)
    chosen = found[:CASES]
    return [
        Case(name, EXPECTED, partial(meet, home, kind, path, change, command, rng.random()))
        for name, kind, path, change, command in chosen
    ]  # fmt: skip


def prepare(home: Path) -> None:
    """Train what is to be damaged."""
    work = home / "base" / "work"
    work.mkdir(parents=True)
    os.chdir(work)
    bases.make(work)


def whole_of(home: Path, kind: str, command: str) -> dict[str, str]:
    """What a command makes of a whole base, the first time that someone asks."""
    file = home / "whole" / f"{kind}-{command}.json".replace(" ", "")
    with once(file) as mine:
        if mine:
            place(home, file.with_suffix(""))
            os.chdir(file.with_suffix("") / "work")
            result = use(BASES[kind], command)
            must(result.ended.code == 0, f"{kind}, {command}: {result}")
            file.write_text(json.dumps(digest(result)))
    return json.loads(file.read_text())


def place(home: Path, into: Path) -> None:
    shutil.copytree(home / "base", into, symlinks=True)


def digest(result: Result) -> dict[str, str]:
    return {name: repr(value) for name, value in result.made.items()} | {
        "said": "\n".join(notes(result))
    }


def notes(result: Result) -> list[str]:
    """What it noted beside its result: the words that a different result needs. A report
    and a status list the runs that do not count, and rows that no checkpoint vouches for."""
    lines = result.ended.out.splitlines()
    said = [line for line in lines if line.startswith("#") and "compiled" not in line]
    if made := result.made.get("x/made.json"):
        assert isinstance(made, bytes)
        said.append(f"# unfinished: {json.loads(made)['unfinished']}")
    texts = [result.ended.out, *map(str, result.made.values())]
    said += [found for text in texts for found in re.findall(r'"newer": \d+', text)]
    if '"missing":' in result.ended.out:
        found = json.loads(result.ended.out)
        said.append(
            f"# {[found[state] for state in ('finished', 'failed', 'missing')]}"
        )
    return said


def meet(
    home: Path,
    kind: str,
    path: Path,
    change: Change,
    command: str,
    seed: float,
    here: Path,
) -> None:
    """Damage a copy and run the command on it."""
    base = BASES[kind]
    here.rmdir()
    place(home, here)
    os.chdir(here / "work")
    target = Path(path.relative_to(home / "base" / "work"))
    change(target, random.Random(seed))
    sentinels, before = tree(here / "outside"), tree(here / "work", NOTES)
    result = use(base, command, little_memory)
    touched = changed(sentinels, tree(here / "outside"))
    must(not touched, f"touched {touched}", "outside")
    after = tree(here / "work", NOTES)
    new = changed(before, after)
    # a disk that fails may do so in the middle of learning
    refused = result.ended.code not in (0, 7)
    if refused or reads(base, command):
        mine = base.uses[command].files if command in base.uses else []
        new = ", ".join(
            n for n in new.split(", ") if n and n.split("/")[0].strip("'") not in mine
        )
        kind_of = "lost" if result.ended.code else "wrong"
        must(not new, f"exit {result.ended.code}, but changed {new}", kind_of)
    # one checkpoint less is a run that was killed a moment earlier
    earlier = change is gone and target.parent.name == "checkpoints"
    told = change in SIGNED or target.name in FOR_PEOPLE or earlier
    if result.ended.code == 0 and not told:
        compare(home, kind, command, result)


def reads(base: Base, command: str) -> bool:
    return command in base.functions or base.uses[command].reads


def compare(home: Path, kind: str, command: str, result: Result) -> None:
    """The result that the whole base gives, or a word about why not."""
    whole = whole_of(home, kind, command)
    made = digest(result)
    said = set(made.pop("said").splitlines()) - set(whole.pop("said").splitlines())
    other = changed(whole, made)
    must(
        not other or said,
        f"exit 0 and another result, without a word: {other}",
        "silent",
    )
