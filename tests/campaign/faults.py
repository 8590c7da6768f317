"""The table of faults as cases: provoked here, or covered by a test that is named."""

import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.campaign import provocations, provoked_files, provoked_worlds
from tests.campaign.case import Case


class Fault(NamedTuple):
    id: str
    what: str
    answer: str
    how: str

    @property
    def is_test(self) -> bool:
        return self.how.startswith("tests/")

    @property
    def provoke(self) -> Callable[[Path], None]:
        for module in (provocations, provoked_files, provoked_worlds):
            if hasattr(module, self.how):
                return getattr(module, self.how)
        raise LookupError(f"{self.id}: nobody provokes {self.how}")


TABLE = [
    Fault(name, **values)
    for name, values in tomllib.loads(
        Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")
    ).items()
]


def cases(home: Path, rng: random.Random) -> list[Case]:
    found = [
        Case(f"{f.id} {f.what}", f.answer, f.provoke) for f in TABLE if not f.is_test
    ]
    rng.shuffle(found)
    return found
