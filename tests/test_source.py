"""Rules of the source that import-linter cannot state: who prints, how long, how named."""

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penfac"
TREES = {
    str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
LONGEST_FILE = 300
LONGEST_FUNCTION = 50
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
MAY_PRINT = ("cli/", "bench/", "terminal.py")
# the process ends there: nobody is left to print for it
LAST_WORDS = {("training/trial.py", "on_hang")}
PRINTS = {"print", "sys.stdout.write", "sys.stderr.write"}


def printing_functions(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Yield the innermost function around each call that prints."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTS:
            yield inside
        yield from printing_functions(
            node, node.name if isinstance(node, FUNCTIONS) else inside
        )


def test_only_commands_print():
    """A library that prints cannot be used by another program."""
    found = {
        (file, function)
        for file, tree in TREES.items()
        if not file.startswith(MAY_PRINT)
        for function in printing_functions(tree)
    }
    assert found <= LAST_WORDS


def test_the_search_for_prints_finds_them():
    assert list(printing_functions(TREES["cli/app.py"]))


def test_files_are_short():
    long = {file: len((SOURCE / file).read_text().splitlines()) for file in TREES}
    assert {file: n for file, n in long.items() if n > LONGEST_FILE} == {}


def test_functions_are_short():
    lengths = {
        f"{file}: {node.name}": node.end_lineno - node.lineno + 1
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}


def test_names_of_files_say_something():
    names = {part for file in TREES for part in Path(file).with_suffix("").parts}
    assert not names & BANNED_NAMES


def test_imports_are_absolute():
    for file, tree in TREES.items():
        levels = {n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert levels <= {0}, file


def light_modules() -> list[str]:
    """Return the modules that .importlinter keeps free of JAX."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return contracts["importlinter:contract:light"]["source_modules"].split()


@pytest.mark.parametrize("root", ["penfac", "light modules"])
def test_importing_light_modules_loads_no_jax(root):
    """In a fresh interpreter: a run can be read and drawn where JAX is not installed."""
    names = ["penfac"] if root == "penfac" else light_modules()
    code = (
        f"import sys, {', '.join(names)}\n"
        "assert not {'jax', 'jaxlib', 'optax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_importing_starts_no_computation():
    """A program may still choose JAX's platform after it imported penfac."""
    code = (
        "import penfac.training.request, penfac.engines.device, penfac.envs.builtin\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
