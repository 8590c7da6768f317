"""Every experiment of the paper as data (Zimmer and Weng, IJCAI 2019).

Fidelity `authors` takes the authors' presets and their time-limit rule: what the figures
were made with. `tuned` takes ours, searched on other seeds than a study reports.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from penfac.errors import ConfigError
from penfac.settings.suggest import did_you_mean
from penfac.studies.ablation import ablation
from penfac.studies.appendix import critic_error, dimensions
from penfac.studies.arms import (
    CHEETAH,
    FIDELITIES,
    HOPPER,
    HUMANOID,
    SEEDS,
    STEPS,
    arm,
    config_of,
)
from penfac.studies.claims import Claim
from penfac.studies.sentences import (
    activations,
    annealing,
    constants,
    learning_rate,
    per_step,
    small_steps,
    step_size,
)
from penfac.studies.spec import Arm, Study, check

OUTPERFORMS = "PeNFAC outperforms DDPG and deterministic PPO during the testing phase."


# --- Figures 1 to 3 ----------------------------------------------------------------------


def baselines(fidelity: str) -> tuple[Arm, ...]:
    """PeNFAC and the algorithms it is compared with.

    Tuned, the two kinds of DDPG differ as the paper says: in n-step returns, and in
    exploration by noise on parameters.
    """
    ddrl = arm("ddpg-ddrl", "ddrl", "ddpg")
    openai = arm("ddpg-baselines", "baselines", "ddpg")
    if fidelity == "tuned":
        # one Adam step for each step of ten worlds keeps a device busy
        worlds: dict[str, Any] = {
            "worlds": 10,
            "steps_per_world": 50,
            "gradient_steps": 500,
        }
        ddrl = arm("ddpg-ddrl", fidelity, "ddpg", n_step=5, **worlds)
        noisy: dict[str, Any] = {"n_step": 1, "exploration": "parameters"}
        openai = arm("ddpg-baselines", fidelity, "ddpg", **noisy, **worlds)
    return (
        arm("penfac", fidelity),
        arm("nfac", fidelity, "nfac", "the paper shows it in Figures 4 and 7"),
        arm("ppo", fidelity, "ppo", "evaluated by its mean action"),
        ddrl,
        openai,
    )


def performance_study(name: str, env: str, figure: int) -> Callable[[str], Study]:
    def study(fidelity: str) -> Study:
        claims = [
            Claim(
                OUTPERFORMS,
                tuple(
                    f"penfac above {b}" for b in ("ppo", "ddpg-ddrl", "ddpg-baselines")
                ),
                where=f"Sec. 6.1, Figure {figure}",
                measure="final, area",
            )
        ]
        if env == HUMANOID:
            claims.append(
                Claim(
                    "On Humanoid, we did not find a set of hyperparameters where DDPG "
                    "could work correctly with both implementations.",
                    ("ddpg-ddrl learns nothing", "ddpg-baselines learns nothing"),
                    where="Sec. 6.1",
                )
            )
        return Study(
            name=name,
            title=f"PeNFAC, DDPG and deterministic PPO on {env}",
            arms=baselines(fidelity),
            envs=(env,),
            claims=tuple(claims),
            question="How does PeNFAC compare with state-of-the-art algorithms for learning "
            "deterministic policies?",
            paper=f"Figure {figure}",
            fidelity=fidelity,
            seeds=SEEDS,
            paper_seeds=SEEDS,
            paper_steps=STEPS,
        )

    return study


# --- the appendix ------------------------------------------------------------------------


def nfac(fidelity: str) -> Study:
    """If both actors have the same rule, they differ in the trust region alone."""
    ours, theirs = (config_of(fidelity, HOPPER, algo) for algo in ("penfac", "nfac"))
    only_trust_region = ours == dataclasses.replace(
        theirs, trust_region=ours.trust_region
    )
    return Study(
        name="fig7",
        title="PeNFAC against NFAC",
        arms=(arm("penfac", fidelity), arm("nfac", fidelity, "nfac")),
        envs=(HOPPER, HUMANOID),
        claims=(
            Claim(
                "PeNFAC is significantly better than NFAC",
                ("penfac above nfac",),
                where="Appendix, Figure 7",
                needs=("penfac: beta above beta_min",) if only_trust_region else (),
            ),
        ),
        question="What do the trust region and the CAC update add to NFAC?",
        paper="Figure 7",
        fidelity=fidelity,
        seeds=SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )


def ppo_evaluated(fidelity: str) -> Study:
    where = "Appendix, Figure 8"
    return Study(
        name="fig8",
        title="PPO evaluated by its mean action and by samples",
        arms=(arm("ppo", fidelity, "ppo"),),
        envs=(HOPPER, CHEETAH, HUMANOID),
        claims=(
            Claim(
                "using a deterministic policy to evaluate the performance of PPO is not "
                "penalizing",
                ("ppo not below ppo[sampled]",),
                where=where,
            ),
            Claim(
                "deterministic PPO provides better results than standard PPO",
                ("ppo above ppo[sampled]",),
                where="Sec. 6.1",
            ),
        ),
        question="Does evaluating PPO without noise penalise it?",
        paper="Figure 8",
        fidelity=fidelity,
        seeds=SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )


PAPER: dict[str, Callable[[str], Study]] = {
    "fig1": performance_study("fig1", HOPPER, 1),
    "fig2": performance_study("fig2", CHEETAH, 2),
    "fig3": performance_study("fig3", HUMANOID, 3),
    "fig4": ablation,
    "fig5": dimensions,
    "fig6": critic_error,
    "fig7": nfac,
    "fig8": ppo_evaluated,
    "learning-rate": learning_rate,
    "constants": constants,
    "per-step": per_step,
    "activations": activations,
    "step-size": step_size,
    "small-steps": small_steps,
    "annealing": annealing,
}


def paper_study(name: str, fidelity: str) -> Study:
    """The study of that name, checked."""
    if fidelity not in FIDELITIES:
        raise ConfigError(f"--fidelity {fidelity}: must be {' or '.join(FIDELITIES)}")
    if name not in PAPER:
        raise ConfigError(
            f"{name}: no such study{did_you_mean(name, PAPER)} "
            f"(there are {', '.join(PAPER)}; or give a .toml or .py file)"
        )
    return check(PAPER[name](fidelity))


def fidelities_of(name: str) -> tuple[str, ...]:
    """Those of a study; one where both would run the same."""
    first, *others = (paper_study(name, fidelity) for fidelity in FIDELITIES)
    same = all(other.arms == first.arms for other in others)
    return FIDELITIES[-1:] if same else FIDELITIES
