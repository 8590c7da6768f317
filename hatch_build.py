"""What the package index shows: the README with links that work there.

A relative link leads nowhere on an index. Where PENFAC_REPOSITORY names the repository
(the publishing workflow sets it), links become absolute and the project has its URLs;
elsewhere they become plain text. No host is named in the source.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAPER = "https://www.ijcai.org/proceedings/2019/625"
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)  # marks of numbers that files give


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        home = os.environ.get("PENFAC_REPOSITORY", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, home, metadata["version"]),
        }
        metadata["urls"] = urls(home)


def readme(text: str, home: str, version: str) -> str:
    """The README for an index; `home` is the repository, or nothing."""
    text = COMMENT.sub("", text).lstrip()
    if not home:
        return LINK.sub(r"\1", IMAGE.sub("", text))
    tag = f"v{version}"
    text = IMAGE.sub(rf"![\1]({home}/raw/{tag}/\2)", text)
    return LINK.sub(rf"[\1]({home}/blob/{tag}/\2)", text)


def urls(home: str) -> dict[str, str]:
    own = {
        "Repository": home,
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    return {"Paper": PAPER} | (own if home else {})
