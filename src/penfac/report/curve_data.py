"""The learning curves of findings, as figures and the page need them."""

from typing import NamedTuple

LearningCurve = tuple[list[int], list[float]]  # steps, returns


class ArmCurves(NamedTuple):
    """The drawn curves of an arm in one environment, of how many that were started."""

    name: str
    place: int  # in the study; it fixes the colour
    curves: list[LearningCurve]
    started: int


class Panel(NamedTuple):
    """An environment and the arms that have a curve there."""

    env: str
    arms: list[ArmCurves]


def evaluations(seed: dict) -> LearningCurve:
    """Steps and returns that are known; the last counts if a resumed run repeats a step."""
    pairs = zip(seed["steps"], seed["returns"], strict=True)
    known = sorted({step: value for step, value in pairs if value is not None}.items())
    return [step for step, _ in known], [value for _, value in known]


def drawn_curves(seeds: list[dict]) -> list[LearningCurve]:
    """Curves of the seeds that finished; of all with an evaluation if none has.

    A mean is drawn as far as all its seeds have come: a seed that failed or has just
    started would cut the curve of the others. The legend says how many are left out.
    """
    evaluated = [(s["state"], evaluations(s)) for s in seeds]
    evaluated = [(state, curve) for state, curve in evaluated if curve[0]]
    finished = [curve for state, curve in evaluated if state == "finished"]
    return finished or [curve for _, curve in evaluated]


def arm_places(findings: dict) -> dict[str, int]:
    """The place of each arm, in the order of the study."""
    names = [arm["name"] for arm in findings["arms"]]
    names += [arm["arm"] for panel in findings["panels"] for arm in panel["arms"]]
    return {name: k for k, name in enumerate(dict.fromkeys(names))}


def panels_of(findings: dict) -> list[Panel]:
    """The panels of a figure; one without arms if the study has no environment."""
    places = arm_places(findings)
    panels = []
    for panel in findings["panels"]:
        arms = [
            ArmCurves(
                arm["arm"],
                places[arm["arm"]],
                drawn_curves(arm["seeds"]),
                sum(seed["state"] != "missing" for seed in arm["seeds"]),
            )
            for arm in panel["arms"]
        ]
        panels.append(Panel(panel["env"], [arm for arm in arms if arm.curves]))
    return panels or [Panel("", [])]


def legend_labels(panels: list[Panel]) -> dict[int, str]:
    """Place of an arm: its name and number of seeds, as "penfac (10)"."""
    arms = sorted((a for p in panels for a in p.arms), key=lambda arm: arm.place)
    by_place = {a.place: [b for b in arms if b.place == a.place] for a in arms}
    return {k: f"{own[0].name} ({seed_count(own)})" for k, own in by_place.items()}


def seed_count(arms: list[ArmCurves]) -> str:
    """How many seeds are drawn: 10, or 8 to 10, or 9 of 10."""
    drawn = [len(arm.curves) for arm in arms]
    few, most = min(drawn), max(drawn)
    text = f"{few}" if few == most else f"{few} to {most}"
    left_out = any(arm.started > len(arm.curves) for arm in arms)
    return f"{text} of {max(arm.started for arm in arms)}" if left_out else text
