"""Run commands one after another, each in a process that a signal meets at a chosen point.

    python -m tests.faults.killed '[{"argv": [...], "at": {"phase": "collect", "n": 7}}]'

Prints how each process ended, as a JSON list: its exit code or minus a signal, whether it
came to that point, and what status.json says. Everything is imported once, before JAX
starts a thread, and every process is a fork of that.

`at` says where: `phase`; `n`, the how-manieth call of that phase; `when`: before, after,
or during it; `signal`, SIGKILL unless told; `times`, how often it is sent.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import jax.stages
import matplotlib.backends.backend_agg
import matplotlib.figure

import penfac.cli
import penfac.terminal
from penfac.engines.host import HostEngine
from penfac.envs.gym import GymWorld
from penfac.rollout.evaluate import Evaluator
from penfac.rollout.host import HostWorlds
from penfac.runs import checkpoints, storage
from penfac.runs import folder as runs
from penfac.training import bundle, trial, unpack

IMPORTED = (
    matplotlib.backends.backend_agg,
    matplotlib.figure,
)
PHASES = {
    "compile": (jax.stages.Lowered, "compile"),
    "collect": (HostWorlds, "_choose"),
    "update": (HostEngine, "_update"),
    "evaluate": (Evaluator, "_player"),
    "row": (runs.RunFolder, "append"),
    "checkpoint": (runs.RunFolder, "save_checkpoint"),
    "status": (runs.RunFolder, "write_json"),
    "pack": (bundle, "write_both"),
    "unpack": (unpack, "create_folder"),
    "start": (trial, "create_folder"),
}
DISK = ("checkpoint", "pack", "unpack", "start")  # phases whose steps of writing count


def device_phase(phase: str) -> tuple[type, str]:
    """Imported when it must be: the built-in environments start JAX."""
    from penfac.engines.device import DeviceEngine
    from penfac.engines.groups import LearnerGroup

    if phase == "device update":
        return LearnerGroup, "advance"
    return DeviceEngine, "evaluate"


class At:
    """Counts the calls of a phase and sends the signal at the one that was chosen."""

    def __init__(self, phase: str, n: int, when: str = "before", **how):
        self.phase, self.left, self.when = phase, n, when
        self.signal, self.times = how.get("signal", signal.SIGKILL), how.get("times", 1)
        self.delay, self.k = how.get("delay", 0.005), how.get("k", 1)
        owner, name = PHASES[phase] if phase in PHASES else device_phase(phase)
        self.original = getattr(owner, name)
        setattr(owner, name, lambda *a, **kw: self.call(*a, **kw))

    def send(self) -> None:
        Path("reached").write_text(f"{self.phase} {self.when}")
        for _ in range(self.times):
            os.kill(os.getpid(), self.signal)

    def call(self, *args, **kwargs):
        self.left -= 1
        if self.left != 0:
            return self.original(*args, **kwargs)
        if self.phase in DISK:
            arm_disk(self)
        elif self.phase == "row":
            return tear_row(self, *args)
        elif self.phase == "evaluate" and self.when == "during":
            patch_after(GymWorld, "step", self.k, self.send)
        elif self.when == "before":
            self.send()
        elif self.when == "during":
            timer = threading.Timer(self.delay, self.send)
            timer.start()
            out = self.original(*args, **kwargs)
            timer.join()
            return out
        out = self.original(*args, **kwargs)
        if self.when == "after":
            self.send()
        return out


def patch_after(owner, name: str, k: int, send, after: bool = False) -> None:
    """The k-th call from now meets the signal, before it does anything or after."""
    original, left = getattr(owner, name), [k]

    def call(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0 and not after:
            send()
        out = original(*args, **kwargs)
        if left[0] == 0 and after:
            send()
        return out

    setattr(owner, name, call)


def arm_disk(at: At) -> None:
    """From this checkpoint on, the k-th step of writing meets the signal."""
    if at.when == "half":
        write = storage.write_file

        def half(path, data, sync):
            at.k -= 1
            if at.k == 0:
                path.write_bytes(data[: len(data) // 2])
                at.send()
            write(path, data, sync)

        storage.write_file = checkpoints.write_file = bundle.write_file = half
    elif at.when == "prune":
        remove = shutil.rmtree

        def one_file(path, *args, **kwargs):
            files = [p for p in Path(path).glob("*") if p.is_file()]
            if files:
                files[0].unlink()
                at.send()
            remove(path, *args, **kwargs)

        shutil.rmtree = one_file
    else:  # the name of a function of `os`, with + when it is to take place
        name = at.when.rstrip("+")
        patch_after(os, name, at.k, at.send, after=at.when.endswith("+"))


def tear_row(at: At, folder: runs.RunFolder, name: str, rows: list) -> None:
    """Half a line reaches the file."""
    with open(folder.path / name, "ab") as file:
        file.write(",".join(str(v) for v in rows[0].values()).encode()[:-3])
    at.send()


def run(argv: list[str], at: dict | None) -> int:
    """One command in a fork of this process."""
    assert len(os.listdir("/proc/self/task")) == 1, (
        "a thread would not survive the fork"
    )
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            with open("output.txt", "a") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            if at is not None:
                At(**at)
            sys.argv = ["penfac", *argv]
            try:
                penfac.cli.main()
            except SystemExit as leaving:
                code = leaving.code
            sys.stdout.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    ends = []
    for step in json.loads(sys.argv[1]):
        Path("reached").unlink(missing_ok=True)
        code = run(step["argv"], step.get("at"))
        end = {"code": code, "reached": Path("reached").exists()}
        found = sorted(Path().glob("runs/*/*/**/status.json"))
        end["status"] = [json.loads(path.read_text()) for path in found]
        ends.append(end)
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
