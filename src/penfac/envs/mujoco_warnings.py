"""What MuJoCo has to say goes to our log."""

import importlib
import logging
from typing import Any

LOG = logging.getLogger(__name__)


def hear_mujoco() -> None:
    """MuJoCo's warnings go to our log, each once; not to the terminal, nor to a file in
    the working folder."""
    mujoco: Any = importlib.import_module("mujoco")
    if mujoco.get_mju_user_warning() is None:
        heard: set[str] = set()

        def hear(text: str) -> None:
            if text not in heard:
                heard.add(text)
                LOG.info("MuJoCo: %s", text)

        mujoco.set_mju_user_warning(hear)
