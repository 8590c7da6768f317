"""Environments that exit, crash, hang, print, wander, spoil: what each of them must get."""

import json
import os
import random
from functools import partial
from pathlib import Path

from tests.campaign import rogue_envs  # noqa: F401
from tests.campaign.bases import learned_by
from tests.campaign.case import Case, changed, must, tree
from tests.campaign.commands import Ended, answered, command, well
from tests.campaign.own_env import ENV
from tests.faults.commands import TINY
from tests.faults.test_bad_envs import FAULTS

RUN = Path("runs/penfac/run")
EVERY = "--checkpoint-every=0s"
FAULT = "exit 3 and one line; the last update is kept and resumable"
CRASH = (
    "its process dies; resuming it with the environment mended ends as one undisturbed"
)
SAME = "exit 0 and the bits of a run on an environment that does nothing else"
STORED = "exit 5 or 7 and one line, or the bits of one that was not disturbed"
LEAVE = (
    "Exits", "ExitsWithWords", "ExitsBuilding", "ExitsResetting", "Interrupts", "Generates",
    "Recurses", "Unspeakable", "Odd", "TurningInfo",
)  # fmt: skip
DIE = ("Segfaults", "Aborts", "LeavesAtOnce")
HANG = ("Sleeps", "SleepsClosing")
# in a process of their own they cannot harm the run
APART = ("Segfaults", "Aborts", "LeavesAtOnce", "Sleeps", "Spins", "Exits")
HARMLESS = (
    "Prints", "Warns", "Wanders", "MutatesAction", "Reuses", "ReusesInfo",
    "Seeds", "StrictFloats", "Threads", "Forks", "Handles", "Environs", "Leaks",
)  # fmt: skip
SPOIL = ("DeletesProgress", "ReplacesProgress", "DeletesRun", "DeletesCheckpoints")


def train(env: str, *more: str, **how) -> Ended:
    return command("train", "--env", env, *TINY, "--name=run", EVERY, *more, **how)


def fault(env: str, words: str, here: Path) -> None:
    ended = train(env)
    answered(ended, (3,))
    must(words in ended.err, f"{words!r} is not in {ended.err!r}")
    if (RUN / "status.json").exists():
        status = json.loads((RUN / "status.json").read_text())
        good = status["state"] == "failed" and status["exit_code"] == 3
        must(good, f"status.json says {status}")
    answered(command("resume", RUN), (2, 3))


def memory(here: Path) -> None:
    answered(train("RogueOutOfMemory-v0"), (3, 8))


def die(name: str, here: Path) -> None:
    """The process is gone with the environment; what it saved is not."""
    ended = train(f"Rogue{name}-v0")
    must(ended.code != 0 or name == "LeavesAtOnce", "it came to a good end")
    must("Traceback" not in ended.err, ended.err[-400:], "traceback")
    document = json.loads((RUN / "config.json").read_text())
    state = json.loads((RUN / "status.json").read_text())
    must(state["state"] != "finished", f"a dead run is {state}", "silent")
    must(document["env"] == f"Rogue{name}-v0", "another environment")
    must(RUN.joinpath("checkpoints").is_dir(), "nothing was saved", "lost")


def hang(name: str, here: Path) -> None:
    ended = train(f"Rogue{name}-v0", "--env-timeout=3s", limit=20)
    if name == "SleepsClosing":
        answered(ended, (0, 3))
        return
    answered(ended, (3,))
    must("--env-timeout" in ended.err, ended.err)


def apart(name: str, here: Path) -> None:
    """Stepped in another process: its end is one line, and the run's files are whole."""
    env = f"tests.campaign.rogue_envs:Rogue{name}-v0"
    ended = train(env, "--env-timeout=3s", "--env-workers=1", limit=30)
    answered(ended, (3,))
    must(RUN.joinpath("checkpoints").is_dir(), "nothing was saved", "lost")


def harmless(home: Path, name: str, here: Path) -> None:
    """What it prints is its own; what it learns is what any other learns."""
    ended = train(f"Rogue{name}-v0")
    must(ended.code == 0, f"exit {ended.code}: {ended.err[-400:]}")
    must("Traceback" not in ended.err, ended.err[-400:], "traceback")
    same(home, here / RUN)


def same(home: Path, run: Path) -> None:
    mine, whole = learned_by(run), learned_by(home / "plain" / RUN)
    must(mine == whole, f"exit 0 and other bits: {changed(whole, mine)}", "silent")


def spoil(home: Path, name: str, here: Path) -> None:
    """Files of the run go while it runs."""
    outside = here.parent / f"{here.name}-outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    before = tree(outside)
    ended = train(f"Rogue{name}-v0")
    answered(ended, (0, 5, 7))
    must(before == tree(outside), "touched what is outside", "outside")
    if ended.code == 0:
        same(home, here / RUN)


def prepare(home: Path) -> None:
    (home / "plain").mkdir()
    os.chdir(home / "plain")
    well(train(ENV))


def cases(home: Path, rng: random.Random) -> list[Case]:
    found = [
        Case(f"environment {n}", FAULT, partial(fault, f"{n}-v0", words))
        for n, words in FAULTS.items()
    ]
    found += [
        Case(f"environment {n}", FAULT, partial(fault, f"Rogue{n}-v0", ""))
        for n in LEAVE
    ]
    found += [Case("environment OutOfMemory", "exit 3 or 8 and one line", memory)]
    found += [Case(f"environment {n}", CRASH, partial(die, n)) for n in DIE]
    found += [
        Case(f"environment {n}", "exit 3 after --env-timeout", partial(hang, n))
        for n in HANG
    ]
    found += [
        Case(f"environment {n} in a process of its own", FAULT, partial(apart, n))
        for n in APART
    ]
    found += [
        Case(f"environment {n}", SAME, partial(harmless, home, n)) for n in HARMLESS
    ]
    found += [Case(f"environment {n}", STORED, partial(spoil, home, n)) for n in SPOIL]
    rng.shuffle(found)
    return found
