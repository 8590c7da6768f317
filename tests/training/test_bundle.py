"""A run as two files: what --into leaves, that folders come out of them with the bytes they
would have had, and that what is damaged is refused."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from tests.faults.commands import (
    BAD,
    TINY,
    at,
    command,
    met_by_signals,
    newest_checkpoint,
    same_end,
    status,
)
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import (
    ARMS,
    LQR,
    ended_alike,
    learners,
    left,
    signal_at_update,
    write_arms,
)

from penfac.runs.csv_files import read_csv
from penfac.runs.storage import Lock
from penfac.training import bundle

SIGNATURE = b"\x89PNG\r\n\x1a\n"
OUT = Path("out")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same two arms of two seeds as folders and as a bundle: (run, file)."""
    home = tmp_path_factory.mktemp("pair")
    arms = write_arms(home / "arms.toml", ARMS)
    words = ["train", *LQR, "--arms", arms, "--seeds", 2]
    assert command(*words, "--out", home, "--name", "run").code == 0
    (home / "files").mkdir()
    result = command(*words, "--into", home / "files" / "small")
    assert (result.code, result.err) == (0, "")
    return home / "penfac" / "run", home / "files" / "small.safetensors"


@pytest.fixture
def copy(pair):
    """A bundle to damage: small.csv and small.safetensors where the test runs."""
    for file in bundle.names(pair[1]):
        shutil.copy(file, file.name)
    return Path("small.csv"), Path("small.safetensors")


def unpacked(file: Path, out: Path = OUT) -> Path:
    """The run that comes out of a bundle."""
    result = command("runs", "unpack", file, "--out", out, "--json")
    assert (result.code, result.err) == (0, "")
    run = Path(json.loads(result.out)["run"])
    assert out in run.parents
    return run


def config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def everything(home: Path) -> list[str]:
    return sorted(str(p.relative_to(home)) for p in home.rglob("*"))


# --- what comes out -------------------------------------------------------------------------


def test_into_leaves_two_files(pair):
    """And nothing else: no folder, no file that was not finished, nothing in temporary
    places."""
    run, file = pair
    assert everything(file.parent) == ["small.csv", "small.safetensors"]
    rows = read_csv(file.with_suffix(".csv"))
    who = {(row["arm"], row["seed"]) for row in rows}
    assert who == {(arm, seed) for arm in ARMS for seed in "01"}
    tables = {name: [] for name in ("progress", "evaluations")}
    for row in rows:
        tables[row["table"]].append(row)
    for name, own in tables.items():
        wanted = [row for x in learners(run) for row in read_csv(x / f"{name}.csv")]
        assert len(own) == len(wanted) > 0


@pytest.mark.slow
def test_the_scratch_folder_goes(tmp_path):
    """tempfile's folder is this test's: two files and no more when the command has ended."""
    words = ["--into", "deep/down/small.csv", "--stop-after=0s"]
    assert command("train", *LQR, *words).code == 0
    assert everything(tmp_path) == [
        "deep", "deep/down", "deep/down/small.csv", "deep/down/small.safetensors",
    ]  # fmt: skip


def test_unpacked_it_is_the_run(pair):
    """Rows, policy, weights to the byte; configs but for what names the command."""
    run, file = pair
    for k, name in enumerate(("small", "small.csv", "small.safetensors")):
        out = unpacked(file.parent / name, OUT / str(k))
        ended_alike(out, run)
    folders = {p.parent.relative_to(run) for p in run.rglob("config.json")}
    assert {p.parent.relative_to(out) for p in out.rglob("config.json")} == folders
    for folder in folders:
        own, other = config(out / folder), config(run / folder)
        for document in (own, other):
            del document["command"], document["created"]
        assert own == other
    for folder in learners(run):
        own = out / folder.relative_to(run)
        assert status(own) == status(folder)
        states = [json.loads((newest_checkpoint(x) / "state.json").read_text())
                  for x in (own, folder)]  # fmt: skip
        assert states[0] == states[1]
    assert command("eval", out, "--episodes", 1).code == 0


@pytest.mark.slow
def test_curves_of_an_unpacked_run(pair):
    """The pictures training would have drawn, on all three levels."""
    run, file = pair
    out = unpacked(file)
    drawn = sorted(p.relative_to(run) for p in run.rglob("curve.png"))
    assert len(drawn) == 1 + 2 + 4
    for name in drawn:
        picture = (out / name).read_bytes()
        assert picture.startswith(SIGNATURE)
        assert picture == (run / name).read_bytes()


def scalars(folder: Path) -> dict[tuple[int, str], float]:
    """What TensorBoard would show of a learner, by step and tag."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for file in sorted((folder / "tb").iterdir()):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + length])
            values = {
                (event.step, v.tag): v.simple_value
                for v in event.summary.value
                if not v.HasField("metadata")  # the settings
            }
            assert not values.keys() & found.keys()
            found |= values
            data = data[16 + length :]
    return found


@pytest.mark.slow
def test_tensorboard_of_an_unpacked_run(pair):
    """Every tag and value but those of the clock."""
    run, file = pair
    out = unpacked(file)
    clock = ("time/fps", "time/time_elapsed")
    for folder in learners(run):
        live = scalars(folder)
        assert {tag for _, tag in live} > {*clock, "eval/mean_reward", "train/std"}
        wanted = {key: value for key, value in live.items() if key[1] not in clock}
        assert scalars(out / folder.relative_to(run)) == wanted


def test_a_folder_packed_and_unpacked_is_itself(pair):
    run, file = pair
    result = command("runs", "pack", run, "again", "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["files"] == ["again.csv", "again.safetensors"]
    assert Path("again.csv").read_bytes() == file.with_suffix(".csv").read_bytes()
    out = unpacked(Path("again"))
    ended_alike(out, run)
    for file in run.rglob("config.json"):
        assert (out / file.relative_to(run)).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_learners_of_other_shapes():
    """Networks of other sizes and an arm that failed: each comes out as it was."""
    mad = {"critic_lr": 1e30, "actor_lr": 1e30}
    arms = {"wide": {"critic_hidden": [6]}, "mad": mad, "base": {}}
    words = ["--arms", write_arms(Path("arms.toml"), arms), "--name", "run"]
    assert command("train", *LQR, *words).code == 4
    run = Path("runs/penfac/run")
    assert command("runs", "pack", run, "three").code == 0
    out = unpacked(Path("three"))
    ended_alike(out, run)
    for arm in arms:
        assert status(out / arm) == status(run / arm)
    assert [status(out / arm)["state"] for arm in arms] == [
        "finished",
        "failed",
        "finished",
    ]


DDPG = [
    "--env", f"{BAD}Plain-v0", "--algo=ddpg", "--steps=120", "--eval-every=60",
    "--eval-episodes=1", "--set=actor_hidden=4", "--set=critic_hidden=4",
    "--set=steps_per_world=20", "--set=replay=70", "--set=learning_starts=30",
    "--set=batch_size=8", "--set=gradient_steps=2",
]  # fmt: skip


@pytest.mark.slow
def test_a_replay_goes_through_a_bundle():
    """Half of it learned in a bundle, half after: the end of one go. The replay has gone
    round once by then."""
    assert command("train", *DDPG, "--name", "whole").code == 0
    assert command("train", *DDPG, "--steps=60", "--into", "half").code == 0
    assert command("resume", "half", "-n", 120).code == 0
    same_end(unpacked(Path("half")), Path("runs/ddpg/whole"))


# --- going on -------------------------------------------------------------------------------


@pytest.mark.slow
def test_stopped_and_resumed_by_either_name(pair, copy, monkeypatch):
    """The end of one go, by --stop-after and a signal in the middle."""
    for file in copy:
        file.unlink()
    arms = write_arms(Path("arms.toml"), ARMS)
    words = ["train", *LQR, "--arms", arms, "--seeds", 2, "--into", "small"]
    first = command(*words, "--stop-after=0s")
    assert (first.code, first.err) == (0, "")
    assert "continue: penfac resume small.safetensors" in first.out
    with monkeypatch.context() as patched:
        signal_at_update(patched, 7)
        assert command("resume", "small.csv").code == 143
    assert {status(x)["state"] for x in learners(unpacked(copy[0]))} == {"stopped"}
    assert command("resume", "small.safetensors").code == 0
    out = unpacked(copy[1], Path("again"))
    ended_alike(out, pair[0])
    assert {status(x)["state"] for x in learners(out)} == {"finished"}
    assert config(out)["command"] == config(unpacked(copy[0]))["command"]


@pytest.mark.slow
def test_resuming_a_finished_bundle_is_harmless(copy):
    before = [file.read_bytes() for file in copy]
    result = command("resume", "small")
    assert (result.code, result.err) == (0, "")
    assert "return=" not in result.out
    assert copy[0].read_bytes() == before[0]
    ended_alike(unpacked(Path("small")), unpacked_bytes(before))


def unpacked_bytes(files: list[bytes]) -> Path:
    home = Path("before")
    home.mkdir()
    for name, data in zip(("small.csv", "small.safetensors"), files, strict=True):
        (home / name).write_bytes(data)
    return unpacked(home / "small", Path("then"))


@pytest.mark.slow
def test_a_longer_budget_in_a_bundle(copy):
    """As the folders would have gone on."""
    run = unpacked(copy[0])
    assert command("resume", run, "-n", 300).code == 0
    assert command("resume", "small", "-n", 300).code == 0
    ended_alike(unpacked(copy[1], Path("again")), run)


PLAIN = ["--env", f"{BAD}Plain-v0", *TINY, "--steps=500", "--eval-every=100"]
EVERY = "--checkpoint-every=0s"
# of one learner: a checkpoint is followed by the policy's two files, the CSV file, and the
# other one, each put in its place by os.replace
KILLS = [
    at("checkpoint", 3, "replace", k=4),  # the rows of a checkpoint that is not there
    at("collect", 60),
    at("checkpoint", 4, "replace", k=3),
    at("checkpoint", 2, "half", k=5),  # a file half written
    at("update", 2, "after"),
]


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path, monkeypatch):
    """kill -9 in every part of writing: what is left unpacks, goes on, and ends as one go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert command("train", *PLAIN, "--name", "whole").code == 0
    words = [["train", *PLAIN, "--into=killed", EVERY]]
    words += [["resume", "killed", "--trust", EVERY] for _ in KILLS[1:]]
    steps = [
        {"argv": argv, "at": where} for argv, where in zip(words, KILLS, strict=True)
    ]
    ends = met_by_signals(tmp_path, [*steps, {"argv": ["runs", "unpack", "killed"]}])
    said = Path("output.txt").read_text()
    for where, end in zip(KILLS, ends[:-1], strict=True):
        assert (end["code"], end["reached"]) == (-9, True), (where, said[-2000:])
    assert ends[-1]["code"] == 0, said[-2000:]
    assert "Traceback" not in said
    out = Path("runs/penfac/tests.faults.bad-envs-Plain-v0_1")
    assert 0 < len(read_csv(out / "progress.csv")) < 10
    assert command("resume", "killed").code == 0
    for run in (unpacked(Path("killed")), out):
        assert command("resume", run).code == 0
        same_end(run, Path("runs/penfac/whole"))


# --- two files that disagree ------------------------------------------------------------------


@pytest.fixture
def longer(copy):
    """The same bundle, some updates later."""
    Path("longer").mkdir()
    for file in copy:
        shutil.copy(file, "longer")
    assert command("resume", "longer/small", "-n", 300).code == 0
    return Path("longer/small.csv"), Path("longer/small.safetensors")


@pytest.mark.slow
def test_newer_rows_are_cut_off(pair, copy, longer):
    """What a kill between the two files leaves: rows that the checkpoint does not know."""
    shutil.copy(longer[0], copy[0])
    ended_alike(unpacked(copy[0]), pair[0])
    assert command("resume", "small", "-n", 300).code == 0
    ended_alike(unpacked(copy[0], Path("a")), unpacked(longer[0], Path("b")))


def refused(code: int, *words: object) -> str:
    """One line and this exit code; the line."""
    result = command(*words)
    assert (result.code, result.out) == (code, ""), result
    return result.line


@pytest.mark.slow
def test_older_rows_are_refused(copy, longer):
    """Rows that the checkpoint remembers are not there."""
    shutil.copy(copy[0], longer[0])
    for words in (["runs", "unpack", longer[0]], ["resume", longer[0]]):
        assert "differs from its checkpoint" in refused(5, *words)


# --- what is damaged --------------------------------------------------------------------------


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0x10
    file.write_bytes(data)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_refused(part, copy):
    data = copy[1].read_bytes()
    copy[1].write_bytes(data[: int(part * len(data))])
    for words in (["runs", "unpack", "small"], ["resume", "small"]):
        assert "small.safetensors" in refused(5, *words)
    assert sorted(p.name for p in Path().iterdir()) == sorted(p.name for p in copy)


def rewrite(file: Path, change) -> None:
    """The file again, with what it says of itself changed by `change`."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
        about = json.loads(opened.metadata()["penfac"])
    told = change(about)
    save_file(tensors, file, None if told is None else {"penfac": json.dumps(told)})


FOREIGN = {
    "an empty document": lambda about: about | {"document": {}},
    "none": lambda about: None,
    "a list": lambda about: [],
    "no format": lambda about: {},
    "a newer format": lambda about: about | {"format": 2},
    "a word as format": lambda about: about | {"format": "1"},
    "no columns": lambda about: about | {"learners": [{} for _ in about["learners"]]},
    "too few learners": lambda about: about | {"learners": about["learners"][:-1]},
    "learners of no kind": lambda about: about | {"learners": 7},
    "no seeds": lambda about: about | {"document": about["document"] | {"seeds": None}},
    "an arm elsewhere": lambda about: (
        about | {"document": about["document"] | {"arms": {"../../x": {}}}}
    ),
}
DEEP = "[" * 100_000
SEALED = {
    "learners in another order": lambda about: (
        about | {"learners": about["learners"][::-1]}
    ),
    "an update below zero": lambda about: with_meta(about, update=-5),
    "an update past all": lambda about: with_meta(about, update=10**300),
    "a counter past all": lambda about: with_meta(about, counters={"step": 10**300}),
    "no counters": lambda about: with_meta(about, counters={}),
    "marks of no kind": lambda about: with_meta(about, csv={"progress.csv": 7}),
    "a mark below zero": lambda about: with_meta(
        about, csv={x: {"bytes": -1, "sha256": ""} for x in ("progress.csv", "e")}
    ),
    "an identity of no kind": lambda about: with_meta(about, identity=[]),
    "a row that is not there": lambda about: with_learner(about, row=10**9),
    "a stack that is not there": lambda about: with_learner(about, stack=-7),
    "a status of no kind": lambda about: with_learner(about, status=[1]),
    "a log of no kind": lambda about: about | {"log": 7},
    "arms elsewhere": lambda about: (
        about | {"document": about["document"] | {"alive": ["../../x"]}}
    ),
}


def with_learner(about: dict, **changes) -> dict:
    return about | {"learners": [x | changes for x in about["learners"]]}


def with_meta(about: dict, **changes) -> dict:
    learners = [x | {"meta": x["meta"] | changes} for x in about["learners"]]
    return about | {"learners": learners}


def reseal(file: Path, text: str) -> None:
    """The file again with another text, sealed as if it were ours."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    words = {"penfac": text, "seal": bundle.seal(text, tensors)}
    save_file(tensors, file, words)


def text_of(file: Path) -> dict:
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["penfac"])


@pytest.mark.parametrize("change", SEALED.values(), ids=SEALED)
def test_what_was_forged_and_sealed_is_refused(change, copy):
    """Where it is unpacked, or where the run would go on."""
    reseal(copy[1], json.dumps(change(text_of(copy[1]))))
    result = command("runs", "unpack", "small", "--out", OUT)
    if result.code == 0:
        result = command("resume", next(OUT.glob("*/*")))
    assert result.code in (2, 5), result
    assert result.line
    assert not list(Path().rglob(".tmp-*"))


def test_a_bundle_nested_without_end_is_refused(copy):
    reseal(copy[1], DEEP)
    for words in (["runs", "unpack", "small"], ["resume", "small"]):
        assert "is not a penfac bundle" in refused(5, *words)


UNHEARD = {
    "a format alone": lambda about: {"format": 1},
    "no log": lambda about: {k: v for k, v in about.items() if k != "log"},
    "a document of no kind": lambda about: about | {"document": []},
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_what_no_penfac_wrote_is_refused(change, copy):
    rewrite(copy[1], change)
    result = command("runs", "unpack", "small", "--out", OUT)
    assert (result.code, result.out) in ((5, ""), (2, "")), result
    assert "small.safetensors" in result.line
    assert not Path("x").exists()


@pytest.mark.parametrize("change", UNHEARD.values(), ids=UNHEARD)
def test_what_lacks_a_part_is_refused(change, copy):
    rewrite(copy[1], change)
    result = command("runs", "unpack", "small", "--out", OUT)
    assert (result.code, result.out) in ((5, ""), (2, "")), result
    assert "small.safetensors" in result.line


def test_a_flipped_bit_in_the_header_is_refused(copy):
    for place in (0, 9):
        flip(copy[1], place)
        assert "small.safetensors" in refused(5, "runs", "unpack", "small")
        flip(copy[1], place)
    unpacked(copy[1])


def places(file: Path) -> dict[str, int]:
    """By kind of content, a byte in the middle of the largest of it."""
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    del header["__metadata__"]
    found = {"metadata": 8 + data[8 : 8 + length].index(b"evaluated_at")}
    for name, about in sorted(header.items(), key=size):
        begin, end = about["data_offsets"]
        kind = "a policy" if name.startswith("policy/") else "a weight"
        found[kind] = 8 + length + (begin + end) // 2
    return found


def size(item: tuple[str, dict]) -> int:
    begin, end = item[1]["data_offsets"]
    return end - begin


@pytest.mark.parametrize(
    "kind",
    [
        "metadata",
        "a weight",
        "a policy",
    ],
)
def test_a_flipped_bit_is_refused(kind, copy):
    """Wherever it is: nothing comes out that looks good and is not."""
    flip(copy[1], places(copy[1])[kind])
    for words in (["runs", "unpack", "small", "--out", OUT], ["resume", "small"]):
        assert "small.safetensors" in refused(5, *words)


def edit_rows(file: Path, edit) -> None:
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(edit(lines)))


def another_number(lines: list[str]) -> list[str]:
    """The last number of the last row of the first learner's progress."""
    where = max(k for k, x in enumerate(lines) if x.startswith("base,0,progress"))
    cells = lines[where].split(",")
    k = max(i for i, cell in enumerate(cells) if "." in cell)
    cells[k] = cells[k][:-1] + ("1" if cells[k][-1] != "1" else "2")
    return [*lines[:where], ",".join(cells), *lines[where + 1 :]]


EDITS = {
    "a number": another_number,
    "a row less": lambda lines: lines[:3] + lines[4:],
    "two rows in another order": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "the last row": lambda lines: lines[:-1],
    "no rows": lambda lines: lines[:1],
    "nothing": lambda lines: [],
    "a row too short": lambda lines: [*lines[:2], "base,0\n", *lines[2:]],
    "another arm's": lambda lines: [x.replace("short,", "long,") for x in lines],
    "a torn last line": lambda lines: [*lines[:-1], lines[-1][:-4]],
    "no column arm": lambda lines: [lines[0].replace("arm,", "x,"), *lines[1:]],
    "another column": lambda lines: [lines[0].replace("sigma", "s"), *lines[1:]],
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_rows_are_refused(edit, copy):
    """One line that names a file of the bundle or of what it would have become."""
    edit_rows(copy[0], edit)
    line = refused(5, "runs", "unpack", "small", "--out", OUT)
    assert "small" in line or ".csv" in line


def test_a_missing_file_is_told():
    Path("half.csv").write_text("arm,seed,table\n")
    save_file({"x": np.zeros(1)}, "other.safetensors", {"penfac": '{"format": 1}'})
    assert "half.safetensors: no such file" in refused(2, "runs", "unpack", "half")
    assert "nowhere.safetensors" in refused(2, "runs", "unpack", "nowhere")
    assert refused(2, "resume", "half.csv")
    assert refused(2, "resume", "nowhere")


def test_a_missing_table_is_told(copy):
    copy[0].unlink()
    for words in (["runs", "unpack", "small"], ["resume", "small.safetensors"]):
        assert "small.csv: no such file" in refused(2, *words)
    assert [p.name for p in Path().iterdir()] == ["small.safetensors"]


DAMAGES = {
    "rows": lambda copy: edit_rows(copy[0], another_number),
    "metadata": lambda copy: rewrite(copy[1], FOREIGN["too few learners"]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_refused_leaves_no_folder(damage, copy):
    """A folder that is half a run would be taken for one."""
    damage(copy)
    refused(5, "runs", "unpack", "small", "--out", OUT)
    assert not OUT.exists() or everything(OUT) == []


# --- what is in the way -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small.csv", "small.safetensors"])
def test_into_does_not_write_over_a_file(name):
    Path(name).write_text("mine")
    for words in (["train", *LQR, "--into", "small"], ["runs", "pack", ".", "small"]):
        assert name in refused(6, *words)
    assert Path(name).read_text() == "mine"
    assert everything(Path()) == [name]


def test_a_run_in_use_is_not_packed(pair):
    lock = Lock(pair[0])
    try:
        assert "in use" in refused(6, "runs", "pack", pair[0], "small")
    finally:
        lock.release()
    assert everything(Path()) == []


@pytest.mark.parametrize("folder", [".", "nowhere"])
def test_what_is_no_run_is_not_packed(folder):
    assert refused(2, "runs", "pack", folder, "small")
    assert everything(Path()) == []


DAMAGED_FOLDERS = {
    "config.json without seeds": ("config.json", '{"format": 1}'),
    "status.json torn": ("base/seed-0/status.json", '{"state": '),
    "status.json a list": ("base/seed-0/status.json", "[1]"),
    "fault.json nested without end": ("base/seed-0/fault.json", "[" * 100_000),
    "policy.json of no kind": ("base/seed-0/policy/policy.json", "7"),
    "config.json nested without end": ("config.json", "[" * 100_000),
}


@pytest.mark.parametrize("what", DAMAGED_FOLDERS)
def test_a_damaged_run_is_not_packed(what, pair):
    """One line, 2 or 5, and no bundle of it."""
    shutil.copytree(pair[0], "run")
    name, text = DAMAGED_FOLDERS[what]
    (Path("run") / name).write_text(text)
    result = command("runs", "pack", "run", "small")
    assert result.code in (2, 5), result
    assert result.line
    assert [p.name for p in Path().iterdir()] == ["run"]


def test_what_is_compared_differs_between_learners(pair):
    """Else equal bytes would say nothing; policy.json alone does not know its arm."""
    found = [left(folder) for folder in learners(pair[0])]
    assert [len(x) for x in found] == [5] * 4
    for name in found[0]:
        seeds_only = name == "policy/policy.json"
        assert len({x[name] for x in found}) == (2 if seeds_only else 4), name
