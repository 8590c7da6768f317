"""Many worlds of one task in MuJoCo's C threads: state in, state out.

One call of `mujoco.rollout` plays the sub-steps of all worlds; Python touches arrays,
never a world. A world is rows of numbers, so it can be saved, restored, reset alone and
stepped beside any others with the same bits.
"""

import os
from typing import Any, NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from penfac.envs.roboschool.task import Moment, Scene, Task, drag, drag_coefficients

# MuJoCo silently puts a world that blew up back to its first pose at time 0. Our worlds
# begin at 1 s, so that a clock that does not fit tells, in the first step too.
START_TIME = 1.0


class Worlds(NamedTuple):
    """All there is of W worlds."""

    physics: np.ndarray  # [W, 1 + nq + nv] time, qpos, qvel
    sensors: np.ndarray  # [W, ns]
    flags: np.ndarray  # [W, feet] bool

    def rows(self, which: Any) -> "Worlds":
        return Worlds(*(x[which] for x in self))

    def put(self, which: Any, new: "Worlds") -> None:
        for mine, theirs in zip(self, new, strict=True):
            mine[which] = theirs


class CpuEngine:
    """Plays worlds of one task; holds threads and buffers, no world."""

    def __init__(self, task: Task, threads: int | None = None):
        self.task, self.model = task, task.machine.model
        self.threads = cores() if threads is None else threads
        self.pool = Rollout(nthread=self.threads)
        self.data = [mujoco.MjData(self.model) for _ in range(max(1, self.threads))]
        kind = mujoco.mjtState
        self.control_spec = int(kind.mjSTATE_CTRL | kind.mjSTATE_XFRC_APPLIED)
        self.drag = drag_coefficients(task.machine)
        self.nq, self.nv, self.nu = self.model.nq, self.model.nv, self.model.nu
        self.elapsed = task.sub_steps * self.model.opt.timestep
        self.buffers: dict[tuple[int, int], Buffers] = {}

    def start(self, u: np.ndarray) -> tuple[Worlds, np.ndarray]:
        """Fresh worlds and what they see, from uniform numbers [W, draws] in [0, 1)."""
        task, count = self.task, len(u)
        physics = np.zeros((count, 1 + self.nq + self.nv))
        physics[:, 0] = START_TIME
        physics[:, 1 : 1 + self.nq] = task.initial(np, u)
        # sensors belong to the state before a sub-step: play one, forget where it led
        _, sensors = self.play(physics, np.zeros((count, self.control_size)), 1)
        flags = np.zeros((count, self.feet), bool)
        worlds = Worlds(physics, sensors, flags)
        return worlds, task.observe(np, self.scene(physics, sensors), flags)

    def step(
        self, worlds: Worlds, action: np.ndarray
    ) -> tuple[Worlds, Moment, np.ndarray]:
        """One control step: where it led, what it gave, which worlds [W] blew up."""
        task = self.task
        control = np.zeros((len(action), self.control_size))
        control[:, : self.nu] = np.clip(action, -1, 1)
        control[:, self.nu + 6 :] = drag(
            np, self.drag, worlds.sensors, task.machine.sensors.places
        )
        physics, sensors = self.play(worlds.physics, control, task.sub_steps)
        clock = physics[:, 0] - worlds.physics[:, 0] - self.elapsed
        broken = np.abs(clock) > self.elapsed / 8
        scene = self.scene(physics, sensors)
        moment = task.judge(np, worlds.sensors, worlds.flags, scene, action)
        return Worlds(physics, sensors, moment.flags), moment, broken

    def play(
        self, physics: np.ndarray, control: np.ndarray, sub_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bare engine: the same control in every sub-step."""
        size = len(physics), sub_steps
        if size not in self.buffers:
            self.buffers[size] = Buffers.of(self, *size)
        models, tiled, state, sensors = self.buffers[size]
        tiled[:] = control[:, None]
        self.pool.rollout(
            models, self.data, physics, tiled, control_spec=self.control_spec,
            nstep=sub_steps, state=state, sensordata=sensors, skip_checks=True,
        )  # fmt: skip
        return state[:, -1].copy(), sensors[:, -1].copy()

    def scene(self, physics: np.ndarray, sensors: np.ndarray) -> Scene:
        return Scene(
            physics[:, 1 : 1 + self.nq], physics[:, 1 + self.nq :], sensors
        )  # fmt: skip

    @property
    def control_size(self) -> int:
        """Motors, then force and torque on every body, the world's included."""
        return self.nu + 6 * self.model.nbody

    @property
    def feet(self) -> int:
        return len(self.task.machine.robot.feet)

    def close(self) -> None:
        self.pool.close()


class Buffers(NamedTuple):
    """What a call of so many worlds writes into."""

    models: list[Any]
    control: np.ndarray
    state: np.ndarray
    sensors: np.ndarray

    @classmethod
    def of(cls, engine: CpuEngine, count: int, sub_steps: int) -> "Buffers":
        model = engine.model
        return cls(
            [model] * count,
            np.zeros((count, sub_steps, engine.control_size)),
            np.zeros((count, sub_steps, 1 + engine.nq + engine.nv)),
            np.zeros((count, sub_steps, model.nsensordata)),
        )


def cores() -> int:
    """Cores this process may use; one needs no threads."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return found if found > 1 else 0
