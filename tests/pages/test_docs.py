"""The docs agree with the code: names resolve, tables match, commands parse."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest
import typer.main
from docs import tables

import penfac
import penfac.errors
from penfac import cli
from penfac.algos import ALGORITHMS, ddpg, online, ppo, sac
from penfac.algos import penfac as penfac_algorithm
from penfac.envs.builtin import BUILT_IN
from penfac.runs import tracking
from penfac.runs.recorder import tensorboard_tags
from penfac.settings import presets
from penfac.studies.ledger import claims_page
from penfac.studies.paper import PAPER, paper_study
from penfac.studies.verdicts import VERDICTS
from penfac.training import request, trial

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
REPORTS = sorted((ROOT / "results").glob("*/report.md"))
RESULTS = sorted((ROOT / "results").glob("**/README.md"))
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *PAGES,
    *RESULTS,
]
COMMANDS = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda p: p.name)


def in_backticks(text: str) -> list[str]:
    """Return inline code, without code blocks."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    prose = re.sub(r"^    .*$", "", prose, flags=re.M)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]


# --- names ---------------------------------------------------------------------------


def resolve(name: str) -> object:
    """Return the object of a dotted name: import modules first, then get attributes."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[k:]:
            found = getattr(found, attribute)
        return found
    raise AttributeError(name)


@each(PAGES)
def test_every_name_of_ours_resolves(path):
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`(penfac(?:\.\w+)+)[`(]", text):
        assert resolve(name) is not None, name


@each(TEXTS)
def test_every_file_named_is_there(path):
    """A path such as `tests/core/test_returns.py`, with or without `::test_name`."""
    text = path.read_text(encoding="utf-8")
    pattern = r"((?:tests|src|examples|docs)/[\w/.-]+\.\w+)(?:::(\w+))?"
    for file, test in re.findall(pattern, text):
        assert (ROOT / file).is_file(), file
        if test:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), test


def public_functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("_")]


@each(sorted((ROOT / "src/penfac/core").glob("*.py")))
def test_every_equation_is_in_the_index(path):
    text = page("equations.md")
    for name in public_functions(path):
        assert f"`penfac.core.{path.stem}.{name}`" in text


def test_every_test_in_the_index_is_in_the_file_of_its_section():
    for section in page("equations.md").split("\n## ")[1:]:
        files = re.findall(r"`(tests/[\w/]+\.py)`", section)
        tests = "".join((ROOT / f).read_text(encoding="utf-8") for f in files)
        for name in re.findall(r"`(test_\w+)`", section):
            assert f"def {name}(" in tests, name


# --- deviations ----------------------------------------------------------------------


def numbers_in(text: str) -> set[int]:
    return {int(n) for n in re.findall(r"\bD(\d+)\b", text)}


def defined() -> list[int]:
    return [int(n) for n in re.findall(r"^## D(\d+): ", page("deviations.md"), re.M)]


def test_deviations_are_numbered_without_gaps():
    assert defined() == list(range(1, len(defined()) + 1))


def test_every_deviation_is_in_the_code_and_every_number_in_the_code_is_one():
    source = ROOT / "src/penfac"
    files = [*source.rglob("*.py"), *source.rglob("*.toml")]
    used = set().union(*(numbers_in(f.read_text(encoding="utf-8")) for f in files))
    assert used == set(defined())


@each(TEXTS)
def test_pages_use_deviations_that_exist(path):
    assert numbers_in(path.read_text(encoding="utf-8")) <= set(defined())


# --- tables --------------------------------------------------------------------------


def rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table whose first column is `first`."""
    table = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    return [[c.strip() for c in line.strip("|").split("|")] for line in table[2:]]


@pytest.mark.parametrize("name", tables.PAGES)
def test_the_table_of_settings_is_the_one_that_declarations_make(name):
    """`make tables` writes the table: each setting, its meaning, its value in each preset."""
    assert page(name) == tables.with_table(page(name), tables.PAGES[name])


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_has_a_page_with_its_command(algo):
    """The page links to measurements, and names the command and the place in the paper."""
    text = page("penfac.md" if algo == "nfac" else f"{algo}.md")
    assert algo == "penfac" or f"--algo {algo}" in text
    assert "results.md" in text or "baselines.md" in text
    if algo not in ("td3", "sac"):  # not in the paper
        assert re.search(r"Sec\. \d|Eq\. \d|Table \d", text)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (penfac_algorithm, "penfac.md"),
        (online, "online.md"),
        (ddpg, "ddpg.md"),
        (sac, "sac.md"),
        (ppo, "ppo.md"),
    ],
)
def test_every_metric_and_every_tag_is_explained(module, name):
    metrics = {name: 0.0 for name in module.Metrics._fields if name != "finite"}
    known = dict.fromkeys(
        ("update", "step", "train_return", "train_length", "sigma"), 0
    )
    tags = tensorboard_tags(known | metrics | {"reward_progress": 0.0})
    text = page("penfac.md") + page(name)
    for word in [*metrics, *tags]:
        assert f"`{word}`" in text, word


def test_every_exit_code_is_explained():
    written = {r[2].strip("`"): r[0] for r in rows(page("faults.md"), "code") if r[2]}
    kinds = [
        kind
        for kind in vars(penfac.errors).values()
        if isinstance(kind, type) and issubclass(kind, penfac.errors.PenfacError)
    ]
    assert set(written) == {kind.__name__ for kind in kinds}
    for kind in kinds:
        assert written[kind.__name__] == str(kind.exit_code)


def test_every_built_in_environment_is_listed_with_its_sizes():
    written = {r[0].strip("`"): r[1] for r in rows(page("environments.md"), "id")}
    sizes = {
        env.spec.id: f"{env.spec.obs_dim}, {env.spec.action_dim}, {env.spec.horizon}"
        for env in BUILT_IN.values()
    }
    assert written == sizes


# --- commands ------------------------------------------------------------------------


def command_lines(text: str) -> list[str]:
    """Return every `penfac ...` in a code block or in backticks."""
    blocks = re.findall(r"^    (.*)$", text, re.M)
    blocks += "\n".join(re.findall(r"^```.*?$(.*?)^```", text, re.M | re.S)).split("\n")
    lines = [line.split(" #")[0].strip() for line in blocks] + in_backticks(text)
    lines = [re.sub(r"^(\w+=\S+ )+", "", line) for line in lines]  # NAME=value before
    found = [part for line in lines for part in re.split(r", (?=penfac )", line)]
    commands = [line for line in found if re.match(r"penfac \w", line)]
    return [line for line in commands if "--help" not in line]


ALL_COMMANDS = [
    pytest.param(line, id=f"{path.name}: {line}")
    for path in TEXTS
    for line in dict.fromkeys(command_lines(path.read_text(encoding="utf-8")))
]


class Understood(Exception):
    """The command passed all its checks and would start a run."""


@pytest.mark.parametrize("line", ALL_COMMANDS)
def test_every_command_shown_is_understood(line, monkeypatch):
    """Options exist, and `train` passes all checks before its run."""

    def check_only(asked, limits, listener):
        request.resolve(asked)
        raise Understood

    def check_id(env_id):
        if ":" not in env_id:  # the reader's own module does not exist here
            known_id(env_id)

    def preset(file, name, env_id):  # nor does the reader's own file
        return {} if name.endswith(".toml") else known_preset(file, name, env_id)

    known_id, known_preset = request.check_id, presets.preset
    monkeypatch.setattr(presets, "preset", preset)
    monkeypatch.setattr(trial, "start", check_only)
    monkeypatch.setattr(tracking, "check", lambda names: None)  # needs its packages
    monkeypatch.setattr(request, "check_id", check_id)
    _, name, *arguments = shlex.split(line)
    if not arguments and name in COMMANDS and name != "train":
        return  # the page mentions only the name
    context = COMMANDS[name].make_context(name, arguments)
    if name == "train":
        with pytest.raises(Understood):
            context.command.invoke(context)


@each(TEXTS)
def test_every_option_named_is_one(path):
    below = [
        c
        for group in COMMANDS.values()
        for c in getattr(group, "commands", {}).values()
    ]
    every = [*COMMANDS.values(), *below]
    options = {o for c in every for p in c.params for o in p.opts}
    for code in in_backticks(path.read_text(encoding="utf-8")):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", code):
            assert option in options | {"--help", "--version"}, option


# --- pages ---------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    words = [re.sub(r"[^\w\- ]", "", h.lower()).strip() for h in headings]
    return {w.replace(" ", "-") for w in words}


@pytest.mark.parametrize(
    "path", TEXTS + REPORTS, ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_every_link_leads_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page), target


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    assert len(re.findall(r"^!\[", text, re.M)) == 1


def test_the_design_fits_on_a_screen():
    assert len(page("design.md").splitlines()) <= 70


def prose(text: str) -> list[str]:
    """Return the lines outside tables, code and comments."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    return [x for x in text.splitlines() if not x.startswith(("|", "    ", "!["))]


@each([path for path in TEXTS if path.name != "claims.md"])
def test_lines_of_prose_are_short(path):
    for line in prose(path.read_text(encoding="utf-8")):
        assert len(line) <= 140, line


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {penfac.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{penfac.__version__}]" in changes


# --- claims --------------------------------------------------------------------------


def test_the_page_of_claims_is_the_one_that_the_results_make():
    """`penfac study claims --into docs/claims.md` makes the page."""
    assert page("claims.md") == claims_page(ROOT / "results")


def test_every_claim_of_the_paper_has_a_row_with_its_study_and_a_verdict():
    written = rows(page("claims.md"), "the paper says")
    claims = [
        (claim.words, claim.where, f"`{name}`")
        for name in PAPER
        for claim in paper_study(name, "authors").claims
    ]
    assert [tuple(row[:3]) for row in written] == claims
    for row in written:
        for cell in row[4:6]:
            assert cell.split(" (")[0] in (*VERDICTS, "not run yet"), cell
