"""Settings for small tests: whole batches and whole episodes, no schedule.

What a test does not say is fixed here, so that tuning the defaults moves no test.
"""

FULL_BATCH = {
    "gamma": 0.99,
    "lam": 0.95,
    "normalise_returns": False,
    "minibatches": 1,
    "rates_end": 1.0,
    "actor_update": "cac",
    "softness": 0.0,
    "centred": False,
    "actor_steps": 30,
    "actor_lr": 3e-4,
    "ratio_limit_start": None,
    "d_target": 0.06,
    "d_target_start": None,
    "distance": "rms",
    "beta_start": 1e-4,
    "beta_rule": "step",
    "fitted_iterations": 10,
    "critic_steps": 5,
    "critic_lr": 3e-3,
    "exploration": "truncated",
    "sigma": 0.2,
    "sigma_end": None,
    "activation": "leaky_relu",
    "actor_output": "tanh",
    "obs_clip": 5.0,
    "collect": "episodes",
}


def options(settings: dict) -> list[str]:
    """Settings as the words of a command."""
    return [
        f"--set={key}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for key, value in settings.items()
    ]
