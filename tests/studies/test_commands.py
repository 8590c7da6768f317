"""`penfac study`: what it answers, and one line for whatever cannot be."""

import json
import sys
from pathlib import Path

import pytest
from tests.faults.commands import command, command_alone
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.small_study import LQR, SETTINGS
from tests.studies.study_folders import snapshot

from penfac.studies.paper import PAPER

VERBS = ("list", "show", "run", "status", "report")
ARM = "".join(f"{key} = {json.dumps(value)}\n" for key, value in SETTINGS.items())
TABLE = f"""\
title = "Wide or narrow?"
envs = ["{LQR}"]
steps = 200
seeds = 2
eval_every = 100
eval_episodes = 1

[arms.wide]
{ARM}sigma = 0.4

[arms.narrow]
{ARM}sigma = 0.1

[[claims]]
words = "Wide is better."
compare = "wide above narrow"
"""


@pytest.fixture
def mine() -> Path:
    Path("mine.toml").write_text(TABLE)
    return Path("mine.toml")


def strict(text: str):
    """One JSON document as the standard has it, and nothing else."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


# --- what it answers -----------------------------------------------------------------------


def test_help_names_every_verb():
    result = command("study", "--help")
    assert (result.code, result.err) == (0, "")
    for verb in VERBS:
        assert f"\n  {verb} " in result.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(verb):
    result = command("study", verb, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: penfac study {verb}" in result.out
    assert "--json" in result.out


def test_study_alone_shows_its_help():
    result = command("study")
    assert result.code == 2
    assert "Usage: penfac study" in result.out


def test_the_list_has_every_study_of_the_paper():
    shown, document = command("study", "list"), command("study", "list", "--json")
    assert (shown.code, shown.err, document.code) == (0, "", 0)
    assert [row["name"] for row in strict(document.out)] == list(PAPER)
    assert all(name in shown.out for name in PAPER)


@pytest.mark.parametrize("fidelity", ["authors", "tuned"])
@pytest.mark.parametrize("name", PAPER)
def test_a_study_of_the_paper_is_shown(name, fidelity):
    shown = command("study", "show", name, f"--fidelity={fidelity}")
    document = command("study", "show", name, f"--fidelity={fidelity}", "--json")
    assert (shown.code, shown.err, document.code, document.err) == (0, "", 0, "")
    study = strict(document.out)
    assert (study["name"], study["fidelity"]) == (name, fidelity)
    for arm in study["arms"]:
        assert f"  {arm['name']}: {arm['algo']}, preset {arm['preset']}" in shown.out
    for claim in study["claims"]:
        assert claim["words"] in shown.out


def test_a_python_file_may_print_and_json_stays_json():
    """In a process of its own: what is printed goes elsewhere by its number."""
    Path("mine.py").write_text(
        "print('thinking')\nfrom penfac.studies.spec import *\n"
        f"study = Study('s', 't', (Arm('a'),), ('{LQR}',))\n"
    )
    result = command_alone("study", "show", "mine.py", "--json", cwd=Path.cwd())
    assert result.code == 0
    assert strict(result.out)["name"] == "s"


def test_run_status_and_report(mine):
    """From nothing to a page, in a folder of the study's name."""
    ran = command("study", "run", mine, "--on=device")
    assert (ran.code, ran.err) == (0, "")
    home = Path("studies/mine")
    assert "4 runs to go, 800 steps in all" in ran.out
    assert "finished: 4 finished" in ran.out
    assert f"report: penfac study report {home}" in ran.out
    table, standing = (
        command("study", "status", home),
        command("study", "status", home, "--json"),
    )
    assert (table.code, table.err, standing.code) == (0, "", 0)
    assert "mine: 4 of 4 runs finished" in table.out
    told = strict(standing.out)
    assert (told["runs"], told["finished"], len(told["arms"])) == (4, 4, 2)
    assert all(row["steps"] == 1 for row in told["arms"])
    report = command("study", "report", home)
    assert (report.code, report.err) == (0, "")
    assert '"Wide is better."' in report.out
    page = home / "report" / "index.html"
    assert f"page: {page}" in report.out
    assert "Wide or narrow?" in page.read_text()
    document = command("study", "report", home, "--into=elsewhere", "--json")
    assert (document.code, document.err) == (0, "")
    assert strict(document.out)["findings"]["counts"]["finished"] == 4
    assert page.read_bytes() == Path("elsewhere/index.html").read_bytes()
    watched = command("study", "status", home, "--watch")  # all is done: it ends
    assert (watched.code, watched.err) == (0, "")


def test_a_study_that_has_no_run_yet_has_a_status_and_a_report(mine):
    ran = command("study", "run", mine, "--stop-after=0s", "--name=n", "--out=o")
    assert (ran.code, ran.err) == (0, "")
    assert "stopped after the time given: 4 missing" in ran.out
    told = strict(command("study", "status", "o/n", "--json").out)
    assert told["missing"] == 4
    report = command("study", "report", "o/n")
    assert (report.code, report.err) == (0, "")
    assert "not run" in report.out


def test_failed_runs_are_a_line_each_and_exit_code_9(mine):
    mad = "critic_lr = 1e30\nactor_lr = 1e30\n"
    mine.write_text(TABLE.replace("sigma = 0.1\n", f"sigma = 0.1\n{mad}"))
    result = command("study", "run", mine, "--on=device")
    assert result.code == 9
    assert "2 of 4 runs failed: 2 finished, 2 failed" in result.out
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"penfac: {LQR} narrow seed 0: ")


# --- what is refused ------------------------------------------------------------------------


def refused(*argv: object, code: int = 2) -> str:
    """One line on stderr, nothing on stdout, nothing made or changed."""
    before = snapshot(Path())
    result = command(*argv)
    assert (result.code, result.out) == (code, ""), result
    assert snapshot(Path()) == before
    return result.line


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "fig9"], "no such study; did you mean fig"),
        (["show", "nothing-like-it"], "no such study"),
        (["run", "fig9"], "no such study"),
        (["run", "none.toml"], "none.toml"),
        (["run", "none.py"], "none.py"),
        (["show", "."], "must be a name from `penfac study list`"),
        (["run", "fig1", "--fidelity=x"], "--fidelity x: must be authors or tuned"),
        (["show", "fig1", "--fidelity="], "--fidelity"),
        (["run"], "Missing argument"),
        (["walk"], "No such command"),
        (["status", "nowhere"], "nowhere: is not a study folder"),
        (["report", "nowhere"], "nowhere: is not a study folder"),
        (["status", "."], "not a study folder"),
    ],
)
def test_what_is_no_study_is_refused(words, why):
    assert why in refused("study", *words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--seeds=1,1"], "1 is listed twice"),
        (["--seeds=1"], "--seeds 1: must be at least 2"),
        (["--seeds=0"], "--seeds 0"),
        (["--seeds=many"], "--seeds many"),
        (["--seeds=,"], "--seeds 0"),
        (["--seeds=-1,2"], "--seed -1"),
        (["--on=x"], "--on x: must be one of local, ray, device"),
        (["--processes=0"], "--processes 0"),
        (["--processes=x"], "--processes"),
        (["--steps=0"], "--steps 0"),
        (["--steps=x"], "--steps x"),
        (["--eval-every=0"], "--eval-every 0"),
        (["--eval-episodes=-1"], "--eval-episodes -1"),
        (["--name=../x"], "--name ../x"),
        (["--name="], "--name"),
        (["--stop-after=soon"], "--stop-after soon"),
        (["--slice=0"], "--slice 0"),
        (["--env-timeout=0s"], "--env-timeout 0s"),
        (["--what=x"], "No such option"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(words, why, mine):
    assert why in refused("study", "run", mine, *words)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("wide above narrow", "wide above wider"), "wider is not an arm"),
        (("seeds = 2", "seedz = 2"), "seedz: no such key; did you mean seeds"),
        (("sigma = 0.4", "sigmo = 0.4"), "arm wide on penfac/LQR-v0"),
        (("[arms.narrow]", "[arms.wide]"), "mine.toml"),
        (("steps = 200", "steps = inf"), "steps = inf"),
        (("steps = 200", "steps = nan"), "steps = nan"),
        (("steps = 200", "steps = true"), "steps = True"),
        (("seeds = 2", "seeds = -2"), "seeds = -2"),
        (("seeds = 2", "seeds = [1, 2]"), "seeds = [1, 2]"),
        ((f'envs = ["{LQR}"]', "envs = 7"), "envs = 7"),
        ((f'envs = ["{LQR}"]', "envs = [7]"), "envs = [7]"),
        ((LQR, "penfac/LRQ-v0"), "penfac/LRQ-v0"),
        (('"Wide or narrow?"', "7"), "title = 7"),
        (('title = "Wide or narrow?"', 'name = "../x"'), "'../x'"),
        (('title = "Wide or narrow?"', 'fidelity = "a/b"'), "'a/b'"),
        (("sigma = 0.4", "sigma = 1979-05-27"), "arm wide"),
        (("sigma = 0.4", "sigma = nan"), "arm wide"),
        (('words = "Wide is better."', "words = 7"), "7"),
        (('words = "Wide is better."', "margin = nan"), "margin nan"),
        (('words = "Wide is better."', 'margin = "a"'), "margin a"),
        (('words = "Wide is better."', "measure = []"), "measure []"),
        (('compare = "wide above narrow"', "compare = 7"), "compare = 7"),
        (('compare = "wide above narrow"', "compare = []"), "must compare two arms"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused(change, why, mine):
    assert change[0] in TABLE
    mine.write_text(TABLE.replace(*change))
    assert why in refused("study", "run", mine)


def test_a_folder_of_other_things_is_busy(mine):
    Path("studies/mine").mkdir(parents=True)
    Path("studies/mine/thesis.txt").touch()
    assert "is not a study" in refused("study", "run", mine, code=6)


def test_a_file_where_the_folder_should_be(mine):
    Path("studies").mkdir()
    Path("studies/mine").touch()
    refused("study", "run", mine, code=6)


def test_a_torn_study_is_a_corrupt_file(mine):
    Path("studies/mine").mkdir(parents=True)
    Path("studies/mine/study.json").write_text('{"format": 1, ')
    for words in (
        ["run", mine],
        ["status", "studies/mine"],
        ["report", "studies/mine"],
    ):
        assert "not a study that penfac wrote" in refused("study", *words, code=5)


def test_ray_that_is_not_installed_is_named(mine, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "penfac[ray]" in refused("study", "run", mine, "--on=ray")
