"""Register the built-in ids with Gymnasium, without importing JAX.

Gymnasium 1.0 dropped plugins, so an import must do it: `import penfac.envs`, or
`gymnasium.make("penfac.envs:penfac/Pendulum-v0")`. JAX is imported when one of these
environments is made.
"""

from gymnasium.envs.registration import register, registry

HORIZONS = {
    "penfac/Pendulum-v0": 200,
    "penfac/MountainCarContinuous-v0": 999,
    "penfac/InvertedPendulumSwingup-v0": 1000,
    "penfac/LQR-v0": 50,
    "penfac/ProbeConstant-v0": 1,
    "penfac/ProbeObservation-v0": 1,
    "penfac/ProbeDelay-v0": 2,
    "penfac/ProbeAction-v0": 1,
    "penfac/ProbeBoth-v0": 1,
    **{
        f"penfac/{shape}{dimension}-v0": 1
        for shape in ("Round", "Oval", "Ridge")
        for dimension in (5, 10, 25, 50)
    },
}


def register_envs() -> None:
    for env_id, horizon in HORIZONS.items():
        if env_id not in registry:
            register(
                id=env_id,
                entry_point="penfac.envs.adapter:JaxEnvAdapter",
                max_episode_steps=horizon,
                kwargs={"env_id": env_id},
            )
