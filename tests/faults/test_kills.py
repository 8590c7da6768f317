"""A run killed at any moment and resumed ends with the bits of one that never was."""

from pathlib import Path

import pytest
from tests.faults.commands import (
    at,
    command_alone,
    met_by_signals,
    same_end,
    seed_folders,
    status,
)

pytestmark = pytest.mark.slow

# minibatches are drawn anew in each pass, sigma and the rates fall: a run that goes on must
# know where it stood in all of this
SMALL = [
    "--eval-every=300", "--eval-episodes=2", "--max-episode-steps=50",
    "--set=actor_hidden=8", "--set=critic_hidden=8", "--set=actor_steps=5",
    "--set=episodes_per_update=2", "--set=min_steps_per_update=100",
    "--set=worlds=2", "--set=steps_per_world=60", "--set=fitted_iterations=10",
    "--set=critic_steps=1", "--set=minibatches=4", "--set=normalise_returns=true",
    "--set=beta_rule=update", "--set=sigma=0.4", "--set=sigma_end=0.1",
    "--set=rates_end=0.5",
]  # fmt: skip
EVERY = "--checkpoint-every=0s"
RARELY = "--checkpoint-every=1h"


def chain(
    folder: Path, first: list[str], kills: list[tuple[dict, str]], algo: str
) -> None:
    """Start a run, kill it, resume it, kill it, ...: every kill at its chosen point."""
    argv = [["train", *first, "--name=killed"]]
    argv += [["resume", f"runs/{algo}/killed"] for _ in kills[1:]]
    steps = [
        {"argv": [*words, every], "at": where}
        for words, (where, every) in zip(argv, kills, strict=True)
    ]
    said = (folder / "output.txt").read_text
    for (where, _), end in zip(kills, met_by_signals(folder, steps), strict=True):
        assert (end["code"], end["reached"]) == (-9, True), (where, end, said()[-2000:])


def ends_the_same(
    folder: Path,
    first: list[str],
    kills: list[tuple[dict, str]],
    algo: str = "penfac",
) -> None:
    """The uninterrupted run and the killed one, each ended by a fresh process."""
    first = [f"--algo={algo}", *first]
    whole = command_alone("train", *first, "--name=whole", RARELY, cwd=folder)
    assert (whole.code, whole.err) == (0, "")
    chain(folder, first, kills, algo)
    killed = folder / "runs" / algo / "killed"
    last = command_alone("resume", killed, cwd=folder)
    assert (last.code, last.err) == (0, "")
    assert not list(killed.rglob(".tmp-*"))
    pairs = zip(
        seed_folders(killed), seed_folders(killed.parent / "whole"), strict=True
    )
    for a, b in pairs:
        same_end(a, b)
        assert status(a)["state"] == "finished"


# In the order of the chain; three seeds of ten updates. A process that comes back compiles
# before its first update, evaluates when that is due, and plays 50 steps a seed and update.
KILLS = [
    (at("compile", 1), EVERY),
    (at("evaluate", 1, "before"), EVERY),
    (at("evaluate", 2, "during", k=30), EVERY),
    (at("checkpoint", 1, "half"), EVERY),
    (at("collect", 1), EVERY),
    (at("compile", 1, "during"), EVERY),
    (at("checkpoint", 1, "fsync", k=5), EVERY),
    (at("update", 2, "after"), EVERY),
    (at("collect", 120), EVERY),
    (at("checkpoint", 4, "rename"), EVERY),
    (at("update", 3, "during"), EVERY),
    (at("checkpoint", 5, "rename+"), EVERY),
    (at("compile", 1, "after"), EVERY),
    (at("checkpoint", 6, "half", k=2), EVERY),
    (at("evaluate", 2, "after"), EVERY),
    (at("update", 1, "before"), EVERY),
    (at("checkpoint", 2, "prune"), EVERY),
    (at("row", 2), EVERY),
    (at("collect", 260), RARELY),
    (at("checkpoint", 1, "replace", k=2), EVERY),
    (at("status", 3), EVERY),
    (at("evaluate", 3, "during", k=140), EVERY),
]


def test_twenty_kills_of_three_seeds(tmp_path):
    count = dict.fromkeys(("compile", "collect", "update", "checkpoint", "evaluate"), 0)
    for where, _ in KILLS:
        count[where["phase"]] = count.get(where["phase"], 0) + 1
    assert len(KILLS) >= 20
    assert all(
        count[p] >= 3
        for p in ("compile", "collect", "update", "checkpoint", "evaluate")
    )
    first = ["--env=Pendulum-v1", "-n", "1000", "--seeds=3", *SMALL]
    ends_the_same(tmp_path, [*first, "--set=collect=episodes"], KILLS)


def test_kills_of_worlds_that_go_on(tmp_path):
    """collect=steps: unfinished episodes are played again up to where they stood."""
    kills = [
        (at("collect", 40), EVERY),
        (at("update", 3, "after"), EVERY),
        (at("collect", 290), EVERY),
        (at("checkpoint", 3, "rename+"), EVERY),
        (at("evaluate", 2, "during", k=60), EVERY),
        (at("collect", 1), RARELY),
    ]
    first = ["--env=Pendulum-v1", "-n", "1200", "--seeds=2", *SMALL]
    ends_the_same(tmp_path, [*first, "--set=collect=steps"], kills)


@pytest.mark.parametrize("collect", ["episodes", "steps"])
def test_kills_of_the_device_engine(collect, tmp_path):
    kills = [
        (at("device update", 1, "during", delay=0.3), EVERY),
        (at("device evaluate", 2, "after"), EVERY),
        (at("device update", 5, "after"), EVERY),
        (at("checkpoint", 4, "fsync", k=2), EVERY),
        (at("device update", 4), RARELY),
        (at("checkpoint", 3, "prune"), EVERY),
    ]
    first = ["--env=penfac/Pendulum-v0", "-n", "1200", "--seeds=2", *SMALL]
    ends_the_same(tmp_path, [*first, f"--set=collect={collect}"], kills)


TINY = [
    "--eval-every=400", "--eval-episodes=1", "--max-episode-steps=50",
    "--set=actor_hidden=8", "--set=critic_hidden=8",
]  # fmt: skip
OTHERS = {
    "ddpg": ["steps_per_world=40", "replay=300", "learning_starts=100", "batch_size=16",
             "gradient_steps=5", "exploration=ou", "sigma=0.3", "n_step=3"],
    "cacla": ["rounds=80"],
    "ppo": ["worlds=2", "steps_per_world=40", "minibatches=4", "epochs=2"],
}  # fmt: skip


@pytest.mark.parametrize("algo", OTHERS)
def test_kills_of_the_other_algorithms(algo, tmp_path):
    """A replay in segments, noise that remembers, many updates in one turn."""
    kills = [
        (at("collect", 75), EVERY),
        (at("checkpoint", 2, "fsync", k=4), EVERY),
        (at("update", 2, "after"), EVERY),
        (at("checkpoint", 3, "rename+"), EVERY),
        (at("evaluate", 1, "during", k=20), EVERY),
        (at("checkpoint", 2, "prune"), EVERY),
        (at("collect", 5), RARELY),
    ]
    settings = [f"--set={setting}" for setting in OTHERS[algo]]
    first = ["--env=Pendulum-v1", "-n", "1200", *TINY, *settings]
    ends_the_same(tmp_path, first, kills, algo)


# --- folders and bundles that are there as a whole or not at all ---------------------------

PACKING = [
    ("half", 1), ("half", 2), ("fsync", 1), ("fsync", 2), ("fsync", 3), ("replace", 1),
    ("replace+", 1), ("replace+", 2),
]  # fmt: skip
UNPACKING = [
    ("mkdir", 1), ("mkdir+", 4), ("half", 1), ("half", 3), ("fsync", 2), ("replace", 2),
    ("rename+", 1), ("rename", 2), ("rename+", 2),
]  # fmt: skip
STARTING = [
    ("mkdir", 1), ("mkdir+", 2), ("half", 1), ("replace", 1), ("replace+", 1),
    ("rename", 1), ("rename+", 1),
]  # fmt: skip
BRIEF = ["--env=Pendulum-v1", "-n", "200", *TINY]


def names_of(moments: list[tuple[str, int]]) -> list[str]:
    return [f"{when}-{k}" for when, k in moments]


def killed_and_repeated(
    folder: Path, phase: str, moments: list, *commands: list[str]
) -> list[list[int]]:
    """Kill the first command at each moment of its writing; how the others then end."""
    steps = []
    for (when, k), name in zip(moments, names_of(moments), strict=True):
        argv = [[word.format(name) for word in words] for words in commands]
        steps += [{"argv": argv[0], "at": at(phase, 1, when, k=k)}]
        steps += [{"argv": words} for words in argv[1:]]
    ends = met_by_signals(folder, steps)
    for moment, end in zip(moments, ends[:: len(commands)], strict=True):
        assert (end["code"], end["reached"]) == (-9, True), moment
    assert not list(folder.rglob(".tmp-*"))
    codes = [end["code"] for end in ends]
    n = len(commands)
    return [codes[i + 1 : i + n] for i in range(0, len(codes), n)]


def test_a_killed_pack_is_packed_again(tmp_path):
    assert command_alone("train", *BRIEF, "--name=run", cwd=tmp_path).code == 0
    words = ["runs", "pack", "runs/penfac/run", "packed-{}"]
    codes = killed_and_repeated(tmp_path, "pack", PACKING, words, words)
    whole = (("fsync", 3), ("replace+", 2))  # these kills come when both are in place
    assert codes == [[6 if moment in whole else 0] for moment in PACKING]
    # a killed process leaves its lock, which is nobody's
    packed = sorted(p.name for p in tmp_path.glob("*packed-*") if p.suffix != ".lock")
    assert packed == sorted(
        f"packed-{name}.{end}"
        for name in names_of(PACKING)
        for end in ("csv", "safetensors")
    )
    assert len({p.read_bytes() for p in tmp_path.glob("packed-*.csv")}) == 1


def test_a_killed_unpack_leaves_a_whole_run_or_none(tmp_path):
    assert command_alone("train", *BRIEF, "--into=small", cwd=tmp_path).code == 0
    words = ["runs", "unpack", "small", "--out={}"]
    codes = killed_and_repeated(tmp_path, "unpack", UNPACKING, words, words)
    assert codes == [[0]] * len(UNPACKING)
    for name in names_of(UNPACKING):
        made = sorted((tmp_path / name / "penfac").iterdir())
        assert len(made) == 1 + (name == "rename+-2")
        for run in made:
            same_end(run, tmp_path / "mkdir-1" / "penfac" / made[0].name)
            assert status(run)["state"] == "finished"


def test_a_killed_start_leaves_a_run_or_none(tmp_path):
    """The same command begins anew, or says that the run is there to be resumed."""
    assert command_alone("train", *BRIEF, "--name=whole", cwd=tmp_path).code == 0
    words = ["train", *BRIEF, "--name={}"]
    again = ["resume", "runs/penfac/{}"]
    codes = killed_and_repeated(tmp_path, "start", STARTING, words, words, again)
    assert codes == [[0, 0]] * (len(STARTING) - 1) + [[6, 0]]
    whole = tmp_path / "runs" / "penfac" / "whole"
    for name in names_of(STARTING):
        same_end(whole.parent / name, whole)
