"""Run every block of the tutorial pages, in order, as a reader would.

A block is not run if the line before it says `<!-- not run: why -->`. With `<!-- exit
code 2 -->` it must fail with this code and print the next block. A block with a title
is a file that the reader creates.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("index", "own-environment", "start", "choose", "reproduce")
SHELL, PYTHON, SHOWN = "sh", "python", ("text", "c")
FENCED = r"^(?:<!-- ([^\n]*) -->\n)?```(\w+)([^\n]*)\n(.*?)^```$"


class Block(NamedTuple):
    note: str
    language: str
    title: str
    code: str

    @property
    def exit_code(self) -> int:
        found = re.fullmatch(r"exit code (\d+)", self.note)
        return int(found[1]) if found else 0

    @property
    def is_run(self) -> bool:
        return self.language not in SHOWN and not self.note.startswith("not run")


def text_of(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    found = []
    for note, language, words, code in re.findall(FENCED, text, re.M | re.S):
        title = re.search(r'title="([^"]+)"', words)
        found.append(Block(note, language, title[1] if title else "", code))
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """An empty working folder; `penfac` and `python` are those under test."""
    home, bin_ = tmp_path / "work", tmp_path / "bin"
    home.mkdir()
    bin_.mkdir()
    # -P: like the installed command, it does not import from where it is started
    for name, options in {"penfac": " -P -m penfac", "python": ""}.items():
        script = f'#!/bin/sh\nexec "{sys.executable}"{options} "$@"\n'
        (bin_ / name).write_text(script)
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_), prepend=os.pathsep)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(home)
    known = set(gymnasium.registry)
    yield home
    for name in set(gymnasium.registry) - known:  # remove what the page registered
        del gymnasium.registry[name]
    for name in [n for n, m in sys.modules.items() if is_in(home, m)]:
        del sys.modules[name]


def is_in(home: Path, module: object) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(home)


def run_shell(code: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a block in a shell; an `export` holds for later blocks, as in a terminal."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=150,
    )
    for name, value in re.findall(r"^export (\w+)=(\S*)", code, re.M):
        variables[name] = value
    return done


def run_page(page: str, names: dict) -> None:
    """Run all blocks: Python blocks share one namespace, shell blocks one folder."""
    found, variables = blocks(text_of(page)), {}
    for block, following in zip(found, [*found[1:], None], strict=True):
        if not block.is_run:
            continue
        if block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
        elif block.language == PYTHON:
            exec(compile(block.code, f"{page}.md", "exec"), names)  # noqa: S102
        else:
            done = run_shell(block.code, variables)
            assert done.returncode == block.exit_code, block.code + done.stderr
            if block.exit_code:
                assert following is not None
                assert done.stderr == following.code


@pytest.mark.parametrize("page", [*PAGES, "robot"])
def test_every_block_is_fenced_and_is_run_or_says_why_not(page):
    """Otherwise an indented block or a wrong comment would go unnoticed."""
    text = text_of(page)
    found = blocks(text)
    assert found
    assert len(found) == len(re.findall(r"^```", text, re.M)) / 2
    prose = re.sub(FENCED, "", text, flags=re.M | re.S)
    assert not re.search(r"^    ", prose, re.M)
    for block in found:
        assert block.language in (SHELL, PYTHON, *SHOWN), block.language
        if block.note:
            assert re.fullmatch(r"not run: \w.*|exit code \d+", block.note), block.note


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_page_works(page, folder):
    run_page(page, {"__name__": page})


@pytest.mark.slow
def test_the_page_about_robots_works_on_a_run(folder):
    """The page starts from an existing run."""
    pytest.importorskip("onnxruntime")
    few = "--set collect=steps --set worlds=2 --set steps_per_world=50 --set minibatches=4"
    made = f"penfac train --env RoboschoolHopper-v2 -n 100 --eval-episodes 1 {few}"
    assert run_shell(made, {}).returncode == 0
    names = {"__name__": "robot", "observation": np.zeros(15, np.float32)}
    run_page("robot", names)
    assert "hopper_act" in (folder / "hopper.h").read_text()
    expected = names["policy"](names["observation"])
    np.testing.assert_allclose(names["action"][0], expected, atol=1e-5)


# --- the site ----------------------------------------------------------------------------

REMOTE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//
    |<link\b(?![^>]*\brel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//
    |@import\s*(?:url\()?["']?(?:https?:)?//
    |url\(["']?(?:https?:)?//""",
    re.X,
)


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    """Broken links and anchors are errors; the site loads nothing from other
    servers."""
    pytest.importorskip("mkdocs", reason="needs the extra `docs`: make docs")
    pytest.importorskip("material", reason="needs the extra `docs`: make docs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    files = list((tmp_path / "site").rglob("*"))
    pages = [file for file in files if file.suffix == ".html"]
    assert len(pages) >= len(list((ROOT / "docs").glob("*.md")))
    for file in files:
        if file.suffix in (".html", ".css"):
            found = REMOTE.search(file.read_text(encoding="utf-8"))
            assert found is None, f"{file}: {found}"
    front = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert "gait.gif" in front
