"""Checkpoints and replays whose seal is right and whose content no run would write, and
damaged ones that a run goes on beside."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.faults.commands import BAD, TINY, command
from tests.faults.test_run_folders import forge

from penfac.errors import CorruptFile
from penfac.runs import checkpoints
from penfac.runs.checkpoints import Meta
from penfac.runs.folder import RunFolder

RUN = Path("runs/penfac/test")
PLAIN = ["--env", f"{BAD}Plain-v0", *TINY]
DEEP: list = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    words = [*PLAIN, "--name=test", "--checkpoint-every=0s", "--out", out]
    assert command("train", *words).code == 0
    return out


@pytest.fixture
def finished(one_run):
    shutil.copytree(one_run, "runs")
    return RUN


COUNTERS = ("update", "step", "episode", "evaluations", "next_eval", "evaluated_at",
            "faults")  # fmt: skip
VALUES = {
    "negative": -7,
    "past 32 bits": 2**40,
    "past 64 bits": 2**70,
    "endless": 10**400,
    "a fraction": 1.5,
    "a word": "7",
    "true": True,
    "none": None,
    "a list": [1],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_counters_that_no_run_counts(finished, value):
    """Refused, or harmless: the run has come far already and ends at once."""
    for key in COUNTERS:
        copy = RUN.parent / key
        shutil.copytree(finished, copy)
        forge(copy, lambda arrays, meta, key=key: meta["counters"].update({key: value}))
        result = command("resume", copy, "-n", 200)
        assert result.code in (0, 5), (key, result)
        assert result.code == 0 or result.line
        shutil.rmtree(copy)


FIELDS = {
    "identity": [None, [], 7, {"config": 7}, {"config": DEEP}, {}],
    "counters": [None, [], {}, {"update": 2}, {"step": DEEP}],
    "versions": [None, 7, {"jax": 7}, DEEP],
    "update": [None, -1, 10**400, "1", DEEP],
    "csv": [None, [], {"progress.csv": None}, {"progress.csv": {"bytes": -1}}, DEEP],
    "replay": [None, 7, {}, {"capacity": 0, "segments": []}, DEEP],
    "format": [0, -1, None, DEEP],
}


@pytest.mark.parametrize("field", FIELDS)
def test_fields_that_no_run_writes(finished, field):
    before = (finished / "progress.csv").read_bytes()
    for value in FIELDS[field]:
        copy = RUN.parent / "copy"
        shutil.copytree(finished, copy)
        forge(copy, lambda arrays, meta, value=value: meta.update({field: value}))
        result = command("resume", copy)
        assert result.code in (0, 2, 5), (value, result)
        assert result.code == 0 or result.line
        assert (copy / "progress.csv").read_bytes() == before
        shutil.rmtree(copy)


# --- a replay ---------------------------------------------------------------------------

META = Meta({}, {"step": 1}, {})
CAPACITY = 20


def state(total: int) -> dict[str, np.ndarray]:
    """A ring of twenty steps, each the number of its step."""
    ring = np.zeros(CAPACITY, np.float32)
    steps = np.arange(max(0, total - CAPACITY), total)
    ring[steps % CAPACITY] = steps
    return {
        "state.w": np.full(3, total, np.float32),
        "state.replay.total": np.array(total, np.int32),
        "state.replay.rows.obs": ring,
        "state.replay.rows.follows": ring > 0,
    }


@pytest.fixture
def replay(tmp_path) -> RunFolder:
    """Three checkpoints saved, two kept; the ring has gone round."""
    folder = RunFolder(tmp_path)
    for update in (1, 2, 3):
        folder.save_checkpoint(update, state(9 * update), META)
    return folder


def newest(folder: RunFolder) -> Path:
    return folder.path / "checkpoints" / "update-000003"


def reseal(folder: RunFolder, change) -> None:
    file = newest(folder) / "state.json"
    document = json.loads(file.read_text())
    change(document)
    document["seal"] = checkpoints.seal(document)
    file.write_text(json.dumps(document))


def check_it_goes_on(path: Path, update: int) -> None:
    """This one counts; the next one is saved beside what is damaged, and then counts."""
    folder = RunFolder(path)
    found = folder.load_checkpoint()
    assert found is not None
    assert found.meta.update == update
    for key, array in state(9 * update).items():
        assert found.arrays[key].tobytes() == array.tobytes(), key
    for after in (update + 1, update + 2):
        folder.save_checkpoint(after, state(9 * after), META)
    again = RunFolder(path).load_checkpoint()
    assert again is not None
    assert (again.meta.update, again.complaints) == (update + 2, [])
    for key, array in state(9 * (update + 2)).items():
        assert again.arrays[key].tobytes() == array.tobytes(), key


def test_a_replay_comes_back(replay):
    check_it_goes_on(replay.path, 3)


def test_flipped_bits_in_state_json_are_passed_over(replay, tmp_path):
    """At each place one of its bits: what cannot be read is not needed to go on."""
    data = (newest(replay) / "state.json").read_bytes()
    copies = tmp_path / "copies"
    for place in range(0, len(data), 19):
        copy = copies / str(place)
        shutil.copytree(replay.path, copy, ignore=shutil.ignore_patterns("copies"))
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        (copy / "checkpoints" / "update-000003" / "state.json").write_bytes(flipped)
        try:
            same = json.loads(flipped) == json.loads(data)  # white space may differ
        except ValueError:
            same = False
        check_it_goes_on(copy, 3 if same else 2)
        shutil.rmtree(copy)


CONTENTS = {
    "nothing": "",
    "none": "null",
    "a list": "[]",
    "a word": '"replay"',
    "deep": "[" * 100_000,
    "no replay": '{"replay": null}',
    "a replay of words": '{"replay": {"capacity": "x", "segments": "y"}}',
    "a segment elsewhere": (
        '{"replay": {"capacity": 9, "segments": [{"file": "../../x", "first": 0, '
        '"rows": 9, "sha256": ""}]}}'
    ),
    "no text": "\udcff\udcfe",
}


@pytest.mark.parametrize("text", CONTENTS.values(), ids=CONTENTS)
def test_a_spoiled_state_json_is_passed_over(replay, text):
    data = text.encode("utf-8", "surrogateescape")
    (newest(replay) / "state.json").write_bytes(data)
    check_it_goes_on(replay.path, 2)


def segment(**values):
    return lambda document: document["replay"]["segments"][-1].update(values)


REPLAYS = {
    "a huge first": segment(first=2**50),
    "a negative first": segment(first=-1),
    "many rows": segment(rows=2**50),
    "endless rows": segment(rows=10**400),
    "a row less": segment(rows=9),
    "a file elsewhere": segment(file="../../victim"),
    "a file with a zero": segment(file="steps-\0.safetensors"),
    "another file": segment(file=f"steps-{7:012d}-{9:012d}.safetensors"),
    "no sum": segment(sha256=None),
    "no segment": lambda d: d["replay"].update(segments=[None]),
    "a segment twice": lambda d: d["replay"]["segments"].reverse(),
    "the newest missing": lambda d: d["replay"]["segments"].pop(),
    "the oldest missing": lambda d: d["replay"]["segments"].pop(0),
    "a capacity of zero": lambda d: d["replay"].update(capacity=0),
    "a negative capacity": lambda d: d["replay"].update(capacity=-5),
    "a huge capacity": lambda d: d["replay"].update(capacity=2**52),
    "an endless capacity": lambda d: d["replay"].update(capacity=10**400),
}


@pytest.mark.parametrize("change", REPLAYS.values(), ids=REPLAYS)
def test_a_forged_replay_is_passed_over(replay, change):
    reseal(replay, change)
    check_it_goes_on(replay.path, 2)


def test_a_segment_that_is_no_file_is_passed_over(replay):
    last = max((replay.path / "replay").iterdir())
    last.unlink()
    last.mkdir()
    found = RunFolder(replay.path).load_checkpoint()
    assert found is not None
    assert found.meta.update == 2


def test_a_damaged_replay_is_written_again(replay):
    """The same update is saved anew: its state verifies, but its replay does not."""
    last = max((replay.path / "replay").iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    folder = RunFolder(replay.path)
    found = folder.load_checkpoint()
    assert found is not None
    assert found.meta.update == 2
    folder.save_checkpoint(3, state(27), META)
    again = RunFolder(replay.path).load_checkpoint()
    assert again is not None
    assert (again.meta.update, again.complaints) == (3, [])


def test_a_newer_one_that_is_damaged_does_not_push_out_a_good_one(replay):
    """Whatever its number: what has just been saved is kept."""
    for number in (98, 99):
        shutil.copytree(
            newest(replay), newest(replay).with_name(f"update-{number:06d}")
        )
        place = newest(replay).with_name(f"update-{number:06d}") / "state.safetensors"
        place.write_bytes(b"")
    check_it_goes_on(replay.path, 3)


@pytest.mark.parametrize("size", [2**40, 2**33])
def test_a_file_that_is_all_hole_is_not_read(replay, size):
    """A sparse file takes no room on the disk, and all memory when it is read."""
    for name in ("state.json", "state.safetensors"):
        copy = newest(replay).with_name("update-000004")
        shutil.copytree(newest(replay), copy)
        with open(copy / name, "r+b") as file:
            file.truncate(size)
        with pytest.raises(CorruptFile, match=r"(has|incomplete)"):
            checkpoints.read_checkpoint(copy)
        shutil.rmtree(copy)
