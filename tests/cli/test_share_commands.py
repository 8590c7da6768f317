"""`penfac export` and `penfac card`, as they are typed."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.faults.commands import command
from tests.small_runs import LQR

from penfac.export import compiled
from penfac.policy import Policy

RUN = Path("runs/penfac/two")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two seeds, once."""
    home, before = tmp_path_factory.mktemp("trained"), Path.cwd()
    os.chdir(home)
    try:
        done = command("train", *LQR, "--seeds=4,7", "--name=two", "--eval-episodes=2")
    finally:
        os.chdir(before)
    assert done.code == 0, done.err
    return home


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    """A copy of it, to do as one likes."""
    shutil.copytree(trained / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- export --------------------------------------------------------------------------------


def test_export_writes_both_and_says_how_near_they_are(here):
    pytest.importorskip("onnxruntime")
    done = command("export", RUN, "--onnx", "a.onnx", "--c", "a.h")
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()[:2]
    assert first.startswith("a.onnx: ")
    assert "differs from the policy by at most " in first
    assert " of the range on 10,000 states" in first
    assert second.startswith("a.h: ")
    assert names(here) == ["a.h", "a.onnx", "runs"]  # nothing else is left


def test_export_as_json(here):
    pytest.importorskip("onnxruntime")
    done = command("export", RUN, "--onnx", "a.onnx", "--c", "a.h", "--json")
    said = json.loads(done.out)
    assert said["policy"] == str(RUN)
    assert [f["file"] for f in said["files"]] == ["a.onnx", "a.h"]
    for made in said["files"]:
        assert made["bytes"] == Path(made["file"]).stat().st_size
    assert 0 <= said["files"][0]["worst"] <= 1e-5


@pytest.mark.parametrize(
    ("where", "seed"),
    [
        (RUN, 4),
        (RUN / "seed-7", 7),
        (RUN / "seed-7" / "policy", 7),
        (RUN / "seed-7" / "policy" / "policy.safetensors", 7),
    ],
    ids=["run", "seed", "policy folder", "file"],
)
def test_every_place_a_policy_may_be(here, where, seed):
    done = command("export", where, "--c", "a.h")
    assert done.code == 0, done.err
    assert f"seed: {seed}\n" in Path("a.h").read_text()
    assert "void lqr_v0_act(" in Path("a.h").read_text()


def test_the_seed_is_chosen(here):
    assert command("export", RUN, "--seed", 7, "--c", "a.h").code == 0
    assert "seed: 7\n" in Path("a.h").read_text()


def test_the_name_is_chosen(here):
    assert command("export", RUN, "--c", "a.h", "--name", "robot").code == 0
    assert "void robot_act(" in Path("a.h").read_text()


def test_without_a_compiler_it_is_said(here, monkeypatch):
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    done = command("export", RUN, "--c", "a.h")
    assert done.code == 0
    assert "not compiled: no C compiler here" in done.out
    said = json.loads(command("export", RUN, "--c", "a.h", "--json").out)
    assert said["files"][0]["worst"] is None


def test_nothing_is_replaced_before_the_check(here, monkeypatch):
    """One of two that is wrong: neither file is touched."""
    pytest.importorskip("onnxruntime")
    if compiled.compiler() is None:
        pytest.skip("no C compiler here")
    from penfac.export import c

    for name in ("a.onnx", "a.h"):
        Path(name).write_text("as it was")
    right = c.c_header
    wrong = lambda *a: right(*a).replace("/ 2.0", "/ 2.5")  # noqa: E731
    with monkeypatch.context() as for_now:
        for_now.setattr(c, "c_header", wrong)
        done = command("export", RUN, "--onnx", "a.onnx", "--c", "a.h")
    assert done.code == 5
    assert "nothing written" in done.line
    assert {Path(name).read_text() for name in ("a.onnx", "a.h")} == {"as it was"}
    assert command("export", RUN, "--onnx", "a.onnx", "--c", "a.h").code == 0
    assert Path("a.h").read_text().startswith("/*")


REFUSED = {
    "nowhere to write": (["export", RUN], 2, "--onnx FILE.onnx or --c FILE.h"),
    "no such run": (["export", "nowhere", "--c", "a.h"], 2, "no such run folder"),
    "no run": (["export", "runs", "--c", "a.h"], 2, "not a run folder"),
    "no such folder": (["export", RUN, "--c", "no/a.h"], 2, "there is no folder no; make it"),
    "a folder": (["export", RUN, "--c", "d.h"], 2, "is a folder"),
    "another ending": (["export", RUN, "--onnx", "a.h"], 2, "must end in .onnx"),
    "another ending in C": (["export", RUN, "--c", "a.c"], 2, "must end in .h"),
    "no C name": (["export", RUN, "--c", "a.h", "--name", "3d"], 2, "must be a C name"),
    "a name for nothing": (
        ["export", RUN, "--onnx", "a.onnx", "--name", "x"], 2, "give --c FILE.h",
    ),
    "no such seed": (["export", RUN, "--c", "a.h", "--seed", 5], 2, "it has 4, 7"),
    "another seed than the file's": (
        ["export", RUN / "seed-4" / "policy", "--c", "a.h", "--seed", 7], 2, "the policy of seed 4",
    ),
    "a card of nothing": (["card", "nowhere"], 2, "no such run folder"),
    "a card elsewhere": (["card", RUN, "--out", "no/a.md"], 2, "there is no folder no"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(here, what):
    Path("d.h").mkdir()
    words, code, says = REFUSED[what]
    before = names(here)
    done = command(*words)
    assert done.code == code
    assert says in done.line
    assert names(here) == before


@pytest.mark.parametrize("where", [RUN, RUN / "seed-4" / "policy"])
def test_a_damaged_policy_is_refused(here, where):
    file = RUN / "seed-4" / "policy" / "policy.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    done = command("export", where, "--c", "a.h")
    assert done.code == 5
    assert "sha256" in done.line
    assert not Path("a.h").exists()


def test_a_run_without_a_policy_is_refused(here):
    shutil.rmtree(RUN / "seed-4" / "policy")
    for words in (["export", RUN, "--c", "a.h"], ["card", RUN]):
        done = command(*words)
        assert done.code == 2
        assert "has no policy yet" in done.line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_refuses_is_told(here):
    locked = here / "locked"
    locked.mkdir(mode=0o500)
    done = command("export", RUN, "--c", locked / "a.h")
    assert done.code == 7
    assert "no permission to write" in done.line


# --- card ----------------------------------------------------------------------------------


def test_a_card_of_several_seeds_is_in_the_run(here):
    done = command("card", RUN)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{RUN / 'README.md'}: return ")
    assert "over 2 seeds" in done.out
    text = (RUN / "README.md").read_text()
    _, matter, page = text.split("---\n", 2)
    (value,) = re.findall(r'^      value: "(.*)"$', matter, re.M)
    assert f"**{value}**" in page
    assert "penfac train --env=penfac/LQR-v0" in text


def test_a_card_of_one_seed_is_beside_its_policy(here):
    done = command("card", RUN / "seed-7", "--json")
    said = json.loads(done.out)
    file = RUN / "seed-7" / "policy" / "README.md"
    assert said["card"] == str(file)
    assert said["over"] == "2 episodes of 1 seed"
    assert file.is_file()
    Policy.load(RUN / "seed-7")  # which is not in its way


def test_a_card_goes_where_it_is_wanted(here):
    assert command("card", RUN, "--out", "CARD.md").code == 0
    assert Path("CARD.md").is_file()
    assert not (RUN / "README.md").exists()


def test_a_card_says_what_the_evaluations_say(here):
    from penfac.runs.csv_files import read_csv

    said = json.loads(command("card", RUN, "--json").out)
    means = []
    for seed in (4, 7):
        rows = read_csv(RUN / f"seed-{seed}" / "evaluations.csv")
        last = [float(r["return"]) for r in rows if r["step"] == rows[-1]["step"]]
        means.append(np.mean(last))
    assert said["mean"] == pytest.approx(np.mean(means))
    assert said["spread"] == pytest.approx(np.std(means, ddof=1))
