"""What a model knows and how it acts; `penfac.api.model` learns, saves and loads."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from msgspec.structs import replace

from penfac.analysis.compare import difference_of
from penfac.analysis.evaluate import evaluate_learner, explorer_of, load_policy
from penfac.analysis.others import evaluate_other
from penfac.api.keywords import in_python, whole
from penfac.api.observations import rows_of
from penfac.api.sources import ModelEnv, check_spaces, given_source
from penfac.engines.build import build_engine
from penfac.envs.gym import check_id
from penfac.errors import ConfigError
from penfac.policy import Policy
from penfac.randomness import Stream, generator
from penfac.rollout.evaluate import action_chooser
from penfac.runs.config import RunConfig
from penfac.runs.learners import Learner
from penfac.training.trial import job_of
from penfac.training.warm import start_from

if TYPE_CHECKING:
    from penfac.training.loop import Loop

PREDICTED = 2**32 - 1  # `penfac eval` uses no batch of episodes with this number


class Actor:
    """A policy, its environment, and the run folder that both are from."""

    run: Path | None = None  # its folder, after the first `learn`
    seed: int
    _env: ModelEnv
    _config: RunConfig  # of the run, or of the one that `learn` would begin
    _policy: Policy | None = None
    _noise: np.random.Generator | None = None
    _loop: "Loop | None" = None  # while a callback runs: the learner as it stands

    @property
    def num_timesteps(self) -> int:
        """The number of environment steps that the policy has learned from."""
        if self._loop is not None:
            return self._loop.counters[0].step
        if self.run is None or not (self.run / "policy").is_dir():
            return 0
        return self.policy.about["step"]

    @contextlib.contextmanager
    def _standing(self, loop: "Loop") -> Iterator[None]:
        """While a callback runs: the model is the learner as it stands."""
        self._loop, self.run = loop, loop.run.path
        self._config = loop.run.config
        self._policy = self._noise = None
        try:
            yield
        finally:
            self._loop = self._policy = self._noise = None

    # --- its environment --------------------------------------------------------------

    @property
    def observation_space(self) -> gymnasium.Space:
        """The space of the environment's observations."""
        return self._env.spaces()[0]

    @property
    def action_space(self) -> gymnasium.Space:
        """The space of the environment's actions."""
        return self._env.spaces()[1]

    @in_python()
    def get_env(self) -> gymnasium.Env | VectorEnv:
        """Make one more environment, like those that the model learns in."""
        return self._env.open()

    # --- acting -----------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """mu as numpy arrays, as `penfac.Policy.load` reads it without JAX."""
        if self._policy is None:
            with in_python():
                self._policy = self._find_policy()
        return self._policy

    @property
    @in_python()
    def best_policy(self) -> Policy:
        """The policy of the evaluation with the highest mean return so far."""
        if self._loop is not None and self._loop.recorders[0].best is not None:
            return self._loop.recorders[0].best
        if self.run is None:
            raise ConfigError("best_policy: the model has not learned yet; call learn")
        return load_policy(self.run, best=True)

    def _find_policy(self) -> Policy:
        if self._loop is not None:
            return self._loop.policy(0)
        if self.run is not None:
            return load_policy(self.run)
        self._env.announce()
        return untrained_policy(self._config, self.seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, None]:
        """Return the action for one state, or actions for a batch, within the bounds.

        The second result is None, as in Stable-Baselines3. With `deterministic=False`
        the action has exploration noise; seed and step determine the noise.
        """
        policy = self.policy
        with in_python():
            n = len(policy.weights.mean)
            rows = rows_of(observation, n, lambda: self.observation_space)
        if deterministic:
            return policy(rows), None
        if self._noise is None:
            when = (PREDICTED, self.num_timesteps)
            self._noise = generator(self.seed, Stream.PLAY_NOISE, *when)
        path = self.run or Path(self._env.source.id)
        return explore(path, policy, self._config, rows, self._noise), None

    @in_python()
    def evaluate(
        self,
        episodes: int = 100,
        deterministic: bool = True,
        *,
        best: bool = False,
        env: Any = None,
    ) -> dict[str, Any]:
        """Play new initial states, as `penfac eval`: mean, std, returns and more.

        `best` plays the best policy instead of the last. `env` is another environment
        with the same spaces.
        """
        if self.run is None:
            raise ConfigError(
                "evaluate: the model has not learned yet; call learn first"
            )
        policy = self.best_policy if best else self.policy
        source = self._env.source
        if env is None:
            self._env.announce()
            check_id(source.id)
        else:
            source = given_source(self._config, env)
            check_spaces(self.run, self._config, source, policy)
        where = {"env": source.id, "env_options": source.options}
        return evaluate_learner(
            Learner(None, self.seed, self.run),
            replace(self._config, **where),
            whole("episodes", episodes, 1),
            "mean" if deterministic else "sampled",
            policy,
        )

    @in_python()
    def compare(self, other: Any, episodes: int = 100) -> dict[str, Any]:
        """Play this model and another, or any object with `predict`, on new initial
        states of this model's environment: the difference of their mean returns with its
        95 % interval. It compares two policies, not two algorithms."""
        count = whole("episodes", episodes, 2)
        ours = self.evaluate(count)
        if isinstance(other, Actor):
            theirs = other.evaluate(count)
        elif callable(getattr(other, "predict", None)):
            source, name = self._env.source, type(other).__name__
            where = {"env": source.id, "env_options": source.options}
            config = replace(self._config, **where)
            report = evaluate_other(name, other, config, self.seed, count, "mean")
            theirs = report["seeds"][0]
        else:
            raise ConfigError(f"other is a {type(other).__name__}: has no predict")
        both = {"ours": ours, "theirs": theirs}
        return both | difference_of(ours["returns"], theirs["returns"])


def untrained_policy(config: RunConfig, seed: int) -> Policy:
    """The policy before the first update, from the engine that would train it."""
    job = job_of(config)._replace(eval_episodes=0)
    engine = build_engine(job, config.engine, [seed], [config.settings])
    try:
        if config.start_from is not None:
            start_from(engine, 0, Path(config.start_from), seed)
        return engine.policy(0)
    finally:
        engine.close()


def explore(
    path: Path,
    policy: Policy,
    config: RunConfig,
    rows: np.ndarray,
    noise: np.random.Generator,
) -> np.ndarray:
    """Actions with the noise that training has at the policy's step."""
    explorer = explorer_of(path, policy, config)
    if explorer.how.law == "none":
        raise ConfigError(
            f"deterministic=False: {path} explores with noise on parameters, not on "
            "actions; use deterministic=True"
        )
    actions = action_chooser("sampled", explorer, noise)(rows, 0)
    return policy.actions.to_env(actions)
