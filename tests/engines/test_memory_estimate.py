"""How much memory a program needs is told before it is compiled, and what does not fit is
refused with a way out."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from tests.faults.commands import TINY, command, status
from tests.full_batch import FULL_BATCH

from penfac.algos import ALGORITHMS
from penfac.engines import memory
from penfac.engines.base import Job
from penfac.engines.build import build_engine
from penfac.engines.device import DeviceEngine
from penfac.envs.gym import EnvOptions
from penfac.errors import OutOfMemory

# --- what is alive at once ---------------------------------------------------------------

A = 4000  # bytes of the arrays below
ROWS = jnp.zeros((10, 1000))


def chain(x):
    """Each result is needed by the next instruction alone: two are alive."""
    for k in range(20):
        x = x + k
    return x


def late(x):
    """The first of all is needed last: it and two others are alive."""
    y = x + 1
    for k in range(20):
        y = y * k
    return y + x


def fan(x):
    """Five results wait for one that needs them all, and for what it makes."""
    return jnp.concatenate([x + k for k in range(5)])


def stacked(x):
    """A loop over rows: they, the ten results, what goes in and comes out, and in the body
    one more, for a row is gone when the second result is made."""
    return jax.lax.scan(lambda c, row: (c + row, c * 2), x, ROWS)


def repeated(times: int):
    def program(x):
        """However often a body runs, it is there once: x, the result, and inside y, z."""

        def step(_, x):
            y = x + 1
            return y * x

        return jax.lax.fori_loop(0, times, step, x)

    return program


def branches(x):
    """One of two is taken: the hungrier counts, with three more arrays inside."""
    return jax.lax.cond(x[0] > 0, lambda x: x, lambda x: jnp.sin(x) + late(x), x)


@pytest.mark.parametrize(
    ("program", "arrays"),
    [
        (chain, 2),
        (late, 3),
        (fan, 5 + 5),
        (stacked, (1 + 10) + (1 + 10) + 1),
        (repeated(3), 2 + 2),
        (repeated(1000), 2 + 2),
        (branches, 2 + 3),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_the_peak_of_a_program_counted_by_hand(program, arrays):
    """In arrays of 4000 bytes; a few scalars aside."""
    jaxpr = jax.make_jaxpr(program)(jnp.zeros(1000)).jaxpr
    assert memory.peak(jaxpr) == pytest.approx(arrays * A, abs=100)


# --- programs ----------------------------------------------------------------------------

CASES = {
    "penfac": FULL_BATCH | {"min_steps_per_update": 1},
    "penfac steps": FULL_BATCH | {"collect": "steps", "steps_per_world": 64},
    "penfac minibatches": FULL_BATCH
    | {"collect": "steps", "steps_per_world": 64, "minibatches": 8},
    "ppo": {"steps_per_world": 64, "epochs": 2, "minibatches": 4},
    "ddpg": {"replay": 5000, "batch_size": 64, "worlds": 4, "steps_per_world": 20},
}


def many(name: str, learners: int) -> DeviceEngine:
    """Networks as large as they are by default."""
    algo = ALGORITHMS[name.split()[0]]
    job = Job(
        algo, algo.config(**CASES[name]), "penfac/Pendulum-v0", EnvOptions(), 1000
    )
    return DeviceEngine(job, range(learners), at_once=learners)


def taken(engine: DeviceEngine) -> int:
    """What XLA says of the program it made."""
    group = engine.groups[0]
    given = (jax.eval_shape(engine.begin_program, group.who), group.who)
    lowered = engine.advance_program.lower(*given, engine.when(group, {}))
    quickly = {"xla_backend_optimization_level": 0}  # of the code; memory is as always
    told = lowered.compile(quickly).memory_analysis()
    return (
        told.temp_size_in_bytes
        + told.argument_size_in_bytes
        + told.output_size_in_bytes
        - told.alias_size_in_bytes
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_estimate_is_near_what_is_taken(name):
    """With its margin, of what XLA takes for 64 learners on a CPU: 2.9 times, steps of
    PeNFAC 2.8, PPO 1.7, DDPG 1.8. It is proportional to the learners."""
    engine = many(name, 64)
    need = memory.needed(engine)
    assert 0.8 < need / taken(engine) < 4
    assert need / memory.needed(many(name, 16)) == pytest.approx(4, rel=0.02)


# --- what does not fit -------------------------------------------------------------------


def small(name: str, at_once: int, learners: int = 8) -> DeviceEngine:
    settings = {
        "ddpg": {"replay": 5000},
        "penfac": FULL_BATCH | {"min_steps_per_update": 1},
    }[name]
    algo = ALGORITHMS[name]
    sizes = {"actor_hidden": (4,), "critic_hidden": (4,)}
    cfg = algo.config(**(settings | sizes))
    job = Job(algo, cfg, "penfac/LQR-v0", EnvOptions(), 1000)
    return DeviceEngine(job, range(learners), at_once=at_once)


@pytest.fixture
def checked(monkeypatch):
    """Every engine whose memory is looked at, before it is."""
    engines, check = [], memory.check

    def seen(engine):
        engines.append(engine)
        check(engine)

    monkeypatch.setattr(memory, "check", seen)
    return engines


@pytest.mark.parametrize(
    ("name", "share"), [("penfac", 0.3), ("penfac", 0.7), ("ddpg", 0.7)]
)
def test_what_does_not_fit_is_refused_before_it_is_compiled(
    monkeypatch, checked, name, share
):
    """A device with a share of what eight learners need: refused with code 8, nothing
    compiled; the slice that is named fits, and one more learner does not."""
    need = memory.needed(small(name, 8))
    monkeypatch.setattr(memory, "available", lambda device: share * need)
    with pytest.raises(OutOfMemory) as refused:
        small(name, 8)
    assert refused.value.exit_code == 8
    engine = checked[-1]
    for program in (engine.begin_program, engine.advance_program):
        assert program._cache_size() == 0
    found = re.search(r"--slice (\d+) fits", str(refused.value))
    assert found is not None
    size = int(found[1])
    assert 1 <= size < 8
    fits = small(name, size)
    assert fits.groups[0].size == size
    with pytest.raises(OutOfMemory):
        small(name, size + 1)


def test_what_fits_is_compiled_when_it_is_needed(checked):
    """What the test above counts becomes 1."""
    engine = small("penfac", 2, learners=2)
    assert engine is checked[-1]
    assert engine.begin_program._cache_size() == 0
    engine.snapshot(0)
    assert engine.begin_program._cache_size() == 1


def test_what_fits_in_no_slice_says_what_else_would(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 1000)
    with pytest.raises(OutOfMemory, match="fewer worlds") as refused:
        small("penfac", 8)
    assert "--slice" not in str(refused.value)


def test_replays_that_wait_need_room_too(monkeypatch):
    """A slice of one does not help where eight replays do not fit."""
    need = memory.needed(small("ddpg", 8))
    monkeypatch.setattr(memory, "available", lambda device: 0.3 * need)
    with pytest.raises(OutOfMemory, match="smaller replay"):
        small("ddpg", 8)


def test_the_command_that_needs_too_much(monkeypatch, tmp_path):
    """Exit code 8, one line that names a slice, and every seed's status says the same."""
    needs, needed = [], memory.needed

    def told(engine):
        needs.append(needed(engine))
        return needs[-1]

    monkeypatch.setattr(memory, "needed", told)
    monkeypatch.setattr(memory, "available", lambda device: 0.6 * needs[-1])
    monkeypatch.chdir(tmp_path)
    eight = ["--seeds", "8", "--slice", "8", "--name", "test"]
    result = command("train", "--env", "penfac/LQR-v0", *TINY, *eight, "--json")
    assert result.code == 8
    assert "--slice 4 fits" in result.line
    assert result.out == ""
    run = Path("runs/penfac/test")
    folders = sorted(run.glob("seed-*"))
    assert len(folders) == 8
    for folder in folders:
        found = status(folder)
        assert (found["state"], found["exit_code"]) == ("failed", 8)
        assert "--slice 4 fits" in found["error"]
        assert not list(folder.glob("checkpoints/update-*"))
    resumed = command("resume", run)  # nobody holds it, and it is refused the same way
    assert resumed.code == 8


def test_engines_that_take_turns_are_counted_together(monkeypatch):
    """Ten shapes of DDPG, room for one of them at work and for two that wait."""
    one = small("ddpg", 4, learners=4)
    room = memory.needed(one) + 2.5 * memory.kept(one)
    configs = [dataclasses.replace(one.job.cfg, batch_size=8 + k) for k in range(10)]
    monkeypatch.setattr(memory, "available", lambda device: room)
    seeds = [0, 1, 2, 3]
    for count in (2, 10):
        own = [cfg for cfg in configs[:count] for _ in seeds]
        if count == 2:
            build_engine(one.job, "device", seeds * count, own, 4)
            continue
        with pytest.raises(OutOfMemory):
            build_engine(one.job, "device", seeds * count, own, 4)
