"""A search as a study of Optuna: which config comes next, and which one stops early.

The run folders hold what was learned and config.json what was decided. The study is made
from both when a search begins or goes on, so a lost or damaged journal costs nothing.
"""

import contextlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError, StorageError
from penfac.search.space import Space, as_number, toml_value

JOURNAL = "optuna.journal"  # the study, where no other storage is named
SECOND_ATTEMPT = 1.0  # seconds before it
OWNER = "penfac_folder"  # attribute of a study: the folder of its search


class OptunaStudy:
    """Trials in the order of the configs, each with the name of its config."""

    def __init__(self, folder: Path, space: Space, storage: str | None):
        optuna = load_optuna()
        self.space, self.kinds = space, distributions(space)
        name = f"{folder.parent.name}-{folder.name}"
        with refusals(storage):
            kept = open_storage(folder, storage)
            replace_study(kept, name, folder)
            self.study = optuna.create_study(
                storage=kept, study_name=name, direction="maximize"
            )
            self.study.set_user_attr(OWNER, str(folder))
        self.trials: dict[str, Any] = {}

    def begin(self, arm: str, values: dict[str, Any]) -> None:
        """A trial with given values; one outside the space is not told to the sampler."""
        inside = {k: v for k, v in self.labels(values).items() if self.holds(k, v)}
        self.study.enqueue_trial(inside)
        trial = self.study.ask()
        for key in inside:
            self.suggest(trial, key)
        self.keep(arm, trial)

    def ask(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """A new trial and its values; the seed alone decides the draw, so that a search
        on one process that was stopped draws what it would have drawn."""
        self.study.sampler = rounding_sampler(seed)
        trial = self.study.ask()
        return trial, {key: self.suggest(trial, key) for key in self.space}

    def keep(self, arm: str, trial: Any) -> None:
        trial.set_user_attr("config", arm)
        self.trials[arm] = trial

    def refuse(self, trial: Any, why: str) -> None:
        """No config: its values do not go together, or there is one like it."""
        trial.set_user_attr("refused", why)
        self.study.tell(trial, state=load_optuna().trial.TrialState.FAIL)

    def suggest(self, trial: Any, key: str) -> Any:
        kind = self.kinds[key]
        if isinstance(self.space[key], list):
            label = trial.suggest_categorical(key, kind.choices)
            return next(v for v in self.space[key] if toml_value(v) == label)
        return trial.suggest_float(key, kind.low, kind.high, log=kind.log)

    def labels(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values as Optuna holds them: choices as text, which any storage can keep."""
        return {
            key: toml_value(values[key]) if isinstance(kind, list) else values[key]
            for key, kind in self.space.items()
        }

    def holds(self, key: str, label: Any) -> bool:
        kind = self.kinds[key]
        if isinstance(self.space[key], list):
            return label in kind.choices
        return label is not None and kind.low <= label <= kind.high

    def report(self, arm: str, score: float, steps: int) -> None:
        self.trials[arm].report(score, steps)

    def is_behind(self, arm: str, first: int) -> bool:
        """Whether a config is in the worse half of those that came as far as it: Li et
        al.'s asynchronous successive halving, from `first` steps on."""
        optuna = load_optuna()
        self.study.pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=first, reduction_factor=2
        )
        return self.trials[arm].should_prune()

    def finish(self, arm: str, score: float) -> None:
        self.study.tell(self.trials[arm], score)

    def prune(self, arm: str, why: str = "") -> None:
        """The trial ends early. One that failed counts as worse than all others."""
        if why:
            self.trials[arm].set_user_attr("failed", why)
        self.study.tell(self.trials[arm], state=load_optuna().trial.TrialState.PRUNED)


def load_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ConfigError(
            '--sampler tpe: Optuna is missing; pip install "penfac[optuna]"'
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def rounding_sampler(seed: int) -> Any:
    """TPE whose numbers have three digits, so that a table gives them back exactly."""
    optuna = load_optuna()

    class Rounded(optuna.samplers.TPESampler):
        def sample_independent(self, study, trial, param_name, param_distribution):
            drawn = (study, trial, param_name, param_distribution)
            value = super().sample_independent(*drawn)
            if not isinstance(value, float):
                return value
            low, high = param_distribution.low, param_distribution.high
            return min(max(as_number(value), low), high)

    return Rounded(seed=seed)


def check_storage(storage: str | None) -> None:
    """Fail where Optuna or the database is not there, before anything is made."""
    load_optuna()
    if storage is not None:
        with refusals(storage):
            open_database(storage)


def distributions(space: Space) -> dict[str, Any]:
    """The distribution of each setting: equal choices, or an interval."""
    optuna, found = load_optuna(), {}
    for key, values in space.items():
        if isinstance(values, list):
            texts = list(dict.fromkeys(map(toml_value, values)))
            found[key] = optuna.distributions.CategoricalDistribution(texts)
        else:
            ((kind, (low, high)),) = values.items()
            found[key] = optuna.distributions.FloatDistribution(
                low, high, log=kind == "log"
            )
    return found


# --- where the study is kept ----------------------------------------------------------------


def open_storage(folder: Path, storage: str | None) -> Any:
    """A journal in the folder of the search, or the database of a URL."""
    optuna = load_optuna()
    for stale in folder.glob(f"{JOURNAL}*"):  # it is made from the runs again
        stale.unlink()
    if storage is not None:
        return open_database(storage)
    journal = optuna.storages.journal
    path = str(folder / JOURNAL)
    lock = journal.JournalFileOpenLock(path)
    return optuna.storages.JournalStorage(journal.JournalFileBackend(path, lock))


def open_database(url: str) -> Any:
    """Another process may be making the tables: a second attempt finds them."""
    from sqlalchemy.exc import SQLAlchemyError

    storages = load_optuna().storages
    try:
        return storages.RDBStorage(url)
    except SQLAlchemyError:
        time.sleep(SECOND_ATTEMPT)
        return storages.RDBStorage(url)


def replace_study(kept: Any, name: str, folder: Path) -> None:
    """Remove what an earlier process told; refuse a study that is not of this search."""
    for study in kept.get_all_studies():
        if study.study_name != name:
            continue
        if study.user_attrs.get(OWNER) != str(folder):
            raise ConfigError(
                f"--storage: has a study {name} that is not of {folder}; choose another "
                "--study"
            )
        kept.delete_study(study._study_id)


@contextlib.contextmanager
def refusals(storage: str | None) -> Iterator[None]:
    """What a storage refuses, as one line."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (SQLAlchemyError, ImportError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"--storage: cannot be used ({first}); give a URL such as sqlite:///search.db"
        ) from None
    except OSError as error:
        raise StorageError(f"{JOURNAL}: {error.strerror}") from None
