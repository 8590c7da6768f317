"""Every command: its help, its two kinds of output, and what runs promise each other."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.commands import (
    BAD,
    ROOT,
    TINY,
    command,
    environment,
    newest_state,
    same_end,
    seed_folders,
    status,
)
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.tiers import slow_cases

from penfac.machine import device_name
from penfac.runs.csv_files import read_csv

RUN = Path("runs/penfac/test")
PLAIN = ["--env", f"{BAD}Plain-v0", *TINY]
COMMANDS = (
    "train",
    "resume",
    "eval",
    "play",
    "plot",
    "export",
    "card",
    "presets",
    "envs",
    "algos",
    "bench",
    "version",
)


def train(*more: object, name: str = "test"):
    return command("train", *PLAIN, "--name", name, *more)


def strict(text: str):
    """One JSON document as the standard has it, and nothing else."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


# --- help and tables ------------------------------------------------------------------------


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_every_command(verb):
    result = command(verb, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: penfac {verb}" in result.out
    for option in re.findall(r"^  (--[a-z-]+)", result.out, re.MULTILINE):
        assert option.islower()


def test_help_lists_every_command_and_imports_nothing_heavy():
    script = (
        "import sys; from penfac.cli import main\n"
        "try: main()\n"
        "except SystemExit as leaving: code = leaving.code\n"
        "heavy = {'jax', 'numpy', 'gymnasium', 'matplotlib', 'mujoco', 'scipy'}\n"
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    argv = [sys.executable, "-c", script, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"
    for verb in COMMANDS:
        assert re.search(rf"^  {verb} ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "words", [["presets"], ["presets", "nfac"], ["envs"], ["algos"]]
)
def test_tables(words):
    shown, document = command(*words), command(*words, "--json")
    assert (shown.code, document.code) == (0, 0)
    assert (shown.err, document.err) == ("", "")
    rows = strict(document.out)
    assert len(rows) >= 2
    first = next(iter(rows[0].values()))
    assert str(first) in shown.out


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(word):
    result = command(word)
    assert (result.code, result.err) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", result.out)


def test_help_has_headings_and_examples_that_are_understood():
    """A shared option stands under the same heading in every command that has it."""
    headings = {}
    for verb in (["train"], ["tune"], ["resume"], ["study", "run"], ["study", "tune"]):
        out = command(*verb, "--help").out
        sections = re.findall(r"^(\w.*):\n((?:  .*\n?)+)", out, re.MULTILINE)
        for heading, lines in sections:
            for option in re.findall(r"^  (?:-n, )?(--[a-z-]+)", lines, re.MULTILINE):
                headings.setdefault(option, set()).add(heading)
        examples = dict(sections)["Examples"].split("\n")
        assert all(line.split()[:1] in ([], ["penfac"]) for line in examples)
    several = {"--arms", "--seeds", "--processes"}  # these differ in meaning
    for option in headings.keys() - several:
        assert len(headings[option]) == 1, option
    assert headings["--stop-after"] == {"While it runs"}


# --- what train and eval say -------------------------------------------------------------------


def test_lines_for_scripts():
    result = train("--seeds", 2)
    assert (result.code, result.err) == (0, "")
    head, *lines = result.out.splitlines()
    words = dict(word.split("=", 1) for word in shlex.split(head))
    assert words == {
        "run": str(RUN), "algo": "penfac", "env": f"{BAD}Plain-v0", "seeds": "2",
        "steps": "100", "engine": "host", "device": device_name(),
    }  # fmt: skip
    judged = [dict(w.split("=") for w in x.split()) for x in lines if x[:5] == "seed="]
    keys = {"seed", "step", "update", "return", "best", "length", "steps_per_second"}
    assert all(row.keys() == keys for row in judged)
    assert [(row["seed"], row["step"]) for row in judged] == [
        (seed, step) for step in ("0", "50", "100") for seed in ("0", "1")
    ]
    for row in judged:
        assert all(re.fullmatch(r"-?\d+(\.\d+)?", v) for v in row.values()), row
    assert f"next: penfac eval {RUN} --trust" in lines


def test_train_as_json():
    result = train("--seeds", 2, "--json")
    assert (result.code, result.err) == (0, "")
    document = strict(result.out)
    assert document["run"] == str(RUN)
    assert document["state"] == "finished"
    assert document["exit_code"] == 0
    assert document["steps"] == 200
    assert [row["seed"] for row in document["seeds"]] == [0, 1]
    assert document["errors"] == {}


def test_json_of_a_failure():
    env = f"{BAD}RaisesStepping-v0"
    result = command("train", "--env", env, *TINY, "--json")
    assert result.code == 3
    document = strict(result.out)
    assert document["exit_code"] == 3
    assert document["state"] == "1 of 1 seeds failed"
    assert "the motor burned" in document["errors"]["0"]
    assert "the motor burned" in result.line
    # refused before it began: nothing on stdout, one line on stderr
    refused = command("train", "--env", "Pendulm-v1", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert refused.line


def test_eval():
    assert train("--seeds", 2).code == 0
    shown = command("eval", RUN, "--episodes", 3)
    assert (shown.code, shown.err) == (0, "")
    assert "mean over 2 seeds" in shown.out
    reports = [
        strict(command("eval", RUN, "--episodes", 3, "--json", *more).out)
        for more in ((), (), ("--stochastic",))
    ]
    assert reports[0] == reports[1]
    assert [r["mode"] for r in reports] == ["mean", "mean", "sampled"]
    for report in reports:
        assert [row["seed"] for row in report["seeds"]] == [0, 1]
        assert all(len(row["returns"]) == 3 for row in report["seeds"])
        assert all(row["step"] == 100 for row in report["seeds"])
    # a seed alone is what the run of all seeds says of it
    alone = strict(command("eval", RUN / "seed-1", "--episodes", 3, "--json").out)
    assert alone["seeds"] == reports[0]["seeds"][1:]


def test_eval_changes_nothing():
    assert train().code == 0
    files = [p for p in RUN.rglob("*") if p.is_file()]
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}
    assert command("eval", RUN, "--episodes", 2).code == 0
    assert sorted(p for p in RUN.rglob("*") if p.is_file()) == sorted(files)
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files} == before


def test_on_a_terminal():
    """A bar while it learns, the result at the end, and a cursor that is given back."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penfac", "train", *PLAIN],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="100"),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how a terminal says that everyone has left
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    assert b"penfac on " in shown
    assert b"environments on the CPU, learning on CPU (" in shown
    assert b"100 of 100 steps" in shown
    assert b"return of the learned policy:" in shown
    assert b"100 steps" in shown
    assert b"Traceback" not in shown
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") == 1


# --- what runs promise each other --------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(
            ["--set=collect=steps", "--set=worlds=2", "--set=steps_per_world=25"],
            marks=pytest.mark.slow,
        ),
        pytest.param(["--env=penfac/LQR-v0"], marks=pytest.mark.slow),
    ],
    ids=["episodes", "steps", "device"],
)
def test_three_seeds_are_three_runs(options):
    """Bit for bit: weights, both CSV files, the policy."""
    assert train(*options, "--seeds", 3, name="together").code == 0
    for seed, folder in enumerate(seed_folders(RUN.parent / "together")):
        assert train(*options, "--seed", seed, name=f"alone-{seed}").code == 0
        same_end(folder, RUN.parent / f"alone-{seed}")
        config = json.loads((folder / "config.json").read_text())
        assert config["seeds"] == [seed]
    first, second = seed_folders(RUN.parent / "together")[:2]
    a, b = newest_state(first), newest_state(second)
    assert any(a[key].tobytes() != b[key].tobytes() for key in a)  # and seeds differ


@pytest.mark.parametrize(
    "env", slow_cases([f"{BAD}Plain-v0", "penfac/LQR-v0"], "penfac/LQR-v0")
)
def test_weights_do_not_depend_on_evaluations(env):
    ends = []
    schedules = (["--eval-every=50"], ["--eval-every=100"], ["--eval-episodes=3"])
    for k, schedule in enumerate([*schedules, ["--eval-protocol=authors"]]):
        assert train("--env", env, *schedule, name=f"run-{k}").code == 0
        state = newest_state(RUN.parent / f"run-{k}")
        learned = state.keys() - {"policy-best"}  # which evaluations choose
        ends.append({key: state[key].tobytes() for key in learned})
    assert all(end == ends[0] for end in ends)


def test_resuming_a_finished_run_is_harmless():
    assert train("--seeds", 2, "--checkpoint-every", "0s").code == 0
    wanted = (
        "progress.csv",
        "evaluations.csv",
        "policy.safetensors",
        "state.safetensors",
    )
    files = [p for p in RUN.rglob("*") if p.name in (*wanted, "config.json")]
    before = {p: p.read_bytes() for p in files}
    # two policies and two checkpoints are kept
    assert len(before) == 2 * (len(wanted) + 2) + 3
    for every in ("0s", "15s"):
        result = command("resume", RUN, "--checkpoint-every", every)
        assert (result.code, result.err) == (0, "")
        assert "seed=" not in result.out  # nothing is evaluated again
        assert {p: p.read_bytes() for p in files} == before
        assert all(status(f)["state"] == "finished" for f in seed_folders(RUN))


@pytest.mark.parametrize("every", ["0s", "15s"])
def test_a_longer_budget_goes_on(every):
    more = ("--checkpoint-every", every)
    assert train(*more, "--steps=200", name="long").code == 0
    assert train(*more).code == 0
    result = command("resume", RUN, "-n", "0.2k", *more)
    assert (result.code, result.err) == (0, "")
    assert json.loads((RUN / "config.json").read_text())["steps"] == 200
    same_end(RUN, RUN.parent / "long")


@pytest.mark.parametrize("every", ["0s", "15s"])
def test_a_longer_budget_keeps_what_was_evaluated(every):
    """The shorter run ended with an evaluation that the longer one would not make."""
    more = ("--checkpoint-every", every, "--eval-every", 150)
    assert train(*more).code == 0
    before = (RUN / "evaluations.csv").read_bytes()
    steps = [row["step"] for row in read_csv(RUN / "evaluations.csv")]
    assert steps == ["0", "100"]
    assert command("resume", RUN, "-n", 200, "--checkpoint-every", every).code == 0
    assert (RUN / "evaluations.csv").read_bytes().startswith(before)


def test_a_seed_can_be_resumed_alone():
    assert train("--seeds", 2).code == 0
    alone = RUN / "seed-1"
    assert command("resume", alone, "-n", 200).code == 0
    assert read_csv(alone / "progress.csv")[-1]["step"] == "200"
    assert read_csv(RUN / "seed-0" / "progress.csv")[-1]["step"] == "100"


def test_a_seed_whose_folder_is_lost_starts_again():
    import shutil

    assert train("--seeds", 2, name="whole").code == 0
    assert train("--seeds", 2).code == 0
    shutil.rmtree(RUN / "seed-1")
    assert command("resume", RUN).code == 0
    pairs = zip(seed_folders(RUN), seed_folders(RUN.parent / "whole"), strict=True)
    for a, b in pairs:
        same_end(a, b)


def test_names_count_up():
    for k in (1, 2, 3):
        assert command("train", *PLAIN, "--stop-after", "0s").code == 0
        assert Path(f"runs/penfac/tests.faults.bad-envs-Plain-v0_{k}").is_dir()


@pytest.mark.slow
def test_no_process_is_forked():
    """JAX has threads: a fork of it may never wake up. It says so itself when it happens."""
    argv = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c"]
    script = (
        "import os\n"
        "from penfac.cli import main\n"
        "def forked(): os._exit(99)\n"
        "os.register_at_fork(before=forked)\n"
        "main()"
    )
    done = subprocess.run(
        [*argv, script, "train", *PLAIN, "--seeds", "2"],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_is_the_command():
    argv = [sys.executable, "-m", "penfac", "version"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == command("version").out


def test_what_needs_installing_can_be_copied(monkeypatch):
    """The brackets of an extra are not taken for markup."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = command("envs", "--json")
    notes = {row["id"]: row["note"] for row in json.loads(done.out)}
    assert notes["RoboschoolHopper-v2"].endswith('pip install "penfac[device]"')
    assert '"penfac[pybullet]"' in notes["HopperBulletEnv-v0"]
    assert "[device]" in "".join(command("envs").out.split())
