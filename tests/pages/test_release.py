"""What is published: links that work on an index, and the check of the files."""

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from docs import check_dist

import penfac

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/someone/penfac"


@pytest.fixture(scope="module")
def hook():
    """hatch_build.py without hatchling, which is only there while a build runs."""
    text = (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    text = re.sub(
        r"^from hatchling.*$", "MetadataHookInterface = object", text, flags=re.M
    )
    spec = importlib.util.spec_from_loader("hatch_build_text", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, "hatch_build.py", "exec"), module.__dict__)  # noqa: S102
    return module


def test_links_of_the_readme(hook):
    """Absolute where a repository is named, with every file of the source; else text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    plain = hook.readme(text, "", "0.2.0")
    absolute = hook.readme(text, HOME, "0.2.0")
    for made in (plain, absolute):
        assert "<!--" not in made
        assert made.startswith("# penfac")
        targets = re.findall(r"\]\(([^)\s]+)\)", made)
        assert targets
        assert all(x.startswith("https://") for x in targets)
    files = re.findall(rf"\({HOME}/(?:blob|raw)/v0\.2\.0/([^)#]+)", absolute)
    assert len(files) > 20
    assert all((ROOT / file).is_file() for file in files)
    assert f"({HOME}/raw/v0.2.0/docs/penfac-ppo.png)" in absolute
    assert "example.org" not in plain


def test_the_urls_of_the_project(hook):
    assert list(hook.urls("")) == ["Paper"]
    assert hook.urls(HOME)["Repository"] == HOME


def test_the_source_names_no_host():
    for file in ("pyproject.toml", "hatch_build.py", "CITATION.cff", "mkdocs.yml"):
        assert "github.com" not in (ROOT / file).read_text(encoding="utf-8"), file


def dist(folder: Path, readme: str = "# x", more: tuple[str, ...] = ()) -> Path:
    """A wheel and an sdist with little in them."""
    version = penfac.__version__
    with zipfile.ZipFile(folder / f"penfac-{version}-py3-none-any.whl", "w") as wheel:
        about = f"Metadata-Version: 2.4\nName: penfac\nVersion: {version}\n\n{readme}"
        wheel.writestr(f"penfac-{version}.dist-info/METADATA", about)
    due = ("src/penfac/__init__.py", "hatch_build.py", "LICENSE", "CHANGELOG.md")
    with tarfile.open(folder / f"penfac-{version}.tar.gz", "w:gz") as sdist:
        for name in (*due, *more):
            sdist.addfile(tarfile.TarInfo(f"penfac-{version}/{name}"), io.BytesIO())
    return folder


def test_a_good_release(tmp_path):
    assert check_dist.check(dist(tmp_path)) == []


def test_a_link_that_leads_nowhere(tmp_path):
    (told,) = check_dist.check(dist(tmp_path, "[docs](docs/start.md)"))
    assert "docs/start.md leads nowhere" in told


def test_results_in_the_sdist(tmp_path):
    (told,) = check_dist.check(dist(tmp_path, more=("results/big.csv",)))
    assert told == "sdist: holds results/big.csv"


def test_two_wheels(tmp_path):
    dist(tmp_path)
    (tmp_path / "other.whl").write_bytes(b"")
    assert "one wheel and one sdist" in check_dist.check(tmp_path)[0]


def test_tags():
    assert check_dist.check_tag(f"v{penfac.__version__}") == []
    (told,) = check_dist.check_tag("v9.9.9")
    assert "tag v9.9.9: must be v" in told


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name
)
def test_workflows_are_read(file):
    """They are YAML, and call targets of the Makefile."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert document
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"run: make (\w+)", file.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", targets, re.M), target


def test_workflows_test_the_versions_that_are_promised():
    text = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    tested = yaml.safe_load(text)["jobs"]["tests"]["strategy"]["matrix"]["python"]
    promised = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert tested == re.findall(r"Python :: (3\.\d+)\"", promised)


@pytest.mark.slow
def test_the_files_of_a_release(tmp_path):
    """A build of this source passes its own check, and a wheel is made from the sdist."""
    pytest.importorskip("build")
    source = tmp_path / "source"
    skipped = shutil.ignore_patterns(
        ".git", ".venv*", "build", "dist", "runs", ".*cache"
    )
    shutil.copytree(ROOT, source, ignore=skipped)
    env = os.environ | {"PENFAC_REPOSITORY": HOME}
    words = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist")]
    done = subprocess.run(
        words, cwd=source, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert check_dist.check(tmp_path / "dist") == []
