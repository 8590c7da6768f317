"""Runs of a second on the built-in linear system, with arms, and the bytes they leave."""

import signal
from pathlib import Path

from tests.faults.commands import TINY, newest_checkpoint

from penfac.engines.groups import LearnerGroup

# four updates of fifty steps, steps of Adam so long that arms are told apart
LQR = [
    "--env=penfac/LQR-v0", *TINY, "--steps=200", "--eval-every=100",
    "--set=critic_lr=0.1", "--set=actor_lr=0.01",
]  # fmt: skip
# two arms of one plan
ARMS = {"base": {}, "short": {"gamma": 0.9, "lam": 0.5}}


def settings(arm: str) -> list[str]:
    """The arm as options of a run of its own."""
    return [f"--set={key}={value}" for key, value in ARMS[arm].items()]


def write_arms(file: Path, arms: dict[str, dict[str, float]]) -> Path:
    """A TOML file of arms."""
    blocks = [
        f'["{name}"]\n' + "".join(f"{key} = {value}\n" for key, value in own.items())
        for name, own in arms.items()
    ]
    file.write_text("\n".join(blocks))
    return file


KEPT = (
    "progress.csv", "evaluations.csv", "policy/policy.safetensors", "policy/policy.json",
)  # fmt: skip


def left(folder: Path) -> dict[str, bytes]:
    """What a learner's folder must hold to the byte: rows, policy, weights."""
    last = newest_checkpoint(folder)
    found = {name: (folder / name).read_bytes() for name in KEPT}
    return found | {last.name: (last / "state.safetensors").read_bytes()}


def learners(run: Path) -> list[Path]:
    """The folders of all learners of a run, by what is in them."""
    return sorted(file.parent for file in run.rglob("progress.csv"))


def ended_alike(a: Path, b: Path) -> None:
    """The same learners in both runs, with the same bytes."""
    names = [[str(p.relative_to(run)) for p in learners(run)] for run in (a, b)]
    assert names[0] == names[1]
    assert names[0]
    for name in names[0]:
        one, other = left(a / name), left(b / name)
        assert one.keys() == other.keys(), name
        for file in one:
            assert one[file] == other[file], f"{name}/{file}"


def signal_at_update(monkeypatch, n: int) -> None:
    """SIGTERM while the n-th program advances, of all learners together."""
    advance, left = LearnerGroup.advance, [n]

    def count(*args):
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGTERM)
        return advance(*args)

    monkeypatch.setattr(LearnerGroup, "advance", count)
