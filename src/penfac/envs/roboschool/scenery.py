# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""The floor, and what a picture needs: sky, light, a material."""

from typing import Any

import mujoco

from penfac.envs.roboschool.contacts import contact_law
from penfac.envs.roboschool.physics import Physics
from penfac.envs.roboschool.robots.parts import Robot

TILES = (0.93, 0.93, 0.91), (0.85, 0.86, 0.84)


def add_scenery(spec: Any, robot: Robot, physics: Physics) -> None:
    """The floor, and what a picture needs: sky, light, a camera that follows."""
    one, two = TILES
    texture, role = mujoco.mjtTexture, mujoco.mjtTextureRole.mjTEXROLE_RGB
    gradient, checker = (
        mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
    )
    spec.add_texture(
        name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=gradient,
        rgb1=(0.96, 0.97, 0.98), rgb2=(0.80, 0.87, 0.94), width=64, height=384,
    )  # fmt: skip
    spec.add_texture(
        name="tiles", type=texture.mjTEXTURE_2D, builtin=checker, rgb1=one, rgb2=two,
        width=128, height=128,
    )  # fmt: skip
    tiles = spec.add_material(name="tiles", texrepeat=(1, 1), texuniform=True)
    tiles.textures[role] = "tiles"
    world = spec.worldbody
    world.add_light(
        pos=(0, -3, 8), dir=(0.1, 0.35, -1), diffuse=(0.7, 0.7, 0.7),
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
    )  # fmt: skip
    spec.visual.headlight.ambient = (0.4, 0.4, 0.4)
    spec.visual.headlight.diffuse = (0.3, 0.3, 0.3)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    world.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=(0, 0, 1),
        pos=(0, 0, -0.8 if robot.root == "slider" else 0),
        material="tiles",
        contype=0,
        conaffinity=1,
        **contact_law(robot, physics),
    )
