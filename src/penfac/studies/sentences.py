"""What the paper's text says beside its figures, as studies."""

from typing import Any

from penfac.studies.arms import CHEETAH, HUMANOID, SEEDS, STEPS, arm, usual
from penfac.studies.claims import Claim
from penfac.studies.spec import Study


def learning_rate(fidelity: str) -> Study:
    """Ten times the step, with the trust region and without."""
    rate = usual(fidelity, CHEETAH, "actor_lr")
    large: dict[str, Any] = {"actor_lr": 10 * rate}
    free: dict[str, Any] = {"trust_region": False}
    return Study(
        "learning-rate",
        "The trust region against the actor's learning rate",
        (
            arm("trust", fidelity, actor_lr=rate),
            arm("trust-large", fidelity, **large),
            arm("free", fidelity, actor_lr=rate, **free),
            arm("free-large", fidelity, **large, **free),
        ),
        (CHEETAH,),
        (
            Claim(
                "The introduction of d_target mitigates the need to optimize the learning "
                "rate for the update of the policy",
                ("trust-large - trust above free-large - free",),
                "Sec. 5.2",
                needs=("trust-large: beta above beta_min",),
            ),
        ),
        "Does d_target make the learning rate matter less?",
        "Sec. 5.2",
        fidelity,
        20,
        500_000,
    )


def constants(fidelity: str) -> Study:
    others: dict[str, dict[str, Any]] = {
        "band-1.2": {"beta_band": 1.2},
        "band-3": {"beta_band": 3.0},
        "factor-1.2": {"beta_factor": 1.2},
        "factor-4": {"beta_factor": 4.0},
    }
    return Study(
        "constants",
        "The constants 1.5 and 2 of beta's rule",
        (arm("penfac", fidelity), *(arm(n, fidelity, **s) for n, s in others.items())),
        (CHEETAH,),
        (
            Claim(
                "Those hyper-parameters are usually not optimized because the learning is "
                "not too sensitive to them",
                tuple(f"{name} level with penfac" for name in others),
                "Sec. 5.2",
                needs=("penfac: beta above beta_min",),
            ),
        ),
        "Do the constants of beta's rule matter?",
        "Sec. 5.2",
        fidelity,
        20,
        500_000,
    )


def per_step(fidelity: str) -> Study:
    return Study(
        "per-step",
        "CAC and CACLA, one update a step",
        (arm("cacla", "tuned", "cacla"), arm("cac", "tuned", "cac")),
        (CHEETAH,),
        (
            Claim(
                "the CAC update performs worse than the CACLA update in a setting where "
                "the policy and the critic are updated at each timestep",
                ("cacla above cac",),
                "Sec. 5.2",
            ),
        ),
        "Is CACLA better than CAC with one update a step?",
        "Sec. 5.2",
        fidelity,
        20,
        200_000,
    )


def activations(fidelity: str) -> Study:
    ddpg = {"authors": "ddrl", "tuned": "tuned"}[fidelity]
    algos = {"penfac": fidelity, "ppo": fidelity, "ddpg": ddpg}
    relu = {algo: "relu" if algo == "ppo" else "leaky_relu" for algo in algos}
    return Study(
        "activations",
        "ReLU against tanh",
        tuple(
            arm(f"{algo}-{short}", preset, algo, activation=word)
            for algo, preset in algos.items()
            for short, word in (("relu", relu[algo]), ("tanh", "tanh"))
        ),
        (CHEETAH,),
        (
            Claim(
                "we found that ReLU was better for all of them except for PPO (where tanh "
                "was better)",
                (
                    "penfac-relu above penfac-tanh",
                    "ddpg-relu above ddpg-tanh",
                    "ppo-tanh above ppo-relu",
                ),
                "Sec. 6.1",
            ),
        ),
        "Which activation of the hidden units suits which algorithm?",
        "Sec. 6.1",
        fidelity,
        20,
        500_000,
    )


def step_size(fidelity: str) -> Study:
    """The actor's learning rate where nothing else limits a step."""
    rate = usual(fidelity, CHEETAH, "actor_lr")
    free: dict[str, Any] = {"trust_region": False, "ratio_limit": None}
    sizes = {"usual": 1.0, "small": 0.1, "large": 10.0, "huge": 100.0}
    return Study(
        "step-size",
        "The actor's learning rate without a trust region",
        tuple(
            arm(name, fidelity, actor_lr=times * rate, **free)
            for name, times in sizes.items()
        ),
        (CHEETAH,),
        (
            Claim(
                "If alpha is too big, the method may diverge.",
                ("usual above huge", "usual above large"),
                "Sec. 2",
            ),
            Claim(
                "If it is too low, the learning will converge slowly",
                ("usual above small",),
                "Sec. 2",
                measure="area",
            ),
        ),
        "How much does the learning rate matter where no trust region limits the step?",
        "Sec. 2",
        fidelity,
        20,
        500_000,
    )


def small_steps(fidelity: str) -> Study:
    """Wider exploration, and a policy that may move further at each update."""
    sigma, distance = (usual(fidelity, CHEETAH, k) for k in ("sigma", "d_target"))
    end = usual(fidelity, CHEETAH, "sigma_end")
    wide: dict[str, Any] = {"sigma": 4 * sigma}
    if end is not None:
        wide |= {"sigma_end": 4 * end}
    return Study(
        "small-steps",
        "How widely to explore, and how far to move",
        (
            arm("penfac", fidelity),
            arm("wide", fidelity, **wide),
            arm("far", fidelity, d_target=10 * distance),
        ),
        (CHEETAH,),
        (
            Claim(
                "to ensure a stable improvement at each update, we need to keep [...] "
                "sigma small",
                ("penfac above wide",),
                "Sec. 5.1",
                measure="final, area",
            ),
            Claim(
                "to ensure a stable improvement at each update, we need to keep [...] "
                "the distance between both policies small",
                ("penfac above far",),
                "Sec. 5.1",
                measure="final, area",
                needs=("penfac: beta above beta_min",),
            ),
        ),
        "Do wide exploration and large updates harm?",
        "Sec. 5.1",
        fidelity,
        20,
        500_000,
    )


def annealing(fidelity: str) -> Study:
    """LinearAnneal is a standard deviation that falls along a line, to a tenth here;
    adaptive Adam a step size that follows the divergence of the policy."""
    fixed: dict[str, Any] = {"sigma_end": None}
    sigma = usual(fidelity, HUMANOID, "sigma")
    falls: dict[str, Any] = {"sigma": sigma, "sigma_end": sigma / 10}
    noise: dict[str, Any] = {"sigma": 1.0, "sigma_end": 0.1}
    return Study(
        "annealing",
        "LinearAnneal and adaptive Adam on Humanoid",
        (
            arm("penfac", fidelity, **fixed),
            arm("penfac-anneal", fidelity, **falls),
            arm("ppo", fidelity, "ppo"),
            arm("ppo-anneal", fidelity, "ppo", **noise),
            arm("ppo-adaptive", fidelity, "ppo", kl_target=0.01),
            arm("ppo-both", fidelity, "ppo", kl_target=0.01, **noise),
        ),
        (HUMANOID,),
        (
            Claim(
                "We conjecture that this may be explained as follows: [...] neither "
                "LinearAnneal for the exploration, nor adaptive Adam step size is present "
                "in the OpenAI Baseline implementation",
                (
                    "ppo-anneal above ppo",
                    "ppo-adaptive above ppo",
                    "ppo-both above ppo",
                ),
                "Sec. 6.1",
            ),
            Claim(
                "the comparison should still be fair since PeNFAC also does not use those "
                "two components",
                ("penfac above ppo", "penfac-anneal above ppo-anneal"),
                "Sec. 6.1",
            ),
        ),
        "Would PPO and PeNFAC compare otherwise with exploration and steps that adapt?",
        "Sec. 6.1",
        fidelity,
        SEEDS,
        paper_steps=STEPS,
    )
