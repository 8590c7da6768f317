"""What the engines promise holds for every algorithm: seeds together are seeds alone,
evaluating changes nothing, a run that stopped goes on bit for bit."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import tests.rollout.worlds  # noqa: F401  registers the environments
from tests.engines.jobs import digest, finish, never
from tests.full_batch import FULL_BATCH
from tests.tiers import slow_cases, slow_except

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Job
from penfac.engines.device import DeviceEngine
from penfac.engines.host import HostEngine
from penfac.envs.options import EnvOptions
from penfac.errors import CorruptFile, Divergence
from penfac.runs import folder as runs
from penfac.runs import segments
from penfac.runs.checkpoints import Meta
from penfac.settings.configs import check
from penfac.training.loop import Evaluated, Failed, Schedule, Updated, train

HIDDEN = {"actor_hidden": (4,), "critic_hidden": (4,)}
ONLINE = HIDDEN | {"rounds": 20}
REPLAY = HIDDEN | {
    "replay": 90, "learning_starts": 20, "random_steps": 15, "batch_size": 8,
    "steps_per_world": 10, "gradient_steps": 3,
}  # fmt: skip
SMALL = {
    "penfac": FULL_BATCH
    | HIDDEN
    | {"collect": "steps", "worlds": 2, "steps_per_world": 16, "minibatches": 4},
    "cacla": ONLINE,
    "cac": ONLINE | {"optimiser": "sgd"},
    "spg": ONLINE | {"worlds": 2},
    "dpg": ONLINE,
    "dpg network": ONLINE | {"q": "network"},
    "cacla tiles": ONLINE
    | {"features": "tiles", "normalise": "none", "actor_hidden": (), "tile_memory": 64},
    "ddpg": REPLAY,
    "ddpg ou": REPLAY | {"exploration": "ou", "sigma": 0.5, "n_step": 3},
    "ddpg parameters": REPLAY | {"exploration": "parameters", "worlds": 2},
    "ddpg step by step": REPLAY
    | {"steps_per_world": 1, "gradient_steps": 1, "rounds": 10, "n_step": 3},
    "ddpg batch norm": REPLAY | {"normalise_actor": "batch-norm"},
    "td3": REPLAY | {"sigma_end": 0.01},
    "sac": REPLAY | {"worlds": 2},
    "offpenfac": FULL_BATCH
    | HIDDEN
    | {"collect": "steps", "worlds": 2, "steps_per_world": 16, "dpg_share": 0.5},
    "ppo": HIDDEN | {"worlds": 2, "steps_per_world": 16, "minibatches": 4, "epochs": 2},
    "ppo annealed": HIDDEN
    | {"collect": "episodes", "episodes_per_update": 2, "min_steps_per_update": 1,
       "epochs": 2, "lr_end": 0.0, "sigma": 0.5, "sigma_end": 0.1, "kl_target": 0.01},
}  # fmt: skip
HOST, DEVICE = "tests/Wanderer-v0", "penfac/Pendulum-v0"
ENGINES = {HOST: HostEngine, DEVICE: DeviceEngine}
STEPS = 240


def make(name: str, env_id: str, seeds=(0,), steps: int = STEPS, **settings):
    algorithm = ALGORITHMS[name.split()[0]]
    values = SMALL[name] | dict(algorithm.overrides) | settings
    cfg = algorithm.config(**values)
    check(cfg)
    options = EnvOptions(max_episode_steps=30 if env_id == DEVICE else None)
    job = Job(algorithm, cfg, env_id, options, steps)
    return engine_of(job, seeds, (name, tuple(settings.items())))


PROGRAMS = {}  # compiled, by what they are compiled for


def engine_of(job: Job, seeds, what):
    """Engines of one job share their programs: compiling is most of these tests' time."""
    compiled = PROGRAMS.get((job.env_id, what))
    engine = ENGINES[job.env_id](job, list(seeds), compiled=compiled)
    PROGRAMS.setdefault((job.env_id, what), engine.compiled)
    return engine


# on the device what differs there: one of each family, and what a collector carries
FEWER = (
    "cacla",
    "dpg",
    "ddpg ou",
    "ddpg step by step",
    "td3",
    "sac",
    "offpenfac",
    "ppo",
)
ON_HOST = [(n, HOST) for n in ("penfac", "cacla", "dpg network", "ddpg", "sac", "ppo")]
every = pytest.mark.parametrize(
    ("name", "env_id"),
    slow_except(
        [(n, HOST) for n in SMALL] + [(n, DEVICE) for n in FEWER],
        *ON_HOST, ("cacla", DEVICE), ("ppo", DEVICE),
    ),
)  # fmt: skip
SOME = ("dpg", "ddpg parameters", "ddpg step by step", "ppo")
some = pytest.mark.parametrize(
    ("name", "env_id"),
    slow_except(
        [(n, env_id) for n in SOME for env_id in (HOST, DEVICE)],
        *((n, HOST) for n in SOME), ("ppo", DEVICE),
    ),
)  # fmt: skip


@every
def test_a_run_that_stopped_goes_on_bit_for_bit(name, env_id, tmp_path):
    """Through the file system: every array, replay segments included."""
    whole = make(name, env_id)
    finish(whole, 1, never(STEPS))
    half, counters = make(name, env_id), [Counters()]
    for event in train(half, counters, never(STEPS)):
        if isinstance(event, Updated) and counters[0].step >= STEPS // 2:
            break
    folder = runs.RunFolder(tmp_path)
    folder.save_checkpoint(counters[0].update, half.snapshot(0), Meta({}, {}, {}))
    arrays, _, _ = runs.RunFolder(tmp_path).load_checkpoint()
    rest = make(name, env_id)
    rest.restore(0, arrays)
    assert digest(rest, 0) == digest(half, 0)
    for _ in train(rest, counters, never(STEPS)):
        pass
    assert digest(rest, 0) == digest(whole, 0)


@some
def test_seeds_together_end_as_each_alone(name, env_id):
    together = make(name, env_id, seeds=(3, 4))
    finish(together, 2, never(120))
    for i, seed in enumerate((3, 4)):
        alone = make(name, env_id, seeds=(seed,))
        finish(alone, 1, never(120))
        assert digest(alone, 0) == digest(together, i)


@some
def test_evaluating_changes_no_bit_of_learning(name, env_id):
    often, seldom = make(name, env_id), make(name, env_id)
    points = finish(often, 1, Schedule(120, eval_every=20, eval_episodes=2))
    finish(seldom, 1, never(120))
    assert digest(often, 0) == digest(seldom, 0)
    modes = ALGORITHMS[name.split()[0]].modes
    for event in points:
        if isinstance(event, Evaluated):
            assert ("mean", *event.point.others) == modes
            assert all(
                len(x) == 2 for played in event.point.others.values() for x in played
            )


@every
def test_learning_moves_the_policy_and_the_policy_is_what_is_judged(name, env_id):
    """mu in the program, and mu as the file that is deployed."""
    engine = make(name, env_id)
    before = engine.policy(0)
    finish(engine, 1, never(STEPS))
    after = engine.policy(0)
    n = len(after.weights.mean)
    obs = np.random.default_rng(0).normal(size=(50, n)).astype(np.float32)
    assert not np.array_equal(before(obs), after(obs))
    if env_id == HOST:
        seen = jnp.asarray(obs)
        own = engine.job.algo.mu(
            engine.learners[0].state, seen, engine.plan, engine.numbers
        )
        own = engine.actions.to_env(np.asarray(own))
        np.testing.assert_allclose(own, after(obs), atol=2e-6)


@pytest.mark.parametrize(
    ("name", "env_id"),
    slow_cases(
        [(n, env_id) for n in ("ddpg", "ppo", "cacla") for env_id in (HOST, DEVICE)],
        ("ddpg", DEVICE), ("cacla", DEVICE),
    ),
)  # fmt: skip
def test_a_learner_that_diverges_stops_and_keeps_its_last_good_state(name, env_id):
    """A step size that overflows: what a checkpoint gets is what was good before."""
    job = make(name, env_id).job
    rates = {"lr", "lr_end", "actor_lr", "critic_lr"} & vars(job.cfg).keys()
    job = job._replace(cfg=dataclasses.replace(job.cfg, **dict.fromkeys(rates, 1e38)))
    engine = engine_of(job, [0], (name, ()))
    events = finish(engine, 1, never(STEPS))
    (failed,) = [e for e in events if isinstance(e, Failed)]
    assert isinstance(failed.error, Divergence)
    for key, array in engine.snapshot(0).items():
        assert np.all(np.isfinite(array)), key


def test_a_replay_is_saved_once_and_only_what_is_needed_stays(tmp_path):
    """Segments: each step is written once (one overlaps), old ones go, damage is seen."""
    engine, counters = make("ddpg", HOST), [Counters()]
    folder = runs.RunFolder(tmp_path)
    for event in train(engine, counters, never(STEPS)):
        if isinstance(event, Updated):
            folder.save_checkpoint(
                counters[0].update, engine.snapshot(0), Meta({}, {}, {})
            )
    files = sorted((tmp_path / "replay").iterdir())
    held = sum(s.rows for s in folder.segments)
    assert 90 <= held <= 90 + 10 + 2 * len(folder.segments)
    assert len(files) <= len(folder.segments) + 2
    arrays, _, complaints = runs.RunFolder(tmp_path).load_checkpoint()
    assert not complaints
    ring = segments.ROWS + "reward"
    np.testing.assert_array_equal(arrays[ring], engine.snapshot(0)[ring])
    files[-1].write_bytes(files[-1].read_bytes()[:-1])
    _, meta, complaints = runs.RunFolder(tmp_path).load_checkpoint()
    assert meta.update == counters[0].update - 1
    assert "sha256" in complaints[0]
    for file in files:
        file.unlink()
    with pytest.raises(CorruptFile):
        runs.RunFolder(tmp_path).load_checkpoint()


def test_a_thousand_online_learners_are_one_program():
    """All seeds in one vmapped group end as the same seeds alone."""
    job = make("cacla", DEVICE).job
    engine = DeviceEngine(job, range(1000), at_once=1000)
    due = [(i, Counters()) for i in range(1000)]
    told = dict(engine.advance(due))
    assert len(told) == 1000
    assert all(p.steps == 20 for p in told.values())
    alone = make("cacla", DEVICE, seeds=(777,))
    [(_, progress)] = list(alone.advance([(0, Counters())]))
    np.testing.assert_allclose(
        progress.metrics["td_error"], told[777].metrics["td_error"], rtol=1e-3
    )
