"""Controllers of other programs, beside ours: any object with `predict`.

sb3:PPO:model.zip      a model that Stable-Baselines3 saved
MODULE:NAME            an object with `predict`, or a function that returns one
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from penfac.analysis.evaluate import BATCH, row_of
from penfac.envs.calls import Call, Watch
from penfac.envs.gym import open_world
from penfac.envs.trust import check_module
from penfac.errors import ConfigError, EnvironmentFault
from penfac.randomness import Stream, env_seed
from penfac.runs.config import RunConfig


def is_other(path: Path) -> bool:
    """Whether a word names a controller of another program, not a folder."""
    return ":" in str(path) and not path.exists()


def load_other(word: str, trust: bool) -> Any:
    """The object that a word names."""
    kind, _, rest = word.partition(":")
    agent = load_sb3(word, rest, trust) if kind == "sb3" else import_other(word)
    if not can_predict(agent):
        raise ConfigError(f"{word}: is a {type(agent).__name__}, which has no predict")
    return agent


def load_sb3(word: str, rest: str, trust: bool) -> Any:
    algo, _, file = rest.partition(":")
    if not Path(file).is_file():
        raise ConfigError(f"{word}: no file {file}; write sb3:PPO:model.zip")
    if not trust:
        raise ConfigError(
            f"{word}: Stable-Baselines3 runs code that is in such a file; if you trust "
            "it, add --trust"
        )
    try:
        library = importlib.import_module("stable_baselines3")
    except ImportError:
        raise ConfigError(f'{word}: pip install "penfac[peers]"') from None
    if not hasattr(getattr(library, algo, None), "load"):
        raise ConfigError(f"{word}: Stable-Baselines3 has no {algo}")
    try:
        return getattr(library, algo).load(file, device="cpu")
    except Exception as error:
        raise ConfigError(f"{word}: {type(error).__name__}: {error}") from None


def import_other(word: str) -> Any:
    """The object of a module, or what a function there makes."""
    module, _, name = word.partition(":")
    check_module(word, module)
    with Call(word, "making it", Watch()):
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"{word}: {error}") from None
        if isinstance(found, type) or (callable(found) and not can_predict(found)):
            found = found()
    return found


def can_predict(agent: Any) -> bool:
    return callable(getattr(agent, "predict", None))


def evaluate_other(
    name: str, agent: Any, config: RunConfig, seed: int, episodes: int, mode: str
) -> dict[str, Any]:
    """Play it on the initial states that `penfac eval` uses for a seed; the report is
    like that of a run."""
    env: Any = open_world(config.env, config.env_options).env
    if isinstance(env, gymnasium.wrappers.FlattenObservation):
        env = env.env if config.env_options.flatten_obs else env
    try:
        played = [play(name, agent, env, at(seed, k), mode) for k in range(episodes)]
    finally:
        env.close()
    row = {"seed": seed, "step": None} | row_of(*map(list, zip(*played, strict=True)))
    return {
        "run": name,
        "env": config.env,
        "algo": name,
        "mode": mode,
        "policy": "policy",
        "episodes": episodes,
        "seeds": [row],
        "mean": row["mean"],
        "std_over_seeds": None,
    }


def at(seed: int, k: int) -> int:
    """The seed of initial state k, which `penfac eval` counts in batches."""
    batch, e = divmod(k, BATCH)
    return env_seed(seed, Stream.PLAY_RESET, batch * BATCH, e)


def play(
    name: str, agent: Any, env: gymnasium.Env, seed: int, mode: str
) -> tuple[float, int, bool]:
    """One episode: its return, its length, and whether it was terminated."""
    known = inspect.signature(agent.predict).parameters
    how = {"deterministic": mode == "mean"} if "deterministic" in known else {}
    obs, _ = env.reset(seed=seed)
    total, length = 0.0, 0
    while True:
        with Call(name, "predict", Watch()):
            answer = agent.predict(obs, **how)
        action = answer[0] if isinstance(answer, tuple) else answer
        if not env.action_space.contains(np.asarray(action, env.action_space.dtype)):
            raise EnvironmentFault(
                f"{name}: predict returned {action!r}, which is not in the action space "
                f"{env.action_space}"
            )
        obs, reward, terminated, truncated, _ = env.step(action)
        total, length = total + float(reward), length + 1
        if terminated or truncated:
            return total, length, bool(terminated)
