"""Run folders that come from elsewhere: what they link to, lack or make up reaches nothing
outside them, and each is answered by one line."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.faults.commands import BAD, TINY, command, same_end, status
from tests.tiers import slow_except

from penfac.engines.host import HostEngine

RUN = Path("runs/penfac/test")
PLAIN = ["--env", f"{BAD}Plain-v0", *TINY]


def train(*more: object, name: str = "test"):
    return command("train", *PLAIN, "--name", name, *more)


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    assert train("--checkpoint-every", "0s", "--out", out).code == 0
    return out


@pytest.fixture
def finished(one_run):
    """A finished run of two updates."""
    shutil.copytree(one_run, "runs")
    return RUN


def contents(home: Path) -> dict[str, bytes | None]:
    """Every file below, byte for byte."""
    return {
        str(p.relative_to(home)): p.read_bytes() if p.is_file() else None
        for p in sorted(home.rglob("*"))
    }


# --- links ------------------------------------------------------------------------------

FILES = (
    "lock", "log.txt", "timing.csv", "progress.csv", "evaluations.csv", "status.json",
    "config.json", "curve.png", "fault.json", "policy/policy.safetensors",
    "policy/policy.json", "checkpoints/update-000002-evaluated/state.json",
)  # fmt: skip
FOLDERS = ("checkpoints", "replay", "policy", "tb", "checkpoints/update-000001")


@pytest.fixture
def victim(tmp_path):
    """What somebody else has beside the run."""
    home = tmp_path / "victim"
    (home / "update-000009").mkdir(parents=True)
    (home / "update-000009" / "mine").write_text("mine")
    (home / "precious.txt").write_text("mine, all mine\n" * 9)
    return home


def put_link(run: Path, name: str, target: Path) -> None:
    place = run / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_a_link_is_refused_and_not_followed(finished, victim, name):
    inside = finished / name
    if name in FILES and inside.exists():  # what the link leads to is well formed
        shutil.copy(inside, victim / "precious.txt")
    put_link(finished, name, victim if name in FOLDERS else victim / "precious.txt")
    before, run = contents(victim), contents(finished)
    for words in (
        ("resume", finished, "--checkpoint-every", "0s"),
        ("runs", "pack", finished, "packed"),
        ("eval", finished),
    ):
        result = command(*words)
        assert result.code == 5, result
        assert f"{name}: is a link" in result.line
        assert contents(victim) == before
        assert contents(finished) == run
    assert not list(Path().glob("packed*"))


def test_the_run_itself_may_be_a_link(finished):
    Path("link").symlink_to(finished.absolute())
    assert command("eval", "link", "--episodes", 1).code == 0


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
def test_a_pipe_or_a_device_is_not_waited_for(finished, name):
    place = next((finished / "checkpoints").iterdir()) / name
    place.unlink()
    os.mkfifo(place)
    result = command("resume", finished)
    assert result.code == 5
    assert "neither file nor folder" in result.line
    place.unlink()
    place.symlink_to("/dev/zero")
    assert "is a link" in command("resume", finished).line


def edit(file: Path, **values: object) -> None:
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | values))


@pytest.mark.parametrize("alive", [["../../evil"], ["/evil"], [".."], ["test"]])
def test_an_arm_elsewhere_makes_no_folder(finished, alive, tmp_path):
    config = json.loads((finished / "config.json").read_text())["config"]
    edit(finished / "config.json", arms={"one": config}, alive=alive)
    before = contents(tmp_path)
    for verb in ("resume", "eval"):
        result = command(verb, finished)
        assert result.code == 2
        assert "is not an arm of the run" in result.line
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["mine.txt", "steps-1.safetensors", ".tmp-notes"])
def test_only_our_own_names_are_pruned(finished, name):
    """Somebody's file in a run folder stays."""
    places = [
        finished / name,
        *(finished / x / name for x in ("checkpoints", "policy")),
    ]
    for place in places:
        place.write_text("mine")
    result = command("resume", finished, "-n", 200, "--checkpoint-every", "0s")
    assert result.code == 0
    assert [place.read_text() for place in places] == ["mine"] * 3


# --- what is lost -----------------------------------------------------------------------


def lose(run: Path, *names: str) -> None:
    for name in names:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


LOSSES = {
    "checkpoints": ["checkpoints"],
    "all but rows": ["checkpoints", "policy", "status.json"],
    "all but the policy": ["checkpoints", "progress.csv", "evaluations.csv"],
    "all but a word": ["checkpoints", "policy", "progress.csv", "evaluations.csv"],
}  # fmt: skip


@pytest.mark.parametrize("names", LOSSES.values(), ids=LOSSES)
def test_a_run_without_its_checkpoints_is_5_and_stays(finished, names):
    """Again and again: what the first refusal writes does not let the second one pass."""
    lose(finished, *names)
    before = contents(finished)
    for _ in range(2):
        result = command("resume", finished)
        assert result.code == 5
        assert "no checkpoint" in result.line
        after = contents(finished)
        for name in ("lock", "log.txt", "status.json"):
            before.pop(name, None), after.pop(name, None)
        assert after == before


def test_a_run_that_has_only_its_config_begins_anew(finished):
    """As one that was killed before its first checkpoint."""
    Path("runs/penfac/bare").mkdir()
    shutil.copy(finished / "config.json", "runs/penfac/bare")
    assert command("resume", "runs/penfac/bare").code == 0
    same_end(Path("runs/penfac/bare"), finished)


def test_a_run_has_a_checkpoint_before_its_first_row(monkeypatch):
    """Or a kill in its first seconds would leave rows that nothing belongs to."""
    found = []
    advance = HostEngine.advance

    def look(self, *args):
        found.append(contents(RUN))
        return advance(self, *args)

    monkeypatch.setattr(HostEngine, "advance", look)
    assert train("--checkpoint-every", "1h").code == 0
    assert "checkpoints/update-000000/state.json" in found[0]
    assert "policy/policy.safetensors" in found[0]


# --- a replay that is still empty -------------------------------------------------------

EMPTY = [
    "--env", f"{BAD}Plain-v0", "--steps=120", "--eval-every=60", "--eval-episodes=1",
    "--set=actor_hidden=4", "--set=critic_hidden=4", "--set=steps_per_world=20",
    "--set=replay=70", "--set=learning_starts=30", "--set=batch_size=8",
    "--set=gradient_steps=2",
]  # fmt: skip


@pytest.mark.parametrize("algo", slow_except(["ddpg", "td3"], "ddpg"))
def test_a_run_stopped_before_its_first_update_goes_on(algo):
    words = ["train", "--algo", algo, *EMPTY]
    assert command(*words, "--name", "whole").code == 0
    assert command(*words, "--name", "test", "--stop-after=0s").code == 0
    assert command("resume", f"runs/{algo}/test").code == 0
    same_end(Path(f"runs/{algo}/test"), Path(f"runs/{algo}/whole"))
    assert command(*words, "--into", "two", "--stop-after=0s").code == 0
    assert command("resume", "two").code == 0
    assert command("runs", "unpack", "two", "--out", "out").code == 0
    unpacked = next(Path("out", algo).iterdir())
    same_end(unpacked, Path(f"runs/{algo}/whole"))


# --- disks ------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(place: Path, options: str):
    """A file system of its own for this test; root alone may mount one."""
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if (
        os.geteuid()
        or subprocess.run(argv, capture_output=True, check=False).returncode
    ):
        pytest.skip("cannot mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize(
    "options", ["size=4k", "size=12k", "nr_inodes=3", "nr_inodes=5"]
)
def test_a_disk_full_at_the_start_leaves_what_a_command_takes(options, tmp_path):
    """Nothing at all, so that `train` can begin again, or a run that goes on."""
    with small_disk(tmp_path / "disk", options) as disk:
        result = train("--out", disk)
        assert result.code == 7, result
        assert "no space left on the disk" in result.line
        run = disk / "penfac" / "test"
        subprocess.run(
            ["mount", "-o", "remount,size=9m,nr_inodes=0", str(disk)], check=True
        )
        words = ("resume", run) if run.exists() else ("train", *PLAIN, "--name=test")
        more = () if run.exists() else ("--out", disk)
        assert command(*words, *more).code == 0
        assert status(run)["state"] == "finished"
        assert not list(disk.rglob(".tmp-*"))


NO_LOCKS = [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS]


@pytest.mark.parametrize("code", NO_LOCKS, ids=errno.errorcode.get)
def test_a_file_system_without_locks_trains_with_a_note(finished, monkeypatch, code):
    def refuse(file, how):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert command("runs", "pack", finished, "packed").code == 0
        result = command("resume", finished)
    assert (result.code, result.err) == (0, "")
    assert "this file system has no locks" in result.out


def test_a_run_folder_that_vanishes_is_7(monkeypatch):
    update = HostEngine._update

    def remove(self, *args):
        shutil.rmtree(RUN, ignore_errors=True)
        return update(self, *args)

    monkeypatch.setattr(HostEngine, "_update", remove)
    result = train("--checkpoint-every", "0s")
    assert result.code == 7
    assert str(RUN) in result.line


def test_rows_removed_while_the_run_writes_are_put_back(finished, monkeypatch):
    update, calls = HostEngine._update, []

    def remove(self, *args):
        calls.append(args)
        if len(calls) == 2:
            (RUN.parent / "holes" / "progress.csv").unlink()
            os.replace(RUN / "timing.csv", RUN.parent / "holes" / "evaluations.csv")
        return update(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(HostEngine, "_update", remove)
        assert train(name="holes").code == 0
    same_end(RUN.parent / "holes", finished)
    assert "was removed or replaced" in (RUN.parent / "holes" / "log.txt").read_text()


def test_rows_edited_while_the_run_writes_are_5(monkeypatch):
    update, calls = HostEngine._update, []

    def cut(self, *args):
        calls.append(args)
        if len(calls) == 2:
            os.truncate(RUN / "progress.csv", 9)
        return update(self, *args)

    monkeypatch.setattr(HostEngine, "_update", cut)
    result = train()
    assert result.code == 5
    assert "progress.csv: was edited or cut" in result.line
