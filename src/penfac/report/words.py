"""Numbers, dates and verdicts as people read them: what the page and the Markdown share."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from math import isfinite
from pathlib import PurePath

THIN = "\u202f"  # a narrow space that does not break: 2 034
MINUS = "\u2212"
MISSING = "\u2013"

CLAIMS = "What is claimed, and what we see"
SIGNS = {"holds": "✓", "contradicted": "✗", "not shown": "?",
         "not tested": "◇", "not run": "○"}  # fmt: skip
REST = {  # groups of settings that are folded away, and their titles
    "some": "Settings that only some arms have",
    "same": "Settings that are the same in every arm",
}
SETTINGS_NOTE = (
    "First what differs between arms or was set by hand. Values are those of the first "
    "environment."
)
STATES = ("finished", "running", "failed", "missing")
FIDELITY = {
    "authors": "with the authors' settings",
    "tuned": "with settings tuned for this code",
}
CAPTIONS = {
    "curves": "As in the paper: mean and deviation over seeds",
    "iqm": "As the field does today: interquartile mean with its interval",
    "profile": "As the field does today: share of seeds above a return",
    "improvement": "As the field does today: chance that one arm is above another",
}


def number(x: float | None) -> str:
    """A measurement, to three digits or so: 2 034, 81.2, 0.003."""
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
    """A probability, to a hundredth."""
    return MISSING if x is None else f"{x:.2f}"


def p_value(p: float | None) -> str:
    """To a thousandth; below that only that it is below."""
    if p is None:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def span(
    low: float | None,
    high: float | None,
    say: Callable[[float | None], str] = number,
) -> str:
    """An interval, from low to high; a word reads better than a dash beside a minus."""
    if low is None or high is None:
        return MISSING
    return f"{say(low)} to {say(high)}"


def with_span(
    x: float | None,
    low: float | None,
    high: float | None,
    say: Callable[[float | None], str] = number,
) -> str:
    """A number and behind it its interval, where it has one."""
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
    """15 November 2026, 22:00 UTC; what is no date stays as it is."""
    try:
        when = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return stamp
    zone = when.tzname() or ""
    return f"{when.day} {when:%B %Y, %H:%M} {zone}".strip()


def setting(value: object) -> str:
    """A setting with all its digits, so that it can be given again."""
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
    """0 to 4, 7: neighbours as a range."""
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
    """Of one arm in one environment: which seeds are finished, running, ..."""
    return {
        state: seed_list(s["seed"] for s in arm["seeds"] if s["state"] == state)
        for state in STATES
    }


def score(summary: dict | None) -> list[str]:
    """n, mean, std, stderr, IQM, interval, worst and best of final scores."""
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
        (panel["env"], arm["arm"], seed["seed"], seed["error"] or "no error was kept")
        for panel in findings["panels"]
        for arm in panel["arms"]
        for seed in arm["seeds"]
        if seed["state"] == "failed"
    ]


def source(findings: dict) -> str:
    """Which figure of the paper, and how closely it is followed."""
    paper = findings["paper"]
    fidelity = FIDELITY.get(findings["fidelity"], findings["fidelity"])
    parts = [f"{paper} of the paper" if paper else "", fidelity]
    return ", ".join(p for p in parts if p) or "A study of our own"


def measured(findings: dict) -> str:
    """How long every seed learns and how it is measured."""
    return (
        f"{len(findings['seeds'])} seeds an arm, {number(findings['steps'])} steps each, "
        f"evaluated without noise every {number(findings['eval_every'])} steps "
        f"over {findings['eval_episodes']} episodes."
    )


def incomplete(findings: dict) -> str:
    """What is not there yet, as a warning; empty when every seed has finished."""
    counts = findings["counts"]
    parts = [f"{counts[s]} {s}" for s in STATES[1:] if counts.get(s)]
    if not parts:
        return ""
    total = sum(counts.get(s, 0) for s in STATES)
    return (
        f"Not complete: {', '.join(parts)} of {total} runs. Verdicts are of the rest."
    )


def warnings(findings: dict) -> list[str]:
    """What every reader of the verdicts should know first, each once."""
    told = [text for claim in findings["claims"] for text in claim["warnings"]]
    return [sentence(text) for text in dict.fromkeys(told)]


def facts(findings: dict) -> dict[str, str]:
    """When, with what and at what cost."""
    spent, elsewhere = findings["cost"], findings["elsewhere"]
    versions = {"penfac": findings["penfac"], **findings["versions"]}
    told = f"{number(elsewhere['runs'])} runs, whose cost is not counted"
    others = {"From elsewhere": f"{told}: {elsewhere['file']}"}
    return {
        "Made": date(findings["created"]),
        "Cost": f"{duration(spent['seconds'])} of computing, {number(spent['steps'])} steps",
        "Versions": ", ".join(f"{name} {v}" for name, v in versions.items()),
        "Folder": findings["folder"],
        **(others if elsewhere["runs"] else {}),
    }


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith((".", "!", "?")) else whole + "."


def setting_groups(arms: list[dict]) -> dict[str, list[str]]:
    """Names of settings: `differ` in value between arms or were set by hand, `some` arms
    have them, `same` everywhere. An algorithm that lacks a setting does not differ in it.
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
    """What is known of arms beside their settings, a row each, where any arm has it."""
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
    """What a figure is called, from the name of its file."""
    stem = PurePath(name).stem
    words = stem.replace("_", " ").replace("-", " ")
    return CAPTIONS.get(stem, words[:1].upper() + words[1:])


def one_a_stem(names: Iterable[str], first: str) -> list[str]:
    """A figure drawn as both PNG and SVG is shown once: the one that ends in `first`."""
    chosen: dict[str, str] = {}
    for name in names:
        stem = PurePath(name).stem
        if stem not in chosen or name.endswith(first):
            chosen[stem] = name
    return list(chosen.values())
