"""The appendix's two experiments: CACLA, SPG and DPG without neural networks."""

from typing import Any

from penfac.settings import presets
from penfac.studies.claims import Claim
from penfac.studies.spec import Arm, Study

LINEAR: dict[str, Any] = {
    "actor_hidden": [],
    "critic_hidden": [],
    "actor_output": "linear",
    "normalise": "none",
    "optimiser": "sgd",
}


def linear(algo: str, envs: tuple[str, ...], settings: dict[str, Any], on=None) -> Arm:
    """An arm of the appendix, with the settings that were searched on each environment.

    "Compatible features are used to learn the Q value function for both SPG and DPG".
    """
    own = LINEAR | settings
    if algo == "spg":
        own |= {"spg_critic": "compatible"}
    searched = presets.read("appendix")
    found = {env: searched[env][algo] for env in envs if env in searched}
    every = {env: (on or {}).get(env, {}) | found.get(env, {}) for env in envs}
    return Arm(algo, algo, "tuned", own, on={env: s for env, s in every.items() if s})


def dimensions(fidelity: str) -> Study:
    """One state: mu is a bias theta and V a single number. All four algorithms end at the
    best action, so the area under the curve tells them apart."""
    settings = {"exploration": "gaussian", "rounds": 100}
    shapes, sizes = ("Round", "Oval", "Ridge"), (5, 10, 25, 50)
    envs = tuple(f"penfac/{shape}{size}-v0" for shape in shapes for size in sizes)
    growing = tuple((f"penfac/{s}5-v0", f"penfac/{s}50-v0") for s in shapes)
    return Study(
        name="fig5",
        title="Sensitivity to the number of action dimensions",
        arms=tuple(linear(a, envs, settings) for a in ("cacla", "cac", "spg", "dpg")),
        envs=envs,
        claims=(
            Claim(
                "SPG is indeed more sensitive to larger action dimensions",
                ("dpg above spg",),
                where="Appendix, Figure 5",
                measure="relative",  # costs grow with the number of dimensions
                changes=growing,
            ),
            Claim(
                "CACLA is also sensitive to this increase in dimensionality but not as "
                "much as SPG",
                ("cacla above spg",),
                where="Appendix, Figure 5",
                measure="relative",
                changes=growing,
            ),
            Claim(
                "even if the solution of CACLA and DPG are not exactly the same "
                "theoretically, they are very similar in practice",
                ("cacla level with dpg",),
                where="Appendix, Figure 5",
                measure="area",
            ),
        ),
        question="Does CACLA suffer from the variance of SPG when actions have many dimensions?",
        paper="Figure 5",
        fidelity=fidelity,
        seeds=100,
        steps=2_000,
        eval_episodes=1,  # one state, one action: always the same
        paper_seeds=100,
    )


def critic_error(fidelity: str) -> Study:
    """mu(s) = phi(s) theta with tile coding."""
    settings = {"features": "tiles"}
    swing_up = "penfac/InvertedPendulumSwingup-v0"
    box = [-1.0, 1.0, -4.0, 4.0, -1.0, 1.0, -1.0, 1.0, -10.0, 10.0]
    large = {swing_up: {"tile_box": box, "tilings": 16, "tile_memory": 16384}}
    envs = ("penfac/MountainCarContinuous-v0", "penfac/Pendulum-v0", swing_up)
    return Study(
        name="fig6",
        title="Robustness to the critic's error",
        arms=tuple(linear(a, envs, settings, large) for a in ("cacla", "spg", "dpg")),
        envs=envs,
        claims=(
            Claim(
                "as soon as value functions become harder to learn, CACLA performs better "
                "than both SPG and DPG",
                ("cacla above spg", "cacla above dpg"),
                where="Appendix, Figure 6",
            ),
        ),
        question="Is CACLA more robust than SPG and DPG when the critic is less accurate?",
        paper="Figure 6",
        fidelity=fidelity,
        seeds=60,
        steps=200_000,
        paper_seeds=60,
    )
