"""What one learner leaves in its run folder as it learns."""

import contextlib
import statistics
import time
import traceback
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penfac.errors import CorruptFile, EnvironmentFault, PenfacError, StorageError
from penfac.plots import Curve, learning_curve
from penfac.policy import Policy
from penfac.runs import evaluations, status
from penfac.runs.checkpoints import Arrays, Meta
from penfac.runs.config import RunConfig
from penfac.runs.csv_files import KEPT, read_csv
from penfac.runs.evaluations import Evaluation
from penfac.runs.folder import BEST, RunFolder
from penfac.runs.learners import Learner
from penfac.runs.status import Status
from penfac.runs.tracking import Courier
from penfac.settings.configs import to_values

if TYPE_CHECKING:
    from penfac.engines.base import Counters, Progress

DRAW_EVERY = 20.0  # seconds between two drawings of the curve


class Recorder:
    """CSV rows, TensorBoard, checkpoints, policy, curve and status of one learner."""

    def __init__(self, learner: Learner, config: RunConfig, pictures: bool = True):
        self.folder, self.learner, self.config = (
            RunFolder(learner.path),
            learner,
            config,
        )
        self.pictures = pictures  # curves and TensorBoard
        self.trackers: list[Courier] = []
        self.folder.hparams = board_settings(config)
        self.curve = Curve(learner.seed, [], [], learner.arm)
        self.last_point: Evaluation | None = None
        self.best: Policy | None = None  # of the evaluation with the highest mean
        self.best_written: Policy | None = None
        self.last_checkpoint = status.read_status(learner.path).last_checkpoint
        self.began, self.first_step = time.monotonic(), None
        self.drawn_at = time.monotonic()
        self.met_no_fault = False  # since this process began

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What may not change between a checkpoint and its resumption."""
        return self.config.identity()

    def rewind(self, meta: Meta | None, best: bytes | None = None) -> None:
        """Start from a checkpoint with its best policy, or from nothing."""
        self.folder.rewind(None if meta is None else meta.csv)
        self.last_checkpoint = None if meta is None else meta.update
        if best is not None:
            self.folder.write(f"{BEST}/policy.safetensors", best)
            self.best = Policy.load(self.folder.path / BEST)
        if meta is None:
            return
        for point in evaluations.read_evaluations(self.folder.path):
            self.remember(point)

    def refuse_loss(self) -> None:
        """An error where no checkpoint is left of a run that had one."""
        files = (*KEPT, "policy/policy.safetensors")
        found = [name for name in files if (self.folder.path / name).exists()]
        if found or self.last_checkpoint is not None:
            what = found[0] if found else "a last checkpoint in status.json"
            raise CorruptFile(
                f"{self.folder.path}: has {what}, but no checkpoint to resume from; put "
                "checkpoints/ back, or start a new run"
            )

    def remember(self, point: Evaluation) -> None:
        self.last_point = point
        self.curve.steps.append(point.step)
        self.curve.returns.append(point.mean)

    # --- rows ----------------------------------------------------------------------------

    def add_update(self, counters: "Counters", progress: "Progress") -> None:
        stats = progress.stats
        row = {
            "update": counters.update,
            "step": counters.step,
            "episode": counters.episode,
            "batch_steps": progress.steps,
            "train_return": statistics.fmean(stats.returns) if stats.returns else "",
            "train_length": statistics.fmean(stats.lengths) if stats.lengths else "",
            "sigma": progress.sigma,
            **progress.metrics,
            **stats.terms,
            "faults": counters.faults,
        }
        self.folder.append("progress.csv", [row])
        self.forget_fault()
        if self.first_step is None:
            self.first_step = counters.step - progress.steps
        elapsed = time.monotonic() - self.began
        timing = {"update": counters.update, "step": counters.step}
        timing |= {f"{k}_s": round(v, 6) for k, v in progress.seconds.items()}
        self.folder.append("timing.csv", [timing | {"elapsed_s": round(elapsed, 3)}])
        rate = (counters.step - self.first_step) / elapsed
        times = {"time/fps": rate, "time/time_elapsed": elapsed}
        self.scalars(lambda: tensorboard_tags(row) | times, counters.step)

    def add_evaluation(self, point: Evaluation) -> None:
        self.folder.append(evaluations.FILE, evaluations.rows_of(point))
        self.remember(point)
        self.forget_fault()
        self.scalars(lambda: evaluation_tags(point), point.step)

    def scalars(self, make: Callable[[], dict[str, float]], step: int) -> None:
        """Tell TensorBoard and the trackers."""
        if not self.pictures and not self.trackers:
            return
        values = make()
        if self.pictures:
            self.folder.scalars(values, step)
        for tracker in self.trackers:
            tracker.scalars(values, step)

    def forget_fault(self) -> None:
        """Remove fault.json: the run went past it, so what it tells was mended."""
        if not self.met_no_fault:
            self.folder.remove("fault.json")
            self.met_no_fault = True

    def fill_tensorboard(self) -> None:
        """Write TensorBoard's file from the CSV files, where training wrote none."""
        for row in read_csv(self.folder.path / "progress.csv"):
            self.folder.scalars(tensorboard_tags(row), int(row["step"]))
        for point in evaluations.read_evaluations(self.folder.path):
            self.folder.scalars(evaluation_tags(point), point.step)

    # --- checkpoint, curve, status -------------------------------------------------------

    def save(
        self, counters: "Counters", arrays: Arrays, meta: Meta, policy: Policy
    ) -> None:
        """Save a checkpoint and the policy."""
        evaluated = counters.evaluated_at == counters.step
        if self.best is not None:  # its files alone would not be as old as a checkpoint
            arrays = arrays | {BEST: np.frombuffer(self.best.to_bytes(), np.uint8)}
        self.folder.save_checkpoint(counters.update, arrays, meta, evaluated)
        self.last_checkpoint = counters.update
        self.folder.write_policy("policy", policy)
        if self.best is not None and self.best is not self.best_written:
            self.folder.write_policy(BEST, self.best)
            self.best_written = self.best

    def described(self, counters: "Counters", policy: Policy, **more: Any) -> Policy:
        """A policy that says where it is from."""
        about = {
            "algorithm": self.config.algo,
            "environment": self.config.env,
            "seed": self.learner.seed,
            "step": counters.step,
            "update": counters.update,
            "penfac": self.config.penfac,
        }
        return Policy(policy.weights, policy.actions, about | more | policy.about)

    def is_best(self, point: Evaluation) -> bool:
        """Whether an evaluation is better than all before it whose policy is kept."""
        return self.best is None or point.mean > self.best.about["return"]

    def keep_best(
        self, counters: "Counters", policy: Policy, point: Evaluation
    ) -> None:
        """Keep the policy of the best evaluation; the next checkpoint saves it."""
        reached = {"return": point.mean, "episodes": len(point.returns)}
        found = self.described(counters, policy, **reached)
        # in the order in which its file gives it back: policy.json stays the same
        about = dict(sorted(found.about.items()))
        self.best = Policy(found.weights, found.actions, about)

    def draw(self, group: Path, recorders: list["Recorder"], now: bool = False) -> None:
        """Keep curve.png current without spending the run on drawing; `now` draws those
        of the folders below too."""
        due = now or time.monotonic() - self.drawn_at >= DRAW_EVERY
        if not due or not self.pictures:
            return
        for recorder in recorders:
            recorder.drawn_at = time.monotonic()
        title = f"{self.config.algo} on {self.config.env}"
        folders: dict[Path, list[Curve]] = {}
        for recorder in recorders:
            for path in (recorder.folder.path, *recorder.folder.path.parents):
                folders.setdefault(path, []).append(recorder.curve)
                if path == group:
                    break
        for path in folders if now else [group]:
            if curves := [c for c in folders[path] if c.steps]:
                seed = f", seed {curves[0].seed}" if len(curves) == 1 else ""
                own = "" if path == group else seed
                picture = learning_curve(curves, title + own)
                RunFolder(path).write("curve.png", picture)

    def write_fault(self, error: PenfacError) -> None:
        """Write what it takes to meet an environment's fault again."""
        self.folder.log("".join(traceback.format_exception(error)))
        if isinstance(error, EnvironmentFault) and error.where:
            self.folder.write_json("fault.json", {"error": str(error), **error.where})

    def write_status(self, state: str, code: int | None, message: str) -> str | None:
        """Write how the learner stands; if its folder refuses, return where it went."""
        resumable, error = state != "finished", message or None
        told = Status(state, code, resumable, self.last_checkpoint, error)
        try:
            self.folder.write_json(status.FILE, told.to_document())
        except StorageError:
            with contextlib.suppress(OSError):
                return f"status is in {status.write_elsewhere(told)}"
        return None


# --- TensorBoard ---------------------------------------------------------------------------


def board_settings(config: RunConfig) -> dict[str, Any]:
    """The settings of a learner as TensorBoard can hold them: numbers and words."""
    values = {"algo": config.algo, "env": config.env, "preset": config.preset}
    values |= {"arm": config.arm, "seed": config.seeds[0]} | to_values(config.settings)
    plain = {k: str(v) if isinstance(v, list) else v for k, v in values.items()}
    return {k: v for k, v in plain.items() if v is not None}


def evaluation_tags(point: Evaluation) -> dict[str, float]:
    """An evaluation for TensorBoard."""
    tags = {}
    for mode, (returns, lengths, _) in point.modes.items():
        name = "eval/mean_reward" if mode == "mean" else f"eval/mean_reward_{mode}"
        tags[name] = statistics.fmean(returns)
        if mode == "mean":
            tags["eval/mean_ep_length"] = statistics.fmean(lengths)
    return tags


# columns of progress.csv that TensorBoard has under the names Stable-Baselines3's users
# look for; what is not listed is a part of the reward or a figure of the update
TAGS = {
    "update": ("train/n_updates", "time/iterations"),
    "step": ("time/total_timesteps",),
    "train_return": ("rollout/ep_rew_mean",),
    "train_length": ("rollout/ep_len_mean",),
    "sigma": ("train/std",),
    "distance": ("train/policy_distance",),
    "temperature": ("train/ent_coef",),
    "positive_fraction": ("train/positive_advantage_fraction",),
    "episode": (),
    "batch_steps": (),
    "faults": (),
}


def tensorboard_tags(row: dict[str, Any]) -> dict[str, float]:
    """A row of progress.csv for TensorBoard."""
    tags = {}
    for column, value in row.items():
        if value == "":  # no episode ended
            continue
        part = "rollout" if column.startswith("reward_") else "train"
        for tag in TAGS.get(column, (f"{part}/{column}",)):
            tags[tag] = float(value)
    return tags
