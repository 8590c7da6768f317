"""The presets against the paper's own tables."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.rollout.evaluate import MODES
from penfac.settings import presets
from penfac.settings.configs import check, from_values, to_values
from penfac.settings.declaration import known_fields

CELLS = Path(__file__).with_name("paper_tables.json")  # made by `make_cells`
TEX = Path(__file__).parents[3] / "shared/paper/penfac-ijcai19.tex"
SHORT = {"ho": "hopper", "ha": "halfcheetah", "hu": "humanoid"}
LABELS = {
    "table1": "tab:hyperX",
    "table2": "tab:hyper1",
    "table3": "tab:hyper2",
    "table4": "tab:hyper3",
    "table5": "tab:hyper4",
}
WORDS = {
    "Leaky ReLU (0.01)": "leaky_relu",
    "ReLu": "relu",
    "TanH": "tanh",
    "first layer of the actor": "batch-norm",
    "no": "no",
    "without": 0.0,
}
LAWS = {
    "Gaussian": "clipped",
    "Ornstein Uhlenbeck": "ou",
    "Parameter Space": "parameters",
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
    "Layer norm": "layer_norm",
    "Entropy coefficient": "entropy_weight",
    "Clip range": "clip",
    "Learning rate": "lr",
    "nminibatches": "minibatches",
    "noptepochs": "epochs",
    "nsteps": "steps_per_world",
    "sample used to make the policy more deterministic": "samples",
    "L2 regularization of the critic": "critic_l2",
    "Exploration": "exploration",
    "Mini batch size": "batch_size",
    "Reward scale": "reward_scale",
    "Soft update of target networks": "tau",
    "Replay memory": "replay",
    "N-step returns": "n_step",
    r"nb\_rollout\_steps": "steps_per_world",
    r"nb\_train\_steps": "gradient_steps",
}


# --- reading the LaTeX ----------------------------------------------------------------


def table(label: str) -> dict[str, str]:
    """Row name -> the cell beside it, as paper_tables.json keeps the LaTeX."""
    return json.loads(CELLS.read_text(encoding="utf-8"))[label]


def table_in(text: str, label: str) -> dict[str, str]:
    """Row name -> the cell beside it, of the table with this label in the LaTeX."""
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


def number(text: str) -> float:
    """`0.2`, `10^{-4}`, `10^6`, `2^{11}`, `3e^{-4}`."""
    if power := re.fullmatch(r"(\d+)\^(?:\{(-?\d+)\}|(\d))", text):
        exponent = power[2] or power[3]
        if power[1] == "10":
            return float(f"1e{exponent}")
        return float(power[1]) ** int(exponent)
    if scientific := re.fullmatch(r"(\d+)e\^\{(-?\d+)\}", text):
        return float(f"{scientific[1]}e{scientific[2]}")
    return float(text)


def value(text: str):
    """A number, `64 \\times 64`, `(0, 0.999, ...)`, a word, or a law with its numbers."""
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    if text in WORDS:
        return WORDS[text]
    if sizes := re.fullmatch(r"(\d+) \\times (\d+)", text):
        return [int(sizes[1]), int(sizes[2])]
    if several := re.fullmatch(r"([A-Za-z ]*)\((.+)\)", text):
        numbers = [number(part.strip()) for part in several[2].split(",")]
        law = several[1].strip()
        return [LAWS[law], *numbers] if law else numbers
    return number(text)


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


def first_of_adam(printed):
    """Table 2 is kept as beta1 alone: the other two numbers never differ."""
    kept, searched = printed
    assert all(triple[1:] == [0.999, 1e-8] for triple in (kept, *searched))
    return kept[0], [triple[0] for triple in searched]


@pytest.mark.parametrize(("name", "label"), LABELS.items())
def test_the_tables_are_those_of_the_paper(name, label):
    """Every row of the LaTeX, kept and searched values, and no row more."""
    printed = {ROWS[row]: kept_and_searched(cell) for row, cell in table(label).items()}
    if name == "table2":
        printed["adam"] = first_of_adam(printed["adam"])
    ours = {
        key: (row["kept"], row["searched"])
        for key, row in presets.tables()[name]["rows"].items()
    }
    assert ours == printed


def make_cells(text: str) -> str:
    """The rows of Tables 1 to 5, as paper_tables.json holds them."""
    found = {label: table_in(text, label) for label in LABELS.values()}
    return json.dumps(found, indent=1) + "\n"


@pytest.mark.skipif(not TEX.exists(), reason=f"the paper's LaTeX is not at {TEX}")
def test_the_cells_that_are_shipped_are_those_of_the_latex():
    assert CELLS.read_text("utf-8") == make_cells(TEX.read_text("utf-8"))


def test_no_table_is_left_out():
    assert set(presets.tables()) == set(LABELS)
    theirs = {
        table for by_name in presets.TABLES.values() for table in by_name.values()
    }
    assert theirs == set(LABELS) - {"table1"}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("10^{-4}", 1e-4),
        ("10^6", 1e6),
        ("2^{11}", 2048),
        ("3e^{-4}", 3e-4),
        (r"\text{without}", 0),
        (r"64 \times 64", [64, 64]),
        ("(0, 0.999, 10^{-8})", [0, 0.999, 1e-8]),
        (r"\text{Leaky ReLU} (0.01)", "leaky_relu"),
        ("Gaussian (0.2)", ["clipped", 0.2]),
        (r"\text{Parameter Space (0.2)}", ["parameters", 0.2]),
        (
            r"\text{Ornstein Uhlenbeck} (0.001, 0.15, 0.01)",
            ["ou", 0.001, 0.15, 0.01],
        ),
    ],
)
def test_the_reader_of_latex_reads_every_way_to_write_a_value(text, meaning):
    assert value(text) == meaning


def test_the_reader_of_latex_sees_what_is_underlined():
    """The parser itself, on a cell whose meaning is plain."""
    cell = r"$1$, $\underset{\text{ha}}{5}$, $\underset{\text{ho,hu}}{10^{-2}}$"
    by_task = {"halfcheetah": 5, "hopper": 0.01, "humanoid": 0.01}
    assert kept_and_searched(cell) == (by_task, [1, 5, 0.01])


# --- the tables and the presets -------------------------------------------------------


def algorithm(file: str):
    """Whose presets a file holds."""
    return next(a for a in ALGORITHMS.values() if a.presets == file)


# who stands for which table; Table 1 is everybody's. `paper` is Table 2 as printed
STANDS_FOR = [
    *(
        (file, *pair)
        for file, pairs in presets.TABLES.items()
        for pair in pairs.items()
    ),
    ("penfac", "paper", "table2"),
]
# (file, preset) -> settings where it is not what the paper keeps
DEVIATIONS = {
    ("penfac", "paper"): {"sigma"},  # D6: Table 2 prints sigma^2
    ("ppo", "authors"): {"actor_output"},  # D19: Table 1 says tanh for every algorithm
}


def all_rows():
    return [
        (f"{name}.{key}", row)
        for name, content in presets.tables().items()
        for key, row in content["rows"].items()
    ]


def rows_of(table: str):
    """Table 1 and another, by (table, row)."""
    return [
        (f"{name}.{key}", row)
        for name in ("table1", table)
        for key, row in presets.tables()[name]["rows"].items()
    ]


def told(row, cell) -> dict:
    """Setting -> value of one cell; a row may tell several settings, or none."""
    setting = row.get("setting", [])
    if isinstance(setting, str):
        return {setting: cell}
    return dict(zip(setting, cell, strict=False)) if setting else {}


rows = pytest.mark.parametrize(
    "row", [row for _, row in all_rows()], ids=[name for name, _ in all_rows()]
)
preset_rows = pytest.mark.parametrize(
    ("file", "name", "row"),
    [
        pytest.param(file, name, row, id=f"{file}-{name}-{key}")
        for file, name, table in STANDS_FOR
        for key, row in rows_of(table)
    ],
)


@rows
def test_a_kept_value_was_searched(row):
    kept = row["kept"]
    for one in kept.values() if isinstance(kept, dict) else [kept]:
        assert one in row["searched"]


@preset_rows
def test_every_searched_value_is_a_value_of_its_setting(file, name, row):
    """The paper's whole search can be run: each value makes a config that is accepted."""
    algo = algorithm(file)
    fields = known_fields(algo.config)
    for one in row["searched"]:
        settings = {}
        for setting, its_value in told(row, one).items():
            whole = fields[setting] is int  # KeyError: no such setting
            settings[setting] = int(its_value) if whole else its_value
        base = presets.preset(file, name, "Hopper-v5")
        cfg = from_values(algo.config, base | settings)
        check(cfg)
        assert {key: to_values(cfg)[key] for key in settings} == settings


def test_rows_without_a_setting_hold_all_the_same():
    """No layer norm is in any config; 15 samples are what a mode of evaluation takes."""
    without = {
        name: row["kept"] for name, row in all_rows() if not told(row, [None] * 9)
    }
    assert without == {
        "table3.layer_norm": "no",
        "table3.samples": 15,
        "table5.layer_norm": "no",
    }
    assert MODES["mean-of-15"] == 15
    for algo in ALGORITHMS.values():
        assert not [k for k in known_fields(algo.config) if "layer" in k]


def test_a_row_of_several_settings_tells_each_of_them():
    """What is kept names a value for every one of its settings."""
    several = [row for _, row in all_rows() if isinstance(row.get("setting"), list)]
    assert len(several) == 5  # Adam in three tables, exploration in two
    for row in several:
        assert len(row["kept"]) == len(row["setting"])


def kept_for(row, task):
    kept = row["kept"]
    return kept[task] if isinstance(kept, dict) else kept


def numbered_deviations(file: str, name: str) -> set[str]:
    """Settings of a preset whose line names a deviation (D1, D2, ...)."""
    text = (resources.files("penfac.settings.presets") / f"{file}.toml").read_text(
        "utf-8"
    )
    block = text.split(f"[{name}]\n")[1].split("\n[")[0]
    return set(re.findall(r"^(\w+) = [^#\n]*#[^\n]*\bD\d+", block, re.MULTILINE))


@pytest.mark.parametrize("task", presets.TASKS)
@preset_rows
def test_presets_hold_what_the_paper_kept(file, name, row, task):
    """Number by number, but for the deviations that are listed here and numbered there."""
    ours = presets.preset(file, name, f"Some{task.title()}-v0")
    for setting, kept in told(row, kept_for(row, task)).items():
        if setting in DEVIATIONS.get((file, name), ()):
            assert ours[setting] != kept
            assert setting in numbered_deviations(file, name)
        else:
            assert ours[setting] == kept


def test_ppos_actor_is_linear_where_table_1_says_tanh():
    """D19, the one exception among the presets of Tables 3 to 5."""
    assert presets.preset("ppo", "authors", "Hopper-v5")["actor_output"] == "linear"


@pytest.mark.parametrize(("file", "name", "table"), STANDS_FOR[:-1])
def test_what_is_printed_of_a_setting_is_its_cell(file, name, table):
    """`penfac presets` shows the paper's own cells, one setting at a time."""
    cells = presets.printed(file)[name]
    expected = {}
    for _, row in rows_of(table):
        kept = row["kept"]
        for k, setting in enumerate(told(row, kept)):
            one = isinstance(row["setting"], str)
            expected[setting] = {
                "kept": kept if one else kept[k],
                "searched": row["searched"] if one else cells[setting]["searched"],
            }
    assert cells == expected
    for cell in cells.values():
        for one in (
            cell["kept"].values() if isinstance(cell["kept"], dict) else [cell["kept"]]
        ):
            assert one in cell["searched"]


def test_printed_lists_of_several_settings_are_cut_apart():
    """Table 4: Adam's beta1 was searched, the rest was not; noise of two laws."""
    cells = presets.printed("ddpg")["ddrl"]
    assert cells["adam_b1"] == {"kept": 0.0, "searched": [0.0, 0.9]}
    assert cells["adam_b2"] == {"kept": 0.999, "searched": [0.999]}
    assert cells["exploration"] == {"kept": "ou", "searched": ["clipped", "ou"]}
    assert cells["sigma"] == {"kept": 0.001, "searched": [0.2, 0.001]}
    assert cells["ou_theta"] == {"kept": 0.15, "searched": [0.15]}
    assert presets.printed("online") == {}


def test_paper_reads_sigma_as_the_variance_that_is_printed():
    """Table 2 prints sigma^2; `authors` takes its number for sigma (D6)."""
    printed = presets.tables()["table2"]["rows"]["sigma"]["kept"]
    paper = presets.preset("penfac", "paper", "Hopper-v5")["sigma"]
    authors = presets.preset("penfac", "authors", "Hopper-v5")["sigma"]
    assert paper**2 == pytest.approx(printed, rel=1e-12)
    assert authors == printed


@pytest.mark.parametrize("name", ["tuned", "authors", "paper"])
def test_the_deviations_page_says_what_each_preset_does_with_sigma(name):
    """D6: where it starts, and where it is annealed to."""
    page = Path(__file__).parents[2] / "docs/deviations.md"
    section = page.read_text("utf-8").split("## D6:")[1].split("\n## ")[0]
    told = " ".join(section.split())
    said = presets.preset("penfac", name, "Hopper-v5")
    cfg = from_values(algorithm("penfac").config, said)
    start, end = told.split("`sigma_end`")
    for part, value in ((start, cfg.sigma), (end, cfg.sigma_end)):
        word = "none" if value is None else f"{value:.3g}"
        assert re.search(rf"`{name}`[^.]*: [^.]*(?:\.\d[^.]*)*\b{word}\b", part)


# what a preset of the paper may leave unsaid, and how that is switched off in it
UNSAID = {
    ("penfac", "authors"): {"worlds", "steps_per_world"},
    ("penfac", "paper"): {"worlds", "steps_per_world"},
    ("ppo", "authors"): {
        "kl_target", "sigma_end", "obs_clip", "episodes_per_update", "min_steps_per_update",
    },
    ("ddpg", "ddrl"): {
        "sigma_end", "obs_clip", "episodes_per_update", "min_steps_per_update",
        "collect", "critics", "target_noise", "target_noise_clip", "actor_delay",
    },
    ("ddpg", "baselines"): {
        "sigma_end", "episodes_per_update", "min_steps_per_update", "collect",
        "critics", "target_noise", "target_noise_clip", "actor_delay",
        "n_step_target", "ou_theta", "ou_dt", "rounds",
    },
}  # fmt: skip


@pytest.mark.parametrize(("file", "name"), UNSAID)
def test_presets_of_the_paper_leave_nothing_to_the_defaults(file, name):
    """Tuning the defaults must not move what stands for the paper.

    Only what these presets switch off may stay unsaid.
    """
    config, unsaid = algorithm(file).config, UNSAID[file, name]
    said = presets.preset(file, name, "Hopper-v5")
    assert set(known_fields(config)) - set(said) == unsaid
    cfg = from_values(config, said)
    for end in {"sigma_end", "kl_target"} & unsaid:
        assert getattr(cfg, end) is None
    if "worlds" in unsaid:
        assert cfg.collect == "episodes"
    if "episodes_per_update" in unsaid:
        assert cfg.collect == "steps"
    if "obs_clip" in unsaid:
        inputs = ("normalise_actor", "normalise_critic", "normalise_obs")
        assert not {getattr(cfg, k, None) for k in inputs} & {"running", True}
    if "critics" in unsaid:  # nothing of TD3
        assert (cfg.critics, cfg.target_noise, cfg.actor_delay) == (1, 0, 1)
    if "n_step_target" in unsaid:
        assert cfg.n_step == 1
    if "ou_theta" in unsaid:
        assert cfg.exploration == "parameters"
    if "rounds" in unsaid:
        assert cfg.rounds == 1


def test_a_task_is_found_in_an_id_however_it_is_spelled():
    batches = {
        id_: presets.preset("penfac", "authors", id_)["episodes_per_update"]
        for id_ in ("Humanoid-v5", "humanoid_", "RoboschoolHumanoid-v2", "Walker2d-v5")
    }
    assert list(batches.values()) == [50, 50, 50, 5]


def test_tuned_of_penfac_is_the_same_on_every_task():
    """The defaults of the config themselves: tuned has no blocks of tasks."""
    for id_ in ("Hopper-v5", "HalfCheetah-v5", "RoboschoolHumanoid-v2", "mine/Own-v0"):
        assert presets.preset("penfac", "tuned", id_) == {}


def test_one_id_may_have_settings_of_its_own_on_top_of_its_tasks(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'collect = "episodes"\n[hopper]\nlam = 0.5\n[roboschoolhopper]\ngamma = 0.9\n'
    )
    hopper = presets.preset("penfac", str(file), "Hopper-v5")
    roboschool = presets.preset("penfac", str(file), "RoboschoolHopper-v2")
    assert hopper == {"collect": "episodes", "lam": 0.5}
    assert roboschool == hopper | {"gamma": 0.9}


def test_a_preset_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigError, match="--preset best: must be one of tuned, authors"
    ):
        presets.preset("penfac", "best", "Hopper-v5")


def test_a_preset_may_be_a_file_with_blocks_for_tasks(tmp_path):
    """The same form as ours: settings, and a block where a task differs."""
    file = tmp_path / "mine.toml"
    file.write_text("lam = 0.5\n[hopper]\nlam = 0.75\n")
    assert presets.preset("penfac", str(file), "Ant-v5") == {"lam": 0.5}
    assert presets.preset("penfac", str(file), "Hopper-v5") == {"lam": 0.75}


@pytest.mark.parametrize("content", [None, b"lam = ", b"\xff\xfe"])
def test_a_preset_file_that_cannot_be_read_is_refused(content, tmp_path):
    """Missing, no TOML, no text: one line with the file's name."""
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--preset .*mine\.toml: "):
        presets.preset("penfac", str(file), "Ant-v5")
