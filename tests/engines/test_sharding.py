"""Learners spread over several devices: each device has its own, and nobody can tell.

XLA compiles a program that is spread otherwise than one that is not: what is fused, and so
the last bits, may differ. Bits are compared between runs of one compiled program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found():
    """What spread.py saw in a process with four devices."""
    four = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spread"],
        cwd=ROOT,
        env=os.environ | four,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("case", "rows"), [("four", 1), ("six", 2)])
def test_learners_really_live_on_all_devices(found, case, rows):
    """Four learners: one row of every array on each of four devices; six: two rows, two of
    the eight being padding. Compiled once, whatever the devices."""
    assert found[case]["devices"] == [4]
    assert found[case]["rows"] == [rows]
    assert found[case]["compiled"] == 1


@pytest.mark.parametrize("case", ["four", "six"])
def test_spread_and_one_at_a_time_agree(found, case):
    """Four learners of PeNFAC, six of DDPG with their replays: after three updates, in
    units of each array's largest number, 1e-6 apart, begun alike to the bit. Evaluations
    earn the same."""
    spread, alone = found[case]["begun"]
    assert spread == alone
    assert found[case]["apart"] < 1e-5
    together, alone = found[case]["together"], found[case]["alone"]
    np.testing.assert_allclose(together["returns"], alone["returns"], rtol=1e-4)
    for ends in (together, alone):
        assert len(set(ends["digests"])) == len(ends["digests"])
        assert len({tuple(r) for r in ends["returns"]}) == len(ends["returns"])
        assert not set(ends["digests"]) & set(spread)


def test_the_device_does_not_matter(found):
    """Each learner on another device: the same bits, and the same evaluation."""
    here, there = found["four"]["together"], found["permuted"]
    for place, learner in enumerate([2, 0, 3, 1]):
        assert there["digests"][place] == here["digests"][learner]
        assert there["returns"][place] == here["returns"][learner]


def test_a_checkpoint_of_four_devices_goes_on_on_any(found):
    """Restored in an engine of one device it is there to the bit, and one update later
    1e-6 away; restored on four, each learner on another device, it ends bit for bit."""
    resumed, ends = found["resumed"], found["four"]["together"]["digests"]
    assert resumed["restored"] == ends
    assert [resumed["there"][k] for k in [2, 0, 3, 1]] == resumed["elsewhere"]
    assert not set(resumed["there"]) & set(ends)
    assert resumed["apart"] < 1e-5
