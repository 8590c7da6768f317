"""Every sentence of the paper with its verdicts, made from the files of reports."""

import os
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError
from penfac.studies.claims import Claim
from penfac.studies.findings import judge_claims
from penfac.studies.paper import FIDELITIES, PAPER, fidelities_of, paper_study
from penfac.studies.reported import Made, changed_arms, read_made
from penfac.studies.spec import Study

SHOWN = 3  # comparisons of a claim that are written out
HEAD = """\
# What the paper says, and what we see

Every sentence of the paper that an experiment can test, the study that tests it
(`penfac study show NAME`), and its verdict: holds, contradicted, not shown, not tested, or
not run yet ([what they mean](studies.md#judging)). Seeds and steps stand beside those of the
paper's figures, as far as it or its authors' program tells them. Verdicts are on seeds that
no search has seen. "Earlier settings" are runs whose config differs from what the study runs
today; "as tuned" stands where both fidelities would run the same. "10 % takes n seeds": so
many seeds per arm show a difference of a tenth of the return 80 % of the time, at the
measured spreads. Where the verdict by the final return differs from that over the whole
curve, both stand there (final, area). This page is made by
`penfac study claims --into docs/claims.md` from the files in `results/`.
"""


def claims_page(results: Path, beside: Path | None = None) -> str:
    """The table as Markdown, a row a claim; verdicts link the reports where it is known
    which folder the page is in."""
    if not results.is_dir():
        raise ConfigError(f"{results}: no such folder; give the folder of the reports")
    head = ["the paper says", "where", "study", "compared", *FIDELITIES]
    rows = [row for name in PAPER for row in study_rows(name, results, beside)]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    rule = "|" + "---|" * len(head)
    return "\n".join([HEAD, lines[0], rule, *lines[1:], ""])


def study_rows(name: str, results: Path, beside: Path | None = None) -> list[list[str]]:
    studies = {fidelity: paper_study(name, fidelity) for fidelity in FIDELITIES}
    own = fidelities_of(name)
    cells = {
        fidelity: linked_cells(study, results / f"{name}-{fidelity}", beside)
        if fidelity in own
        else [f"as {own[0]}"] * len(study.claims)
        for fidelity, study in studies.items()
    }
    found = []
    for k, claims in enumerate(
        zip(*(study.claims for study in studies.values()), strict=True)
    ):
        said = claims[0].words, claims[0].where, f"`{name}`"
        judged = [cells[fidelity][k] for fidelity in FIDELITIES]
        found.append([*said, compared(claims), *judged])
    return found


def compared(claims: tuple[Claim, ...]) -> str:
    """What is compared; of `tuned` too where its arms are others."""
    first, *others = [lines(claim) for claim in claims]
    told = [
        f"{fidelity}: {other}"
        for fidelity, other in zip(FIDELITIES[1:], others, strict=True)
        if other != first
    ]
    return "; ".join([first, *told])


def lines(claim: Claim) -> str:
    listed = list(claim.compare)
    if len(listed) > SHOWN:
        listed = [*listed[: SHOWN - 1], f"and {len(listed) - SHOWN + 1} more"]
    how = [] if claim.measure == "final" else [claim.measure]
    if claim.changes:
        (first, second), *others = claim.changes
        more = f" and {len(others)} more" if others else ""
        how.append(f"change from {first} to {second}{more}")
    return "; ".join(listed) + (f" ({'; '.join(how)})" if how else "")


# --- verdicts ----------------------------------------------------------------------------


def linked_cells(study: Study, report: Path, beside: Path | None) -> list[str]:
    """The verdicts of a report, each a link to it."""
    cells = verdict_cells(study, read_made(report))
    if beside is None or not (report / "report.md").is_file():
        return cells
    link = Path(os.path.relpath(report, beside), "report.md").as_posix()
    parts = (cell.partition(" (") for cell in cells)
    return [
        f"[{word}]({link}){mark}{rest}" if rest else word for word, mark, rest in parts
    ]


def verdict_cells(study: Study, made: Made | None) -> list[str]:
    if made is None:
        return ["not run yet"] * len(study.claims)
    found = judge_claims(made.budget_of(study), made.runs)
    return [
        cell(study, claim, verdict, made)
        for claim, verdict in zip(study.claims, found, strict=True)
    ]


def cell(study: Study, claim: Claim, found: dict[str, Any], made: Made) -> str:
    """The verdict, its budget, and all that a reader must know with it."""
    if found["verdict"] == "not run":
        return "not run yet"
    of_seeds = f" of {study.paper_seeds}" if study.paper_seeds else ""
    of_steps = f" of {short(study.paper_steps)}" if study.paper_steps else ""
    told = [f"{found['seeds']}{of_seeds} seeds, {short(made.steps)}{of_steps} steps"]
    if len(found["measures"]) > 1:
        told.append(", ".join(f"{m} {v}" for m, v in found["measures"].items()))
    elif len(set(found["by_measure"].values())) > 1:
        told.append(", ".join(f"{m} {v}" for m, v in found["by_measure"].items()))
    if found["seeds_needed"] is not None:
        told.append(f"10 % takes {found['seeds_needed']} seeds")
    verdicts = [row["verdict"] for row in found["comparisons"]]
    if "not run" in verdicts:
        told.append(f"{verdicts.count('not run')} of {len(verdicts)} not run")
    if any("not known" in warning for warning in found["warnings"]):
        what = " and ".join(f"{n.column} above {n.bound}" for n in claim.conditions)
        told.append(f"whether {what} is not known")
    if differ(study, claim, made):
        told.append("earlier settings")
    return f"{found['verdict']} ({'; '.join(told)})"


def differ(study: Study, claim: Claim, made: Made) -> bool:
    """Whether an arm that the claim compares has another config today."""
    named = {side.arm for c in claim.comparisons for side in c.sides}
    return not named.isdisjoint(changed_arms(study, made))


def short(steps: int) -> str:
    """20M, 500k, 2k; other numbers as they are."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if steps % size == 0:
            return f"{steps // size}{letter}"
    return str(steps)
