"""What mkdocs asks while it builds the site: pages link to files of results/."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

RESULTS = Path(__file__).parent.parent / "results"
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)#:\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """results/ becomes data/ of the site."""
    for path in sorted(RESULTS.rglob("*")):
        if path.is_file():
            place = f"data/{path.relative_to(RESULTS).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The same links work in the repository and on the site."""
    place = page.file.src_uri
    if not place.startswith("data/"):
        return markdown.replace("](../results/", "](data/")
    home = (RESULTS / place.removeprefix("data/")).parent
    # of a report's figures not all are kept
    return LINK.sub(lambda m: m[0] if (home / m[2]).exists() else m[1], markdown)
