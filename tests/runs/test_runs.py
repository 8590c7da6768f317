"""Run folders: checkpoints are whole or absent, and a bad file is never believed."""

import contextlib
import errno
import hashlib
import io
import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from safetensors.numpy import save
from tests.faults.commands import environment

from penfac.errors import CorruptFile, RunFolderBusy, StorageError
from penfac.runs import checkpoints, csv_files, storage
from penfac.runs.checkpoints import Meta
from penfac.runs.csv_files import read_csv
from penfac.runs.folder import RunFolder, create_folder
from penfac.runs.recorder import board_settings
from penfac.runs.storage import Lock
from penfac.training.request import Request, resolve

ROOT = Path(__file__).parents[2]
META = Meta({"env": "x"}, {"step": 7}, {})


def arrays(update: int) -> dict[str, np.ndarray]:
    return {"weights": np.full((30, 10), update, np.float32), "n": np.array(update)}


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """Two checkpoints, one and two."""
    folder = RunFolder(tmp_path)
    for update in (1, 2):
        folder.save_checkpoint(update, arrays(update), META)
    return folder


def checkpoint(folder: RunFolder, update: int) -> Path:
    return folder.path / "checkpoints" / f"update-{update:06d}"


def loaded(folder: RunFolder) -> int:
    """The update that counts, and its arrays are the right ones."""
    found = folder.load_checkpoint()
    assert found is not None
    got, meta, _ = found
    wanted = arrays(meta.update)
    assert got.keys() == wanted.keys()
    for key, array in wanted.items():
        assert got[key].tobytes() == array.tobytes()
    return meta.update


# --- all or nothing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "kills"),
    [("save", 100), ("replace_damaged", 100), ("write", 10), ("go_back", 30)],
)
def test_a_kill_at_every_line_leaves_the_old_or_the_new(job, kills, tmp_path):
    argv = [sys.executable, "-m", "tests.faults.torn", str(tmp_path), job]
    done = subprocess.run(
        argv, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= kills


class FailsAt:
    """A function that fails at its n-th call, and only there."""

    def __init__(self, function, n: int, code: int):
        self.function, self.left, self.code = function, n, code

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0:
            raise OSError(self.code, os.strerror(self.code))
        return self.function(*args, **kwargs)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.ESTALE]
)
@pytest.mark.parametrize("name", ["fsync", "rename", "mkdir", "open", "replace"])
def test_an_error_at_every_call_leaves_the_old_or_the_new(
    folder, name, code, monkeypatch
):
    failures, update = 0, 2
    for n in range(1, 100):
        owner, target = (storage, open) if name == "open" else (os, getattr(os, name))
        failing, refusal = FailsAt(target, n, code), None
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing, raising=False)
            try:
                folder.save_checkpoint(update + 1, arrays(update + 1), META)
                folder.write_json("status.json", {"update": update + 1}, sync=True)
            except StorageError as error:
                refusal = str(error)
        assert loaded(folder) in (update, update + 1)
        assert not list(folder.path.rglob(".tmp-*"))
        update = loaded(folder)
        if failing.left > 0:  # it was not called so often: nothing can fail any more
            break
        failures += refusal is not None
        assert refusal is None or str(folder.path) in refusal
    assert failures >= 1
    assert json.loads((folder.path / "status.json").read_text()) == {"update": update}
    assert len(list((folder.path / "checkpoints").iterdir())) == 2


def test_what_a_killed_process_left_goes(folder):
    strays = [
        folder.path / "checkpoints" / f".tmp-1-{'a' * 32}" / "state.json",
        folder.path / "policy" / f".tmp-1-{'b' * 32}",
        folder.path / f".tmp-1-{'c' * 32}",
        folder.path / f".probe-{'d' * 32}",
    ]
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_text("half a f")
    (folder.path / "policy" / "policy.json").write_text("kept")
    assert loaded(folder) == 2
    folder.sweep()
    folder.save_checkpoint(3, arrays(3), META)
    assert not any(stray.exists() for stray in strays)
    assert (folder.path / "policy" / "policy.json").exists()


# --- which one counts -------------------------------------------------------------------


def names(folder: RunFolder) -> list[str]:
    return sorted(p.name for p in (folder.path / "checkpoints").iterdir())


def test_two_are_kept(folder):
    for update in range(3, 12):
        folder.save_checkpoint(update, arrays(update), META)
        assert len(names(folder)) == 2
        assert loaded(folder) == update


def test_order_is_by_number(folder):
    for update in (9, 10, 999_999, 1_000_000):
        folder.save_checkpoint(update, arrays(update), META)
    assert loaded(folder) == 1_000_000
    for k, path in enumerate(sorted((folder.path / "checkpoints").iterdir())):
        os.utime(path, (10**9 - k, 10**9 - k))
    assert loaded(folder) == 1_000_000


def test_the_same_update_after_its_evaluation_is_newer(folder):
    after = replace(META, identity={"moment": "after"})
    folder.save_checkpoint(2, arrays(2), after, evaluated=True)
    assert names(folder) == ["update-000002", "update-000002-evaluated"]
    found = folder.load_checkpoint()
    assert found is not None
    assert found.meta.identity == {"moment": "after"}
    folder.save_checkpoint(3, arrays(3), META)
    assert names(folder) == ["update-000002-evaluated", "update-000003"]


def test_the_newest_that_verifies_counts(folder):
    (checkpoint(folder, 2) / "state.json").unlink()
    found = folder.load_checkpoint()
    assert found is not None
    assert found.meta.update == 1
    assert len(found.complaints) == 1
    assert "update-000002" in found.complaints[0]
    # and the damaged one is replaced when its turn comes
    folder.save_checkpoint(2, arrays(2), META)
    assert loaded(folder) == 2


def test_one_that_is_there_is_not_written_again(folder, monkeypatch):
    monkeypatch.setattr(os, "rename", None)
    folder.save_checkpoint(2, arrays(2), META)
    assert loaded(folder) == 2


def test_none_at_all_is_not_an_error(tmp_path):
    assert RunFolder(tmp_path).load_checkpoint() is None


# --- damage -----------------------------------------------------------------------------


def is_refused(folder: RunFolder) -> str:
    """Alone it is an error; with an older one beside it that one counts."""
    with pytest.raises(CorruptFile) as refusal:
        checkpoints.read_checkpoint(checkpoint(folder, 2))
    assert refusal.value.exit_code == 5
    assert loaded(folder) == 1
    return str(refusal.value)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_truncated_at_every_percent(folder, name):
    file = checkpoint(folder, 2) / name
    data = file.read_bytes()
    for percent in range(100):
        length = len(data) * percent // 100
        file.write_bytes(data[:length])
        message = is_refused(folder)
        if name == "state.safetensors":
            assert f"is truncated, has {length} bytes of {len(data)}" in message
    file.write_bytes(data)
    assert loaded(folder) == 2


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_a_flipped_bit_is_noticed(folder, name):
    file = checkpoint(folder, 2) / name
    data = file.read_bytes()
    rng = np.random.default_rng(0)
    places = {*range(64), *rng.integers(len(data), size=200).tolist()}
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(flipped)
        try:
            same = json.loads(flipped) == json.loads(data)  # white space may differ
        except ValueError:
            same = False
        if not same:
            is_refused(folder)


def test_all_damaged_names_every_one(folder):
    for update in (1, 2):
        (checkpoint(folder, update) / "state.safetensors").write_bytes(b"junk")
    with pytest.raises(CorruptFile) as refusal:
        folder.load_checkpoint()
    assert "update-000001" in str(refusal.value)
    assert "update-000002" in str(refusal.value)


def forge(folder: RunFolder, data: bytes, **changes: object) -> None:
    """A second checkpoint with these bytes, signed as if they were ours."""
    meta = META.to_document() | {"format": 1, "update": 2, "csv": {}}
    meta |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} | changes
    meta["seal"] = checkpoints.seal(meta)
    (checkpoint(folder, 2) / "state.safetensors").write_bytes(data)
    (checkpoint(folder, 2) / "state.json").write_text(json.dumps(meta))


def safetensors(header: object, body: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


class Exploit:
    def __reduce__(self):
        return os.mkdir, ("exploited",)


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, weights=np.array([Exploit()], object))
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../escape", "x")
    return file.getvalue()


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
FORGED = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 4,
    "a pickle": pickle.dumps(Exploit()),
    "a npz of objects": npz(),
    "a zip": zipped(),
    "a header of 200 MB": struct.pack("<Q", 200 * 2**20) + b"{}",
    "a header of 2**63": struct.pack("<Q", 2**63) + b"{}",
    "overlapping tensors": safetensors({"a": F32, "b": F32}),
    "a hole": safetensors({"a": F32 | {"data_offsets": [4, 12]}}, b"\0" * 12),
    "offsets past the end": safetensors({"a": F32 | {"data_offsets": [0, 800]}}),
    "a shape too large": safetensors({"a": F32 | {"shape": [2**62]}}),
    "a negative shape": safetensors({"a": F32 | {"shape": [-2]}}),
    "an unknown dtype": safetensors({"a": F32 | {"dtype": "F31"}}),
    "a key twice": safetensors(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
    ),
    "nested too deep": safetensors(b"[" * 10_000),
    "a number as header": safetensors(1),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_file_is_refused(folder, what, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    forge(folder, FORGED[what])
    is_refused(folder)
    assert not Path("exploited").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"format": "1"},
        {"format": None},
        {"bytes": "many"},
        {"bytes": -1},
        {"sha256": None},
        {"sha256": ["x"]},
    ],
)
def test_forged_words_are_refused(folder, changes):
    forge(folder, save(arrays(2)), **changes)
    is_refused(folder)


def test_the_forger_is_able(folder):
    """Or the tests above would refuse for another reason."""
    forge(folder, save(arrays(2)))
    assert loaded(folder) == 2


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory) -> RunFolder:
    """Two checkpoints; the second is written over again and again."""
    folder = RunFolder(tmp_path_factory.mktemp("fuzzed"))
    for update in (1, 2):
        folder.save_checkpoint(update, arrays(update), META)
    return folder


@settings(max_examples=200)
@given(data=st.binary(max_size=300))
def test_no_bytes_crash_the_loader(fuzzed, data):
    forge(fuzzed, data)
    is_refused(fuzzed)
    forge(fuzzed, safetensors(data))
    is_refused(fuzzed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "I64", "BOOL", "F8_E4M3", "x"]) | JSON,
        "shape": st.lists(st.integers(-1, 2**40), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-1, 2**40), max_size=3) | JSON,
    },
)


@settings(max_examples=200)
@given(
    header=st.dictionaries(st.text(max_size=3), TENSOR | JSON, max_size=3),
    size=st.integers(0, 64),
)
def test_no_header_crashes_the_loader(fuzzed, header, size):
    forge(fuzzed, safetensors(header, b"\0" * size))
    with contextlib.suppress(CorruptFile):  # a header may by chance be good
        checkpoints.read_checkpoint(checkpoint(fuzzed, 2))


@settings(max_examples=200)
@given(document=JSON)
def test_no_state_crashes_the_loader(fuzzed, document):
    (checkpoint(fuzzed, 2) / "state.json").write_text(json.dumps(document))
    is_refused(fuzzed)


# --- no code in data ----------------------------------------------------------------------

# an environment is sent to a process of ours through a pipe; no file is read that way
FORBIDDEN = (
    r"pickle\.load", r"cloudpickle\.(?!dumps)", r"allow_pickle\s*=\s*True", r"yaml\.load",
    r"(?<![\w.])eval\(", r"(?<![\w.])exec\(", r"torch\.load", r"\bmarshal\b", r"\bshelve\b",
    r"\bjoblib\b", r"\bdill\b",
)  # fmt: skip


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_nothing_runs_what_it_reads(pattern):
    files = sorted((ROOT / "src").rglob("*.py"))
    assert len(files) > 30
    found = [
        f"{file}:{number}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not found


# --- CSV files ------------------------------------------------------------------------------


def rows(n: int) -> list[dict[str, int]]:
    return [{"update": k, "step": 10 * k} for k in range(1, n + 1)]


def test_a_torn_last_line_is_left_out(folder):
    folder.append("progress.csv", rows(3))
    folder.close()
    file = folder.path / "progress.csv"
    data = file.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(data)):
        file.write_bytes(data[:end])
        assert [row["update"] for row in read_csv(file)] == ["1", "2"]
    file.write_bytes(data)
    assert len(read_csv(file)) == 3


def test_what_follows_a_torn_line_stands_on_its_own(folder):
    file = folder.path / "timing.csv"
    file.write_bytes(b"update,step\n1,10\n2,2")
    folder.append("timing.csv", rows(3)[2:])
    folder.close()
    assert [row["update"] for row in read_csv(file)] == ["1", "3"]


def test_a_line_the_disk_had_no_room_for(folder):
    """It fails when it is written, once; the file then reads as if it never was."""
    folder.append("progress.csv", rows(2))
    folder.scalars({"train/loss": 0.5}, 1)
    file = folder.path / "progress.csv"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 3, limits[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            folder.append("progress.csv", rows(2))
        with pytest.raises(StorageError, match="File too large"):
            folder.scalars({"train/loss": 0.5}, 2)
        folder.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [row["update"] for row in read_csv(file)] == ["1", "2"]
    folder.append("progress.csv", rows(3)[2:])
    folder.close()
    assert [row["update"] for row in read_csv(file)] == ["1", "2", "3"]


@pytest.mark.parametrize("line", [b"2", b"2,20,200", b"\xff,20"])
def test_a_bad_line_in_the_middle_is_an_error(folder, line):
    file = folder.path / "progress.csv"
    file.write_bytes(b"update,step\n1,10\n" + line + b"\n3,30\n")
    with pytest.raises(CorruptFile, match=r"progress\.csv"):
        read_csv(file)


def test_going_back_cuts_to_the_byte(folder):
    folder.append("progress.csv", rows(2))
    folder.append("evaluations.csv", rows(1))
    folder.save_checkpoint(3, arrays(3), META)
    kept = {n: (folder.path / n).read_bytes() for n in csv_files.KEPT}
    folder.append("progress.csv", rows(2))
    folder.append("evaluations.csv", rows(1))
    folder.close()
    found = folder.load_checkpoint()
    assert found is not None
    folder.rewind(found.meta.csv)
    assert {n: (folder.path / n).read_bytes() for n in csv_files.KEPT} == kept
    folder.rewind(None)
    assert not any((folder.path / n).exists() for n in csv_files.KEPT)


def test_going_back_refuses_another_past(folder):
    folder.append("progress.csv", rows(2))
    folder.save_checkpoint(3, arrays(3), META)
    folder.close()
    file = folder.path / "progress.csv"
    file.write_bytes(file.read_bytes().replace(b"20", b"21"))
    found = folder.load_checkpoint()
    assert found is not None
    with pytest.raises(CorruptFile, match="differs from its checkpoint"):
        folder.rewind(found.meta.csv)


def test_json_is_strict(folder):
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            folder.write_json("status.json", {"x": number})
    assert not (folder.path / "status.json").exists()


# --- one owner --------------------------------------------------------------------------------


def fill(home: Path) -> None:
    """What a folder holds when it appears."""
    (home / "config.json").write_text("{}")


def test_two_creators_never_get_the_same_folder(tmp_path):
    made, barrier = [], threading.Barrier(16)

    def create():
        barrier.wait()
        for _ in range(10):
            made.append(create_folder(tmp_path, "penfac", "Pendulum-v1", None, fill))

    threads = [threading.Thread(target=create) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 160
    assert {p.name for p in made} == {f"Pendulum-v1_{k}" for k in range(1, 161)}


def test_one_of_many_gets_a_name(tmp_path):
    got, barrier = [], threading.Barrier(16)

    def create():
        barrier.wait()
        try:
            got.append(create_folder(tmp_path, "penfac", "Pendulum-v1", "mine", fill))
        except RunFolderBusy as error:
            got.append(error.exit_code)

    threads = [threading.Thread(target=create) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(6) == 15
    assert os.listdir(tmp_path / "penfac") == ["mine"]  # and the others leave nothing
    assert tmp_path / "penfac" / "mine" in got


def test_a_lock_names_its_owner_and_is_given_back(tmp_path):
    lock = Lock(tmp_path)
    with pytest.raises(RunFolderBusy, match=f"in use by process {os.getpid()} on "):
        Lock(tmp_path)
    lock.release()
    Lock(tmp_path).release()


def test_an_id_becomes_a_folder_name(tmp_path):
    for env_id in ("penfac/Pendulum-v0", "my.module:Robot v1", "../../etc", "a:b"):
        made = create_folder(tmp_path, "penfac", env_id, None, fill)
        assert made.parent == tmp_path / "penfac"
        assert made.resolve().parent == made.parent


# --- TensorBoard --------------------------------------------------------------------------------


def test_events_can_be_read_back(folder):
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    folder.scalars({"train/loss": 0.5, "train/beta": 2.0}, 100)
    folder.close()
    folder.scalars({"train/loss": 0.25}, 200)  # another process, the same second
    folder.close()
    events = []
    for file in sorted((folder.path / "tb").iterdir()):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            assert struct.unpack("<I", data[8:12])[0] == masked_crc32c(data[:8])
            record = data[12 : 12 + length]
            check = data[12 + length : 16 + length]
            assert struct.unpack("<I", check)[0] == masked_crc32c(record)
            events.append(Event.FromString(record))
            data = data[16 + length :]
    values = {(e.step, v.tag): v.simple_value for e in events for v in e.summary.value}
    assert values == {
        (100, "train/loss"): 0.5,
        (100, "train/beta"): 2.0,
        (200, "train/loss"): 0.25,
    }


def test_settings_are_listed_beside_the_last_judgement(tmp_path):
    """As TensorBoard's own reader finds them: a number, a word, a list, yes or no."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    settings = {"actor_hidden": [64, 64], "trust_region": True, "sigma_end": None}
    request = Request("penfac/LQR-v0", settings=settings, seeds=(3,))
    home = RunFolder(tmp_path)
    home.hparams = board_settings(resolve(request))
    home.scalars({"eval/mean_reward": 5.0}, 100)
    home.close()
    reader = EventAccumulator(str(tmp_path / "tb")).Reload()
    content = reader.PluginTagToContent("hparams")
    found = {tag: HParamsPluginData.FromString(data) for tag, data in content.items()}
    started = found["_hparams_/session_start_info"].session_start_info.hparams
    assert started["lam"].number_value == 0.85
    assert started["seed"].number_value == 3
    assert started["actor_hidden"].string_value == "[64, 64]"
    assert started["trust_region"].bool_value
    assert "sigma_end" not in started
    listed = found["_hparams_/experiment"].experiment.metric_infos
    assert listed[0].name.tag == "eval/mean_reward"
    assert reader.Scalars("eval/mean_reward")[-1].value == 5.0
