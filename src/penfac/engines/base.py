"""What both engines share: the job, the progress they report, states as named arrays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from penfac.algos.base import Algorithm, Collecting, Moment
from penfac.core.noise import narrowed
from penfac.envs.calls import Watch
from penfac.envs.options import EnvOptions
from penfac.envs.worlds import Crew
from penfac.errors import CorruptFile, Divergence, PenfacError
from penfac.policy import ActionScale, Policy, PolicyWeights
from penfac.randomness import Stream
from penfac.types import EnvSpec, EpisodeStats

Arrays = dict[str, np.ndarray]


@dataclass
class Counters:
    """How far a learner has come. Python ints: they never wrap."""

    update: int = 0
    step: int = 0
    episode: int = 0
    evaluations: int = 0
    next_eval: int = 0  # in steps, or in episodes under the authors' protocol
    evaluated_at: int = -1  # the step of the last evaluation
    faults: int = 0


Due = list[tuple[int, Counters]]  # the learners that a call is for


class Job(NamedTuple):
    """What the learners of an engine share: algorithm, config, environment, budget."""

    algo: Algorithm
    cfg: Any
    env_id: str
    options: EnvOptions
    steps: int
    restarts: int = 0
    poll: Callable[[], None] = lambda: None  # raises when the user asked to stop
    watch: Watch | None = None
    crew: Crew | None = None  # processes that hold the worlds
    note: Callable[[str], None] = lambda text: None  # a line for the run's log
    eval_episodes: int = 0  # of every evaluation; 0 if none is planned

    @property
    def collecting(self) -> Collecting:
        return self.algo.collecting(self.cfg)

    def progress(self, step: int) -> float:
        """How far the run has come."""
        return min(step / self.steps, 1.0)

    def numbers(self, spec: EnvSpec, cfg: Any = None) -> Any:
        """The traced numbers of the job's config, or of another learner's."""
        return self.algo.numbers(self.cfg if cfg is None else cfg, spec)

    def settled_text(self, spec: EnvSpec) -> str:
        """For the log: the settings that config.json leaves to the environment, with their
        values here."""
        complete = vars(self.cfg.complete(spec)).items()
        changed = [(k, v) for k, v in complete if v != getattr(self.cfg, k)]
        return "".join(f"; {key} = {value:.4g} here" for key, value in changed)

    def sigma(self, step: int) -> float:
        """The width of exploration at this point of the run."""
        cfg = self.cfg
        end = getattr(cfg, "sigma_end", None)
        return float(narrowed(cfg.sigma, end, self.progress(step)))

    def policy(
        self, weights: PolicyWeights, state: Any, plan: Any, numbers: Any,
        actions: ActionScale,
    ) -> Policy:  # fmt: skip
        """mu to be deployed, with the learned width of exploration if there is one."""
        about: dict[str, Any] = {}
        if self.algo.learns_sigma and not weights.spread:  # nothing else tells it
            obs = jax.numpy.zeros(plan.obs_dim)
            sigma = self.algo.sigma(state, obs, self.cfg.sigma, plan, numbers)
            about["sigma"] = np.asarray(sigma, float).tolist()
        return Policy(weights, actions, about)


class Progress(NamedTuple):
    """The result of one update of one learner."""

    metrics: dict[str, float]
    steps: int
    next_episode: int
    stats: EpisodeStats
    sigma: float
    faults: int
    seconds: dict[str, float]  # collect, env, update


class Engine(Protocol):
    """Learners are numbered as in the list of seeds the engine was made with.

    `evaluate` gives (returns, lengths, terminated) by mode; `fixed` repeats the same
    initial states at every evaluation.
    """

    def advance(self, due: Due) -> Iterator[tuple[int, Progress | PenfacError]]: ...

    def evaluate(
        self, due: Due, episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]: ...

    def snapshot(self, i: int) -> Arrays: ...

    def restore(self, i: int, arrays: Arrays) -> None: ...

    def policy(self, i: int) -> Policy: ...

    def close(self) -> None: ...


def moment(seed: Any, update: Any, turn: Any, progress: Any, sigma: Any) -> Moment:
    """The moment of an update, with a key of its own."""
    key = jax.random.fold_in(jax.random.key(seed), int(Stream.LEARN))
    key = jax.random.fold_in(jax.random.fold_in(key, update), turn)
    return Moment(key, progress, sigma)


def split_replay(state: Any) -> tuple[Any, Any]:
    """A state without its replay's rows, and the rows, which are overwritten in place."""
    if not hasattr(state, "replay"):
        return state, ()
    return state._replace(replay=state.replay._replace(rows=())), state.replay.rows


def join_replay(state: Any, rows: Any) -> Any:
    """The inverse of split_replay."""
    if not hasattr(state, "replay"):
        return state
    return state._replace(replay=state.replay._replace(rows=rows))


def flatten(tree: Any, prefix: str) -> Arrays:
    """A tree as named arrays: `state.actor.layers.0.0` and so on."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))
    return {prefix + dotted(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: Arrays, prefix: str) -> Any:
    """The inverse of flatten; CorruptFile where names, shapes or dtypes do not fit."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    found = {k: v for k, v in arrays.items() if k.startswith(prefix)}
    wanted = {prefix + dotted(path): leaf for path, leaf in leaves}
    for key in wanted.keys() ^ found.keys():
        where = "the file" if key in wanted else "the config"
        raise CorruptFile(f"checkpoint: {key} is missing in {where}")
    for key, leaf in wanted.items():
        array = found[key]
        if array.shape != np.shape(leaf) or array.dtype != leaf.dtype:
            raise CorruptFile(
                f"checkpoint: {key} is {array.dtype}{array.shape}, must be "
                f"{leaf.dtype}{np.shape(leaf)} for this config"
            )
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise CorruptFile(f"checkpoint: {key} has a non-finite number")
    return jax.tree.unflatten(structure, [found[key] for key in wanted])


def dotted(path: tuple) -> str:
    return "".join("." + str(getattr(k, "name", getattr(k, "idx", k))) for k in path)


def divergence(state: Any, metrics: Any, update: int) -> Divergence:
    """The error that names the first number that is not finite."""
    for tree in (metrics, state):
        for name, leaf in flatten(tree, "").items():
            if leaf.dtype.kind == "f" and not np.all(np.isfinite(leaf)):
                return Divergence(
                    f"{name.lstrip('.')} became non-finite in update {update}; the last "
                    "good checkpoint is kept; use a smaller actor_lr or critic_lr"
                )
    return Divergence(f"update {update} became non-finite")


def metrics_row(metrics: Any) -> dict[str, float]:
    """Metrics as Python numbers, without `finite`."""
    row = jax.device_get(metrics)._asdict()
    row.pop("finite")
    return {k: v.item() for k, v in row.items()}
