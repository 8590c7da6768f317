"""Forged config.json and study.json: a line and 2 or 5, whatever value is where."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.commands import TINY, command
from tests.faults.forged import forgeries
from tests.runs.test_run_config import CONFIGS
from tests.studies.small_study import run_study, small
from tests.studies.study_folders import run_nothing
from tests.tiers import slow_except

from penfac.errors import ConfigError, CorruptFile, one_line
from penfac.runs.config import parse_config
from penfac.studies.plan import groups, make_plan, read_plan
from penfac.studies.spec import of_table, to_table

FILE = Path("run/config.json")
STUDY = Path("study")


def fits(line: str) -> bool:
    return 10 < len(line) <= 1000 and line.isprintable()


@pytest.mark.parametrize("name", slow_except(CONFIGS, "a search"))
def test_a_forged_config_is_read_or_refused_with_a_line(name):
    refused = {}
    for what, forged in forgeries(CONFIGS[name].to_document()):
        try:
            parse_config(FILE, forged)
        except (ConfigError, CorruptFile) as error:
            refused[what] = one_line(str(error))
    assert len(refused) > 1000
    assert not {what: line for what, line in refused.items() if not fits(line)}


def test_a_forged_study_is_read_or_refused_with_a_line(tmp_path):
    (tmp_path / "study.json").write_text("{}")
    refused = {}
    document = make_plan(small(), (0, 1), "auto", "penfac study run").to_document()
    for what, forged in forgeries(document):
        (tmp_path / "study.json").write_text(json.dumps(forged))
        try:
            planned = read_plan(tmp_path)
            if not len(refused) % 10:
                groups(tmp_path, planned)
        except (ConfigError, CorruptFile) as error:
            refused[what] = one_line(str(error))
    assert len(refused) > 500
    assert not {what: line for what, line in refused.items() if not fits(line)}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff", "[" * 100_000])
def test_a_study_that_is_no_study_is_5(text):
    STUDY.mkdir()
    (STUDY / "study.json").write_bytes(text.encode("latin-1"))
    for verb in ("status", "report"):
        result = command("study", verb, STUDY)
        assert result.code == 5
        assert "study.json" in result.line


def test_a_whole_number_may_be_written_as_1e6():
    assert of_table(to_table(small()) | {"steps": 1e6}).steps == 1_000_000


# --- through the commands -------------------------------------------------------------------

SEARCH = [
    "--configs=2", "--halvings=1", "--seeds=3", "--processes=1", "--name=two",
    *(word for word in TINY if not word.startswith("--set=sigma")), "--stop-after=0s",
]  # fmt: skip
LINES = "a\nb\x1b[2J"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run, and a search that was not begun."""
    out = tmp_path_factory.mktemp("made")
    lqr = ("--env", "penfac/LQR-v0")
    assert command("train", *lqr, *TINY, "--out", out, "--name", "one").code == 0
    assert command("tune", *lqr, *SEARCH, "--out", out).code == 0
    return out


COMMANDS = {
    "eval": ("eval", "one", "--episodes", 1),
    "card": ("card", "one"),
    "plot": ("plot", "one"),
    "export": ("export", "one", "--c", "x.h"),
    "pack": ("runs", "pack", "one", "packed"),
    "resume": ("resume", "one", "--stop-after", "0s"),
}
FORGED = [  # what no checkpoint has
    {"steps": 10**30}, {"steps": 1}, {"preset": LINES}, {"preset": "/dev/zero"},
    {"command": LINES}, {"command": None}, {"created": LINES}, {"penfac": LINES},
    {"versions": {LINES: LINES}}, {"versions": 1}, {"study": LINES}, {"seeds": [2**32]},
    {"arms": {"a": {}}, "alive": ["a"]}, {"search": {}}, {"extra": [1]},
]  # fmt: skip


@pytest.mark.parametrize("name", slow_except(COMMANDS, "eval", "card"))
def test_forged_words_and_budgets_end_well(name, made, tmp_path):
    run = Path(shutil.copytree(made / "penfac" / "one", tmp_path / "one"))
    original = json.loads((run / "config.json").read_text())
    for changed in FORGED:
        shutil.rmtree("packed.csv", ignore_errors=True)
        for file in Path().glob("packed.*"):
            file.unlink()
        (run / "config.json").write_text(json.dumps(original | changed))
        result = command(*COMMANDS[name])
        assert result.code in (0, 2, 5), (changed, result)
        assert result.code == 0 or result.line
        assert "\x1b" not in result.out + result.err


@pytest.mark.parametrize(
    "changed",
    [
        {"halvings": 10**30}, {"halvings": -1}, {"halvings": 2}, {"configs": 3},
        {"configs": -1}, {"processes": -1}, {"processes": 10**30}, {"seed": -1},
        {"space": {"no_setting": [1]}},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_search_is_2(changed, made, tmp_path):
    run = Path(shutil.copytree(made / "tune" / "penfac" / "two", tmp_path / "two"))
    document = json.loads((run / "config.json").read_text())
    document["search"] |= changed
    (run / "config.json").write_text(json.dumps(document))
    result = command("resume", run)
    assert result.code == 2
    assert f"search.{next(iter(changed))}" in result.line


def test_a_forged_study_folder_ends_well(monkeypatch):
    run_nothing(monkeypatch)
    run_study(STUDY, small())
    original = json.loads((STUDY / "study.json").read_text())
    study = original["study"]
    for changed in (
        {"study": study | {"envs": ["y" * 3000]}},
        {"study": study | {"steps": 10**30}},
        {"study": study | {"arms": [arm | {"on": 1} for arm in study["arms"]]}},
        {"seeds": [2**32, 1]},
        {"versions": {"jax": LINES}},
        {"command": LINES, "penfac": LINES, "created": LINES},
    ):
        (STUDY / "study.json").write_text(json.dumps(original | changed))
        result = command("study", "status", STUDY)
        assert result.code in (0, 2, 5), changed
        assert result.code == 0 or result.line
        assert "\x1b" not in result.out + result.err
