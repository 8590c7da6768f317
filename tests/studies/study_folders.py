"""What study folders hold, to compare; and studies that run nothing, or in this process."""

import csv
from collections import Counter
from pathlib import Path

from penfac import workers
from penfac.studies import runner


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of every file, and that every folder is there."""
    return {
        str(path.relative_to(folder)): (
            (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else (b"", 0)
        )
        for path in sorted(folder.rglob("*"))
    }


def unlocked(found: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    """Without the lock of the study: who comes in touches it."""
    return {name: held for name, held in found.items() if name != "lock"}


def run_nothing(monkeypatch) -> None:
    """A study is begun, and all its runs are left to others."""
    monkeypatch.setattr(runner, "execute", lambda *_: (none for none in ()))


def here(monkeypatch) -> None:
    """`local` without processes: one after another, where the test is."""

    def one_by_one(tasks, count, poll):
        for task in tasks:
            poll()
            yield task.name, task.work(*task.arguments)

    monkeypatch.setattr(workers, "run_tasks", one_by_one)


def run_folders(study: Path) -> list[Path]:
    return sorted(path for path in study.rglob("seed-*") if path.is_dir())


def updates_once(study: Path) -> None:
    """No run was run twice: every update stands in progress.csv once, and in order."""
    for path in run_folders(study):
        with open(path / "progress.csv", newline="") as file:
            updates = [int(row["update"]) for row in csv.DictReader(file)]
        assert updates == list(range(1, len(updates) + 1)), path
        assert max(Counter(updates).values()) == 1
