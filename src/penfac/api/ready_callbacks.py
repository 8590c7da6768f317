"""Callbacks that are ready to use, under the names they have in Stable-Baselines3."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from penfac.api.callbacks import Callback, Event
from penfac.api.keywords import whole
from penfac.api.model import Place


class CheckpointCallback:
    """Saves the model every `save_freq` steps, as `save_path/name_prefix_STEP_steps`."""

    def __init__(self, save_freq: int, save_path: Place, name_prefix: str = "rl_model"):
        self.save_freq = whole("save_freq", save_freq, 1)
        self.save_path, self.name_prefix = Path(save_path), name_prefix
        self.saved = 0

    def __call__(self, event: Event) -> None:
        passed = event.step // self.save_freq
        if event.kind == "update" and passed > self.saved:
            self.saved = passed
            name = f"{self.name_prefix}_{event.step}_steps"
            event.model.save(self.save_path / name)


class StopTrainingOnRewardThreshold:
    """Stops the run once an evaluation reaches the threshold."""

    def __init__(self, reward_threshold: float):
        self.reward_threshold = reward_threshold

    def __call__(self, event: Event) -> bool:
        mean = event.mean if event.kind == "evaluation" else None
        return mean is None or mean < self.reward_threshold


class EvalCallback:
    """Evaluates on an environment of its own every `eval_freq` steps, keeps the best
    model, and calls other callbacks with what it found.

    A run evaluates itself anyway, and keeps its best policy: this is for another
    environment, for example one without the wrappers of training.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: Callback | None = None,
        callback_after_eval: Callback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: Place | None = None,
        best_model_save_path: Place | None = None,
        deterministic: bool = True,
    ):
        self.eval_env, self.deterministic = eval_env, deterministic
        self.on_new_best, self.after_eval = callback_on_new_best, callback_after_eval
        self.n_eval_episodes = whole("n_eval_episodes", n_eval_episodes, 1)
        self.eval_freq = whole("eval_freq", eval_freq, 1)
        self.log_path, self.best_model_save_path = log_path, best_model_save_path
        self.best_mean_reward = self.last_mean_reward = -math.inf
        self.evaluated = 0
        self.rows: list[tuple[int, list[float], list[int]]] = []

    def __call__(self, event: Event) -> bool:
        passed = event.step // self.eval_freq
        if event.kind != "update" or passed <= self.evaluated:
            return True
        self.evaluated = passed
        found = event.model.evaluate(
            self.n_eval_episodes, self.deterministic, env=self.eval_env
        )
        self.rows.append((event.step, found["returns"], found["lengths"]))
        self._log()
        self.last_mean_reward = found["mean"]
        told = dataclasses.replace(
            event, kind="evaluation", metrics={}, returns=found["returns"]
        )
        answers = []
        if found["mean"] > self.best_mean_reward:
            self.best_mean_reward = found["mean"]
            if self.best_model_save_path is not None:
                event.model.save(Path(self.best_model_save_path) / "best_model")
            answers += [self.on_new_best(told)] if self.on_new_best else []
        answers += [self.after_eval(told)] if self.after_eval else []
        return False not in answers

    def _log(self) -> None:
        """Write evaluations.npz as Stable-Baselines3 does, for scripts that read it."""
        if self.log_path is None:
            return
        folder = Path(self.log_path)
        folder.mkdir(parents=True, exist_ok=True)
        steps, returns, lengths = zip(*self.rows, strict=True)
        np.savez(
            folder / "evaluations.npz",
            timesteps=steps, results=returns, ep_lengths=lengths,
        )  # fmt: skip
