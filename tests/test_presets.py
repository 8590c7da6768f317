"""The presets against the paper's own tables."""

import re
from importlib import resources
from pathlib import Path

import pytest

from penfac import presets
from penfac.algos.penfac_config import Config
from penfac.configs import from_values, known_fields
from penfac.errors import ConfigError

TEX = Path(__file__).parents[2] / "shared/paper/penfac-ijcai19.tex"
SHORT = {"ho": "hopper", "ha": "halfcheetah", "hu": "humanoid"}
WORDS = {
    r"\text{Leaky ReLU} (0.01)": "leaky_relu",
    "TanH": "tanh",
    "first layer of the actor": "batch-norm",
}
# the paper's name of each row -> the name of the row in tables.toml
ROWS = {
    r"$\gamma$": "gamma",
    "Actor network": "actor_network",
    "Critic network": "critic_network",
    "Actor output activation": "actor_output",
    "Network hidden activation": "activation",
    "Actor learning rate": "actor_lr",
    "Critic learning rate": "critic_lr",
    "Batch norm": "batch_norm",
    r"$d_{\text{target}}$": "d_target",
    "ADAM": "adam",
    "Number of ADAM iteration (actor)": "actor_steps",
    "Number of ADAM iteration (critic)": "critic_steps",
    r"$\lambda$": "lam",
    r"$\sigma^2$ (Truncated Gaussian law)": "sigma",
    "Number fitted iteration": "fitted_iterations",
    "Update each $x$ episodes": "episodes_per_update",
}


# --- reading the LaTeX ----------------------------------------------------------------


def table(label: str) -> dict[str, str]:
    """Row name -> the cell beside it, of the table with this label."""
    if not TEX.exists():
        pytest.skip(f"the paper's LaTeX is not at {TEX}")
    text = TEX.read_text(encoding="utf-8")
    before, _ = text.split(rf"\label{{{label}}}")
    body = before.split(r"\begin{tabular}{c|c}")[-1].split(r"\end{tabular}")[0]
    rows = [row.split("&") for row in body.split(r"\\") if row.strip()]
    return {name.strip(): cell.strip() for name, cell in rows}


def group(text: str, start: int) -> tuple[str, int]:
    """What the braces opening at `start` hold, and where they have closed."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1 : i], i + 1
    raise ValueError(f"unbalanced braces: {text}")


def items(cell: str) -> list[str]:
    """The cell cut at its commas, those inside brackets aside."""
    found, depth = [""], 0
    for c in cell.replace("$", ""):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [item.strip() for item in found]


def value(text: str):
    """`10^{-4}`, `64 \\times 64`, `(0, 0.999, ...)`, a number or a word."""
    if text in WORDS:
        return WORDS[text]
    if power := re.fullmatch(r"10\^\{(-?\d+)\}", text):
        return float(f"1e{power[1]}")
    if sizes := re.fullmatch(r"(\d+) \\times (\d+)", text):
        return [int(sizes[1]), int(sizes[2])]
    if triple := re.fullmatch(r"\((.+), 0\.999, 10\^\{-8\}\)", text):
        return float(triple[1])
    return float(text)


def kept_and_searched(cell: str):
    """What is underlined, by task where tasks differ, and all that is listed."""
    kept, searched = {}, []
    for item in items(cell):
        tasks = list(SHORT)
        if item.startswith(r"\underset"):
            under, end = group(item, len(r"\underset"))
            item, _ = group(item, end)
            tasks = re.fullmatch(r"\\text\{(.+)\}", under)[1].split(",")
            kept |= {SHORT[t]: value(item) for t in tasks}
        searched.append(value(item))
    if not kept:
        assert len(searched) == 1, cell
        return searched[0], searched
    assert set(kept) == set(SHORT.values()), cell
    one = list(kept.values())
    return (one[0] if one.count(one[0]) == len(one) else kept), searched


@pytest.mark.parametrize(
    ("name", "label"), [("table1", "tab:hyperX"), ("table2", "tab:hyper1")]
)
def test_the_tables_are_those_of_the_paper(name, label):
    """Every row of the LaTeX, kept and searched values, and no row more."""
    printed = {ROWS[row]: kept_and_searched(cell) for row, cell in table(label).items()}
    ours = {
        key: (row["kept"], row["searched"])
        for key, row in presets.tables()[name]["rows"].items()
    }
    assert ours == printed


def test_the_reader_of_latex_sees_what_is_underlined():
    """The parser itself, on a cell whose meaning is plain."""
    cell = r"$1$, $\underset{\text{ha}}{5}$, $\underset{\text{ho,hu}}{10^{-2}}$"
    by_task = {"halfcheetah": 5, "hopper": 0.01, "humanoid": 0.01}
    assert kept_and_searched(cell) == (by_task, [1, 5, 0.01])


# --- the tables and the presets -------------------------------------------------------


def all_rows():
    return [
        (f"{name}.{key}", row)
        for name, content in presets.tables().items()
        for key, row in content["rows"].items()
    ]


rows = pytest.mark.parametrize(
    "row", [row for _, row in all_rows()], ids=[name for name, _ in all_rows()]
)


@rows
def test_a_kept_value_was_searched(row):
    kept = row["kept"]
    for one in kept.values() if isinstance(kept, dict) else [kept]:
        assert one in row["searched"]


@rows
def test_every_searched_value_is_a_value_of_its_setting(row):
    """The paper's whole search can be run: each value makes a config."""
    assert row["setting"] in known_fields(Config)
    whole = known_fields(Config)[row["setting"]] is int
    for one in row["searched"]:
        one = int(one) if whole else one
        from_values(Config, {row["setting"]: one})


def kept_for(row, task):
    kept = row["kept"]
    return kept[task] if isinstance(kept, dict) else kept


def numbered_deviations(name: str) -> set[str]:
    """Settings of a preset whose line names a deviation (D1, D2, ...)."""
    text = (resources.files("penfac.presets") / "penfac.toml").read_text("utf-8")
    block = text.split(f"[{name}]\n")[1].split("\n[")[0]
    return set(re.findall(r"^(\w+) = [^#\n]*#[^\n]*\bD\d+", block, re.MULTILINE))


@pytest.mark.parametrize("task", presets.TASKS)
@pytest.mark.parametrize("name", ["authors", "paper"])
@rows
def test_presets_hold_what_the_paper_kept(row, name, task):
    """`authors` and `paper` are the kept values, but for deviations that are numbered."""
    setting = row["setting"]
    ours = presets.preset("penfac", name, f"Some{task.title()}-v0")[setting]
    if ours != kept_for(row, task):
        assert setting in numbered_deviations(name)


def test_paper_reads_sigma_as_the_variance_that_is_printed():
    """Table 2 prints sigma^2; `authors` takes its number for sigma (D6)."""
    printed = presets.tables()["table2"]["rows"]["sigma"]["kept"]
    paper = presets.preset("penfac", "paper", "Hopper-v5")["sigma"]
    authors = presets.preset("penfac", "authors", "Hopper-v5")["sigma"]
    assert paper**2 == pytest.approx(printed, rel=1e-12)
    assert authors == printed


@pytest.mark.parametrize("name", ["authors", "paper"])
def test_presets_of_the_paper_leave_nothing_to_the_defaults(name):
    """Tuning the defaults must not move what stands for the paper.

    Only what these presets switch off may stay unsaid.
    """
    said = set(presets.preset("penfac", name, "Hopper-v5"))
    unused = {"sigma_end", "obs_clip", "worlds", "steps_per_world"}
    assert set(known_fields(Config)) - said == unused
    cfg = from_values(Config, presets.preset("penfac", name, "Hopper-v5"))
    assert cfg.sigma_end is None
    assert cfg.collect == "episodes"
    assert "running" not in (cfg.normalise_actor, cfg.normalise_critic)


def test_a_task_is_found_in_an_id_however_it_is_spelled():
    """... and one id may have settings of its own on top of its task's."""
    batches = {
        id_: presets.preset("penfac", "authors", id_)["episodes_per_update"]
        for id_ in ("Humanoid-v5", "humanoid_", "RoboschoolHumanoid-v2", "Walker2d-v5")
    }
    assert list(batches.values()) == [50, 50, 50, 5]
    hopper = presets.preset("penfac", "tuned", "Hopper-v5")
    roboschool = presets.preset("penfac", "tuned", "RoboschoolHopper-v2")
    assert hopper == {"collect": "steps"}
    assert roboschool.items() > hopper.items()


def test_a_preset_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="--preset best: is one of tuned, authors"):
        presets.preset("penfac", "best", "Hopper-v5")


def test_a_preset_may_be_a_file_with_blocks_for_tasks(tmp_path):
    """The same form as ours: settings, and a block where a task differs."""
    file = tmp_path / "mine.toml"
    file.write_text("lam = 0.5\n[hopper]\nlam = 0.75\n")
    assert presets.preset("penfac", str(file), "Ant-v5") == {"lam": 0.5}
    assert presets.preset("nfac", str(file), "Hopper-v5") == {"lam": 0.75}


@pytest.mark.parametrize("content", [None, b"lam = ", b"\xff\xfe"])
def test_a_preset_file_that_cannot_be_read_is_refused(content, tmp_path):
    """Missing, no TOML, no text: one line with the file's name."""
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--preset .*mine\.toml: "):
        presets.preset("penfac", str(file), "Ant-v5")
