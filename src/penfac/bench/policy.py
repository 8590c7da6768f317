"""`penfac bench policy`: the time of one action in numpy, ONNX, C and
Stable-Baselines3, with the same sizes, in one process."""

import ctypes
import importlib.util
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from penfac.bench.figures import Figures, Say
from penfac.export.c import c_header
from penfac.export.compiled import acting, compiler, library
from penfac.export.onnx import onnx_bytes, open_session
from penfac.policy import ActionScale, Policy, PolicyWeights

Call = Callable[[np.ndarray], Any]
SIZES = (26, 64, 64, 6)  # RoboschoolHalfCheetah-v2's, with the networks of PPO
BATCH = 1024


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    policy = same_sizes()
    one, many = callers(policy)
    obs = np.random.default_rng(0).normal(size=(BATCH, SIZES[0])).astype(np.float32)
    rounds = 3 if quick else 9
    single = fastest(one, obs[0], 500 if quick else 2000, rounds)
    batch = fastest(many, obs, 5 if quick else 20, rounds)
    aims = {"penfac.Policy": "30 us"}
    for name, seconds in single.items():
        figures.add(
            f"one state, {name}", f"{seconds * 1e6:.1f} us", aims.get(name, "-")
        )
    for name, seconds in batch.items():
        each = seconds / BATCH * 1e9
        figures.add(f"a state in a batch of {BATCH}, {name}", f"{each:.0f} ns", "-")
    for name in missing(one):
        figures.add(name, "not here", "-")
    ours, peer = single["penfac.Policy"], single.get(PEER)
    if peer is not None:
        figures.add(
            f"one state, {PEER} / penfac.Policy",
            f"{peer / ours:.1f} times",
            "10 times",
        )
    return {"figures": figures}


PEER = "Stable-Baselines3 PPO.predict"
EVERYONE = ("penfac.Policy", "onnxruntime", "the C header, -O2", PEER)


def missing(calls: dict[str, Call]) -> list[str]:
    return [name for name in EVERYONE if name not in calls]


def same_sizes() -> Policy:
    """Return a policy with random weights: its cost does not depend on them."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: (0.1 * rng.normal(size=shape)).astype(np.float32)  # noqa: E731
    n, m = SIZES[0], SIZES[-1]
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.float32)
    layers = [(draw(i, o), draw(o)) for i, o in pairwise(SIZES)]
    weights = PolicyWeights(zeros, ones, 5.0, ones, zeros, layers, "leaky_relu", "tanh")
    ends = -np.ones(m, np.float32), np.ones(m, np.float32)
    return Policy(weights, ActionScale(*ends, (m,)), {"environment": "bench"})


def callers(policy: Policy) -> tuple[dict[str, Call], dict[str, Call]]:
    """Return by name the functions for one state and for many."""
    one: dict[str, Call] = {"penfac.Policy": policy}
    many: dict[str, Call] = {"penfac.Policy": policy}
    if all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
        session = open_session(onnx_bytes(policy))
        answer = lambda obs: session.run(["action"], {"obs": obs})  # noqa: E731
        one["onnxruntime"] = lambda obs: answer(obs[None])
        many["onnxruntime"] = answer
    if compiler() is not None:
        with library(c_header(policy, "bench"), "bench", policy) as compiled:
            one["the C header, -O2"] = one_state(compiled, policy)
            many["the C header, -O2"] = acting(compiled, policy)
    if importlib.util.find_spec("stable_baselines3") is not None:
        predict = peer()
        one[PEER] = many[PEER] = lambda obs: predict(obs, deterministic=True)
    return one, many


def one_state(compiled: Any, policy: Policy) -> Call:
    """Call it as a C program does: the arrays exist already, only ctypes is added."""
    obs = (ctypes.c_float * SIZES[0])()
    action = (ctypes.c_float * SIZES[-1])()
    compiled.act.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    places = ctypes.addressof(obs), ctypes.addressof(action)
    kept = obs, action
    return lambda _, kept=kept: compiled.act(*places)


def peer() -> Any:
    """Return PPO's predict with the same networks, on one thread."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO

    class Robot(gymnasium.Env):
        """An environment with the same sizes; it is never played."""

        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZES[0],))
        action_space = gymnasium.spaces.Box(-1, 1, (SIZES[-1],))

    torch.set_num_threads(1)
    return PPO("MlpPolicy", Robot(), device="cpu", seed=0).predict


def fastest(
    calls: dict[str, Call], obs: np.ndarray, repeats: int, rounds: int
) -> dict[str, float]:
    """Return seconds per call, the best of some rounds in which all take turns."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            call(obs)
            began = time.perf_counter()
            for _ in range(repeats):
                call(obs)
            took = (time.perf_counter() - began) / repeats
            best[name] = min(best[name], took)
    return best
