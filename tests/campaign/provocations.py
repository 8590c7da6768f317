"""Provoke each fault of the table for real, and check the answer."""

import importlib.util
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.campaign import damage, drivers, kills, places, signals
from tests.campaign.bases import RUNS, left
from tests.campaign.case import all_leave, changed, must, tree
from tests.campaign.commands import Ended, answered, begin, command, finish, start, well
from tests.campaign.jobs import EVERY, ends_alike, train
from tests.campaign.own_env import ENV
from tests.campaign.watch import watch
from tests.faults.commands import TINY

RUN = Path("runs/penfac/run")


def learn(*more: str, env: str = ENV, **how) -> Ended:
    return command("train", "--env", env, *TINY, "--name=run", EVERY, *more, **how)


def refused(code: int | tuple, ended: Ended, *words: str) -> None:
    answered(ended, (code,) if isinstance(code, int) else code)
    for word in words:
        must(word in ended.err, f"{word!r} is not in {ended.err!r}")


def untouched(code: int | tuple, *words: str, verb: str = "resume") -> None:
    """The command is refused and changes nothing but its notes."""
    before = tree(RUN, damage.NOTES)
    refused(code, command(verb, RUN), *words)
    new = changed(before, tree(RUN, damage.NOTES))
    must(not new, f"changed {new}", "lost")


def states() -> list[Path]:
    return sorted(RUN.glob("checkpoints/*/state.safetensors"))


# --- kills ---------------------------------------------------------------------------------


def killed(here: Path) -> None:
    job, rng = train(RUNS["penfac"]), random.Random(1)
    os.makedirs("whole")
    os.chdir("whole")
    cpu = well(job.first(None)).cpu
    whole = job.left()
    os.chdir(here)
    go = job.first
    for _ in range(5):
        ended = go(lambda: kills.die_at(rng.random() * cpu, 0))
        must(ended.code in (0, *kills.KILLED), f"exit {ended.code}: {ended.err[-300:]}")
        go = job.again
    ends_alike(job, whole)


def killed_writing(here: Path) -> None:
    job = train(RUNS["td3"])
    os.makedirs("whole")
    os.chdir("whole")
    well(job.first(None))
    whole = job.left()
    for k in (20, 35, 50):
        (here / f"at-{k}").mkdir()
        os.chdir(here / f"at-{k}")
        ended = job.first(watch(k, None))
        must(ended.code == -signal.SIGKILL, f"exit {ended.code}")
        ends_alike(job, whole)


def study_killed(who: str, here: Path) -> None:
    drivers.undisturbed(here, "study")
    os.chdir(here)
    drivers.chain(here, "study", [who] * 2, [0.3, 0.6], here)


def driver_killed(here: Path) -> None:
    study_killed("driver", here)


def worker_killed(here: Path) -> None:
    study_killed("worker", here)


def dies_every_time(here: Path) -> None:
    """One arm's environment kills its process whenever it is stepped."""
    Path("deadly.py").write_text(
        "import gymnasium, os\nfrom tests.faults.bad_envs import Plain\n"
        "class Deadly(Plain):\n    def reward(self):\n        os.kill(os.getpid(), 9)\n"
        "gymnasium.register('Deadly-v0', entry_point=Deadly, max_episode_steps=10)\n"
    )
    Path("small.toml").write_text(
        drivers.TABLE.replace(
            f'["{drivers.ENV}"]', f'["{drivers.ENV}", "deadly:Deadly-v0"]'
        )
    )
    env = drivers_environment(here)
    ended = finish(start("study", "run", "small.toml", "--processes=2", env=env), 900)
    must(ended.code == 9, f"exit {ended.code}: {ended.err[-300:]}")
    must(ended.err.count("Deadly") == 4, f"names {ended.err!r}")
    must("4 finished" in ended.out, ended.out[-300:])
    all_leave()


def drivers_environment(here: Path) -> dict[str, str]:
    from tests.faults.commands import environment

    env = environment()
    return env | {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{here}"}


# --- disks ---------------------------------------------------------------------------------


def full_disk(here: Path) -> None:
    if os.geteuid() == 0:
        places.prepare(here)
        for size in ("32k", "96k"):
            (here / size).mkdir()
            places.full(here, "penfac", size, 0, here / size)
        return
    ended = learn(arm=lambda: kills.die_writing(0, 0.2))  # pragma: no cover
    must(ended.code != 0, "it had room")


def refusing_folder(here: Path) -> None:
    began = time.monotonic()
    refused(7, command("train", "--env", "HangsBuilding-v0", "--out", "/proc/self"))
    must(time.monotonic() - began < 30, "only after the environment was built")


def busy_folder(here: Path) -> None:
    running = begin("train", "--env", ENV, *signals.LONG, "--name=run")
    signals.until(3)
    refused(6, command("resume", RUN), str(running.pid))
    well(running.wait())


def same_second(here: Path) -> None:
    for ended in places.together(*[places.TRAIN] * 3):
        well(ended)
    must(len(list(Path("runs/penfac").iterdir())) == 3, "they share a folder")


# --- the machine ---------------------------------------------------------------------------


def without_module(name: str):
    def arm() -> None:
        sys.modules[name] = None  # type: ignore[assignment]
        for key in [k for k in sys.modules if k.startswith(f"{name}.")]:
            del sys.modules[key]
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda n, *a: None if n == name else found(n, *a)

    return arm


def no_ray(here: Path) -> None:
    Path("small.toml").write_text(drivers.TABLE)
    argv = ("study", "run", "small.toml", "--on", "ray")
    refused(2, command(*argv, arm=without_module("ray")), "ray")


def missing_extra(here: Path) -> None:
    well(learn())
    argv = ("export", RUN, "--onnx", "x.onnx")
    refused(2, command(*argv, arm=without_module("onnx")), "pip install", "onnx")


def no_fork(here: Path) -> None:
    drivers.undisturbed(here, "study")  # `well`: stderr is empty


def other_device(here: Path) -> None:
    def arm() -> None:
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"

    well(learn())
    well(command("resume", RUN, "-n", "150", arm=arm))


def clock_jumps(here: Path) -> None:
    places.prepare(here)
    (here / "jumped").mkdir()
    os.chdir(here / "jumped")
    places.clock(here, here / "jumped")


def odd_paths(here: Path) -> None:
    well(learn())
    for name in ("Räume 'mit' 🤖", "a\nb", "x" * 250, "-rf"):
        out = here / name
        words = ("--out", out) if name != "-rf" else (f"--out={out}",)
        well(command("train", "--env", ENV, *TINY, "--name=run", EVERY, *words))
        must(left(out / "penfac/run") == left(here / RUN), "other bytes", "lost")
