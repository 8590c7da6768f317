"""The examples run as a reader would run them, with small budgets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from penfac.policy import ActionScale, Policy, PolicyWeights

EXAMPLES = Path(__file__).parent.parent / "examples"
NO_JAX = """
import runpy, sys
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
assert "jax" not in sys.modules
"""


def run(*command: object, folder: Path) -> str:
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_own_environment_is_trained_and_its_run_can_be_read(tmp_path):
    said = run(EXAMPLES / "train_own_env.py", 3000, "out", folder=tmp_path)
    folder = tmp_path / "out/penfac/train-own-env-Rail-v0_1"
    assert f"run: {folder.relative_to(tmp_path)}" in said
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"
    assert Policy.load(folder).about["environment"] == "train_own_env:Rail-v0"

    table = run(EXAMPLES / "read_runs.py", "out", folder=tmp_path).splitlines()
    assert len(table) == 2
    assert table[1].split()[:3] == ["train_own_env:Rail-v0", "penfac", "0"]


def test_runs_of_several_seeds_are_read_with_last_and_best(tmp_path):
    for seed, returns in enumerate([(1.0, 5.0, 3.0), (2.0, 2.0, 4.0)]):
        folder = tmp_path / f"nfac/Some-v0_1/seed-{seed}"
        folder.mkdir(parents=True)
        config = {"env": "Some-v0", "algo": "nfac", "seeds": [seed]}
        (folder / "config.json").write_text(json.dumps(config))
        lines = [f"{1000 * k},{r}" for k, r in enumerate(returns)]
        (folder / "evaluations.csv").write_text("\n".join(["step,return", *lines, ""]))
    table = run(EXAMPLES / "read_runs.py", tmp_path, folder=tmp_path).splitlines()
    assert [line.split()[2:] for line in table[1:]] == [
        ["0", "2,000", "3.0", "5.0"],
        ["1", "2,000", "4.0", "4.0"],
    ]


def test_policy_is_deployed_without_jax(tmp_path):
    """A gain that is known to stop the mass takes the place of a learned one."""
    one = np.ones(1, np.float32)
    weights = PolicyWeights(
        mean=np.zeros(2, np.float32),
        std=np.ones(2, np.float32),
        clip=np.inf,
        scale=np.ones(2, np.float32),
        shift=np.zeros(2, np.float32),
        layers=[(np.float32([[-1.0], [-2.0]]), np.zeros(1, np.float32))],
        activation="relu",
        output="linear",
    )
    about = {"environment": "Rail-v0", "step": 0}
    policy = Policy(weights, ActionScale(-one, one, (1,)), about)
    (tmp_path / "policy.safetensors").write_bytes(policy.to_bytes())
    said = run("-c", NO_JAX, EXAMPLES / "deploy_policy.py", tmp_path, folder=tmp_path)
    assert abs(float(said.split()[-1])) < 0.01


def test_baselines_of_the_roboschool_tasks(tmp_path):
    said = run("-c", NO_JAX, EXAMPLES / "roboschool_baselines.py", 2, folder=tmp_path)
    assert said.count("steps") == 14
