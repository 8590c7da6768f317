"""Commands that are killed, how to go on after it, and what must be there in the end.

What differs between a run that was killed and one that was not, and may: timing.csv,
log.txt, lock, the curve and TensorBoard's files (`bases.DIFFERS`), the words of status.json,
`command` and `created` of config.json, and checkpoints before the last.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.campaign import forgeries
from tests.campaign.bases import RUNS, bytes_below, left
from tests.campaign.case import changed, must
from tests.campaign.commands import Ended, command, well
from tests.small_runs import learners

Arm = Callable[[], None]
EVERY = "--checkpoint-every=0s"
BOTH = [
    "--eval-every=200", "--eval-episodes=1", "--max-episode-steps=50",
    "--set=actor_hidden=8", "--set=critic_hidden=8",
]  # fmt: skip
BATCH = [
    *BOTH, "--set=actor_steps=3", "--set=episodes_per_update=2",
    "--set=min_steps_per_update=100", "--set=worlds=2", "--set=steps_per_world=60",
    "--set=fitted_iterations=4", "--set=minibatches=4", "--set=sigma=0.4",
    "--set=sigma_end=0.1", "--set=rates_end=0.5",
]  # fmt: skip
REPLAY = [
    "steps_per_world=40", "replay=300", "learning_starts=60", "batch_size=16",
    "gradient_steps=5",
]  # fmt: skip
PPO = ["worlds=2", "steps_per_world=40", "minibatches=4", "epochs=2"]
OWN = {
    "ddpg": [*REPLAY, "sigma=0.3", "exploration=ou", "n_step=3"],
    "td3": [*REPLAY, "sigma=0.3"],
    "sac": REPLAY,
    "ppo": PPO,
}
HOST, DEVICE = "--env=Pendulum-v1", "--env=penfac/Pendulum-v0"


def settings(algo: str) -> list[str]:
    if algo in ("penfac", "nfac", "offpenfac"):
        own = BATCH if algo != "nfac" else [s for s in BATCH if "rates_end" not in s]
        return own
    return [*BOTH, *[f"--set={s}" for s in OWN.get(algo, ["rounds=60"])]]


def learns(algo: str, env: str, *more: str) -> list[str]:
    return [f"--algo={algo}", env, "-n", "600", *settings(algo), *more]


TRAINED = {
    "penfac host": learns("penfac", HOST, "--seeds=2", "--set=collect=episodes"),
    "penfac host steps": learns("penfac", HOST, "--set=collect=steps"),
    "penfac device": learns("penfac", DEVICE, "--seeds=2", "--set=collect=steps"),
    "nfac device": learns("nfac", DEVICE),
    "cacla host": learns("cacla", HOST),
    "cac device": learns("cac", DEVICE),
    "spg device": learns("spg", DEVICE),
    "dpg host": learns("dpg", HOST),
    "ddpg host": learns("ddpg", HOST),
    "ddpg device": learns("ddpg", DEVICE),
    "td3 host": learns("td3", HOST),
    "sac host": learns("sac", HOST),
    "offpenfac host": learns("offpenfac", HOST, "--set=collect=steps"),
    "ppo host": learns("ppo", HOST),
    "ppo device": learns("ppo", DEVICE, "--seeds=2"),
}


class Job(NamedTuple):
    """`first` is killed, `again` goes on; both take what arms the process."""

    first: Callable[[Arm | None], Ended]
    again: Callable[[Arm | None], Ended]
    left: Callable[[], dict]  # what must be there in the end
    made: Callable[[], None] = lambda: None  # what it starts from
    stray: Callable[[], list] = lambda: []  # what must not
    once: bool = False  # once done, there is nothing to go on with


def train(words: list[str]) -> Job:
    """A run, resumed; trained again as long as it has no config."""
    algo = next((w[7:] for w in words if w.startswith("--algo=")), "penfac")
    folder = Path("runs") / algo / "run"

    def first(arm: Arm | None) -> Ended:
        return command("train", *words, "--name=run", EVERY, arm=arm)

    def again(arm: Arm | None) -> Ended:
        if not (folder / "config.json").exists():
            return first(arm)
        return command("resume", folder, EVERY, arm=arm)

    return Job(first, again, lambda: run_left(folder), stray=lambda: strays(folder))


def run_left(folder: Path) -> dict:
    found = {str(p.relative_to(folder)): left(p) for p in learners(folder)}
    must(found, f"{folder}: no learner", "lost")
    for file in folder.rglob("status.json"):
        status = json.loads(file.read_text())
        must(status["state"] == "finished", f"{file}: {status}", "lost")
    return found


def strays(folder: Path) -> list:
    return [p for p in folder.rglob("*") if p.name.startswith((".tmp", ".probe"))]


def trained() -> None:
    well(command("train", *RUNS["penfac"], "--name=run"))


def packed() -> None:
    trained()
    well(command("runs", "pack", "runs/penfac/run", "b/hop"))


def bundled() -> dict:
    """What a bundle holds, but when it was made and what was logged."""
    tensors, metadata = forgeries.parts(Path("b/hop.safetensors"))
    document = json.loads(metadata["penfac"])
    del document["log"], document["document"]["created"]
    held = {name: array.tobytes() for name, array in tensors.items()}
    return {"rows": Path("b/hop.csv").read_bytes(), "words": document} | held


def pack() -> Job:
    def go(arm: Arm | None) -> Ended:
        return command("runs", "pack", "runs/penfac/run", "b/hop", arm=arm)

    def others() -> list:
        names = {"hop.csv", "hop.safetensors"}
        return [p for p in Path("b").iterdir() if p.name not in names]

    return Job(go, go, bundled, trained, others, True)


def unpack() -> Job:
    """A half-made folder must not be taken for a run."""

    def go(arm: Arm | None) -> Ended:
        return command("runs", "unpack", "b/hop", "--out", "u", arm=arm)

    def made() -> list[Path]:
        return sorted(p for p in Path("u/penfac").iterdir() if p.name[0] != ".")

    def whole() -> dict:
        found = [bytes_below(p) for p in made()]
        alike = [{k.split("/", 3)[3]: v for k, v in each.items()} for each in found]
        for each in alike:
            each.pop("config.json", None)  # says when
        parts = [p for p in alike if p != alike[-1]]
        must(not parts, f"{len(parts)} of {len(alike)} folders are half made", "lost")
        return alike[-1]

    return Job(go, go, whole, packed, lambda: strays(Path("u")), True)


def into() -> Job:
    """A run in two files, whose folders are nowhere afterwards."""
    words = [*RUNS["penfac"], "--into", "b/hop"]

    def temporary() -> None:
        os.makedirs("tmp", exist_ok=True)
        tempfile.tempdir = os.path.abspath("tmp")

    def first(arm: Arm | None) -> Ended:
        return command("train", *words, arm=both(temporary, arm))

    def again(arm: Arm | None) -> Ended:
        for left_behind in Path("tmp").glob("*"):
            os.utime(left_behind, (0, 0))  # of long ago: a new one may still be in use
        if not Path("b/hop.safetensors").exists():
            return first(arm)
        return command("resume", "b/hop", EVERY, arm=both(temporary, arm))

    def unpacked() -> dict:
        shutil.rmtree("u", ignore_errors=True)
        well(command("runs", "unpack", "b/hop", "--out", "u"))
        return run_left(next(Path("u/penfac").iterdir()))

    def others() -> list:
        kept = {"hop.csv", "hop.safetensors"}
        return [
            *Path("tmp").glob("*"),
            *(p for p in Path("b").iterdir() if p.name not in kept),
        ]

    return Job(first, again, unpacked, stray=others)


def both(one: Arm, other: Arm | None) -> Arm:
    def arm() -> None:
        one()
        if other is not None:
            other()

    return arm


JOBS: dict[str, Job] = {
    **{name: train(words) for name, words in TRAINED.items()},
    "into": into(), "pack": pack(), "unpack": unpack(),
}  # fmt: skip


def ends_alike(job: Job, whole: dict, done: bool = False) -> None:
    """Nobody is killed any more: the bytes of a job that nobody killed."""
    if not done:
        well(job.again(None))
    made = job.left()
    other = [f"{a}: {changed(whole.get(a, {}), b)}" if isinstance(b, dict) else a
             for a, b in made.items() if whole.get(a) != b]  # fmt: skip
    other += [f"{a} is gone" for a in whole.keys() - made.keys()]
    must(not other, f"other bytes: {other[:5]}", "lost")
    must(not job.stray(), f"left behind: {job.stray()[:5]}", "stray")
