"""`penfac eval`: what a learned policy is worth on states nobody trained or chose on."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np

from penfac.algos import ALGORITHMS
from penfac.core.noise import Exploration, narrowed
from penfac.envs.gym import check_id
from penfac.envs.worlds import open_worlds
from penfac.errors import ConfigError, CorruptFile, PenfacError
from penfac.policy import Policy, PolicyFileError
from penfac.randomness import Stream, generator
from penfac.rollout.evaluate import Candidate, Evaluator, action_chooser
from penfac.rollout.explorer import Explorer
from penfac.runs.folder import read_config
from penfac.runs.learners import Learner, learner_document, learners_of
from penfac.settings.configs import from_values
from penfac.training.request import check_document, env_options

BATCH = 50  # worlds open at once


def judge(run: Path, episodes: int, mode: str = "mean") -> dict[str, Any]:
    """Play every seed's policy of a run; all seeds are reported."""
    document = read_config(run)
    check_document(run / "config.json", document)
    check_id(document["env"])
    per_seed = [
        _judge_one(x, learner_document(document, x), episodes, mode)
        for x in learners_of(run, document)
    ]
    means = [p["mean"] for p in per_seed]
    return {
        "run": str(run),
        "env": document["env"],
        "algo": document["algo"],
        "mode": mode,
        "episodes": episodes,
        "seeds": per_seed,
        "mean": statistics.fmean(means),
        "std_over_seeds": statistics.stdev(means) if len(means) > 1 else None,
    } | ({"arms": by_arm(per_seed)} if "arms" in document else {})


def by_arm(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Mean and deviation over the seeds of each arm."""
    found = {}
    for arm in dict.fromkeys(row["arm"] for row in rows):
        means = [row["mean"] for row in rows if row["arm"] == arm]
        spread = statistics.stdev(means) if len(means) > 1 else None
        found[arm] = {"mean": statistics.fmean(means), "std_over_seeds": spread}
    return found


def load_policy(path: Path) -> Policy:
    if not (path / "policy").is_dir():
        raise ConfigError(f"{path}: has no policy yet; train it, or `penfac resume` it")
    try:
        return Policy.load(path)
    except PolicyFileError as error:
        raise CorruptFile(str(error)) from None


def exploring(
    path: Path, policy: Policy, cfg: Any, how: Exploration, steps: int
) -> Explorer:
    """The policy as training explores with it at its step of a run of so many: with the
    sigma that was learned, or annealed so far."""
    sigma = np.asarray(policy.about.get("sigma", cfg.sigma), float)
    if cfg.sigma_end is not None:
        progress = min(policy.about.get("step", 0) / steps, 1.0)
        sigma = np.asarray(narrowed(cfg.sigma, cfg.sigma_end, progress))
    if sigma.shape not in ((), (len(policy.actions.low),)):
        raise CorruptFile(f"{path}: the sigma of its policy has the wrong shape")
    return Explorer(policy.weights, how, sigma)


def _judge_one(
    learner: Learner, document: dict[str, Any], episodes: int, mode: str
) -> dict[str, Any]:
    arm, seed, path = learner
    policy = load_policy(path)
    algo = ALGORITHMS[document["algo"]]
    cfg = from_values(algo.config, document["config"])
    options = env_options(document)
    worlds = open_worlds(document["env"], options, 1)
    evaluator = Evaluator(lambda count: worlds)
    needs = (len(policy.weights.mean), len(policy.actions.low))
    gives = (worlds.obs_dim, len(worlds.actions.low))
    if needs != gives:
        raise ConfigError(
            f"{path}: the policy has {needs[0]} inputs and {needs[1]} actions, but "
            f"{document['env']} has {gives[0]} and {gives[1]}; was config.json edited?"
        )
    how = algo.collecting(cfg).exploration
    explorer = exploring(path, policy, cfg, how, document["steps"])
    if mode != "mean" and explorer.how.law == "none":
        raise ConfigError(
            f"--stochastic: {path} explored with noise on parameters; leave it out"
        )
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
    named = {} if arm is None else {"arm": arm}
    return named | {
        "seed": seed,
        "step": policy.about.get("step"),
        "mean": statistics.fmean(returns),
        "std": statistics.stdev(returns) if len(returns) > 1 else 0.0,
        "min": min(returns),
        "max": max(returns),
        "mean_length": statistics.fmean(lengths),
        "terminated": sum(ended),
        "returns": returns,
    }
