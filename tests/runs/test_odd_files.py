"""Something else lies where a run folder has its files."""

import numpy as np
import pytest

from penfac.errors import CorruptFile
from penfac.runs.checkpoints import Meta
from penfac.runs.csv_files import read_csv
from penfac.runs.folder import RunFolder

ROW = {"update": 1, "step": 10}
ARRAYS = {"weights": np.ones(3, np.float32)}


def test_a_folder_in_the_place_of_a_table(tmp_path):
    (tmp_path / "progress.csv").mkdir()
    with pytest.raises(CorruptFile, match=r"progress\.csv: is a folder"):
        read_csv(tmp_path / "progress.csv")
    with pytest.raises(CorruptFile, match=r"progress\.csv: is a folder"):
        RunFolder(tmp_path).append("progress.csv", [ROW])


def test_nothing_is_added_to_a_table_of_others(tmp_path):
    """An environment may have written it before the first row."""
    (tmp_path / "progress.csv").write_text("a,b\n1,2\n")
    with pytest.raises(CorruptFile, match="not a table that penfac wrote"):
        RunFolder(tmp_path).append("progress.csv", [ROW])
    assert (tmp_path / "progress.csv").read_text() == "a,b\n1,2\n"


def test_a_file_in_the_place_of_a_checkpoint_makes_way(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "update-000001").write_text("not a folder")
    folder = RunFolder(tmp_path)
    folder.append("progress.csv", [ROW])
    folder.save_checkpoint(1, ARRAYS, Meta({}, {}, {}))
    found = folder.load_checkpoint()
    assert found is not None
    assert np.array_equal(found.arrays["weights"], ARRAYS["weights"])
    folder.close()


def test_any_text_can_be_logged(tmp_path):
    """An error's text may hold half a character."""
    RunFolder(tmp_path).log("the motor said \udcff")
    assert "the motor said \\udcff" in (tmp_path / "log.txt").read_text()
