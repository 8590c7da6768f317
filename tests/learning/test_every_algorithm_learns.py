"""Every algorithm finds the known optimum: the five probes, and a regulator whose actions
reach further to one side.

PeNFAC and NFAC have their own files. Here are the online algorithms, DDPG with what it can
be asked for, TD3, SAC and PPO. Learners of one program run together (see together.py), two
seeds of each; the first test that asks for a program compiles it, which takes nearly all
of its time. Beside every arm runs one that stands still: its step sizes are next to none,
so what the tests ask for is nothing that a learner has from the start.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.together import Learner, learn, probe

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Job
from penfac.engines.device import DeviceEngine
from penfac.envs.lqr import DOUBLE_INTEGRATOR, HORIZON, LQR_ENV, optimum
from penfac.envs.options import EnvOptions
from penfac.envs.probes import BEST_ACTION, BEST_SLOPE
from penfac.training.loop import count_update

pytestmark = pytest.mark.slow

SEEDS = (0, 1)
GAMMA = 0.9
PLUS_MINUS = np.array([[-1.0], [1.0]])
CONSTANT, OBSERVATION, DELAY, ACTION, BOTH = range(5)

SMALL = {
    "gamma": GAMMA,
    "actor_hidden": (16,),
    "critic_hidden": (16,),
    "activation": "tanh",
    "sigma": 0.2,
}
ONLINE = SMALL | {
    "normalise": "none",
    "worlds": 16,
    "rounds": 1,
    "actor_lr": 3e-3,
    "critic_lr": 1e-2,
}
DPG = ONLINE | {"actor_lr": 5e-4, "critic_lr": 3e-3, "q_lr": 1e-2}
REPLAY = SMALL | {
    "worlds": 4,
    "steps_per_world": 4,
    "gradient_steps": 10,
    "replay": 4000,
    "learning_starts": 100,
    "random_steps": 100,
    "batch_size": 64,
    "actor_lr": 1e-3,
    "critic_lr": 3e-3,
    "tau": 0.05,
}
SAC = REPLAY | {"temperature": 0.01}  # the entropy is worth next to nothing
PPO = SMALL | {
    "worlds": 8,
    "steps_per_world": 16,
    "epochs": 8,
    "minibatches": 4,
    "lr": 1e-2,
    "lr_end": 0.0,
    "sigma": 0.3,
    "normalise_obs": False,
    "normalise_returns": False,
}
# arms by the program they share, and its updates
PROBES = [
    ({"cacla": ONLINE, "cac": ONLINE, "spg": ONLINE}, 2000),
    ({"dpg": DPG}, 4000),
    ({"dpg network": DPG | {"q": "network"}}, 4000),
    ({"ddpg": REPLAY}, 400),
    (
        {"ddpg n_step ou": REPLAY | {"n_step": 3, "exploration": "ou", "sigma": 1.0}},
        400,
    ),
    ({"ddpg parameters": REPLAY | {"exploration": "parameters"}}, 400),
    ({"td3": REPLAY}, 400),
    ({"sac": SAC}, 400),
    ({"ppo": PPO}, 60),
]
FEWER = {"ddpg n_step ou": (DELAY, BOTH), "ddpg parameters": (BOTH,)}

LINEAR = {
    "gamma": DOUBLE_INTEGRATOR.gamma,
    "actor_hidden": (),
    "actor_output": "linear",
    "critic_hidden": (32, 32),
    "activation": "tanh",
    "sigma": 0.2,
}
LQR_ONLINE = LINEAR | {
    "normalise": "none", "worlds": 64, "actor_lr": 3e-4, "critic_lr": 3e-3,
}  # fmt: skip
# a linear actor leaves [-1, 1], where the replay holds nothing: here mu ends in a tanh
LQR_REPLAY = LINEAR | {
    "actor_hidden": (32,),
    "actor_output": "tanh",
    "worlds": 50,
    "steps_per_world": 2,
    "gradient_steps": 20,
    "replay": 5000,
    "learning_starts": 1000,
    "random_steps": 1000,
    "batch_size": 128,
    "reward_scale": 0.1,
    "actor_lr": 2e-4,
    "critic_lr": 3e-3,
    "tau": 0.05,
}
# its output is always a tanh
LQR_SAC = {k: v for k, v in LQR_REPLAY.items() if k != "actor_output"} | {
    "temperature": 0.01,
    "actor_lr": 5e-5,
}
LQR_PPO = LINEAR | {
    "worlds": 40,
    "steps_per_world": 50,
    "epochs": 5,
    "minibatches": 8,
    "lam": 0.9,
    "lr": 3e-3,
    "lr_end": 0.0,
    "normalise_obs": False,
    "normalise_returns": False,
}
REGULATORS = [
    # SPG's steps are noise for the most part: they are larger, and there are more of them
    ({"cacla": LQR_ONLINE, "cac": LQR_ONLINE, "spg": LQR_ONLINE | {"actor_lr": 2e-3}}, 12_000),
    # w must follow faster than the actor moves, or both swing around the optimum
    ({"dpg": LQR_ONLINE | {"actor_lr": 1e-4, "q_lr": 0.1}}, 16_000),
    ({"dpg network": LQR_ONLINE | {"q": "network"}}, 8000),
    ({"ddpg": LQR_REPLAY}, 600),
    ({"td3": LQR_REPLAY}, 600),
    ({"sac": LQR_SAC}, 1200),
    ({"ppo": LQR_PPO}, 300),
]  # fmt: skip
BEST, _ = optimum(DOUBLE_INTEGRATOR)
LOW, HIGH = -6.0, 14.0  # |K* s| stays below 4.4
ASYMMETRIC = LQR_ENV._replace(
    spec=LQR_ENV.spec._replace(
        id="tests/Asymmetric-v1",
        action_low=np.float32([LOW]),
        action_high=np.float32([HIGH]),
    )
)


def asymmetric(which):
    return ASYMMETRIC


@cache
def learned(task: str, arm: str) -> dict:
    """(arm, environment, seed) -> the learners of this arm's program, and `still`."""
    programs, family = {
        "probes": (PROBES, probe), "regulator": (REGULATORS, asymmetric)
    }[task]  # fmt: skip
    arms, updates = next((a, n) for a, n in programs if arm in a)
    if next(iter(arms)) != arm:
        return learned(task, next(iter(arms)))
    rates = ("lr",) if arm == "ppo" else ("actor_lr", "critic_lr")
    still = {f"{a} still": s | dict.fromkeys(rates, 1e-9) for a, s in arms.items()}
    which = FEWER.get(arm, tuple(range(5))) if task == "probes" else (0,)
    return learn(arms | still, family, which, SEEDS, updates)


def wrong(arm: str, which: int, seed: int) -> float:
    """How far a learner is from what is known of a probe."""
    one = learned("probes", arm.removesuffix(" still"))[arm, which, seed]
    found, known = {
        CONSTANT: lambda: (one.value([[0.0]]), 1),
        OBSERVATION: lambda: (one.value(PLUS_MINUS), [-1, 1]),
        DELAY: lambda: (one.value([[0.0], [1.0]]), [GAMMA, 1]),
        ACTION: lambda: (one.mu([[0.0]]), BEST_ACTION),
        BOTH: lambda: (one.mu(PLUS_MINUS), BEST_SLOPE * PLUS_MINUS),
    }[which]()
    return float(np.max(np.abs(found - np.asarray(known))))


each = pytest.mark.parametrize(
    ("arm", "which"),
    [
        (arm, which)
        for arms, _ in PROBES
        for arm in arms
        for which in FEWER.get(arm, range(5))
    ],
)


@each
def test_probes(arm, which):
    """V (Q at mu where there is no V) of the first three, mu of the last two."""
    for seed in SEEDS:
        assert wrong(arm, which, seed) < 0.05


@each
def test_probes_are_not_solved_standing_still(arm, which):
    for seed in SEEDS:
        assert wrong(f"{arm} still", which, seed) > 0.1


# --- the regulator --------------------------------------------------------------------


def pushes(one: Learner, states: np.ndarray) -> np.ndarray:
    """mu(s), in the environment's units."""
    a = np.clip(one.mu(states).astype(np.float64), -1, 1)
    return (LOW + HIGH) / 2 + (HIGH - LOW) / 2 * a


def cost(act) -> float:
    """Discounted, over a grid of initial states."""
    a, b, q, r, gamma = DOUBLE_INTEGRATOR
    axis, total = np.linspace(-1, 1, 5), 0.0
    s = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    for t in range(HORIZON):
        u = act(s)
        total += gamma**t * np.mean(np.sum(s @ q * s, 1) + np.sum(u @ r * u, 1))
        s = s @ a.T + u @ b.T
    return total


def gain_and_offset(one: Learner) -> tuple[np.ndarray, float]:
    """a = -gain s + offset, from half a unit around the origin."""
    half = np.eye(2) / 2
    gain = pushes(one, -half) - pushes(one, half)
    return gain.T, float(pushes(one, np.zeros((1, 2)))[0, 0])


def judged(arm: str, seed: int) -> tuple[float, float, float]:
    """(error of the gain, offset, cost in excess of the optimum's)."""
    one = learned("regulator", arm.removesuffix(" still"))[arm, 0, seed]
    gain, offset = gain_and_offset(one)
    error = np.linalg.norm(gain - BEST) / np.linalg.norm(BEST)
    best = cost(lambda s: -s @ BEST.T)
    return float(error), offset, float(cost(lambda s: pushes(one, s)) / best - 1)


regulators = pytest.mark.parametrize(
    "arm", [arm for arms, _ in REGULATORS for arm in arms]
)


@regulators
def test_regulator(arm):
    """K* within 15 %, no push where nothing is to do, a cost within 5 % of the least.
    To do nothing at all costs eight times the least."""
    for seed in SEEDS:
        error, offset, excess = judged(arm, seed)
        assert error < 0.15
        assert abs(offset) < 0.2
        assert excess < 0.05


@regulators
def test_regulator_is_not_learned_standing_still(arm):
    for seed in SEEDS:
        error, offset, excess = judged(f"{arm} still", seed)
        assert error > 0.5
        assert abs(offset) > 0.5
        assert excess > 1


def test_what_learns_here_is_what_the_engine_does():
    """Some updates of CACLA: the same steps, the same policy and critic."""
    updates, algo = 50, ALGORITHMS["cacla"]
    [(arms, _)] = [p for p in PROBES if "cacla" in p[0]]
    arms = arms | {f"{arm} again": settings for arm, settings in arms.items()}
    here = learn(arms, probe, tuple(range(5)), SEEDS, updates)["cacla", BOTH, 1]
    cfg = algo.config(**(ONLINE | dict(algo.overrides)))
    steps = updates * cfg.worlds
    job = Job(algo, cfg, "penfac/ProbeBoth-v0", EnvOptions(), steps)
    engine, counters = DeviceEngine(job, [1]), Counters()
    while counters.step < steps:
        [(_, progress)] = engine.advance([(0, counters)])
        count_update(counters, progress)
    assert counters.update == updates
    state = jax.tree.map(jnp.asarray, engine.groups[0].state(0))
    there = Learner(algo, engine.plan, engine.groups[0].numbers[0], state)
    for found in (Learner.mu, Learner.value):
        np.testing.assert_allclose(
            found(here, PLUS_MINUS), found(there, PLUS_MINUS), atol=1e-4
        )
