"""Measure the returns of zero and random actions on the Roboschool tasks, in 256 worlds.

python examples/roboschool_baselines.py [worlds]
"""

import sys

import gymnasium
import numpy as np

import penfac.envs  # registers the ids; as does gymnasium.make("penfac.envs:...")


def first_episodes(
    env_id: str, worlds: int, random: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the return and the length of the first episode of each world."""
    env = gymnasium.make_vec(env_id, worlds, vectorization_mode="vector_entry_point")
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    returns, lengths, alive = np.zeros(worlds), np.zeros(worlds), np.ones(worlds, bool)
    while alive.any():
        actions = rng.uniform(-1, 1, env.action_space.shape) * random
        _, reward, terminated, truncated, _ = env.step(actions.astype(np.float32))
        returns += alive * reward
        lengths += alive
        alive &= ~(terminated | truncated)
    env.close()
    return returns, lengths


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    for name in penfac.envs.roboschool.registration.IDS:
        for random in (False, True):
            r, n = first_episodes(name, count, random)
            policy = "random" if random else "zero"
            print(
                f"{name:38}{policy:8}{r.mean():8.1f} +- {r.std():6.1f}{n.mean():8.1f} steps"
            )
