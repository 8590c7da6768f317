"""The command line as tests use it: in this process, in one of its own, and its traces."""

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

ROOT = Path(__file__).parents[2]
BAD = "tests.faults.bad_envs:"
# two updates of fifty steps: short, but every part of a run takes place; nothing anneals,
# so that a run begins alike however long it will be
TINY = [
    "--steps=100", "--eval-every=50", "--eval-episodes=1",
    "--set=actor_hidden=4", "--set=critic_hidden=4", "--set=actor_steps=2",
    "--set=fitted_iterations=2", "--set=collect=episodes", "--set=minibatches=2",
    "--set=episodes_per_update=1", "--set=min_steps_per_update=50",
    "--set=sigma=0.2", "--set=sigma_end=none", "--set=rates_end=1",
    "--set=d_target_start=none", "--set=ratio_limit_start=none",
]  # fmt: skip


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of stderr."""
        lines = self.err.splitlines()
        assert len(lines) == 1, f"not one line on stderr: {self.err!r}"
        assert lines[0].startswith("penfac: "), lines[0]
        return lines[0]


def command(*argv: object) -> Result:
    """A command in this process; a warning counts as what it would print."""
    from penfac.cli import main

    out, err, code = io.StringIO(), io.StringIO(), None
    before = sys.argv
    sys.argv = ["penfac", *map(str, argv)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as caught,
        ):
            main()
    except SystemExit as leaving:
        code = leaving.code
    finally:
        sys.argv = before
    assert isinstance(code, int)
    said = "".join(f"{w.filename}: {w.message}\n" for w in caught)
    return Result(code, out.getvalue(), said + err.getvalue())


def environment(**more: str) -> dict[str, str]:
    """What a process of its own needs to find our environments."""
    return os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "JAX_PLATFORMS": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
        **more,
    }


def start(*argv: object, cwd: Path, env: dict | None = None) -> subprocess.Popen:
    """A command in a process of its own, not waited for."""
    return subprocess.Popen(
        [sys.executable, "-m", "penfac", *map(str, argv)],
        cwd=cwd,
        env=env or environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    )


def finish(process: subprocess.Popen, timeout: float = 120) -> Result:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Result(process.returncode, out, err)


def command_alone(*argv: object, cwd: Path, env: dict | None = None) -> Result:
    """A command in a process of its own, to its end."""
    return finish(start(*argv, cwd=cwd, env=env))


def at(phase: str, n: int, when: str = "before", **how) -> dict:
    """Where a signal meets a command; tests/faults/killed.py says what the words mean."""
    return {"phase": phase, "n": n, "when": when, **how}


def met_by_signals(folder: Path, steps: list[dict]) -> list[dict]:
    """Commands one after another, each met by a signal; how each of them ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed", json.dumps(steps)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def seed_folders(run: Path) -> list[Path]:
    """The folder of each seed, as config.json names them."""
    seeds = json.loads((run / "config.json").read_text())["seeds"]
    return [run] if len(seeds) == 1 else [run / f"seed-{s}" for s in seeds]


def newest_checkpoint(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("update-*"))


def newest_state(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a seed's last checkpoint."""
    return load_file(newest_checkpoint(folder) / "state.safetensors")


def counters(folder: Path) -> dict[str, int]:
    return json.loads((newest_checkpoint(folder) / "state.json").read_text())[
        "counters"
    ]


def same_end(a: Path, b: Path) -> None:
    """Two seeds' folders ended with the same bits: weights, CSV files and policy."""
    one, other = newest_state(a), newest_state(b)
    assert one.keys() == other.keys()
    for key, array in one.items():
        assert array.dtype == other[key].dtype, key
        assert array.tobytes() == other[key].tobytes(), key
    for name in ("progress.csv", "evaluations.csv", "policy/policy.safetensors"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert counters(a) == counters(b)


def status(folder: Path) -> dict:
    return json.loads((folder / "status.json").read_text())
