"""A model: a run folder with the method names of Stable-Baselines3.

`penfac.training.trial` trains, `penfac.analysis.evaluate` evaluates.
"""

import dataclasses
import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from penfac.api import callbacks
from penfac.api.acting import Actor, untrained_policy
from penfac.api.copies import copy_run
from penfac.api.keywords import in_python, limits_of, options_of, whole
from penfac.api.signatures import signature_of
from penfac.api.sources import (
    ModelEnv,
    check_spaces,
    differences,
    find_learner,
    find_source,
)
from penfac.envs.own import announce, remember, source_of
from penfac.errors import ConfigError
from penfac.runs.config import read_config
from penfac.runs.run import Run
from penfac.training.limits import Limits, Outcome
from penfac.training.place import check_place
from penfac.training.request import Request, resolve
from penfac.training.trial import resume, start

Place = str | os.PathLike[str]


class Model(Actor):
    """The base class of `penfac.PeNFAC` and the other algorithms."""

    algo: ClassVar[str] = ""
    __signature__: ClassVar[inspect.Signature]
    _request: Request  # absent in a loaded model

    def __init_subclass__(cls) -> None:
        """Each class shows its own settings."""
        if cls.algo:
            cls.__signature__ = signature_of(cls.algo, Model.__init__)

    @in_python()
    def __init__(
        self,
        env: Any,
        *more: Any,
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
        if more:
            raise ConfigError(
                f"{type(self).__name__}({env!r}, ...): takes one environment and "
                f"keywords, as in penfac.{type(self).__name__}(env); the policy is a "
                "network, and actor_hidden=(64, 64) sets its layers"
            )
        check_place(on, name)
        here = Path.cwd()
        said = options_of(max_episode_steps, action_bounds, flatten_obs, env_kwargs)
        self.seed = whole("seed", seed)
        source = source_of(env, said)
        announce(source)
        self._request = Request(
            env=source.id,
            algo=self.algo,
            preset=str(preset),
            settings=config,
            seeds=(self.seed,),
            options=source.options,
            on=on,
            out=Path(out),
            name=name,
        )
        self._config = resolve(self._request)
        self._env = ModelEnv(source)
        self._env.spaces()  # refuses what cannot be learned on
        out = callbacks.as_seen_from(here, Path(out))
        self._request = dataclasses.replace(self._request, out=out)

    def __repr__(self) -> str:
        where = "" if self.run is None else f", run={str(self.run)!r}"
        about = f"{self._env.source.id!r}, seed={self.seed}{where}"
        return f"<penfac.{type(self).__name__}({about}) at step {self.num_timesteps:,}>"

    # --- learning ---------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: float | None = None,
        callback: callbacks.Callback | Sequence[callbacks.Callback] | None = None,
        *,
        progress_bar: bool = False,
        eval_every: int | None = None,
        eval_episodes: int | None = None,
        env_workers: int | Literal["auto"] = "auto",
        track: str | Sequence[str] = (),
        reset_num_timesteps: bool = False,
    ) -> Self:
        """Train for a number of environment steps, on top of earlier ones.

        Without a number, complete the budget of an interrupted run. mu is evaluated
        every `eval_every` steps (default: a twentieth of the budget) in `eval_episodes`
        episodes (10); the first call decides this. `callback`, one function or several,
        gets a `penfac.Event` after each update and each evaluation. The run stops if
        one returns False or raises; the exception leaves `learn`. Ctrl-C saves
        everything, then raises KeyboardInterrupt. `env_workers` processes step the
        environments. `track` names trackers that hear the numbers: wandb, mlflow.
        """
        if reset_num_timesteps:
            raise ConfigError(
                "reset_num_timesteps=True: a run cannot start again; make a new model"
            )
        if self._loop is not None:
            raise ConfigError(
                "learn: this model is learning; a callback cannot call it"
            )
        called = callbacks.listed(callback)
        bar = callbacks.progress_bar_here() if progress_bar else None
        listener = callbacks.CallbackListener(self, called, bar)
        try:
            with in_python():
                schedule = {"eval_every": eval_every, "eval_episodes": eval_episodes}
                limits = limits_of(env_workers, track)
                outcome = self._train(total_timesteps, schedule, listener, limits)
        finally:
            if bar is not None:
                bar.close()
            self._take(listener.place)
        callbacks.raise_reason(outcome, listener)
        return self

    def _train(
        self, steps: Any, schedule: dict[str, Any],
        listener: callbacks.CallbackListener, limits: Limits,
    ) -> Outcome:  # fmt: skip
        """Start a run at the first call, continue it afterwards."""
        self._env.announce()
        if changes := differences(self._env.source, self._config):
            raise ConfigError(
                f"learn: a run continues on its own environment ({changes}); load it "
                "without env, or make a new model for the other environment"
            )
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
        # from where the last update ended: every call learns
        budget = None if more is None else self.num_timesteps + more
        return resume(self.run, limits, listener, budget)

    def _take(self, folder: Path | None) -> None:
        """Load what the run left, however it ended."""
        if folder is not None and folder.is_dir():
            self.run, self._config = folder, read_config(folder)
            self._policy = self._noise = None
            remember(folder, self._env.source)

    @in_python()
    def set_parameters(self, source: "Place | Model") -> None:
        """Begin with what another run has learned: its networks and statistics.

        Algorithm, networks and sizes of the spaces must be the same; the environment
        and other settings may differ.
        """
        path = source.run if isinstance(source, Model) else Path(source)
        if path is None:
            raise ConfigError("set_parameters: that model has not learned yet")
        if self.run is not None:
            raise ConfigError(
                "set_parameters: this model has learned already; make a new one"
            )
        request = dataclasses.replace(self._request, start_from=path)
        config = resolve(request)
        self._policy = untrained_policy(config, self.seed)  # refuses what does not fit
        self._request, self._config = request, config

    # --- saving -----------------------------------------------------------------------

    @in_python()
    def save(self, path: Place) -> None:
        """Copy the run to `path`, a folder, in place of an earlier copy."""
        if self.run is None:
            raise ConfigError("save: the model has not learned yet; call learn first")
        if self._loop is not None:  # in a callback, which finds all in agreement
            self._loop.save_all()
        copy_run(self.run, Path(path), locked=self._loop is not None)
        remember(Path(path), self._env.source)

    @classmethod
    @in_python()
    def load(
        cls, path: Place, env: Any = None, seed: int | None = None, trust: bool = False
    ) -> Self:
        """Load the model of a run folder or of a saved one; `learn` continues in that
        folder.

        Loading runs no code. `env` is needed if a program made the environment, and
        names its module if a file does (or `trust`); it may also be another one with the
        same spaces, to evaluate on. `seed` selects one of several.
        """
        run = Run.open(Path(path))
        config = run.config
        if config.algo != cls.algo:
            raise ConfigError(
                f"{path}: was trained with {config.algo}; load it with penfac.load"
            )
        learner = find_learner(run, seed)
        model = cls.__new__(cls)
        source = find_source(learner.path, config, env)
        trusted = trust or env is not None
        model.seed, model._env = learner.seed, ModelEnv(source, path, trusted)
        model._take(learner.path)
        if env is not None and (learner.path / "policy").is_dir():
            check_spaces(learner.path, config, source, model.policy)
        return model
