"""Send MuJoCo's warnings to the log."""

import importlib
import logging
from typing import Any

LOG = logging.getLogger(__name__)


def hear_mujoco() -> None:
    """Log each of MuJoCo's warnings once, instead of printing it or writing a file."""
    mujoco: Any = importlib.import_module("mujoco")
    if mujoco.get_mju_user_warning() is None:
        heard: set[str] = set()

        def hear(text: str) -> None:
            if text not in heard:
                heard.add(text)
                LOG.info("MuJoCo: %s", text)

        mujoco.set_mju_user_warning(hear)
