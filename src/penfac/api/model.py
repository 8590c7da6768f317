"""A model: a run folder with the method names of Stable-Baselines3.

`penfac.training.trial` trains, `penfac.analysis.evaluate` evaluates.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import gymnasium
import numpy as np

from penfac.analysis.evaluate import evaluate_run, explorer_of, load_policy
from penfac.api import callbacks
from penfac.api.copies import copy_run
from penfac.api.keywords import in_python, limits_of, options_of, whole
from penfac.api.observations import observation_space, rows_of
from penfac.api.sources import find_source
from penfac.engines.build import build_engine
from penfac.envs.own import Source, announce, remember, source_of
from penfac.errors import ConfigError
from penfac.policy import Policy
from penfac.randomness import Stream, generator
from penfac.rollout.evaluate import action_chooser
from penfac.runs.config import RunConfig, read_config
from penfac.runs.run import Run
from penfac.training.limits import Limits, Outcome
from penfac.training.place import check_place
from penfac.training.request import Request, resolve
from penfac.training.trial import job_of, resume, start

Place = str | os.PathLike[str]
PREDICTED = 2**32 - 1  # `penfac eval` uses no batch of episodes with this number


class Model:
    """The base class of `penfac.PeNFAC` and the other algorithms."""

    algo: ClassVar[str] = ""
    run: Path | None = None  # its folder, after the first `learn`
    seed: int
    _source: Source
    _request: Request  # absent in a loaded model
    _config: RunConfig  # of the run, or of the one that `learn` would begin
    _policy: Policy | None = None
    _noise: np.random.Generator | None = None
    _space: gymnasium.Space | None = None
    _loaded = False

    @in_python()
    def __init__(
        self,
        env: Any,
        *,
        preset: str = "tuned",
        seed: int = 0,
        out: Place = "runs",
        name: str | None = None,
        on: str = "auto",
        max_episode_steps: int | None = None,
        action_bounds: tuple[float, float] | None = None,
        flatten_obs: bool = False,
        env_kwargs: dict[str, Any] | None = None,
        **config: Any,
    ):
        """Make a model. `env` is an id, a gymnasium.Env, or a function that makes one.

        `config` are settings of the algorithm, on top of its preset (`penfac presets`
        lists them). The run folder is `out`/algorithm/`name`, as for `penfac train`.
        """
        check_place(on, name)
        said = options_of(max_episode_steps, action_bounds, flatten_obs, env_kwargs)
        self.seed = whole("seed", seed)
        self._source = source_of(env, said)
        announce(self._source)
        self._request = Request(
            env=self._source.id,
            algo=self.algo,
            preset=str(preset),
            settings=config,
            seeds=(self.seed,),
            options=self._source.options,
            on=on,
            out=Path(out),
            name=name,
        )
        self._config = resolve(self._request)

    def __repr__(self) -> str:
        where = "" if self.run is None else f", run={str(self.run)!r}"
        about = f"{self._source.id!r}, seed={self.seed}{where}"
        return f"<penfac.{type(self).__name__}({about}) at step {self.num_timesteps:,}>"

    # --- learning ---------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: float | None = None,
        callback: callbacks.Callback | None = None,
        *,
        progress_bar: bool = False,
        eval_every: int | None = None,
        eval_episodes: int | None = None,
        env_workers: int | Literal["auto"] = "auto",
        reset_num_timesteps: bool = False,
    ) -> Self:
        """Train for a number of environment steps, on top of earlier ones.

        Without a number, complete the budget of an interrupted run. mu is evaluated
        every `eval_every` steps (default: a twentieth of the budget) in `eval_episodes`
        episodes (10); the first call decides this. `callback` gets a `penfac.Event`
        after each update and each evaluation; if it returns False or raises, the run
        stops, and the exception leaves `learn`. Ctrl-C saves everything, then raises
        KeyboardInterrupt. `env_workers` processes step the environments.
        """
        if reset_num_timesteps:
            raise ConfigError(
                "reset_num_timesteps=True: a run cannot start again; make a new model"
            )
        if callback is not None and not callable(callback):
            kind = type(callback).__name__
            raise ConfigError(f"callback is a {kind}: must be a function of an event")
        bar = callbacks.progress_bar_here() if progress_bar else None
        listener = callbacks.CallbackListener(callback, bar)
        try:
            with in_python():
                schedule = {"eval_every": eval_every, "eval_episodes": eval_episodes}
                limits = limits_of(env_workers)
                outcome = self._train(total_timesteps, schedule, listener, limits)
        finally:
            if bar is not None:
                bar.close()
            self._take(listener.folder)
        callbacks.raise_reason(outcome, listener)
        return self

    def _train(
        self, steps: Any, schedule: dict[str, Any],
        listener: callbacks.CallbackListener, limits: Limits,
    ) -> Outcome:  # fmt: skip
        """Start a run at the first call, continue it afterwards."""
        self._find_env()
        more = None if steps is None else whole("total_timesteps", steps, 1)
        said = {k: whole(k, v, 1) for k, v in schedule.items() if v is not None}
        if self.run is None:
            if more is None:
                raise ConfigError("learn: the first call must say the number of steps")
            request = dataclasses.replace(self._request, steps=more, **said)
            return start(request, limits, listener)
        for key, value in said.items():
            if value != (set_ := getattr(self._config, key)):
                raise ConfigError(
                    f"{key} {value}: must stay {set_}, which the first call of learn "
                    "set; leave it out"
                )
        done = min(self.num_timesteps, self._config.steps)
        budget = None if more is None else done + more
        return resume(self.run, limits, listener, budget)

    def _take(self, folder: Path | None) -> None:
        """Load what the run left, however it ended."""
        if folder is not None and folder.is_dir():
            self.run, self._config = folder, read_config(folder)
            self._policy = self._noise = None
            remember(folder, self._source)

    def _find_env(self) -> None:
        if self._source.lost:
            raise ConfigError(
                f"{self._source.id}: the environment was made by another program; "
                "pass it with penfac.load(path, env=...)"
            )
        announce(self._source)

    @property
    def num_timesteps(self) -> int:
        """The number of environment steps that the policy has learned from."""
        if self.run is None or not (self.run / "policy").is_dir():
            return 0
        return self.policy.about["step"]

    # --- acting -----------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """mu as numpy arrays, as `penfac.Policy.load` reads it without JAX."""
        if self._policy is None:
            with in_python():
                run = self.run
                self._policy = self._untrained() if run is None else load_policy(run)
        return self._policy

    def _untrained(self) -> Policy:
        """The policy before the first update, from the engine that would train it."""
        self._find_env()
        config = self._config
        engine = build_engine(
            job_of(config)._replace(eval_episodes=0),
            config.engine,
            [self.seed],
            [config.settings],
        )
        try:
            return engine.policy(0)
        finally:
            engine.close()

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
            rows = rows_of(observation, n, self._observed)
        if deterministic:
            return policy(rows), None
        return policy.actions.to_env(self._explore(policy, rows)), None

    def _explore(self, policy: Policy, rows: np.ndarray) -> np.ndarray:
        path = self.run or Path(self._source.id)
        explorer = explorer_of(path, policy, self._config)
        if explorer.how.law == "none":
            raise ConfigError(
                f"deterministic=False: {path} explores with noise on parameters, not on "
                "actions; use deterministic=True"
            )
        if self._noise is None:
            when = (PREDICTED, self.num_timesteps)
            self._noise = generator(self.seed, Stream.PLAY_NOISE, *when)
        return action_chooser("sampled", explorer, self._noise)(rows, 0)

    def _observed(self) -> gymnasium.Space:
        """The environment's own observation space."""
        if self._space is None:
            self._find_env()
            if self._loaded and ":" in self._source.id:
                raise ConfigError(
                    f"{self._source.id}: is not imported to predict; pass env= to penfac.load"
                )
            options = self._config.env_options
            self._space = observation_space(self._source.id, options)
        return self._space

    @in_python()
    def evaluate(
        self, episodes: int = 100, deterministic: bool = True
    ) -> dict[str, Any]:
        """Play new initial states, as `penfac eval`: mean, std, returns and more."""
        if self.run is None:
            raise ConfigError(
                "evaluate: the model has not learned yet; call learn first"
            )
        self._find_env()
        mode = "mean" if deterministic else "sampled"
        count = whole("episodes", episodes, 1)
        return evaluate_run(self.run, count, mode)["seeds"][0]

    # --- saving -----------------------------------------------------------------------

    @in_python()
    def save(self, path: Place) -> None:
        """Copy the run to `path`, a folder, in place of an earlier copy."""
        if self.run is None:
            raise ConfigError("save: the model has not learned yet; call learn first")
        copy_run(self.run, Path(path))
        remember(Path(path), self._source)

    @classmethod
    @in_python()
    def load(cls, path: Place, env: Any = None, seed: int | None = None) -> Self:
        """Load the model of a run folder or of a saved one; `learn` continues in that
        folder.

        Loading runs no code. `env` is needed if a program made the environment; `seed`
        selects one of several.
        """
        run = Run.open(Path(path))
        config = run.config
        if seed is None and config.arms is None and len(config.seeds) > 1:
            there = ", ".join(map(str, config.seeds))
            raise ConfigError(f"{path}: has the seeds {there}; choose one with seed=")
        if config.algo != cls.algo:
            raise ConfigError(
                f"{path}: was trained with {config.algo}; load it with penfac.load"
            )
        learner = run.learner(seed)
        model = cls.__new__(cls)
        model.seed, model._loaded = learner.seed, env is None
        model._source = find_source(learner.path, config, env)
        model._take(learner.path)
        return model
