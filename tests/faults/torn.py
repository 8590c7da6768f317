"""Kill a process at every line of a run folder's code that a job executes, and look what
is left.

    python -m tests.faults.torn FOLDER JOB

Prints how many processes were killed before one came through. Every process is a fork of
this one, which has no other thread: JAX is never imported.
"""

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np

from penfac.runs import checkpoints, csv_files, folder, storage
from penfac.runs.checkpoints import Meta
from penfac.runs.folder import RunFolder

ROWS = [{"update": 1, "step": 10}]
META = Meta({}, {}, {})
WATCHED = {m.__file__ for m in (folder, checkpoints, csv_files, storage)}


def arrays(update: int) -> dict[str, np.ndarray]:
    return {"weights": np.full((50, 20), update, np.float32)}


def prepare(path: Path) -> None:
    """Two checkpoints and what belongs to them."""
    path.mkdir()
    folder = RunFolder(path)
    folder.write_json("status.json", {"state": "old"})
    for update in (1, 2):
        folder.append("progress.csv", ROWS)
        folder.save_checkpoint(update, arrays(update), META)
    folder.close()


def save(folder: RunFolder) -> None:
    folder.append("progress.csv", ROWS)
    folder.save_checkpoint(3, arrays(3), META)


def replace_damaged(folder: RunFolder) -> None:
    """The place of the new checkpoint is taken by one that does not verify."""
    folder.save_checkpoint(3, arrays(3), META)


def write(folder: RunFolder) -> None:
    folder.write_json("status.json", {"state": "new"}, sync=True)


def go_back(folder: RunFolder) -> None:
    found = folder.load_checkpoint()
    assert found is not None
    folder.rewind(found.meta.csv)
    folder.sweep()


JOBS = {f.__name__: f for f in (save, replace_damaged, write, go_back)}


def kill_at_line(n: int) -> None:
    """SIGKILL before the n-th line of the watched files that is executed from here on."""
    left = [n]

    def trace(frame, event, _):
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def half_write(at: int, share: float) -> None:
    """SIGKILL when `share` of the file that is written as the `at`-th has arrived."""
    left, whole = [at], storage.write_file

    def torn(path, data, sync):
        left[0] -= 1
        if left[0] == 0:
            path.write_bytes(data[: int(len(data) * share)])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(path, data, sync)

    storage.write_file = checkpoints.write_file = torn


def child(path: Path, job: str, arm) -> bool:
    """Whether the job came through."""
    pid = os.fork()
    if pid == 0:
        arm()
        JOBS[job](RunFolder(path))
        sys.settrace(None)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def check(path: Path, job: str, through: bool) -> None:
    """The old state or the new one, whole; then the next process works as ever."""
    folder = RunFolder(path)
    status = (path / "status.json").read_text()
    assert '"old"' in status or '"new"' in status
    found = folder.load_checkpoint()
    assert found is not None, "every checkpoint was lost"
    loaded, meta, complaints = found
    update = meta.update
    newest = {"save": 3, "replace_damaged": 3}.get(job, 2)
    assert update in ((newest,) if through else (2, newest)), update
    assert np.array_equal(loaded["weights"], arrays(update)["weights"])
    if job != "replace_damaged":
        assert not complaints, complaints  # a temporary folder is not even looked at
    folder.rewind(meta.csv)
    rows = csv_files.read_csv(path / "progress.csv")
    wanted = {"save": update, "replace_damaged": 2}.get(job, 2)
    assert len(rows) == wanted, (len(rows), update)
    folder.sweep()
    folder.append("progress.csv", ROWS)
    folder.save_checkpoint(4, arrays(4), META)
    folder.close()
    left = sorted(p.name for p in (path / "checkpoints").iterdir())
    assert len(left) == 2, left
    assert left[-1] == "update-000004", left
    assert not list(path.rglob(".tmp-*"))


def main() -> None:
    home, job = Path(sys.argv[1]), sys.argv[2]
    assert len(os.listdir("/proc/self/task")) == 1
    template = home / "template"
    prepare(template)
    if job == "replace_damaged":
        shutil.copytree(
            template / "checkpoints" / "update-000002",
            template / "checkpoints" / "update-000003",
        )
        (template / "checkpoints" / "update-000003" / "state.json").write_text("{}")
    kills, lines, through = 0, 0, False
    while not through:
        lines += 1
        path = home / f"line-{lines}"
        shutil.copytree(template, path)
        through = child(path, job, partial(kill_at_line, lines))
        check(path, job, through)
        kills += not through
    for at in (1, 2):
        for share in (0.0, 0.01, 0.5, 0.99, 1.0):
            path = home / f"half-{at}-{share}"
            shutil.copytree(template, path)
            through = child(path, job, partial(half_write, at, share))
            check(path, job, through)
            kills += not through
    print(kills)


if __name__ == "__main__":
    main()
