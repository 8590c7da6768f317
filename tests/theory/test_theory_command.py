"""`penfac theory`: the table, one statement, its picture, JSON, and what is refused."""

import json
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from penfac import cli
from penfac.cli import theory
from penfac.errors import ConfigError, StorageError
from penfac.theory import statements

FEW = ("optimum-cacla", "lemma-4-1-finite", "theorem-5-2", "theorem-5-2-half")


@pytest.fixture
def few(monkeypatch):
    """A table of four statements that take no time."""
    kept = {name: statements.STATEMENTS[name] for name in FEW}
    monkeypatch.setattr(statements, "STATEMENTS", kept)


def ran(*arguments: str):
    return CliRunner().invoke(cli.app, ["theory", *arguments], catch_exceptions=False)


def test_the_table_has_a_row_for_each_and_ends_well_though_some_fail(few):
    documents = theory.check_all(quiet=True)
    assert [d["name"] for d in documents] == list(FEW)
    assert [d["holds"] for d in documents] == [True, False, False, True]
    done = ran()
    assert done.exit_code == 0


def test_the_printed_table(few, capsys):
    theory.print_table(theory.check_all(quiet=True))
    told = capsys.readouterr().out
    for name in FEW:
        assert name in told
    assert told.count("FAILS") == 2
    assert told.count("holds") == 2
    assert "4 statements, 2 fail" in told
    assert "17.86" in told
    assert "0.2016" in told


def test_one_statement_is_explained_with_its_numbers(capsys):
    assert theory.theory("theorem-5-2") == 0
    told = capsys.readouterr().out
    assert told.startswith("theorem-5-2 (Theorem 5.2; printed): FAILS")
    assert "left: what is bounded" in told
    assert "quantity at gamma 0.6" in told


def test_json_is_one_document_and_nothing_else(few, capfd):
    assert theory.theory(json_=True) == 0
    document = json.loads(capfd.readouterr().out)
    assert [d["name"] for d in document] == list(FEW)
    assert set(document[0]) >= {
        "name", "says", "left", "right", "gap", "holds", "seconds", "numbers",
    }  # fmt: skip
    assert theory.theory("optimum-cacla", json_=True) == 0
    assert json.loads(capfd.readouterr().out)["holds"] is True


def test_a_picture_is_written_where_it_is_wanted(tmp_path, capsys):
    file = tmp_path / "new" / "optimum.png"
    assert theory.theory("optimum-cac", picture=file) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert str(file) in capsys.readouterr().out


def test_a_picture_needs_a_statement_a_suffix_and_a_place(tmp_path):
    with pytest.raises(ConfigError, match="name one statement"):
        theory.theory(picture=tmp_path / "x.png")
    with pytest.raises(ConfigError, match=r"must end in \.png"):
        theory.theory("optimum-cac", picture=tmp_path / "x.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        theory.theory("optimum-cac", picture=tmp_path / "file" / "x.png")


def test_an_unknown_name_ends_with_a_suggestion_and_exit_code_2():
    program = [sys.executable, "-m", "penfac", "theory", "lema-4-1"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "lema-4-1: no such statement; did you mean lemma-4-1?" in done.stderr
    with pytest.raises(ConfigError, match="no such statement"):
        theory.find_statement("zzzz")


def test_help_names_the_command_and_loads_no_scipy():
    program = (
        "import sys, penfac.cli\n"
        "assert not {'scipy', 'jax', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert "theory" in typer.main.get_command(cli.app).commands
