"""Make tables of settings from their declarations, and numbers from results/: `make tables`."""

import re
from pathlib import Path
from typing import Any

from docs import marks

from penfac.algos import ALGORITHMS
from penfac.cli.catalogue import presets_table
from penfac.settings import presets
from penfac.settings.declaration import declared

DOCS = Path(__file__).parent
PAGES = {  # page -> the algorithm whose settings it explains
    "penfac.md": "penfac",
    "online.md": "cacla",
    "ddpg.md": "ddpg",
    "td3.md": "td3",
    "sac.md": "sac",
    "ppo.md": "ppo",
}


def with_table(text: str, algo: str) -> str:
    """Return the text of a page with a new table of settings."""
    return re.sub(r"\| setting \| meaning \|(.*\n\|)*.*", lambda _: table(algo), text)


def table(algo: str) -> str:
    """Return a row per setting: its meaning, and its value in each preset on HalfCheetah."""
    names = presets.names(ALGORITHMS[algo].presets)
    lines = [
        f"| setting | meaning | {' | '.join(names)} |",
        "|---" * (2 + len(names)) + "|",
    ]
    settings = declared(ALGORITHMS[algo].config)
    for row in presets_table(algo, "HalfCheetah-v5"):
        key = row["setting"]
        values = " | ".join(cell(row[name]) for name in names)
        lines.append(f"| `{key}` | {settings[key].means} | {values} |")
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    for name, algo in PAGES.items():
        file = DOCS / name
        text = file.read_text(encoding="utf-8")
        file.write_text(with_table(text, algo), encoding="utf-8")
    marks.write()
