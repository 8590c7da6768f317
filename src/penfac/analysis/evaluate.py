"""`penfac eval`: play a learned policy on states that nobody trained or chose on."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np

from penfac.algos import ALGORITHMS
from penfac.core.noise import narrowed
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import ConfigError, CorruptFile, PenfacError
from penfac.policy import Policy, PolicyFileError
from penfac.randomness import Stream, generator
from penfac.rollout.evaluate import Candidate, Evaluator, action_chooser
from penfac.rollout.explorer import Explorer
from penfac.runs.config import RunConfig
from penfac.runs.folder import BEST
from penfac.runs.learners import Learner, learner_config
from penfac.runs.run import Run
from penfac.training.environment import find_env

BATCH = 50  # worlds open at once


def evaluate_run(
    path: Path,
    episodes: int,
    mode: str = "mean",
    best: bool = False,
    trust: bool = False,
) -> dict[str, Any]:
    """Play the policy of every seed of a run, the last or the best one; all seeds are
    reported."""
    run = Run.open(path.absolute())  # an environment may change the process's folder
    find_env(run, trust)
    rows = [
        evaluate_learner(
            learner,
            learner_config(run.config, learner),
            episodes,
            mode,
            load_policy(learner.path, best),
        )
        for learner in run.learners
    ]
    means = [row["mean"] for row in rows]
    return {
        "run": str(path),
        "env": run.config.env,
        "algo": run.config.algo,
        "mode": mode,
        "policy": BEST if best else "policy",
        "episodes": episodes,
        "seeds": rows,
        "mean": statistics.fmean(means),
        "std_over_seeds": statistics.stdev(means) if len(means) > 1 else None,
    } | ({} if run.config.arms is None else {"arms": summarise_arms(rows)})


def summarise_arms(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and deviation over the seeds of each arm."""
    arms = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        means = [row["mean"] for row in rows if row["arm"] == arm]
        deviation = statistics.stdev(means) if len(means) > 1 else None
        arms[arm] = {"mean": statistics.fmean(means), "std_over_seeds": deviation}
    return arms


def load_policy(path: Path, best: bool = False) -> Policy:
    """The policy of a learner's folder: the last one, or the best one."""
    name = BEST if best else "policy"
    if best and not (path / name).is_dir() and (path / "policy").is_dir():
        raise ConfigError(
            f"{path}: has no {BEST}; it was trained by an earlier version, or has no "
            "evaluation yet"
        )
    if not (path / name).is_dir():
        raise ConfigError(f"{path}: has no policy yet; train it, or `penfac resume` it")
    try:
        return Policy.load(path / name)
    except PolicyFileError as error:
        raise CorruptFile(str(error)) from None


def explorer_of(path: Path, policy: Policy, config: RunConfig) -> Explorer:
    """The policy as training explored with it at its step: with the sigma that was
    learned, or annealed so far."""
    cfg = config.settings
    how = ALGORITHMS[config.algo].collecting(cfg).exploration
    sigma = np.asarray(policy.about.get("sigma", cfg.sigma), float)
    if getattr(cfg, "sigma_end", None) is not None:
        progress = min(policy.about.get("step", 0) / config.steps, 1.0)
        sigma = np.asarray(narrowed(cfg.sigma, cfg.sigma_end, progress))
    if sigma.shape not in ((), (len(policy.actions.low),)):
        raise CorruptFile(f"{path}: the sigma of its policy has the wrong shape")
    if (how.law == "squashed") != bool(policy.weights.spread):
        raise CorruptFile(f"{path}: its policy explores otherwise than {config.algo}")
    return Explorer(policy.weights, how, sigma)


def evaluate_learner(
    learner: Learner, config: RunConfig, episodes: int, mode: str, policy: Policy
) -> dict[str, Any]:
    """Play one policy of a learner; return the row that is reported of it."""
    worlds = open_worlds(config.env, config.env_options, 1)
    check_fit(learner.path, policy, worlds, config.env)
    explorer = explorer_of(learner.path, policy, config)
    if mode != "mean" and explorer.how.law == "none":
        raise ConfigError(
            f"--stochastic: {learner.path} explored with noise on parameters; leave it out"
        )
    returns, lengths, ended = play_episodes(
        worlds, explorer, learner.seed, episodes, mode
    )
    named = {} if learner.arm is None else {"arm": learner.arm}
    played = row_of(returns, lengths, ended)
    return named | {"seed": learner.seed, "step": policy.about.get("step")} | played


def row_of(
    returns: list[float], lengths: list[int], ended: list[bool]
) -> dict[str, Any]:
    """What is reported of episodes."""
    return {
        "mean": statistics.fmean(returns),
        "std": statistics.stdev(returns) if len(returns) > 1 else 0.0,
        "min": min(returns),
        "max": max(returns),
        "mean_length": statistics.fmean(lengths),
        "terminated": sum(ended),
        "returns": returns,
        "lengths": lengths,
    }


def check_fit(path: Path, policy: Policy, worlds: Worlds, env: str) -> None:
    """Refuse a policy that was learned on an environment of another shape."""
    needs = (len(policy.weights.mean), len(policy.actions.low))
    gives = (worlds.obs_dim, len(worlds.actions.low))
    if needs != gives:
        raise ConfigError(
            f"{path}: the policy has {needs[0]} inputs and {needs[1]} actions, but "
            f"{env} has {gives[0]} and {gives[1]}; was config.json edited?"
        )


def play_episodes(
    worlds: Worlds, explorer: Explorer, seed: int, episodes: int, mode: str
) -> tuple[list[float], list[int], list[bool]]:
    """Returns, lengths and terminations of episodes on states that training never saw."""
    evaluator = Evaluator(lambda count: worlds)
    returns: list[float] = []
    lengths: list[int] = []
    ended: list[bool] = []
    for batch in range(0, episodes, BATCH):
        count = min(BATCH, episodes - batch)
        act = action_chooser(mode, explorer, generator(seed, Stream.PLAY_NOISE, batch))
        who = {seed: Candidate(seed, act, batch)}
        ((_, played),) = evaluator.play(who, count, Stream.PLAY_RESET)
        if isinstance(played, PenfacError):
            raise played
        returns += played[0]
        lengths += played[1]
        ended += played[2]
    evaluator.close()
    return returns, lengths, ended
