"""Tasks on processes of their own: so many at once, one core each, exit codes, and that
nobody outlives the one who started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penfac.machine import usable_cores
from penfac.training.interruption import Interruption, StopRequested
from penfac.workers import RETRIES, Task, run_tasks, run_with_retries


def no_poll() -> None:
    """Nobody asks to stop."""


# --- what the processes do; a module's functions, for they are started fresh ------------------


def leave(code: int) -> int:
    return code


def die(number: int) -> int:
    os.kill(os.getpid(), number)
    time.sleep(60)
    return 0


def be_there(folder: Path, name: str, seconds: float) -> int:
    """Say when it began and ended, and on which cores it may run."""
    began = time.monotonic()
    time.sleep(seconds)
    allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    (folder / name).write_text(f"{began} {time.monotonic()} {allowed} {os.getpgrp()}")
    return 0


def wait_for_the_end(folder: Path, name: str) -> int:
    """As a run does: told to stop, it saves and leaves."""

    def stop(number, frame):
        (folder / f"{name}-saved").write_text(str(number))
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    (folder / name).write_text(str(os.getpid()))
    time.sleep(60)
    return 0


def save_slowly(folder: Path, name: str) -> int:
    """As training does: a second of saving when it is told to stop."""
    with Interruption(None) as interruption:
        (folder / name).write_text(str(os.getpid()))
        try:
            while True:
                interruption.poll()
                time.sleep(0.01)
        except StopRequested as stop:
            time.sleep(1)
            (folder / f"{name}-saved").write_text(str(stop))
            return stop.exit_code


def leave_without_a_word(path: Path | None = None) -> int:
    """Exit code 0, but no answer; only once if a path can remember it."""
    if path is not None and path.exists():
        return 0
    if path is not None:
        path.touch()
    os._exit(0)


class SlowToArrive:
    """An argument that takes a second to reach its process."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return arrive, (self.folder,)


def arrive(folder: Path) -> SlowToArrive:
    (folder / "arriving").touch()
    time.sleep(1)
    return SlowToArrive(folder)


def run_late(argument: SlowToArrive) -> int:
    (argument.folder / "ran").touch()
    return 0


# --- claims -------------------------------------------------------------------------------------


def test_exit_codes_by_name():
    """What a task returns; 128 + n of one that signal n ended."""
    tasks = [
        Task("fine", leave, (0,)),
        Task("four", leave, (4,)),
        Task("killed", die, (int(signal.SIGKILL),)),
        Task("told", die, (int(signal.SIGTERM),)),
        Task("silent", leave_without_a_word, ()),
    ]
    found = dict(run_tasks(tasks, 2, no_poll))
    assert found.pop("silent") == 128  # no answer is no success
    assert found == {"fine": 0, "four": 4, "killed": 128 + 9, "told": 128 + 15}


def test_a_task_whose_process_is_lost_is_tried_again(tmp_path):
    """A few times, and each time it is told why."""
    tasks = [
        Task("once", leave_without_a_word, (tmp_path / "left",)),
        Task("always", die, (int(signal.SIGSEGV),)),
        Task("four", leave, (4,)),
    ]
    told: list[str] = []
    found = dict(run_with_retries(tasks, 2, no_poll, told.append))
    assert found == {"once": 0, "always": 128 + signal.SIGSEGV, "four": 4}
    again = "always: its process was killed by SIGSEGV; it is tried again"
    assert told.count(again) == RETRIES
    told = [line for line in told if line != again]
    assert told == ["once: its process ended without an answer; it is tried again"]


def test_no_task_is_no_work():
    assert list(run_tasks([], 3, no_poll)) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_so_many_at_once(count, tmp_path):
    """Never more than that; and with more than one, some at the same time."""
    names = [f"t{k}" for k in range(count + 1)]
    tasks = [Task(name, be_there, (tmp_path, name, 0.7)) for name in names]
    ended = [name for name, code in run_tasks(tasks, count, no_poll) if code == 0]
    assert sorted(ended) == names
    spans = [tuple(map(float, (tmp_path / n).read_text().split()[:2])) for n in names]
    together = [sum(a <= begin < b for a, b in spans) for begin, _ in spans]
    assert min(2, count) <= max(together) <= count


def test_each_on_a_core_of_its_own(tmp_path):
    """As many as there are cores: every core has one task, and each its own group, so that
    Ctrl-C reaches the one who started them alone."""
    names = [f"t{core}" for core in usable_cores()]
    tasks = [Task(name, be_there, (tmp_path, name, 0.1)) for name in names]
    assert len(list(run_tasks(tasks, len(names), no_poll))) == len(names)
    told = [(tmp_path / name).read_text().split() for name in names]
    assert sorted(int(allowed) for _, _, allowed, _ in told) == usable_cores()
    groups = {group for *_, group in told}
    assert len(groups) == len(names)
    assert str(os.getpgrp()) not in groups


def test_asked_to_stop_tasks_are_told_and_waited_for(tmp_path):
    """What `poll` raises comes out when all have saved; those that wait never start."""

    class Stop(Exception):
        pass

    def poll():
        if all((tmp_path / name).exists() for name in ("a", "b")):
            raise Stop

    tasks = [Task(name, wait_for_the_end, (tmp_path, name)) for name in ("a", "b", "c")]
    with pytest.raises(Stop):
        list(run_tasks(tasks, 2, poll))
    pids = [int((tmp_path / name).read_text()) for name in ("a", "b")]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    saved = {p.name for p in tmp_path.iterdir()} - {"a", "b"}
    assert saved == {"a-saved", "b-saved"}
    assert (tmp_path / "a-saved").read_text() == str(int(signal.SIGTERM))


def test_who_takes_no_more_ends_the_rest(tmp_path):
    """The generator closed: no process stays."""
    tasks = [
        Task("a", leave, (0,)),
        Task("b", wait_for_the_end, (tmp_path, "b")),
    ]
    ended = run_tasks(tasks, 2, no_poll)
    assert next(ended) == ("a", 0)
    wait_until((tmp_path / "b").exists)
    ended.close()
    assert (tmp_path / "b-saved").exists()
    assert not Path(f"/proc/{(tmp_path / 'b').read_text()}").exists()


def wait_until(true, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


def driver(tmp_path: Path, *tasks: str) -> subprocess.Popen:
    """A process of many threads that runs these tasks, to be killed."""
    script = tmp_path / "driver.py"
    script.write_text(
        "from pathlib import Path\n"
        "import threading, time\n"
        "from test_workers import *\n"
        "from penfac.workers import Task, run_tasks\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "if __name__ == '__main__':\n"
        "    for _ in range(20):\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        f"    list(run_tasks([{', '.join(tasks)}], {len(tasks)}, no_poll))\n"
    )
    places = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    return subprocess.Popen([sys.executable, script], env=env)


def test_tasks_leave_with_a_driver_that_is_killed(tmp_path):
    """kill -9 of the one who started them: they save and leave."""
    process = driver(tmp_path, "Task('a', wait_for_the_end, (folder, 'a'))")
    try:
        wait_until(lambda: (tmp_path / "a").exists() and (tmp_path / "a").read_text())
    finally:
        process.kill()
        process.wait()
    pid = (tmp_path / "a").read_text()
    wait_until((tmp_path / "a-saved").exists)
    wait_until(lambda: ended(pid))


@pytest.mark.parametrize("told", ["killed", "interrupted, then killed"])
def test_workers_of_a_killed_driver_always_save(told, tmp_path):
    """Whatever threads the driver had, and whatever it told them before: they save to
    the end, and then nobody is left."""
    names = ["a", "b", "c", "d"]
    process = driver(
        tmp_path, *(f"Task({x!r}, save_slowly, (folder, {x!r}))" for x in names)
    )
    places = [tmp_path / name for name in names]
    try:
        wait_until(lambda: all(p.exists() and p.read_text() for p in places))
        if told != "killed":
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
    finally:
        process.kill()
        process.wait()
    pids = [place.read_text() for place in places]
    wait_until(lambda: all(map(ended, pids)))
    assert all((tmp_path / f"{name}-saved").exists() for name in names)


def ended(pid: str) -> bool:
    """Gone, or waiting for someone to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def test_a_task_whose_driver_is_killed_before_it_begins(tmp_path):
    """Starting takes seconds of imports: who was started in vain does not begin."""
    process = driver(tmp_path, "Task('a', run_late, (SlowToArrive(folder),))")
    try:
        wait_until((tmp_path / "arriving").exists)
    finally:
        process.kill()
        process.wait()
    time.sleep(2.5)
    assert not (tmp_path / "ran").exists()
