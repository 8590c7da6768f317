"""Policies that others learned on Roboschool earn here what they earned there."""

import re
from pathlib import Path

import numpy as np
import pytest

from penfac.envs.roboschool.cpu import CpuEngine
from penfac.envs.roboschool.task import make_task

pybullet = pytest.importorskip("pybullet")
pytestmark = pytest.mark.slow


def published(name: str) -> list[np.ndarray]:
    """Weights and biases of three layers, read from an example that comes with PyBullet."""
    examples = Path(pybullet.__file__).parent / "pybullet_envs" / "examples"
    text = (examples / f"enjoy_TF_{name}.py").read_text()
    layers = []
    for layer in ("dense1", "dense2", "final"):
        for kind in ("w", "b"):
            rest = text.split(f"weights_{layer}_{kind} = ")[1].split("weights_")[0]
            rest = re.split(r"# yapf|if __name__", rest)[0]
            found = re.findall(r"[-+]?\d+\.\d*(?:e[-+]?\d+)?", rest)
            layers.append(np.array(found, float))
    return [
        w if k % 2 else w.reshape(-1, len(layers[k + 1])) for k, w in enumerate(layers)
    ]


@pytest.mark.parametrize(
    ("name", "policy", "least"),
    [
        ("Humanoid", "HumanoidFlagrunHarderBulletEnv_v1_2017jul", 3200),
        ("Ant", "AntBulletEnv_v0_2017may", 1500),
    ],
)
def test_a_policy_learned_on_roboschool_walks_here(name, policy, least):
    """Roboschool 1.0.49 itself pays them 3 367 and 1 824; with axes of unit length it
    pays 1 313 and 606."""
    layers, task = published(policy), make_task(name)
    engine, rng = CpuEngine(task, threads=0), np.random.default_rng(0)
    worlds, obs = engine.start(rng.random((8, task.draws)))
    earned, alive = np.zeros(8), np.ones(8, bool)
    for _ in range(1000):
        x = obs.astype(float)
        for k in (0, 2, 4):
            x = np.maximum(x, 0) if k else x
            x = x @ layers[k] + layers[k + 1]
        worlds, moment, _ = engine.step(worlds, x)
        obs, earned = moment.obs, earned + alive * moment.reward
        alive &= ~moment.terminated
    engine.close()
    assert earned.mean() > least
