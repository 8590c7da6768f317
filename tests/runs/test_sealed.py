"""What checkpoints say of rows and configs is asked by everyone who reads them."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.commands import TINY, command, newest_checkpoint

from penfac.runs import checkpoints
from penfac.runs.evaluations import mean_curve
from penfac.runs.sealed import newer_rows

ENV = "penfac/LQR-v0"
MORE = ["--checkpoint-every=0s", "--name=one"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished run of one seed."""
    out = tmp_path_factory.mktemp("sealed")
    done = command("train", "--env", ENV, *TINY, *MORE, "--out", out)
    assert done.code == 0, done.err
    return out / "penfac" / "one"


@pytest.fixture
def run(trained, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "run"))


def edit(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


# --- rows -----------------------------------------------------------------------------------

READERS = {
    "card": lambda run: command("card", run),
    "plot": lambda run: command("plot", run),
    "pack": lambda run: command("runs", "pack", run, "packed"),
    "resume": lambda run: command("resume", run),
}
DAMAGE = {
    "edited": lambda data: data.replace(b"1", b"2", 1),
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda _: b"",
    "another line in front": lambda data: b"\n" + data,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_rows_that_differ_from_the_checkpoint_are_5(reader, damage, run):
    file = run / "evaluations.csv"
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    result = READERS[reader](run)
    assert result.code == 5
    assert "evaluations.csv: differs from its checkpoint" in result.line


@pytest.mark.parametrize("reader", READERS)
def test_rows_that_are_gone_are_5(reader, run):
    (run / "evaluations.csv").unlink()
    assert READERS[reader](run).code == 5


def test_rows_after_the_checkpoint_are_read_and_counted(run):
    file = run / "evaluations.csv"
    before = mean_curve(run)
    assert newer_rows(run, file.name) == 0
    last = file.read_text().splitlines()[-1].split(",")
    with open(file, "a") as more:
        more.write(",".join(["150", *last[1:]]) + "\n" + "200,3,")  # torn
    assert newer_rows(run, file.name) == 1
    assert mean_curve(run).steps == [*before.steps, 150]
    shutil.rmtree(run / "checkpoints")  # one that was killed before it saved
    assert mean_curve(run).steps == [*before.steps, 150]
    assert newer_rows(run, file.name) == len(before.steps) + 1


def test_a_run_that_went_back_behind_a_damaged_checkpoint_is_read(run):
    """Resume goes on from the checkpoint before, and cuts the rows back to it."""
    newest = newest_checkpoint(run)
    older = next(x for x in (run / "checkpoints").iterdir() if x != newest)
    mark = checkpoints.read_meta(older).csv["evaluations.csv"]
    assert mark.bytes < (run / "evaluations.csv").stat().st_size
    with open(newest / "state.safetensors", "r+b") as file:
        file.write(b"\xff")
    whole = mean_curve(run).steps
    with open(run / "evaluations.csv", "r+b") as file:
        file.truncate(mark.bytes)
    assert mean_curve(run).steps == whole[:-1]


@pytest.mark.parametrize(
    "name", ["state.json", "state.safetensors", "policy/policy.safetensors"]
)
def test_a_damaged_run_is_not_packed(name, run):
    file = run / name if "/" in name else newest_checkpoint(run) / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    result = command("runs", "pack", run, "packed")
    assert result.code == 5
    assert "damaged" in result.line or "is incomplete" in result.line
    assert not list(Path().glob("packed*"))


# --- config.json ----------------------------------------------------------------------------

JUDGES = {
    "eval": lambda run: command("eval", run, "--episodes", 2),
    "play": lambda run: command("play", run, "--strip", "strip.png"),
    "plot": lambda run: command("plot", run),
    "card": lambda run: command("card", run),
    "export": lambda run: command("export", run, "--c", "policy.h"),
    "pack": lambda run: command("runs", "pack", run, "packed"),
    "resume": lambda run: command("resume", run, "-n", 6000),
}


@pytest.mark.parametrize("judge", JUDGES)
def test_a_config_that_differs_from_the_checkpoint_is_2(judge, run):
    config = json.loads((run / "config.json").read_text())
    for changed, words in (
        ({"seeds": [7]}, "seed: 0 -> 7"),
        ({"env": "Pendulum-v1"}, f"env: {ENV} -> Pendulum-v1"),
        (
            {"env_options": config["env_options"] | {"max_episode_steps": 5}},
            "env_options.max_episode_steps: None -> 5",
        ),
        ({"arm": "short"}, "arm: None -> short"),
    ):
        (run / "config.json").write_text(json.dumps(config | changed))
        result = JUDGES[judge](run)
        assert result.code == 2
        assert f"config.json was changed since the checkpoint: {words}" in result.line


def test_a_checkpoint_from_before_seeds_were_bound_is_taken(run):
    """It cannot tell; the next one can."""
    for folder in (run / "checkpoints").iterdir():
        file = folder / "state.json"
        document = json.loads(file.read_text())
        for key in ("seed", "arm"):
            del document["identity"][key]
        file.write_text(json.dumps(document | {"seal": checkpoints.seal(document)}))
    assert command("eval", run, "--episodes", 2).code == 0
    assert command("resume", run, "-n", 200).code == 0
    edit(run / "config.json", seeds=[7])
    assert "seed: 0 -> 7" in command("eval", run).line


# --- the budget -----------------------------------------------------------------------------


def test_a_budget_below_what_was_done_is_2(run):
    before = (run / "config.json").read_bytes()
    result = command("resume", run, "-n", 50)
    assert result.code == 2
    assert "--steps 50" in result.line
    assert "has done 100 steps" in result.line
    assert (run / "config.json").read_bytes() == before
