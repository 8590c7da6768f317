"""What the campaign found, as tables in docs/faults.md: made from results/campaign.json."""

import json
import re
from pathlib import Path

from tests.campaign.faults import TABLE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "campaign.json"
PAGE = ROOT / "docs" / "faults.md"
MARKS = re.compile(r"(<!--campaign-->\n).*?(<!--end of campaign-->)", re.S)
GROUPS = {
    "kills": "kills at random moments, 10 algorithms on host and device, `--into`, pack, unpack",
    "writes": "a kill at every point of writing",
    "drivers": "kills of `tune`, `study run` and their processes",
    "damage": "files damaged, forged, linked or gone, under every command that reads them",
    "environments": "environments that exit, crash, hang, print, wander, spoil",
    "places": "disks full, read-only or without inodes, clocks, eight in one folder",
    "signals": "every signal, closed pipes and terminals",
    "faults": "the table below",
    "soak": "10 000 updates, a million-step replay, 64 seeds, 200 runs",
}


def rendered(text: str, found: dict) -> str:
    """The page with its tables made again."""
    body = f"{groups_table(found)}\n\n{faults_table(found)}"
    return MARKS.sub(lambda m: f"{m[1]}\n{body}\n\n{m[2]}", text)


def groups_table(found: dict) -> str:
    lines = ["| group | what goes wrong | tried | held |", "|---|---|---|---|"]
    for name, what in GROUPS.items():
        if name in found["groups"]:
            group = found["groups"][name]
            lines.append(f"| {name} | {what} | {group['tried']} | {group['held']} |")
    return "\n".join(lines)


def faults_table(found: dict) -> str:
    """Each fault, the answer it must get, and whether it got that."""
    answers = found["groups"].get("faults", {}).get("answers", {})
    lines = ["| | what happens | the answer | here |", "|---|---|---|---|"]
    for fault in TABLE:
        here = (
            "a test"
            if fault.is_test
            else answers.get(f"{fault.id} {fault.what}", "not tried")
        )
        lines.append(f"| {fault.id} | {fault.what} | {fault.answer} | {here} |")
    return "\n".join(lines)


def write() -> None:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
