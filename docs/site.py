"""Hooks of mkdocs: hide marks, make links to files of results/ work, and make the page of
every study from the files of its report."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from penfac.report.figures import all_figures
from penfac.report.overview import overview_page
from penfac.report.page import page as study_page
from penfac.studies.campaign import report
from penfac.studies.reported import FILE, findings_again

RESULTS = Path(__file__).parent.parent / "results"
COMMENT = re.compile(r"<!--.*?-->", re.S)
TABLE_ROW = re.compile(r"^\|.*$", re.M)
# 1 642 and [1, 2] must not break in a narrow column
KEPT = re.compile(r"(?<=\d) (?=\d{3}\b)|(?<=\d,) (?=[-\d ]+\])")
PLUS_MINUS = re.compile(r"(?<=\d) \+- (?=\d)")
PAGE = '<a href="index.html">The same with curves to point at, on one page</a>'
VERDICTS = "verdicts.html"  # data/index.html is the README of results/
WHOLE = f'<a href="data/{VERDICTS}">Every verdict, with a page for each study</a>'
WITH_VERDICTS = ("results.md", "claims.md", "reproduce.md")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)#:\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the files of results/ to the site, under data/."""
    for path in sorted(RESULTS.rglob("*")):
        if path.is_file():
            place = f"data/{path.relative_to(RESULTS).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Drop marks and links to files that are not kept; make links to results/ work."""
    markdown = COMMENT.sub("", markdown)
    markdown = TABLE_ROW.sub(lambda row: KEPT.sub("\u00a0", row[0]), markdown)
    markdown = PLUS_MINUS.sub("\u00a0±\u00a0", markdown)
    place = page.file.src_uri
    if place in WITH_VERDICTS:
        title, _, rest = markdown.strip().partition("\n")
        markdown = f"{title}\n\n{WHOLE}\n{rest}"
    if not place.startswith("data/"):
        return markdown.replace("](../results/", "](data/")
    home = (RESULTS / place.removeprefix("data/")).parent
    if (home / FILE).is_file():
        markdown = f"{PAGE}\n\n{markdown}"
    return LINK.sub(lambda m: m[0] if (home / m[2]).exists() else m[1], markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Make the page of every study beside its report, and one that links them all."""
    data, every = Path(config["site_dir"], "data"), {}
    for home in report.studies_in(RESULTS):
        found = every[home.name] = findings_again(home)
        found["folder"] = f"results/{home.name}"
        place = data / home.name / "index.html"
        place.write_text(study_page(found, all_figures(found)), encoding="utf-8")
    whole = overview_page(report.TITLE, report.entries_of(every))
    (data / VERDICTS).write_text(whole, encoding="utf-8")
