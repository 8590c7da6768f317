"""An environment that draws and needs no module: registered before commands are forked."""

import gymnasium
import numpy as np
from tests.faults.bad_envs import LIMIT, Plain

ENV = "CampaignPlain-v0"


class Drawn(Plain):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        shade = np.clip(128 + 100 * self.state, 0, 255).astype(np.uint8)
        return np.broadcast_to(shade, (32, 32, 3)).copy()


if ENV not in gymnasium.registry:
    gymnasium.register(ENV, entry_point=Drawn, max_episode_steps=LIMIT)
