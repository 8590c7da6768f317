"""What one learner leaves in its run folder as it learns."""

import contextlib
import statistics
import time
import traceback
from pathlib import Path
from typing import Any

from penfac.engines.base import Arrays, Counters, Progress
from penfac.errors import EnvironmentFault, PenfacError, StorageError
from penfac.plots import Curve, learning_curve
from penfac.policy import Policy
from penfac.runs.folder import RunFolder, fallback_status, read_csv
from penfac.runs.learners import Learner
from penfac.types import EvalPoint

DRAW_EVERY = 20.0  # seconds between two drawings of the curve


def evaluations(path: Path) -> dict[int, dict[str, list[dict[str, str]]]]:
    """The rows of evaluations.csv by step and mode."""
    found: dict[int, dict[str, list[dict[str, str]]]] = {}
    for row in read_csv(path / "evaluations.csv"):
        modes = found.setdefault(int(row["step"]), {})
        modes.setdefault(row["mode"], []).append(row)
    return found


class Recorder:
    """CSV rows, TensorBoard, checkpoints, policy, curve and status of one learner."""

    def __init__(
        self,
        folder: RunFolder,
        learner: Learner,
        document: dict[str, Any],
        pictures: bool = True,
    ):
        self.folder, self.learner, self.document = folder, learner, document
        self.pictures = pictures  # curves and TensorBoard
        folder.hparams = board_settings(document, learner)
        self.curve = Curve(learner.seed, [], [], learner.arm)
        self.last_point: EvalPoint | None = None
        self.last_checkpoint: int | None = None
        self.began, self.first_step = time.monotonic(), None
        self.evaluate_from = time.monotonic()

    def rewind(self, meta: dict[str, Any] | None) -> None:
        """Start from a checkpoint's moment, or from nothing."""
        self.folder.rewind(None if meta is None else meta["csv"])
        if meta is None:
            return
        self.last_checkpoint = meta["update"]
        for step, modes in evaluations(self.folder.path).items():
            rows = modes["mean"]
            point = EvalPoint(
                step,
                int(rows[0]["update"]),
                [float(r["return"]) for r in rows],
                [int(r["length"]) for r in rows],
                [r["terminated"] == "1" for r in rows],
            )
            self._add(point)

    def updated(self, counters: Counters, progress: Progress) -> None:
        stats = progress.stats
        returns = statistics.fmean(stats.returns) if stats.returns else ""
        lengths = statistics.fmean(stats.lengths) if stats.lengths else ""
        row = {
            "update": counters.update,
            "step": counters.step,
            "episode": counters.episode,
            "batch_steps": progress.steps,
            "train_return": returns,
            "train_length": lengths,
            "sigma": progress.sigma,
            **progress.metrics,
            **stats.terms,
            "faults": counters.faults,
        }
        self.folder.append("progress.csv", [row])
        if self.first_step is None:
            self.first_step = counters.step - progress.steps
        elapsed = time.monotonic() - self.began
        timing = {"update": counters.update, "step": counters.step}
        timing |= {f"{k}_s": round(v, 6) for k, v in progress.seconds.items()}
        self.folder.append("timing.csv", [timing | {"elapsed_s": round(elapsed, 3)}])
        rate = (counters.step - self.first_step) / elapsed
        if self.pictures:
            times = {"time/fps": rate, "time/time_elapsed": elapsed}
            self.folder.scalars(tensorboard_tags(row) | times, counters.step)

    def evaluated(self, point: EvalPoint) -> None:
        modes = {"mean": (point.returns, point.lengths, point.terminated)}
        rows = [
            {
                "step": point.step,
                "update": point.update,
                "episode": k,
                "mode": mode,
                "return": returned,
                "length": length,
                "terminated": int(terminated),
            }
            for mode, played in (modes | point.others).items()
            for k, (returned, length, terminated) in enumerate(
                zip(*played, strict=True)
            )
        ]
        self.folder.append("evaluations.csv", rows)
        self._add(point)
        if not self.pictures:
            return
        self._judged(
            point.step, {m: played[:2] for m, played in (modes | point.others).items()}
        )

    def _judged(
        self, step: int, modes: dict[str, tuple[list[float], list[int]]]
    ) -> None:
        """An evaluation for TensorBoard."""
        tags = {}
        for mode, (returns, lengths) in modes.items():
            name = "eval/mean_reward" if mode == "mean" else f"eval/mean_reward_{mode}"
            tags[name] = statistics.fmean(returns)
            if mode == "mean":
                tags["eval/mean_ep_length"] = statistics.fmean(lengths)
        self.folder.scalars(tags, step)

    def tell_board(self) -> None:
        """TensorBoard's file from the CSV files, where training wrote none."""
        for row in read_csv(self.folder.path / "progress.csv"):
            self.folder.scalars(tensorboard_tags(row), int(row["step"]))
        for step, modes in evaluations(self.folder.path).items():
            told = {
                mode: (
                    [float(row["return"]) for row in rows],
                    [int(row["length"]) for row in rows],
                )
                for mode, rows in modes.items()
            }
            self._judged(step, told)

    def _add(self, point: EvalPoint) -> None:
        self.last_point = point
        self.curve.steps.append(point.step)
        self.curve.returns.append(statistics.fmean(point.returns))

    def checkpoint(
        self, counters: Counters, arrays: Arrays, meta: dict[str, Any], policy: Policy
    ) -> None:
        evaluated = counters.evaluated_at == counters.step
        self.folder.save_checkpoint(counters.update, arrays, meta, evaluated)
        self.last_checkpoint = counters.update
        about = {
            "algorithm": self.document["algo"],
            "environment": self.document["env"],
            "seed": self.learner.seed,
            "step": counters.step,
            "update": counters.update,
            "penfac": self.document["penfac"],
        } | policy.about
        policy = Policy(policy.weights, policy.actions, about)
        self.folder.write("policy/policy.safetensors", policy.to_bytes())
        self.folder.write_json("policy/policy.json", policy.description())

    def draw(self, group: Path, recorders: list["Recorder"], now: bool = False) -> None:
        """Keep curve.png current, without spending the run on drawing."""
        due = now or time.monotonic() - self.evaluate_from >= DRAW_EVERY
        if not due or not self.pictures:
            return
        for recorder in recorders:
            recorder.evaluate_from = time.monotonic()
        title = f"{self.document['algo']} on {self.document['env']}"
        folders: dict[Path, list[Curve]] = {}  # the run's and, at the end, all below it
        for recorder in recorders:
            for path in (recorder.folder.path, *recorder.folder.path.parents):
                folders.setdefault(path, []).append(recorder.curve)
                if path == group:
                    break
        for path in folders if now else [group]:
            if curves := [c for c in folders[path] if c.steps]:
                seed = f", seed {curves[0].seed}" if len(curves) == 1 else ""
                alone = "" if path == group else seed
                RunFolder(path).write(
                    "curve.png", learning_curve(curves, title + alone)
                )

    def fault(self, error: PenfacError) -> None:
        """What it takes to meet an environment's fault again."""
        self.folder.log("".join(traceback.format_exception(error)))
        if isinstance(error, EnvironmentFault) and error.where:
            self.folder.write_json("fault.json", {"error": str(error), **error.where})

    def status(self, state: str, code: int | None, message: str) -> str | None:
        """Say how the run stands; if its folder refuses, elsewhere, and say where."""
        document = {
            "state": state,
            "exit_code": code,
            "resumable": state != "finished",
            "last_checkpoint": self.last_checkpoint,
            "error": message or None,
        }
        try:
            self.folder.write_json("status.json", document)
        except StorageError:
            with contextlib.suppress(OSError):
                return f"status is in {fallback_status(document)}"
        return None


def board_settings(document: dict[str, Any], learner: Learner) -> dict[str, Any]:
    """As TensorBoard can hold them: numbers, words, yes and no."""
    told = {key: document.get(key) for key in ("algo", "env", "preset")}
    told |= {"arm": learner.arm, "seed": learner.seed} | document["config"]
    plain = {k: str(v) if isinstance(v, list) else v for k, v in told.items()}
    return {k: v for k, v in plain.items() if v is not None}


# columns of progress.csv that TensorBoard has under the names Stable-Baselines3's users
# look for; what is not listed is a part of the reward or a figure of the update
TAGS = {
    "update": ("train/n_updates", "time/iterations"),
    "step": ("time/total_timesteps",),
    "train_return": ("rollout/ep_rew_mean",),
    "train_length": ("rollout/ep_len_mean",),
    "sigma": ("train/std",),
    "distance": ("train/policy_distance",),
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
