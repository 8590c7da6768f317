"""What is damaged: small runs, a bundle, a study and a policy, and what commands make of
them as long as they are whole."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from safetensors.numpy import load_file
from tests.campaign.case import must
from tests.campaign.commands import (
    Ended,
    answered,
    command,
    finish,
    in_fork,
    start,
    well,
)
from tests.campaign.own_env import ENV
from tests.faults.commands import TINY
from tests.small_runs import KEPT, learners

NETS = ["--set=actor_hidden=4", "--set=critic_hidden=4"]
OFTEN = "--checkpoint-every=0s"
SHORT = [
    "--env",
    ENV,
    "-n",
    "100",
    "--eval-every=50",
    "--eval-episodes=1",
    *NETS,
    OFTEN,
]
TD3 = ["steps_per_world=40", "replay=300", "learning_starts=20", "batch_size=16",
       "gradient_steps=5"]  # fmt: skip
PPO = ["worlds=2", "steps_per_world=25", "minibatches=4", "epochs=2"]
RUNS = {
    "penfac": ["--env", ENV, *TINY, OFTEN],
    "td3": ["--algo=td3", *SHORT, *[f"--set={s}" for s in TD3]],
    "ppo": ["--algo=ppo", *SHORT, *[f"--set={s}" for s in PPO]],
}
BLOCK = """\
collect = "steps"
worlds = 2
steps_per_world = 50
actor_steps = 2
actor_hidden = [4]
critic_hidden = [4]
min_steps_per_update = 1
minibatches = 1
"""
STUDY = f"""\
envs = ["penfac/LQR-v0"]
steps = 300
seeds = 2
eval_every = 100
eval_episodes = 2

[arms.wide]
{BLOCK}sigma = 0.4

[arms.narrow]
{BLOCK}sigma = 0.1

[[claims]]
words = "Wide is better."
compare = "wide above narrow"
"""
LONGER = "200"


class Use(NamedTuple):
    """A command on a base, and what to compare of its results."""

    argv: list[str]
    files: list[str]  # that it writes
    says: bool = True  # whether what it prints is a result
    reads: bool = True  # whether it leaves the base alone
    learns: bool = False  # whether the learners' files are its result


class Base(NamedTuple):
    folder: str  # what is damaged
    uses: dict[str, Use]
    functions: dict[str, Callable[[], int]]  # from Python; they print their result


def uses_of(run: str) -> dict[str, Use]:
    resume = {"says": False, "reads": False, "learns": True}
    return {
        "resume": Use(["resume", run], [], **resume),
        "resume -n": Use(["resume", run, "-n", LONGER, OFTEN], [], **resume),
        "eval": Use(["eval", run, "--episodes", "2", "--json"], []),
        "play": Use(["play", run, "--strip", "x.png", "--size", "32x32", "--json"], ["x.png"]),
        "card": Use(["card", run, "--out", "x.md", "--json"], ["x.md"]),
        "plot": Use(["plot", run, "--out", "x.png", "--json"], ["x.png"]),
        "export": Use(["export", run, "--onnx", "x.onnx", "--json"], ["x.onnx"]),
        "pack": Use(["runs", "pack", run, "x", "--json"], ["x.csv", "x.safetensors"]),
    }  # fmt: skip


def acts(path: str) -> Callable[[], int]:
    """Load a policy in Python and act."""

    def act() -> int:
        import numpy as np

        from penfac.policy import Policy, PolicyFileError

        try:
            policy = Policy.load(path)
        except PolicyFileError as error:
            print(f"penfac: {error}", file=__import__("sys").stderr)
            return 5
        print([policy(np.full(3, x, np.float32)).tolist() for x in (-1, 0, 2)])
        return 0

    return act


def loads(path: str) -> Callable[[], int]:
    """Load a model in Python and act."""

    def load() -> int:
        import sys

        import numpy as np

        import penfac
        from penfac.errors import PenfacError

        try:
            model = penfac.load(path)
            print(model.predict(np.ones(3, np.float32))[0].tolist())
        except (PenfacError, ValueError, OSError) as error:
            print(f"penfac: {' '.join(str(error).split())}", file=sys.stderr)
            return getattr(error, "exit_code", 5)
        return 0

    return load


STUDIES = "studies/small"
BASES = {
    **{
        algo: Base(
            f"runs/{algo}/run",
            uses_of(f"runs/{algo}/run"),
            {"load": loads(f"runs/{algo}/run")},
        )
        for algo in RUNS
    },
    "bundle": Base(
        "bundle",
        {
            "unpack": Use(["runs", "unpack", "bundle/hop", "--out", "u", "--json"], ["u"]),
            "resume": Use(["resume", "bundle/hop", "-n", LONGER], [], False, False, True),
        },
        {},
    ),
    "study": Base(
        STUDIES,
        {
            "status": Use(["study", "status", STUDIES, "--json"], []),
            "report": Use(["study", "report", STUDIES, "--into", "x"], ["x"], False),
            "plot": Use(["plot", f"{STUDIES}/penfac-LQR-v0/penfac/wide", "--json"], ["plot.png"]),
        },
        {},
    ),
    "policy": Base(
        "policy",
        {
            "export": Use(["export", "policy", "--onnx", "x.onnx", "--json"], ["x.onnx"]),
        },
        {"Policy.load": acts("policy")},
    ),
}  # fmt: skip


def make(home: Path) -> None:
    """Train everything once, in the current folder."""
    for argv in RUNS.values():
        well(command("train", *argv, "--name=run"))
    Path("small.toml").write_text(STUDY)
    made = start("study", "run", "small.toml", "--processes=2", cwd=home)
    well(finish(made))
    well(command("runs", "pack", "runs/penfac/run", "bundle/hop"))
    shutil.copytree("runs/penfac/run/policy", "policy")
    make_outside(home.parent / "outside")


def make_outside(outside: Path) -> None:
    """What nobody may touch: names like ours, where only a link leads."""
    for name in ("precious.txt", "victim/steps-1.safetensors", "victim/.tmp-1-a",
                 "victim/update-000001/state.json", "victim/state.safetensors",
                 "victim/policy.safetensors", "victim/notes.txt"):  # fmt: skip
        path = outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} is nobody's but mine\n" * 50)


# --- results -------------------------------------------------------------------------------


class Result(NamedTuple):
    ended: Ended
    made: dict[str, object]  # what it made, to compare


def use(base: Base, name: str, arm: Callable[[], None] | None = None) -> Result:
    """Run one of the commands of a base in the current folder."""
    if name in base.functions:
        ended = in_fork(base.functions[name], 90, arm, name)
        answered(ended)
        return Result(ended, {"out": ended.out} if ended.code == 0 else {})
    wanted = base.uses[name]
    ended = command(*wanted.argv, arm=arm)
    answered(ended)
    made: dict[str, object] = {}
    if ended.code == 0:
        made = {"out": ended.out} if wanted.says else {}
        for file in wanted.files:
            made |= bytes_below(Path(file))
        if wanted.learns:
            made |= learned(base)
    return Result(ended, made)


# names of TensorBoard files hold the time; pictures are drawn from the rows beside them;
# logs say when; timing says how long
DIFFERS = ("tb", "curve.png", "log.txt", "timing.csv", "lock")


def bytes_below(path: Path) -> dict[str, object]:
    files = (
        sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    )
    kept = [p for p in files if not set(p.parts) & set(DIFFERS)]
    return {str(p): p.read_bytes() for p in kept}


def learned(base: Base) -> dict[str, object]:
    """What a resumed run has learned: rows, policies, the last checkpoint's arrays."""
    folder = Path(base.folder)
    if base.folder == "bundle":
        well(command("runs", "unpack", "bundle/hop", "--out", "unpacked"))
        folder = Path("unpacked")
    found = {str(p.relative_to(folder)): left(p) for p in learners(folder)}
    must(found, f"{base.folder}: nothing was learned", "lost")
    return dict(found)


def newest(folder: Path) -> Path:
    saved = list(folder.glob("checkpoints/update-*/state.safetensors"))
    must(saved, f"{folder}: has no checkpoint", "lost")
    return max(saved)


def left(folder: Path) -> dict[str, bytes]:
    """What a learner must leave to the byte: rows, policy, weights."""
    found = {name: (folder / name).read_bytes() for name in KEPT}
    last = newest(folder)
    return found | {last.parent.name: last.read_bytes()}


def learned_by(folder: Path) -> dict[str, bytes]:
    """What it learned, whatever its environment is called."""
    arrays = {
        k: v.tobytes()
        for k, v in load_file(newest(folder)).items()
        if k[:6] == "state."
    }
    return arrays | {
        name: (folder / name).read_bytes() for name in KEPT if "policy" not in name
    }
