"""Numbers, dates and sentences that the page and the Markdown of a report share."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from math import isfinite
from pathlib import PurePath

THIN = "\u202f"  # a narrow space that does not break: 2 034
MINUS = "\u2212"
MISSING = "\u2013"

QUESTION = "Question"
CLAIMS = "Claims and verdicts"
GAITS = "Gaits"
SCORES = "Final scores"
PROVENANCE = "How these results were made"
REPRODUCE = "Reproduce"
CHARTS_NOTE = (
    "Line: mean over seeds of the return without noise. Band: one standard deviation. A "
    "seed that stopped early counts up to that step. Click an arm to hide it; the scale "
    "fits the arms shown."
)
SCORES_NOTE = (
    "Mean return over the last tenth of the evaluations, over seeds. IQM: interquartile "
    "mean. The interval is that of the mean."
)
SETTINGS_NOTE = (
    "Settings that differ between arms or were set by hand come first. Values are those "
    "in the first environment."
)
SCORE_HEAD = [
    "Arm", "n", "Mean", "Std", "Stderr", "IQM", "95 % interval", "Worst", "Best"
]  # fmt: skip
FOLDED = {  # groups of settings that are folded away, and their titles
    "some": "Settings that only some arms have",
    "same": "Settings that are the same in every arm",
}
SIGNS = {"holds": "✓", "contradicted": "✗", "not shown": "?",
         "not tested": "◇", "not run": "○"}  # fmt: skip
STATES = ("finished", "running", "failed", "missing")
FIDELITY = {
    "authors": "with the authors' settings",
    "tuned": "with settings tuned for this code",
}
CAPTIONS = {
    "curves": "Mean over seeds, as in the paper",
    "iqm": "Interquartile mean with a 95 % interval",
    "profile": "Performance profile: share of runs above a return",
    "improvement": "Probability that one arm beats another",
}


# --- numbers -----------------------------------------------------------------------------


def number(x: float | None) -> str:
    """A measurement to about three digits: 2 034, 81.2, 0.003."""
    if x is None or not isfinite(x):
        return MISSING
    size = abs(x)
    if 0 < size < 0.0005:
        digits, power = f"{x:.1e}".split("e")
        return f"{digits}e{int(power)}".replace("-", MINUS)
    if isinstance(x, int) or size >= 100 or size == 0:
        decimals = 0
    else:
        decimals = 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{x:,.{decimals}f}".replace(",", THIN).replace("-", MINUS)


def chance(x: float | None) -> str:
    """A probability to two decimals."""
    return MISSING if x is None else f"{x:.2f}"


def p_value(p: float | None) -> str:
    """A p-value to three decimals, or that it is below 0.001."""
    if p is None:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def span(
    low: float | None,
    high: float | None,
    say: Callable[[float | None], str] = number,
) -> str:
    """An interval as "low to high": a dash beside a minus is hard to read."""
    if low is None or high is None:
        return MISSING
    return f"{say(low)} to {say(high)}"


def with_span(
    x: float | None,
    low: float | None,
    high: float | None,
    say: Callable[[float | None], str] = number,
) -> str:
    """A number, followed by its interval if it has one."""
    tail = "" if low is None or high is None else f" ({span(low, high, say)})"
    return say(x) + tail


def duration(seconds: float | None) -> str:
    """42 s, 12 min, 1.2 h, 340 h."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{number(round(hours))} h" if hours >= 100 else f"{hours:.1f} h"


def date(stamp: str) -> str:
    """A time stamp as 15 November 2026, 22:00 UTC; any other text unchanged."""
    try:
        when = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return stamp
    zone = when.tzname() or ""
    return f"{when.day} {when:%B %Y, %H:%M} {zone}".strip()


def setting(value: object) -> str:
    """A setting with all its digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(setting(v) for v in value) or "empty"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", THIN)
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return setting(int(value))
    return repr(value) if isinstance(value, float) else json.dumps(value, default=str)


def seed_list(seeds: Iterable[int]) -> str:
    """Seeds with neighbours as a range: 0 to 4, 7."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [
        f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(str(s) for s in r)
        for r in runs
    ]
    return ", ".join(parts) or MISSING


def seeds_by_state(arm: dict) -> dict[str, str]:
    """The seeds of an arm in one environment, by state."""
    return {
        state: seed_list(s["seed"] for s in arm["seeds"] if s["state"] == state)
        for state in STATES
    }


def score(summary: dict | None) -> list[str]:
    """The cells of a summary, in the order of SCORE_HEAD."""
    if summary is None:
        return ["0", *[MISSING] * 7]
    return [
        number(summary["n"]),
        *(number(summary[key]) for key in ("mean", "std", "stderr", "iqm")),
        span(summary["low"], summary["high"]),
        number(summary["worst"]),
        number(summary["best"]),
    ]


def failures(findings: dict) -> list[tuple[str, str, int, str]]:
    """Environment, arm, seed and error of every seed that failed."""
    return [
        (panel["env"], arm["arm"], seed["seed"], seed["error"] or "no error message")
        for panel in findings["panels"]
        for arm in panel["arms"]
        for seed in arm["seeds"]
        if seed["state"] == "failed"
    ]


def source(findings: dict) -> str:
    """The figure of the paper, and whose settings are used."""
    paper = findings["paper"]
    fidelity = FIDELITY.get(findings["fidelity"], findings["fidelity"])
    parts = [f"{paper} of the paper" if paper else "", fidelity]
    return ", ".join(p for p in parts if p) or "A custom study"


def protocol(findings: dict) -> str:
    """Number of seeds, steps and evaluations."""
    others = [f"{number(n)} on {env}" for env, n in findings["env_steps"].items()]
    where = f" ({', '.join(others)}, evaluated as many times)" if others else ""
    return (
        f"{len(findings['seeds'])} seeds per arm, {number(findings['steps'])} steps each, "
        f"evaluated without noise every {number(findings['eval_every'])} steps over "
        f"{findings['eval_episodes']} episodes{where}."
    )


def incomplete(findings: dict) -> str:
    """A warning that counts the runs that have not finished; empty if all have."""
    counts = findings["counts"]
    parts = [f"{counts[s]} {s}" for s in STATES[1:] if counts.get(s)]
    if not parts:
        return ""
    total = sum(counts.get(s, 0) for s in STATES)
    return (
        f"Incomplete: {', '.join(parts)} of {total} runs. A failed run counts with the "
        "worst score of its arm; verdicts ignore running and missing runs."
    )


def warnings(findings: dict) -> list[str]:
    """How the runs differ from the command, and the warnings of all claims, each once."""
    texts = [findings["remark"]] if findings.get("remark") else []
    if changed := findings.get("changed"):
        texts.append(f"Other settings than the study has today: {', '.join(changed)}")
    texts += [text for claim in findings["claims"] for text in claim["warnings"]]
    return [sentence(text) for text in dict.fromkeys(texts)]


def facts(findings: dict) -> dict[str, str]:
    """Date, cost, versions and folder."""
    cost = findings["cost"] or dict.fromkeys(("seconds", "steps"))  # not kept
    elsewhere = findings["elsewhere"]
    versions = {"penfac": findings["penfac"], **findings["versions"]}
    count = f"{number(elsewhere['runs'])} runs, whose cost is not counted"
    others = {"Added from a file": f"{count}: {elsewhere['file']}"}
    return {
        "Made": date(findings["created"]),
        "Cost": f"{duration(cost['seconds'])} of computing, {number(cost['steps'])} steps",
        "Versions": ", ".join(f"{name} {v}" for name, v in versions.items()),
        "Folder": findings["folder"],
        **(others if elsewhere["runs"] else {}),
    }


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "!", "?")) else whole + "."


def setting_groups(arms: list[dict]) -> dict[str, list[str]]:
    """Names of settings by group: `differ` between arms or were set by hand; only `some`
    arms have them; the `same` in all. An arm that lacks a setting does not differ in it.
    """
    names = list(dict.fromkeys(k for arm in arms for k in arm["config"]))
    groups: dict[str, list[str]] = {"differ": [], "some": [], "same": []}
    for name in names:
        values = [arm["config"][name] for arm in arms if name in arm["config"]]
        if len({setting(v) for v in values}) > 1 or any(
            name in arm["settings"] for arm in arms
        ):
            groups["differ"].append(name)
        else:
            groups["same" if len(values) == len(arms) else "some"].append(name)
    return groups


def kinds(arms: list[dict]) -> list[list[str]]:
    """Rows of algorithm, preset and note; a row that no arm fills is left out."""
    return [
        [title, *(arm[key] or MISSING for arm in arms)]
        for title, key in (
            ("Algorithm", "algo"),
            ("Preset", "preset"),
            ("Note", "note"),
        )
        if any(arm[key] for arm in arms)
    ]


def setting_of(arm: dict, name: str) -> str:
    return setting(arm["config"][name]) if name in arm["config"] else MISSING


def caption(name: str) -> str:
    """The caption of a figure, by the name of its file."""
    stem = PurePath(name).stem
    words = stem.replace("_", " ").replace("-", " ")
    return CAPTIONS.get(stem, words[:1].upper() + words[1:])


def best_files(names: Iterable[str], rank: Callable[[str], int]) -> list[str]:
    """One file of each figure, the one of lowest rank, in the order of the figures."""
    names = list(names)
    best: dict[str, str] = {}
    for name in sorted(names, key=rank):
        best.setdefault(PurePath(name).stem, name)
    return [best[stem] for stem in dict.fromkeys(PurePath(n).stem for n in names)]
