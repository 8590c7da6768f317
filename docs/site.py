"""Hooks of mkdocs: make links to files of results/ work on the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

RESULTS = Path(__file__).parent.parent / "results"
TABLE_ROW = re.compile(r"^\|.*$", re.M)
THOUSANDS = re.compile(
    r"(?<=\d) (?=\d{3}\b)"
)  # 1 642 must not break in a narrow column
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)#:\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the files of results/ to the site, under data/."""
    for path in sorted(RESULTS.rglob("*")):
        if path.is_file():
            place = f"data/{path.relative_to(RESULTS).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to results/ into links to data/, and drop links to files that are not kept."""
    markdown = TABLE_ROW.sub(lambda row: THOUSANDS.sub("\u00a0", row[0]), markdown)
    place = page.file.src_uri
    if not place.startswith("data/"):
        return markdown.replace("](../results/", "](data/")
    home = (RESULTS / place.removeprefix("data/")).parent
    return LINK.sub(lambda m: m[0] if (home / m[2]).exists() else m[1], markdown)
