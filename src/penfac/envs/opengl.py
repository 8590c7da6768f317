"""Choose an OpenGL backend: a window if there is a screen, else EGL, else OSMesa."""

import os
import sys
from ctypes.util import find_library

from penfac.errors import ConfigError

OFF_SCREEN = {"egl": "EGL", "osmesa": "OSMesa"}


def choose_opengl() -> None:
    """Set MUJOCO_GL: without a screen, MuJoCo's own choice would fail."""
    has_screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if os.environ.get("MUJOCO_GL") or has_screen or sys.platform != "linux":
        return
    for name, library in OFF_SCREEN.items():
        if find_library(library):
            os.environ["MUJOCO_GL"] = name
            return
    raise ConfigError(
        "cannot draw: EGL and OSMesa are missing; install Debian's libegl1 and "
        "libgl1-mesa-dri, or libosmesa6"
    )
