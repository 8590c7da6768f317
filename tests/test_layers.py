"""Who may import whom, read from the syntax trees; and where nothing may be printed."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FILES = sorted((SOURCE / "penfac").rglob("*.py"))
MOST_LINES = 450
BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports(path: Path) -> set[str]:
    """Everything a file imports anywhere, by full name; `from a import b` is a.b where
    that is a module of ours, else a. Imports for type checkers alone are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if deeper in MODULES else str(node.module))
    return found


IMPORTS = {name: imports(path) for name, path in MODULES.items()}
OURS = {
    name: {i for i in found if i == "penfac" or i.startswith("penfac.")} - {name}
    for name, found in IMPORTS.items()
}


def layer(name: str) -> str:
    """`penfac.core.actor` is in `core`, `penfac.training.loop` in `train`."""
    return name.split(".")[1] if "." in name else "penfac"


def members(of: str) -> list[str]:
    return [name for name in MODULES if layer(name) == of]


ONLY = {  # a layer and all that it may import of ours, itself aside
    "types": set(),
    "errors": set(),
    "randomness": set(),
    "policy": set(),
    "plots": set(),
    "report": {"stats", "plots"},
    "stats": {"scores"},
    "scores": set(),
    "theory": {"core", "envs"},
    "board": set(),
    "segments": {"errors"},
    "presets": {"errors"},
    "configs": {"errors"},
    "core": {"types", "policy"},
    "nets": {"types"},
    "replay": {"core", "types"},
    "algos": {"core", "nets", "replay", "types", "policy", "configs", "errors"},
    "envs": {"types", "errors", "configs", "policy"},
    "rollout": {"envs", "core", "policy", "randomness", "types", "errors"},
    "evaluate": {"envs", "core", "policy", "randomness", "rollout", "types", "errors"},
    "engines": {
        "algos", "rollout", "evaluate", "envs", "core", "policy", "randomness", "types",
        "errors",
    },
    "train": {"engines", "types", "errors"},
    "checkpoints": {"errors"},
    "runs": {"errors", "segments", "board", "checkpoints"},
    "export": {"policy", "errors"},
    "card": {"algos", "configs", "errors", "learners", "policy", "presets", "runs"},
    "api": {
        "algos", "arguments", "configs", "engines", "envs", "errors", "evaluate", "events",
        "interruption", "judge", "learners", "policy", "randomness", "request", "runs",
        "terminal", "train", "trial", "types",
    },
}  # fmt: skip


@pytest.mark.parametrize("of", ONLY)
def test_a_layer_imports_only_what_is_below_it(of):
    """The allowed layers are listed above; anything else is a new dependency."""
    assert members(of), f"no module in {of}"
    for name in members(of):
        others = {layer(i) for i in OURS[name]} - {of}
        assert others <= ONLY[of], f"{name} imports {others - ONLY[of]}"


def test_engines_know_algorithms_by_their_interface_alone():
    """Of algos an engine may import base: which algorithm it runs is an argument."""
    for name in members("engines"):
        found = {i for i in OURS[name] if layer(i) == "algos"}
        assert found <= {"penfac.algos.base"}, name


def test_nothing_below_the_commands_imports_them():
    """cli and terminal are the top: only __main__ and each other import them, and the
    notebook, which picks a bar."""
    for name, found in OURS.items():
        top = {layer(i) for i in found} & {"cli", "terminal"}
        picks_a_bar = name == "penfac.api.notebook" and top == {"terminal"}
        allowed = {"cli", "terminal", "__main__"}
        assert not top or layer(name) in allowed or picks_a_bar, name


def reachable(start: str) -> set[str]:
    """What importing a module may import in the end, packages above it included."""
    seen, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in MODULES:
            parents = [name.rsplit(".", k)[0] for k in range(1, name.count(".") + 1)]
            waiting += [*IMPORTS[name], *parents]
    return seen


LIGHT = [
    "penfac.runs.folder",
    "penfac.runs.checkpoints",
    "penfac.runs.segments",
    "penfac.runs.tensorboard",
    "penfac.plots",
    "penfac.stats",
    "penfac.scores",
    "penfac.report.figures",
    "penfac.report.page",
    "penfac.report.markdown",
    "penfac.policy",
    "penfac.randomness",
    "penfac.errors",
]


@pytest.mark.parametrize(
    "name", [*LIGHT, "penfac.settings.configs", "penfac.envs.registration"]
)
def test_light_modules_never_lead_to_jax(name):
    """By any chain of imports, those inside functions included."""
    heavy = {
        i for i in reachable(name) if i.split(".")[0] in ("jax", "optax", "jaxtyping")
    }
    assert not heavy


def test_importing_light_modules_loads_no_jax():
    """In a fresh interpreter: files of a run can be read and drawn where JAX is not."""
    program = (
        f"import sys, json, {', '.join(LIGHT)}\n"
        "print(json.dumps([m for m in ('jax', 'jaxlib', 'optax') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_no_module_imports_one_that_imports_it():
    """The graph of imports, lazy ones included, has no circle."""
    finished: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name in finished:
            return
        for other in sorted(OURS[name] & MODULES.keys()):
            visit(other, (*above, name))
        finished.add(name)

    for name in MODULES:
        visit(name, ())


SPEAKERS = {"cli", "terminal", "bench"}
LAST_WORDS = {
    ("penfac.training.trial", "on_hang")
}  # the process ends there, nobody can listen


def calls_of_print(name: str) -> list[str]:
    """The innermost function around each call of print."""
    found = []

    def walk(node: ast.AST, inside: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = node.name
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "print", "sys.stdout.write", "sys.stderr.write",
        ):  # fmt: skip
            found.append(inside)
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(ast.parse(MODULES[name].read_text(encoding="utf-8")), "")
    return found


def test_only_commands_speak():
    """A library that prints cannot be used by another program."""
    for name in MODULES:
        if layer(name) in SPEAKERS:
            continue
        for function in calls_of_print(name):
            assert (name, function) in LAST_WORDS, f"{name}.{function} prints"


def test_the_reader_of_print_calls_reads():
    """The check above sees what is there: cli does print."""
    assert "print_error" in calls_of_print("penfac.cli.app")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_short_and_named_for_what_they_hold(path):
    """No file above 450 lines, none with a name that says nothing."""
    assert path.stem not in BANNED_NAMES
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{lines} lines"


def test_importing_starts_no_computation():
    """What a module may still set for JAX is read when JAX starts: not by an import."""
    code = (
        "import penfac.training.request, penfac.engines.device, penfac.envs.builtin\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
