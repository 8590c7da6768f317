"""The walkers: what is observed, what is paid, when it ends, how it begins."""

import dataclasses
from functools import cached_property

import numpy as np

from penfac.envs.roboschool.model import Machine, axis_lengths, joint_limits
from penfac.envs.roboschool.pose import Pose, bounded, free_pose, planar_pose
from penfac.envs.roboschool.records import (
    CONTROL_STEP,
    START_NOISE,
    Array,
    Scene,
    TaskStep,
)
from penfac.envs.roboschool.rules import Rules

TARGET = 1000.0  # m ahead, on the x axis


@dataclasses.dataclass(frozen=True)
class Walk:
    """The numbers in which the walkers' tasks differ."""

    alive: float  # paid each step
    lowest: float  # m: the torso's centre must be above
    steepest: float  # rad: its pitch must be within
    only_feet: tuple[str, ...] = ()  # of the flags, those that must stay clear
    electricity: float = -2.0
    stall: float = -0.1
    turned: bool = False  # the first heading is drawn too


@dataclasses.dataclass(frozen=True, eq=False)
class WalkerTask:
    """Go ahead along x and do not fall."""

    machine: Machine
    walk: Walk
    rules: Rules

    sub_steps = 4

    # --- what the tables say, as arrays ---------------------------------------------------

    @cached_property
    def planar(self) -> bool:
        return self.machine.robot.root == "planar"

    @cached_property
    def joints(self) -> int:
        return self.machine.model.nu

    @cached_property
    def obs_dim(self) -> int:
        return 8 + 2 * self.joints + len(self.machine.robot.feet)

    @cached_property
    def draws(self) -> int:
        """Uniform numbers in [0, 1) that a reset takes: the joints, then the yaw."""
        return self.joints + self.walk.turned

    @cached_property
    def middle(self) -> np.ndarray:
        low, high = joint_limits(self.machine.robot)
        return (low + high) / 2

    @cached_property
    def per_range(self) -> np.ndarray:
        low, high = joint_limits(self.machine.robot)
        return 2 / (high - low)

    @cached_property
    def pace(self) -> np.ndarray:
        """[m] of the joints: the speed of the angle over that in qvel (`Hinge`)."""
        return 1 / axis_lengths(self.machine.robot)

    @cached_property
    def weights(self) -> np.ndarray:
        """[bodies] of the mean over Bullet's links; the floor, at 0, may be one of them."""
        parts = np.array([float(body.parts) for body in self.machine.robot.bodies])
        if self.rules.floor_counts:
            parts[0] = parts[0] or 1  # a torso that is the base counts too
            return parts / (parts.sum() + 1)
        return parts / parts.sum()

    @cached_property
    def foot_ends(self) -> np.ndarray:
        """[feet, 2] sites."""
        ends = self.machine.sensors.ends
        return np.array([ends[foot][0] for foot in self.machine.robot.feet])

    @cached_property
    def foot_heights(self) -> np.ndarray:
        """[feet, 2] where the sensors have the heights of the ends."""
        return 3 * self.foot_ends + 2

    @cached_property
    def foot_reach(self) -> np.ndarray:
        """[feet]: a capsule's end below this height touches the floor."""
        bodies = {body.name: body for body in self.machine.robot.bodies}
        radii = [bodies[foot].geoms[0].radius for foot in self.machine.robot.feet]
        return np.array(radii) + np.array(self.machine.robot.near)

    @cached_property
    def must_stay_clear(self) -> list[int]:
        feet = self.machine.robot.feet
        return [feet.index(foot) for foot in self.walk.only_feet]

    @cached_property
    def torso(self) -> tuple[float, float, float]:
        """The centre of mass of the torso in its frame."""
        return self.machine.robot.bodies[0].com

    # --- where it is ------------------------------------------------------------------------

    def initial(self, xp, u: Array) -> Array:
        """qpos from uniform numbers [..., draws] in [0, 1); all speeds are 0."""
        joints = START_NOISE * (2 * u[..., : self.joints] - 1)
        zero = xp.zeros_like(u[..., 0])
        if self.planar:
            root = [zero, zero, zero]
        else:
            fan = self.rules.start_yaw if self.walk.turned else 0.0
            yaw = fan * (2 * u[..., -1] - 1)
            cos, sin = xp.cos(yaw), xp.sin(yaw)
            # the frame is where it puts the centre of mass above 0
            x, y, z = self.torso
            root = [
                -(x * cos - y * sin),
                -(x * sin + y * cos),
                zero + (self.machine.robot.start_height - z),
                xp.cos(yaw / 2), zero, zero, xp.sin(yaw / 2),
            ]  # fmt: skip
        return xp.concatenate([xp.stack(root, -1), joints], -1)

    def place(self, xp, sensors: Array) -> tuple[Array, Array]:
        """(x, y): the mean over all parts as Bullet counted them."""
        return self._mean(sensors, 0), self._mean(sensors, 1)

    def _mean(self, sensors: Array, axis: int) -> Array:
        return (sensors[..., axis : 3 * len(self.weights) : 3] * self.weights).sum(-1)

    def touching(self, xp, sensors: Array) -> Array:
        """Which feet are as near to the floor as Bullet calls a contact."""
        return sensors[..., self.foot_heights].min(-1) < self.foot_reach

    def pose(self, xp, qpos: Array, qvel: Array) -> Pose:
        torso = self.machine.robot.bodies[0]
        if self.planar:
            return planar_pose(xp, torso, qpos, qvel, self.rules.joint_in_velocity)
        return free_pose(xp, torso, qpos, qvel)

    # --- what it sees, what it is paid ------------------------------------------------------

    def observe(self, xp, scene: Scene, flags: Array) -> Array:
        return self._observe(xp, scene, flags)[0]

    def _observe(self, xp, scene: Scene, flags: Array) -> tuple[Array, Pose, Array]:
        pose = self.pose(xp, scene.qpos, scene.qvel)
        if self.planar:  # the target is straight ahead, or straight behind
            ahead, none = xp.where(pose.yaw > 0, -1.0, 1.0), pose.vy
            bearing = (none, ahead)
            forward, sideways = ahead * pose.vx, none
        else:
            x, y = self.place(xp, scene.sensors)
            heading = xp.arctan2(-y, TARGET - x) - pose.yaw
            bearing = (xp.sin(heading), xp.cos(heading))
            cos, sin = xp.cos(pose.yaw), xp.sin(pose.yaw)
            forward = cos * pose.vx + sin * pose.vy
            sideways = cos * pose.vy - sin * pose.vx
        height = pose.height - self.machine.robot.zero_height
        velocity = (0.3 * forward, 0.3 * sideways, 0.3 * pose.vz)
        body = (height, *bearing, *velocity, pose.roll, pose.pitch)
        scaled = (scene.qpos[..., -self.joints :] - self.middle) * self.per_range
        speeds = 0.1 * self.pace * scene.qvel[..., -self.joints :]
        return self._joined(xp, body, scaled, speeds, flags), pose, scaled

    def _joined(self, xp, body, scaled: Array, speeds: Array, flags: Array) -> Array:
        """The observation in its order, clipped."""
        lead, m = scaled.shape[:-1], self.joints
        if xp is np:  # filling an array is many times as fast as stacking
            obs = np.empty((*lead, self.obs_dim), np.float32)
            for k, column in enumerate(body):
                obs[..., k] = column
            obs[..., 8 : 8 + 2 * m : 2], obs[..., 9 : 9 + 2 * m : 2] = scaled, speeds
            obs[..., 8 + 2 * m :] = flags
        else:
            joints = xp.stack([scaled, speeds], -1).reshape((*lead, 2 * m))
            parts = [xp.stack(body, -1), joints, flags.astype(joints.dtype)]
            obs = xp.concatenate(parts, -1).astype(np.float32)
        return bounded(xp, obs, 5.0)

    def score(self, xp, before: Array, flags: Array, after: Scene, action: Array):
        """The outcome of one control step; `before` are the sensors at its start."""
        obs, pose, scaled = self._observe(xp, after, flags)
        up = (pose.height > self.walk.lowest) & (
            xp.abs(pose.pitch) < self.walk.steepest
        )
        if self.must_stay_clear:
            up = up & ~flags[..., self.must_stay_clear].any(-1)
        terms = {
            "alive": xp.where(up, self.walk.alive, -1.0),
            "progress": self.progress(xp, before, after.sensors),
            **self.effort(xp, after.qvel, action),
            "joints_at_limit": self.rules.limit_cost
            * (xp.abs(scaled) > 0.99).sum(-1).astype(pose.height.dtype),
        }
        if self.rules.strike_cost and self.machine.robot.limbs:
            struck = self.strikes(xp, after.sensors)
            terms["foot_collision"] = self.rules.strike_cost * struck
        falls = self.rules.cheetah_falls or not self.walk.only_feet
        return TaskStep(obs, terms, ~up & falls, self.touching(xp, after.sensors))

    def progress(self, xp, before: Array, after: Array) -> Array:
        """How much nearer the target, over the control step: about the speed in m/s.

        The difference of two distances of 1 km, without computing either difference
        of large numbers: single precision would keep only 4 mm of it.
        """
        if self.planar:
            return (self._mean(after, 0) - self._mean(before, 0)) * (1 / CONTROL_STEP)
        x, y = self.place(xp, before)
        x2, y2 = self.place(xp, after)
        far = xp.sqrt((TARGET - x) ** 2 + y**2) + xp.sqrt((TARGET - x2) ** 2 + y2**2)
        gain = (x2 - x) * (2 * TARGET - x - x2) + (y - y2) * (y + y2)
        return gain / (far * CONTROL_STEP)

    def effort(self, xp, qvel: Array, action: Array) -> dict[str, Array]:
        """Costs see the action as it was given, before clipping."""
        action = action.astype(qvel.dtype)
        m = self.joints
        power = xp.abs(action * (self.pace * qvel[..., -m:]))
        return {
            "electricity": 0.1 * self.walk.electricity / m * power.sum(-1),
            "stall_torque": self.walk.stall / m * (action * action).sum(-1),
        }

    # --- feet against the other limbs -------------------------------------------------------

    @cached_property
    def strikable(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each foot: end sites [feet, capsules, 2] of what it may strike, how near its
        centre must come [feet, capsules], and the site of that centre [feet, 1]."""
        robot, ends = self.machine.robot, self.machine.sensors.ends
        bodies = {body.name: body for body in robot.bodies}
        sites, reach = [], []
        for foot, near in zip(robot.feet, robot.near, strict=True):
            own = foot.split("_")[0]
            leg = {f"{own}_{part}" for part in ("thigh", "shin", "foot")}
            pairs = [
                (ends[limb][k], capsule.radius)
                for limb in robot.limbs
                if limb not in leg
                for k, capsule in enumerate(bodies[limb].geoms)
            ]
            sites.append([pair for pair, _ in pairs])
            radius = bodies[foot].geoms[0].radius
            # two spheres touch in Bullet when they overlap, all else when it is near
            reach.append([radius + r + near * (a != b) for (a, b), r in pairs])
        return np.array(sites), np.array(reach), self.foot_ends[:, :1]

    def strikes(self, xp, sensors: Array, more: float = 0.0) -> Array:
        """How many feet touch another limb, or are `more` m away from that: distances
        from a foot's centre to capsules."""
        sites, reach, centre = self.strikable
        reach = reach + more
        xyz = np.arange(3)
        at = sensors[..., 3 * sites[..., 0, None] + xyz]  # [..., feet, capsules, 3]
        along = sensors[..., 3 * sites[..., 1, None] + xyz] - at
        out = sensors[..., 3 * centre[..., None] + xyz] - at
        length2 = xp.maximum((along * along).sum(-1), 1e-12)  # a sphere has none
        t = xp.minimum(xp.maximum((out * along).sum(-1) / length2, 0), 1)
        gap = out - t[..., None] * along
        touched = (gap * gap).sum(-1) < reach * reach
        return touched.any(-1).sum(-1).astype(sensors.dtype)
