"""Disks that are full, read-only or gone, clocks that jump, and eight who want one folder."""

import ctypes
import os
import random
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.campaign.bases import RUNS, left
from tests.campaign.case import Case, changed, must
from tests.campaign.commands import Ended, answered, begin, command, well
from tests.campaign.own_env import ENV
from tests.faults.commands import TINY

CLONE_NEWNS = 0x20000  # of Linux: mounts of one's own
EVERY = "--checkpoint-every=0s"
RUN = Path("runs/penfac/run")
FULL = (
    "exit 7 and one line; with room again it ends with the bits of an undisturbed run"
)
TRAIN = ["train", "--env", ENV, *TINY, EVERY]


def prepare(home: Path) -> None:
    for algo in ("penfac", "td3"):
        os.chdir(home)
        well(command("train", *RUNS[algo], "--name=run"))


def same(home: Path, run: Path, algo: str = "penfac") -> None:
    other = changed(left(home / "runs" / algo / "run"), left(run))
    must(not other, f"other bytes: {other}", "lost")


# --- disks ---------------------------------------------------------------------------------


class Disk:
    """A small file system of its own; only root can make one."""

    def __init__(self, folder: Path, size: str, inodes: int = 0):
        self.folder = folder
        folder.mkdir()
        own_mounts()
        words = f"size={size}" + f",nr_inodes={inodes}" * bool(inodes)
        self.mount("-t", "tmpfs", "-o", words, "tmpfs")

    def mount(self, *words: str) -> None:
        subprocess.run(["mount", *words, str(self.folder)], check=True)

    def __enter__(self) -> "Disk":
        return self

    def __exit__(self, *_: object) -> None:
        os.chdir("/")
        subprocess.run(["umount", "-l", str(self.folder)], check=True)


def own_mounts() -> None:
    """What this process mounts goes with it, however it ends."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def full(home: Path, algo: str, size: str, inodes: int, here: Path) -> None:
    run = Path("runs") / algo / "run"
    with Disk(here / "disk", size, inodes) as disk:
        os.chdir(disk.folder)
        ended = command("train", *RUNS[algo], "--name=run")
        answered(ended, (0, 7))
        if ended.code:
            must("run" in ended.err, f"does not say where: {ended.err}")
        disk.mount("-o", "remount,size=64m,nr_inodes=5000")
        again = ["resume", run, EVERY]
        if not (run / "config.json").exists():
            again = ["train", *RUNS[algo], "--name=run"]
        well(command(*again))
        same(home, disk.folder / run, algo)


def full_pack(home: Path, size: str, here: Path) -> None:
    """A bundle is there or it is not; the next one is whole."""
    with Disk(here / "disk", size) as disk:
        run = home / RUN
        ended = command("runs", "pack", run, disk.folder / "hop")
        answered(ended, (0, 7))
        if ended.code:
            left_behind = [p.name for p in disk.folder.iterdir()]
            must(not left_behind, f"left {left_behind}", "stray")
            disk.mount("-o", "remount,size=64m")
            well(command("runs", "pack", run, disk.folder / "hop"))
        well(command("runs", "unpack", disk.folder / "hop", "--out", here / "u"))
        same(home, next((here / "u/penfac").iterdir()))


def read_only(here: Path) -> None:
    """Known before anything is built: the environment would hang."""
    with Disk(here / "disk", "1m") as disk:
        disk.mount("-o", "remount,ro")
        argv = ["train", "--env", "HangsBuilding-v0", "--out", disk.folder / "runs"]
        answered(command(*argv, limit=60), (7,))
    answered(command(*argv[:-1], "/proc/self", limit=60), (7,))


def read_only_run(home: Path, here: Path) -> None:
    """Looking needs no room."""
    with Disk(here / "disk", "8m") as disk:
        subprocess.run(["cp", "-r", home / "runs", disk.folder], check=True)
        disk.mount("-o", "remount,ro")
        run = disk.folder / RUN
        well(command("eval", run, "--episodes=2"))
        well(command("card", run, "--out", here / "x.md"))
        for argv in (["runs", "pack", run, here / "hop"], ["resume", run]):
            answered(command(*argv), (7,))  # both lock the run


def no_folder(here: Path) -> None:
    """The folder in which the command stands is gone."""
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    answered(command(*TRAIN), (0, 2, 7))
    answered(command(*TRAIN, "--out", here / "runs"), (0, 2, 7))


# --- clocks --------------------------------------------------------------------------------


def clock(home: Path, here: Path) -> None:
    """Back an hour, forward a year, past 2038, at every look."""
    real, jumps, seen = time.time, (-3600.0, 365 * 86400.0, 2**31, -(2**30), 0.0), [0]

    def jumping() -> float:
        seen[0] += 1
        return real() + jumps[seen[0] % len(jumps)]

    def arm() -> None:
        time.time = jumping

    well(command(*TRAIN, "--name=run", "-n50", arm=arm))
    for k, folder in enumerate(sorted((RUN / "checkpoints").iterdir())):
        os.utime(folder, (10**9 - k, 10**9 - k))
    well(command("resume", RUN, "-n100", arm=arm))
    same(home, here / RUN)


# --- eight at once -------------------------------------------------------------------------


def together(*argvs: list) -> list[Ended]:
    running = [begin(*argv) for argv in argvs]
    return [each.wait(240) for each in running]


def one_name(home: Path, here: Path) -> None:
    ends = together(*[[*TRAIN, "--name=run"]] * 8)
    for ended in ends:
        answered(ended, (0, 6))
    codes = sorted(ended.code for ended in ends)
    must(codes == [0] + [6] * 7, f"exit codes {codes}")
    same(home, here / RUN)


def no_name(home: Path, here: Path) -> None:
    for ended in together(*[TRAIN] * 8):
        well(ended)
    made = list(Path("runs/penfac").iterdir())
    must(len(made) == 8, f"{len(made)} folders")
    for run in made:
        same(home, here / run)


def one_run(home: Path, here: Path) -> None:
    well(command(*TRAIN, "--name=run", "-n50"))
    ends = together(*[["resume", RUN, "-n100", EVERY]] * 8)
    for ended in ends:
        answered(ended, (0, 6))
    must(0 in [ended.code for ended in ends], "nobody came through")
    same(home, here / RUN)


def one_bundle(home: Path, here: Path) -> None:
    ends = together(*[["runs", "pack", home / RUN, "hop"]] * 8)
    for ended in ends:
        answered(ended, (0, 6))
    well(command("runs", "unpack", "hop", "--out", "u"))
    same(home, next(here.glob("u/penfac/*")))
    names = sorted(p.name for p in here.iterdir())
    must(names == ["hop.csv", "hop.safetensors", "u"], f"left {names}", "stray")


def cases(home: Path, rng: random.Random) -> list[Case]:
    one = "exit 0 once, 6 for the others; the bits of a run that was alone"
    found = [
        Case("the clock jumps at every look", "the same bits", partial(clock, home)),
        Case("eight trains with one name", one, partial(one_name, home)),
        Case("eight trains without a name", "eight folders", partial(no_name, home)),
        Case("eight resumes of one run", one, partial(one_run, home)),
        Case("eight packs into one bundle", one, partial(one_bundle, home)),
        Case("the current folder is gone", "an answer", no_folder),
    ]
    if os.geteuid() == 0:
        found += root_cases(home)
    rng.shuffle(found)
    return found


def root_cases(home: Path) -> list[Case]:
    """What needs a file system of one's own."""
    sizes = [
        "8k",
        "16k",
        "24k",
        "32k",
        "48k",
        "64k",
        "80k",
        "96k",
        "128k",
        "160k",
        "200k",
    ]
    counts = [2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24]
    looks = "eval and card work; pack and resume exit 7"
    made: list[tuple[str, str, Callable[[Path], None]]] = [
        ("a read-only disk", "exit 7 before the environment is built", read_only),
        ("a run on a read-only disk", looks, partial(read_only_run, home)),
    ]
    for algo in ("penfac", "td3"):
        made += [
            (f"a disk of {s}, {algo}", FULL, partial(full, home, algo, s, 0))
            for s in sizes
        ]
        made += [
            (f"a disk of {n} files, {algo}", FULL, partial(full, home, algo, "8m", n))
            for n in counts
        ]
    made += [
        (f"pack to a disk of {s}", FULL, partial(full_pack, home, s)) for s in sizes[:6]
    ]
    return [Case(*each) for each in made]
