"""Options of `penfac study`, which its commands share."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from penfac.cli.arguments import if_given, whole
from penfac.cli.groups import argument, flag, option
from penfac.cli.options import BUDGET, PLACE, Seeds

WHAT = "What to run"  # heading in --help

Name = Annotated[
    str, argument("STUDY", "Name from `penfac study list`, or a .toml or .py.")
]
Folder = Annotated[Path, argument("FOLDER", "Study folder.")]
Fidelity = Annotated[
    str,
    option(
        "NAME",
        "How to run a study of the paper: authors (as they did) or tuned.",
        under=WHAT,
    ),
]
AnyFidelity = Annotated[
    str | None,
    option(
        "NAME",
        "How to run studies of the paper: authors (as they did), tuned, or, of `paper`, "
        "both.  [default: authors; of `paper` both]",
        under=WHAT,
    ),
]
Arms = Annotated[
    str | None,
    option("A,B", "Take these arms only.  [default: all]", under=WHAT),
]
Settings = Annotated[
    Path | None,
    option(
        "FILE",
        "Settings that `penfac study tune` wrote; for `paper` a folder that has "
        "STUDY-FIDELITY/settings.toml.",
        under=WHAT,
    ),
]
Out = Annotated[
    Path, option("FOLDER", "Folder that holds the study folders.", under=PLACE)
]
Mixed = Annotated[bool, flag("Accept runs of other penfac versions.")]
StudySteps = Annotated[
    str | None,
    option(
        "N",
        "Environment steps of each run.  [default: the study's]",
        "-n",
        "--steps",
        under=BUDGET,
    ),
]


@dataclass
class Budget:
    """How long, with which seeds."""

    seeds: Seeds = None
    steps: StudySteps = None

    def asked(self) -> dict[str, int | None]:
        return {"steps": if_given(whole, self.steps, "--steps")}


@dataclass
class Whole:
    """All studies at once (`paper`)."""

    studies: Annotated[str | None, option("A,B", "Take these studies only.")] = None
    budget: Annotated[
        str | None,
        option(
            "TIME",
            "Run what settles most verdicts in this time; 0 runs nothing and keeps what "
            "--with gives.",
        ),
    ] = None
    with_: Annotated[
        list[Path],
        option(
            "FOLDER",
            "Reports of runs that were made elsewhere; may be repeated.",
            "--with",
        ),
    ] = field(default_factory=list)
    trial: Annotated[
        str | None,
        option(
            "TIME",
            "Length of the short runs that measure a rate that is not known here; 0: none.  "
            "[default: 10s, or 0 where no hours are asked for]",
        ),
    ] = None


@dataclass
class Driver:
    """Where it runs, and what it writes."""

    on: Annotated[
        str, option("WHERE", "local (one process a core), ray or device (one program).")
    ] = "local"
    processes: Annotated[
        int | None, option("N", "Processes of --on local.  [default: cores]")
    ] = None
    address: Annotated[
        str | None, option("URL", "Ray cluster.  [default: one on this machine]")
    ] = None
    out: Out = Path("studies")
    folder: Annotated[
        str | None,
        option(
            "NAME", "Name of the study folder.  [default: STUDY-FIDELITY]", "--name"
        ),
    ] = None
    retry: Annotated[bool, flag("Run failed runs again.")] = False
    mixed: Mixed = False
