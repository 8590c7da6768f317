"""Gymnasium's plugin entry point: the built-in ids, known without importing JAX.

Gymnasium calls `register_envs` in every program that imports it, so this stays light;
JAX is imported when one of the environments is made.
"""

from gymnasium.envs.registration import register

HORIZONS = {
    "Pendulum-v0": 200,
    "MountainCarContinuous-v0": 999,
    "LQR-v0": 50,
    "ProbeConstant-v0": 1,
    "ProbeObservation-v0": 1,
    "ProbeDelay-v0": 2,
    "ProbeAction-v0": 1,
    "ProbeBoth-v0": 1,
}


def register_envs() -> None:
    # the plugin loader has set the namespace: ids become penfac/...
    for name, horizon in HORIZONS.items():
        register(
            id=name,
            entry_point="penfac.envs.adapter:JaxEnvAdapter",
            max_episode_steps=horizon,
            kwargs={"env_id": f"penfac/{name}"},
        )
