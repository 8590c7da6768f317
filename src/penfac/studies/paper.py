"""Every experiment of the paper as data (Zimmer and Weng, IJCAI 2019).

Fidelity `authors`: their presets and their time-limit rule, what the figures stand for.
`tuned`: ours, each searched on other seeds than those a study reports.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.settings import presets
from penfac.settings.declaration import known_fields
from penfac.settings.suggest import nearest
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
    """PeNFAC and what it is compared with. Tuned, the two flavours of DDPG differ by what
    the paper says of them: n-step returns, and exploration in the space of parameters."""
    ddrl = arm("ddpg-ddrl", "ddrl", "ddpg")
    openai = arm("ddpg-baselines", "baselines", "ddpg")
    if fidelity == "tuned":
        # a step of Adam for each step of ten worlds: a device has something to do
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
        arm("nfac", fidelity, "nfac", "the paper shows it elsewhere (Figures 4 and 7)"),
        arm("ppo", fidelity, "ppo", "judged by its mean action"),
        ddrl,
        openai,
    )


def performance(name: str, env: str, figure: int) -> Callable[[str], Study]:
    def study(fidelity: str) -> Study:
        claims = [
            Claim(
                OUTPERFORMS,
                tuple(
                    f"penfac above {b}" for b in ("ppo", "ddpg-ddrl", "ddpg-baselines")
                ),
                f"Sec. 6.1, Figure {figure}",
                measure="final, area",
            )
        ]
        if env == HUMANOID:
            claims.append(
                Claim(
                    "On Humanoid, we did not find a set of hyperparameters where DDPG "
                    "could work correctly with both implementations.",
                    ("ddpg-ddrl learns nothing", "ddpg-baselines learns nothing"),
                    "Sec. 6.1",
                )
            )
        return Study(
            name,
            f"PeNFAC, DDPG and deterministic PPO on {env}",
            baselines(fidelity),
            (env,),
            tuple(claims),
            "How does PeNFAC compare with state-of-the-art algorithms for learning "
            "deterministic policies?",
            f"Figure {figure}",
            fidelity,
            SEEDS,
            paper_seeds=SEEDS,
            paper_steps=STEPS,
        )

    return study


# --- Figure 4 ----------------------------------------------------------------------------


def distinct(arms: dict[str, dict[str, Any]], fidelity: str) -> dict[str, dict]:
    """Without arms whose config is that of an earlier one: nothing would be compared."""
    configs: dict[Any, str] = {}
    for name, own in arms.items():
        configs.setdefault(config_of(fidelity, CHEETAH, **own), name)
    return {name: arms[name] for name in configs.values()}


def noted(name: str, fidelity: str) -> str:
    notes = {
        (
            "no-batch-norm",
            "tuned",
        ): "without the running statistics that `tuned` has in "
        "the place of batch norm, in both networks",
        ("no-fitted-iteration", "tuned"): "one pass over the batch: "
        f"{config_of('tuned', CHEETAH).minibatches} steps of Adam on the same targets",
        ("no-fitted-iteration", "authors"): "one step of Adam on the whole batch",
        ("no-trust-region", "tuned"): "the limit on the ratio of each sample stays",
    }
    return notes.get((name, fidelity), "")


def spg_per_step(fidelity: str) -> Arm:
    """SPG in the place of CAC, the actor updated at every time step (D29): with the
    authors' settings wherever an update of one step has them."""
    usual = known_fields(ALGORITHMS["spg"].config).keys() - {"actor_update"}
    theirs = (
        presets.preset("penfac", fidelity, CHEETAH) if fidelity == "authors" else {}
    )
    settings = {key: value for key, value in theirs.items() if key in usual}
    note = "the actor and the critic updated at every time step"
    return Arm("spg-per-step", "spg", "tuned", settings, note)


def ablation(fidelity: str) -> Study:
    arms = distinct(presets.arms("ablation"), fidelity)
    needed = ("no-lambda-returns", "no-fitted-iteration")
    left_out = ("no-trust-region", "cac-update", "cacla-update", "no-batch-norm")
    others = [name for name in left_out if name in arms]
    most = [f"penfac above {arm}" for arm in needed]
    most += [f"{other} above {arm}" for arm in needed for other in others]
    # the arm of each rule: PeNFAC itself where that is its own
    cac, cacla = (
        name if name in arms else "penfac" for name in ("cac-update", "cacla-update")
    )
    where = "Sec. 6.2, Figure 4"
    return Study(
        "fig4",
        "Which components of PeNFAC contribute the most",
        (
            *(arm(name, fidelity, note=noted(name, fidelity), **own) for name, own in arms.items()),
            spg_per_step(fidelity),
        ),
        (CHEETAH,),
        (
            Claim(
                "It appears that lambda-returns and fitted value iteration are the most "
                "needed",
                tuple(most),
                where,
            ),
            Claim(
                "the effect of batch normalization is small",
                ("no-batch-norm level with penfac",),
                where,
            ),
            Claim(
                "and mostly helps in the beginning of the learning",
                ("penfac above no-batch-norm",),
                where,
                measure="early",
            ),
            Claim(
                "We also tried updating the actor every timestep without taking into "
                "account the sign of the advantage function (i.e., using SPG instead of "
                "CAC), but the algorithm was not able to learn at all",
                ("spg-per-step learns nothing",),
                where,
            ),
            Claim(
                "This also demonstrates that the CAC update is an essential component of "
                "PenFAC",
                (f"{cac} above spg-update",),
                where,
            ),
            Claim(
                "when learning from a batch, or inside a trust region, the CAC update "
                "becomes better than CACLA's",
                (f"{cac} above {cacla}",),
                "Sec. 5.2, Figure 4",
            ),
            Claim(
                "the trust region helps",
                ("penfac above no-trust-region",),
                where,
                needs=("penfac: beta above beta_min",),
            ),
        ),
        "Which components of PeNFAC contribute the most to its performance?",
        "Figure 4",
        fidelity,
        SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )  # fmt: skip


# --- the appendix ------------------------------------------------------------------------


def nfac(fidelity: str) -> Study:
    """Where the two rules of the actor are the same, the trust region is all there is."""
    ours, theirs = (config_of(fidelity, HOPPER, algo) for algo in ("penfac", "nfac"))
    alone = ours == dataclasses.replace(theirs, trust_region=ours.trust_region)
    return Study(
        "fig7",
        "PeNFAC against NFAC",
        (arm("penfac", fidelity), arm("nfac", fidelity, "nfac")),
        (HOPPER, HUMANOID),
        (
            Claim(
                "PeNFAC is significantly better than NFAC",
                ("penfac above nfac",),
                "Appendix, Figure 7",
                needs=("penfac: beta above beta_min",) if alone else (),
            ),
        ),
        "What do the trust region and the CAC update add to NFAC?",
        "Figure 7",
        fidelity,
        SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )


def ppo_judged(fidelity: str) -> Study:
    where = "Appendix, Figure 8"
    return Study(
        "fig8",
        "PPO judged by its mean action and as it samples",
        (arm("ppo", fidelity, "ppo"),),
        (HOPPER, CHEETAH, HUMANOID),
        (
            Claim(
                "using a deterministic policy to evaluate the performance of PPO is not "
                "penalizing",
                ("ppo not below ppo[sampled]",),
                where,
            ),
            Claim(
                "deterministic PPO provides better results than standard PPO",
                ("ppo above ppo[sampled]",),
                "Sec. 6.1",
            ),
        ),
        "Does judging PPO without noise penalise it?",
        "Figure 8",
        fidelity,
        SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )


PAPER: dict[str, Callable[[str], Study]] = {
    "fig1": performance("fig1", HOPPER, 1),
    "fig2": performance("fig2", CHEETAH, 2),
    "fig3": performance("fig3", HUMANOID, 3),
    "fig4": ablation,
    "fig5": dimensions,
    "fig6": critic_error,
    "fig7": nfac,
    "fig8": ppo_judged,
    "learning-rate": learning_rate,
    "constants": constants,
    "per-step": per_step,
    "activations": activations,
    "step-size": step_size,
    "small-steps": small_steps,
    "annealing": annealing,
}


def paper_study(name: str, fidelity: str) -> Study:
    if fidelity not in FIDELITIES:
        raise ConfigError(f"--fidelity {fidelity}: must be {' or '.join(FIDELITIES)}")
    if name not in PAPER:
        close = nearest(name, PAPER, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        listed = ", ".join(PAPER)
        raise ConfigError(
            f"{name}: no such study{hint} (there are {listed}; or give a .toml or .py file)"
        )
    return check(PAPER[name](fidelity))
