"""Check what is about to be published: `python -m docs.check_dist dist`."""

import re
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import penfac

LARGEST = 12_000_000  # bytes of a file


def check(folder: Path) -> list[str]:
    """What is wrong with the files of a release; empty if nothing is."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if [len(wheels), len(sdists)] != [1, 1]:
        return [f"{folder}: must hold one wheel and one sdist"]
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (x for x in wheel.namelist() if x.endswith(".dist-info/METADATA"))
        about = message_from_bytes(wheel.read(name))
    with tarfile.open(sdists[0]) as sdist:
        held = [x.split("/", 1)[-1] for x in sdist.getnames()]
    wrong = [
        f"{file.name}: has {file.stat().st_size:,} bytes; must be at most {LARGEST:,}"
        for file in (*wheels, *sdists)
        if file.stat().st_size > LARGEST
    ]
    if about["Version"] != penfac.__version__:
        wrong.append(f"version {about['Version']}: the source has {penfac.__version__}")
    body = str(about.get_payload())
    for target in re.findall(r"\]\(([^)\s]+)\)", body):
        if not target.startswith(("https://", "http://", "#")):
            wrong.append(f"README: the link {target} leads nowhere on an index")
    kept = ("results/", "runs/", ".git/", ".github/", ".ci/", "build/")
    wrong += [f"sdist: holds {x}" for x in held if x.startswith(kept)]
    due = ("src/penfac/__init__.py", "hatch_build.py", "LICENSE", "CHANGELOG.md")
    wrong += [f"sdist: has no {x}" for x in due if x not in held]
    return wrong


def check_tag(tag: str) -> list[str]:
    """A tag v0.2.0 publishes version 0.2.0, whose changes have a date."""
    version, wrong = penfac.__version__, []
    if tag != f"v{version}":
        wrong.append(f"tag {tag}: must be v{version}, the version of the source")
    text = (Path(__file__).parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text, re.M):
        wrong.append(f"CHANGELOG.md: {version} has no date")
    return wrong


if __name__ == "__main__":
    found = check(Path(sys.argv[1])) + [
        x for tag in sys.argv[2:] for x in check_tag(tag)
    ]
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)
