"""W&B and MLflow. Where they send to is theirs to know: their own variables decide."""

import contextlib
import logging
import math
import os
import time
from typing import Any

from penfac.errors import ConfigError

PROJECT = "penfac"  # where WANDB_PROJECT or MLFLOW_EXPERIMENT_NAME says nothing
STEP = "global_step"  # W&B's axis: its own counter cannot go back to a checkpoint
ENDED = {"finished": "FINISHED", "failed": "FAILED"}  # MLflow's words
ID = "penfac.id"  # MLflow's tag


class Wandb:
    """A run of Weights & Biases."""

    def __init__(self, about: Any):
        import wandb

        self.run = wandb.init(
            id=about.id,
            resume="allow",
            reinit="create_new",  # several learners share a process
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            group=about.group,
            name=about.name,
            config=about.settings,
            settings=wandb.Settings(console="off", silent=True, init_timeout=20),
        )
        self.run.define_metric("*", step_metric=STEP)

    def scalars(self, values: dict[str, float], step: int) -> None:
        self.run.log(values | {STEP: step})

    def close(self, state: str) -> None:
        self.run.finish(exit_code=1 if state == "failed" else 0)


def check_wandb() -> None:
    try:
        import wandb
    except ImportError:
        raise ConfigError(
            '--track wandb: wandb is missing; pip install "penfac[wandb]"'
        ) from None
    hush("wandb")
    settings = wandb.setup(wandb.Settings(silent=True)).settings
    known = True
    if settings.mode == "online":
        with contextlib.suppress(Exception):  # no network: the run tells, and goes on
            known = wandb.login(prompt=False)
    if not known:
        raise ConfigError(
            "--track wandb: you are not logged in; run `wandb login`, or set "
            "WANDB_MODE=offline"
        )


class Mlflow:
    """A run of MLflow."""

    def __init__(self, about: Any):
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self.client.get_experiment_by_name(name)
        place = experiment.experiment_id if experiment else self.create(name)
        found = self.client.search_runs([place], f"tags.`{ID}` = '{about.id}'")
        if found:
            self.run = found[0].info.run_id
            self.client.update_run(self.run, status="RUNNING")
            return
        tags = {ID: about.id, "penfac.group": about.group}
        made = self.client.create_run(place, tags=tags, run_name=about.name)
        self.run = made.info.run_id
        for key, value in about.settings.items():
            self.client.log_param(self.run, key, value)

    def create(self, name: str) -> str:
        """A new experiment; another learner's thread may have been faster."""
        try:
            return self.client.create_experiment(name)
        except Exception:
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise
            return found.experiment_id

    def scalars(self, values: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        finite = {k: v for k, v in values.items() if math.isfinite(v)}
        rows = [Metric(key, value, now, step) for key, value in finite.items()]
        self.client.log_batch(self.run, metrics=rows)

    def close(self, state: str) -> None:
        self.client.set_terminated(self.run, status=ENDED.get(state, "KILLED"))


def check_mlflow() -> None:
    try:
        import mlflow.tracking
    except ImportError:
        raise ConfigError(
            '--track mlflow: MLflow is missing; pip install "penfac[mlflow]"'
        ) from None
    hush("mlflow")
    try:
        client = mlflow.tracking.MlflowClient()
        if client.tracking_uri.startswith("sqlite:"):
            client.search_experiments(max_results=1)  # tables, before processes meet
    except Exception as error:  # a place that it cannot use
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"--track mlflow: {first}") from None


LOGGERS = {"wandb": ["wandb"], "mlflow": ["mlflow", "alembic"]}


def hush(name: str) -> None:
    """A tracker tells how it makes its tables, and more."""
    for logger in LOGGERS.get(name, ()):
        logging.getLogger(logger).setLevel(logging.ERROR)


CHECKS = {"wandb": check_wandb, "mlflow": check_mlflow}
