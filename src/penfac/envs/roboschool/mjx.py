"""The same tasks as pure functions of one world, on MJX: `jit` and `vmap` make many.

Needs the `device` extra. Physics in single precision; the task's own lines are those
that the C engine runs.
"""

import contextlib
import io
import os
from typing import Any, NamedTuple

# Two threads of jaxlib 0.10 that factor batches of matrices at once wait for each other
# forever; on a CPU one thread is as fast. Read when the first computation starts.
os.environ.setdefault("PJRT_NPROC", "1")

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from penfac.envs.base import JaxEnv, Outcome
from penfac.envs.roboschool.drag import drag, drag_coefficients
from penfac.envs.roboschool.model import excess_turn
from penfac.envs.roboschool.records import Scene
from penfac.envs.roboschool.registration import HORIZON, IDS
from penfac.envs.roboschool.task import Task, make_task
from penfac.types import EnvSpec

with contextlib.redirect_stdout(io.StringIO()):  # it tells what else it looked for
    from mujoco import mjx

    from penfac.envs.roboschool import newton

# Here every world waits for the slowest, so Newton's method is cut short: after so many
# rounds it agrees with the C engine in 995 of 1000 random states.
ROUNDS = {"pyramidal": 6, "elliptic": 10}


class MjxState(NamedTuple):
    """The complete state of one world."""

    qpos: Array
    qvel: Array
    sensors: Array
    flags: Array
    obs: Array


def roboschool_env(
    env_id: str,
    rules: str = "roboschool",
    iterations: int | None = None,
) -> JaxEnv:
    """A Roboschool task by id; `iterations` of the solver buy speed with exactness."""
    task = make_task(IDS[env_id], rules)
    physics = MjxEngine.of(task, iterations)
    bound = np.ones(task.joints, np.float32)

    def reset(key: Array) -> MjxState:
        u = jax.random.uniform(key, (task.draws,))
        qpos = task.initial(jnp, u)
        qvel = jnp.zeros(task.machine.model.nv)
        sensors = physics.sensors_at_rest(qpos)
        flags = jnp.zeros(len(task.machine.robot.feet), bool)
        obs = task.observe(jnp, Scene(qpos, qvel, sensors), flags)
        return MjxState(qpos, qvel, sensors, flags, obs)

    def step(world: MjxState, action: Array, key: Array) -> Outcome:
        scene = physics.play(world, action)
        result = task.score(jnp, world.sensors, world.flags, scene, action)
        new = MjxState(*scene, result.flags, result.obs)
        # MuJoCo's own limit on a speed that still means something
        sound = jnp.all(jnp.abs(scene.qvel) < 1e10) & jnp.all(jnp.isfinite(scene.qpos))
        return Outcome(new, result.reward, result.terminated, ~sound)

    spec = EnvSpec(env_id, task.obs_dim, -bound, bound, HORIZON)
    return JaxEnv(spec, reset, lambda world: world.obs, step, SUMMARY)


SUMMARY = "the Roboschool task on MJX"


class Motion(NamedTuple):
    """What a sub-step passes to the next."""

    qpos: Array
    qvel: Array
    qacc: Array
    sensors: Array  # of where it began


class MjxEngine(NamedTuple):
    """One world of a task in MJX."""

    task: Task
    rounds: int  # of the solver
    model: Any
    at_rest: Any  # mjx.Data to fill in
    sites: np.ndarray  # which sites the sensors are about, in order
    drag: np.ndarray
    excess: np.ndarray | None  # how far MuJoCo turns joints with long axes too far

    @classmethod
    def of(cls, task: Task, iterations: int | None = None) -> "MjxEngine":
        c_model, sensors = task.machine.model, task.machine.sensors
        rounds = iterations or ROUNDS[task.machine.robot.cone]
        sites = np.array(c_model.sensor_objid[: sensors.sites])
        model = mjx.put_model(c_model)
        # damping is ours to integrate (`sub_step`)
        flags = model.opt.disableflags | mjx.DisableBit.EULERDAMP
        return cls(
            task,
            rounds,
            model.replace(opt=model.opt.replace(disableflags=flags)),
            mjx.make_data(c_model),
            sites,
            drag_coefficients(task.machine),
            excess_turn(task.machine),
        )

    @jax.default_matmul_precision("highest")
    def sensors_at_rest(self, qpos: Array) -> Array:
        """Nothing moves at reset: places from kinematics alone, and no speed."""
        data = mjx.kinematics(self.model, self.at_rest.replace(qpos=qpos))
        places = data.site_xpos[self.sites].reshape(-1)
        return jnp.concatenate([places, jnp.zeros(6 * len(self.drag))])

    @jax.default_matmul_precision("highest")  # single: a GPU would keep 10 bits
    def play(self, world: MjxState, action: Array) -> Scene:
        """One control step, the same forces in every sub-step."""
        places = self.task.machine.sensors.places
        wrench = drag(jnp, self.drag, world.sensors, places).reshape(-1, 6)
        forced = self.at_rest.replace(
            ctrl=jnp.clip(action, -1, 1),
            xfrc_applied=jnp.concatenate([jnp.zeros((1, 6)), wrench]),
        )

        def again(motion: Motion, _: None) -> tuple[Motion, None]:
            return self.sub_step(forced, motion), None

        still = Motion(
            world.qpos, world.qvel, forced.qacc_warmstart, jnp.zeros_like(world.sensors)
        )
        end, _ = jax.lax.scan(again, still, length=self.task.sub_steps)
        return Scene(end.qpos, end.qvel, end.sensors)

    def sub_step(self, forced: Any, motion: Motion) -> Motion:
        """`mjx.step`, its equations solved by us."""
        model = self.model
        data = forced.replace(
            qpos=motion.qpos, qvel=motion.qvel, qacc_warmstart=motion.qacc
        )
        stages = (
            mjx.fwd_position, mjx.sensor_pos, mjx.fwd_velocity, mjx.sensor_vel,
            mjx.fwd_actuation, mjx.fwd_acceleration,
        )  # fmt: skip
        for stage in stages:
            data = stage(model, data)
        data = newton.solve(model, data, self.rounds)
        # as `mjx.euler`: damping acts on the velocity that is to come
        damping = jnp.diag(model.opt.timestep * model.dof_damping)
        qacc = newton.solve_positive(
            mjx.full_m(model, data) + damping, data.qfrc_smooth + data.qfrc_constraint
        )
        moved = mjx.euler(model, data.replace(qacc=qacc))
        qpos = moved.qpos
        if self.excess is not None:
            m = self.task.joints
            qpos = qpos.at[-m:].add(-self.excess * moved.qvel[-m:])
        return Motion(qpos, moved.qvel, data.qacc, data.sensordata)
