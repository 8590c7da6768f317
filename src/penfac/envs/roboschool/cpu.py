# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""Many worlds of one task in MuJoCo's C threads: state in, state out.

One call of `mujoco.rollout` plays the sub-steps of all worlds; Python touches arrays,
never a world. A world is rows of numbers, so it can be saved, restored, reset alone and
stepped beside any others with the same bits.
"""

from typing import Any, NamedTuple

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from penfac.envs.roboschool.drag import drag, drag_coefficients
from penfac.envs.roboschool.model import excess_turn
from penfac.envs.roboschool.pose import bounded
from penfac.envs.roboschool.records import Scene, TaskStep
from penfac.envs.roboschool.task import Task
from penfac.machine import usable_cores

# MuJoCo silently puts a world that blew up back to its first pose at time 0. Our worlds
# begin at 1 s, so that a clock that does not fit tells, in the first step too.
START_TIME = 1.0
WORTH_THREADS = 100  # degrees of freedom; fewer are done before a thread has woken up


class WorldStates(NamedTuple):
    """The complete states of W worlds."""

    physics: np.ndarray  # [W, 1 + nq + nv] time, qpos, qvel
    sensors: np.ndarray  # [W, ns]
    flags: np.ndarray  # [W, feet] bool

    def rows(self, which: Any) -> "WorldStates":
        return WorldStates(*(x[which] for x in self))

    def put(self, which: Any, new: "WorldStates") -> None:
        for mine, theirs in zip(self, new, strict=True):
            mine[which] = theirs


class CpuEngine:
    """Plays worlds of one task; holds threads and buffers, no world."""

    def __init__(self, task: Task, threads: int | None = None):
        self.task, self.model = task, task.machine.model
        self.threads = usual_threads() if threads is None else threads
        self.pool, self.alone = Rollout(nthread=self.threads), Rollout(nthread=0)
        self.data = [mujoco.MjData(self.model) for _ in range(max(1, self.threads))]
        kind = mujoco.mjtState
        self.control_spec = int(kind.mjSTATE_CTRL | kind.mjSTATE_XFRC_APPLIED)
        self.drag = drag_coefficients(task.machine)
        self.nq, self.nv, self.nu = self.model.nq, self.model.nv, self.model.nu
        self.elapsed = task.sub_steps * self.model.opt.timestep
        self.excess = excess_turn(task.machine)
        self.buffers: dict[int, Buffers] = {}  # by sub-steps

    def start(self, u: np.ndarray) -> tuple[WorldStates, np.ndarray]:
        """Fresh worlds and what they see, from uniform numbers [W, draws] in [0, 1)."""
        task, count = self.task, len(u)
        physics = np.zeros((count, 1 + self.nq + self.nv))
        physics[:, 0] = START_TIME
        physics[:, 1 : 1 + self.nq] = task.initial(np, u)
        # sensors belong to the state before a sub-step: play one, forget where it led
        _, sensors = self.play(physics, 0.0, 0.0, sub_steps=1)
        flags = np.zeros((count, self.feet), bool)
        worlds = WorldStates(physics, sensors, flags)
        return worlds, task.observe(np, self.scene(physics, sensors), flags)

    def step(
        self, worlds: WorldStates, action: np.ndarray
    ) -> tuple[WorldStates, TaskStep, np.ndarray]:
        """One control step: where it led, what it gave, which worlds [W] blew up."""
        task = self.task
        wrench = drag(np, self.drag, worlds.sensors, task.machine.sensors.places)
        ctrl = bounded(np, action, 1.0)
        physics, sensors = self.play(
            worlds.physics, ctrl[:, None], wrench[:, None], task.sub_steps
        )
        clock = physics[:, 0] - worlds.physics[:, 0]
        broken = np.abs(clock - self.elapsed) > self.elapsed / 8
        scene = self.scene(physics, sensors)
        result = task.score(np, worlds.sensors, worlds.flags, scene, action)
        return WorldStates(physics, sensors, result.flags), result, broken

    def play(
        self, physics: np.ndarray, ctrl: Any, wrench: Any, sub_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Motors [W, 1, nu] and forces on bodies [W, 1, 6 bodies], the same in every
        sub-step. Angles of joints with long axes are put right after each of them."""
        if self.excess is None:
            return self.bare(physics, ctrl, wrench, sub_steps)
        m, last, sensors = self.nu, 1 + self.nq, physics[:, :0]
        for _ in range(sub_steps):
            physics, sensors = self.bare(physics, ctrl, wrench, 1)
            physics[:, last - m : last] -= self.excess * physics[:, -m:]
        return physics, sensors

    def bare(
        self, physics: np.ndarray, ctrl: Any, wrench: Any, sub_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The engine as MuJoCo has it, every angle at the speed in qvel."""
        count, held = len(physics), self.buffers.get(sub_steps)
        if held is None or len(held.models) < count:
            self.buffers[sub_steps] = held = Buffers.of(self, count, sub_steps)
        models, control, state, sensors = held.first(count)
        control[..., : self.nu] = ctrl
        control[..., self.nu + 6 :] = wrench
        threads = self.threads if count * self.nv >= WORTH_THREADS else 0
        pool, data = (self.pool, self.data) if threads else (self.alone, self.data[:1])
        pool.rollout(
            models, data, physics, control, control_spec=self.control_spec,
            nstep=sub_steps, state=state, sensordata=sensors, skip_checks=True,
            chunk_size=-(-count // threads) if 0 < count < 8 * threads else None,
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
        self.alone.close()


def usual_threads() -> int:
    """One a core; 0, which is to play in the calling thread, where there is one core."""
    count = len(usable_cores())
    return count if count > 1 else 0


class Buffers(NamedTuple):
    """What a call of up to so many worlds writes into."""

    models: list[Any]
    control: np.ndarray
    state: np.ndarray
    sensors: np.ndarray

    def first(self, n: int) -> "Buffers":
        models, control, state, sensors = self
        if n == len(models):
            return self
        return Buffers(models[:n], control[:n], state[:n], sensors[:n])

    @classmethod
    def of(cls, engine: CpuEngine, count: int, sub_steps: int) -> "Buffers":
        model = engine.model
        return cls(
            [model] * count,
            np.zeros((count, sub_steps, engine.control_size)),
            np.zeros((count, sub_steps, 1 + engine.nq + engine.nv)),
            np.zeros((count, sub_steps, model.nsensordata)),
        )
