"""Run the examples as a reader would, with small budgets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penfac.policy import ActionScale, Policy, PolicyWeights
from penfac.studies.verdicts import VERDICTS

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
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
    """The policy is a gain that is known to stop the mass."""
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


def test_a_study_in_python_is_run_and_judged(tmp_path):
    said = run(EXAMPLES / "custom_study.py", 2, "out", folder=tmp_path).splitlines()
    assert said[0] == "4 runs to go, 8,000 steps in all"
    verdict, comparison, page = said[-3:]
    assert verdict.split(":")[0] in VERDICTS
    assert comparison.startswith("  large above small: by 0.")
    assert (tmp_path / page.removeprefix("page: ")).is_file()


def test_a_sweep_is_one_program_with_a_row_for_every_arm(tmp_path):
    said = run(EXAMPLES / "vmapped_sweep.py", 400, "out", folder=tmp_path).splitlines()
    (first,) = (line for line in said if line.startswith("# first update"))
    assert "12 learners in one program" in first
    arms = ["sigma-0.05", "sigma-0.1", "sigma-0.2", "sigma-0.4"]
    rows = [line.split() for line in said if line.startswith("sigma-")]
    assert [row[0] for row in rows] == arms
    assert all(float(mean) >= float(worst) for _, mean, worst in rows)
    folder = tmp_path / said[-1].removeprefix("runs: ")
    assert all((folder / arm / "seed-2/policy").is_dir() for arm in arms)


def test_baselines_of_the_roboschool_tasks(tmp_path):
    said = run("-c", NO_JAX, EXAMPLES / "roboschool_baselines.py", 2, folder=tmp_path)
    assert said.count("steps") == 14
