"""Studies of sentences in the paper's text that no figure shows."""

from typing import Any

from penfac.studies.arms import CHEETAH, HUMANOID, SEEDS, STEPS, arm, preset_value
from penfac.studies.claims import Claim
from penfac.studies.spec import Study


def learning_rate(fidelity: str) -> Study:
    """Ten times the learning rate, with the trust region and without."""
    rate = preset_value(fidelity, CHEETAH, "actor_lr")
    large: dict[str, Any] = {"actor_lr": 10 * rate}
    free: dict[str, Any] = {"trust_region": False}
    return Study(
        name="learning-rate",
        title="The trust region against the actor's learning rate",
        arms=(
            arm("trust", fidelity, actor_lr=rate),
            arm("trust-large", fidelity, **large),
            arm("free", fidelity, actor_lr=rate, **free),
            arm("free-large", fidelity, **large, **free),
        ),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "The introduction of d_target mitigates the need to optimize the learning "
                "rate for the update of the policy",
                ("trust-large - trust above free-large - free",),
                where="Sec. 5.2",
                needs=("trust-large: beta above beta_min",),
            ),
        ),
        question="Does d_target make the learning rate matter less?",
        paper="Sec. 5.2",
        fidelity=fidelity,
        seeds=20,
        steps=500_000,
    )


def constants(fidelity: str) -> Study:
    others: dict[str, dict[str, Any]] = {
        "band-1.2": {"beta_band": 1.2},
        "band-3": {"beta_band": 3.0},
        "factor-1.2": {"beta_factor": 1.2},
        "factor-4": {"beta_factor": 4.0},
    }
    return Study(
        name="constants",
        title="The constants 1.5 and 2 of beta's rule",
        arms=(
            arm("penfac", fidelity),
            *(arm(n, fidelity, **s) for n, s in others.items()),
        ),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "Those hyper-parameters are usually not optimized because the learning is "
                "not too sensitive to them",
                tuple(f"{name} level with penfac" for name in others),
                where="Sec. 5.2",
                needs=("penfac: beta above beta_min",),
            ),
        ),
        question="Do the constants of beta's rule matter?",
        paper="Sec. 5.2",
        fidelity=fidelity,
        seeds=20,
        steps=500_000,
    )


def per_step(fidelity: str) -> Study:
    return Study(
        name="per-step",
        title="CAC and CACLA, one update a step",
        arms=(arm("cacla", "tuned", "cacla"), arm("cac", "tuned", "cac")),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "the CAC update performs worse than the CACLA update in a setting where "
                "the policy and the critic are updated at each timestep",
                ("cacla above cac",),
                where="Sec. 5.2",
            ),
        ),
        question="Is CACLA better than CAC with one update a step?",
        paper="Sec. 5.2",
        fidelity=fidelity,
        seeds=20,
        steps=200_000,
    )


def activations(fidelity: str) -> Study:
    ddpg = {"authors": "ddrl", "tuned": "tuned"}[fidelity]
    algos = {"penfac": fidelity, "ppo": fidelity, "ddpg": ddpg}
    relu = {algo: "relu" if algo == "ppo" else "leaky_relu" for algo in algos}
    return Study(
        name="activations",
        title="ReLU against tanh",
        arms=tuple(
            arm(f"{algo}-{short}", preset, algo, activation=word)
            for algo, preset in algos.items()
            for short, word in (("relu", relu[algo]), ("tanh", "tanh"))
        ),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "we found that ReLU was better for all of them except for PPO (where tanh "
                "was better)",
                (
                    "penfac-relu above penfac-tanh",
                    "ddpg-relu above ddpg-tanh",
                    "ppo-tanh above ppo-relu",
                ),
                where="Sec. 6.1",
            ),
        ),
        question="Which activation of the hidden units suits which algorithm?",
        paper="Sec. 6.1",
        fidelity=fidelity,
        seeds=20,
        steps=500_000,
    )


def step_size(fidelity: str) -> Study:
    """The actor's learning rate without any other limit on the step."""
    rate = preset_value(fidelity, CHEETAH, "actor_lr")
    free: dict[str, Any] = {"trust_region": False, "ratio_limit": None}
    sizes = {"usual": 1.0, "small": 0.1, "large": 10.0, "huge": 100.0}
    return Study(
        name="step-size",
        title="The actor's learning rate without a trust region",
        arms=tuple(
            arm(name, fidelity, actor_lr=times * rate, **free)
            for name, times in sizes.items()
        ),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "If alpha is too big, the method may diverge.",
                ("usual above huge", "usual above large"),
                where="Sec. 2",
            ),
            Claim(
                "If it is too low, the learning will converge slowly",
                ("usual above small",),
                where="Sec. 2",
                measure="area",
            ),
        ),
        question="How much does the learning rate matter without a trust region?",
        paper="Sec. 2",
        fidelity=fidelity,
        seeds=20,
        steps=500_000,
    )


def small_steps(fidelity: str) -> Study:
    """Wider exploration, and larger changes of the policy per update."""
    sigma, distance = (
        preset_value(fidelity, CHEETAH, k) for k in ("sigma", "d_target")
    )
    end = preset_value(fidelity, CHEETAH, "sigma_end")
    wide: dict[str, Any] = {"sigma": 4 * sigma}
    if end is not None:
        wide |= {"sigma_end": 4 * end}
    return Study(
        name="small-steps",
        title="Wide exploration and large updates",
        arms=(
            arm("penfac", fidelity),
            arm("wide", fidelity, **wide),
            arm("far", fidelity, d_target=10 * distance),
        ),
        envs=(CHEETAH,),
        claims=(
            Claim(
                "to ensure a stable improvement at each update, we need to keep [...] "
                "sigma small",
                ("penfac above wide",),
                where="Sec. 5.1",
                measure="final, area",
            ),
            Claim(
                "to ensure a stable improvement at each update, we need to keep [...] "
                "the distance between both policies small",
                ("penfac above far",),
                where="Sec. 5.1",
                measure="final, area",
                needs=("penfac: beta above beta_min",),
            ),
        ),
        question="Do wide exploration and large updates harm?",
        paper="Sec. 5.1",
        fidelity=fidelity,
        seeds=20,
        steps=500_000,
    )


def annealing(fidelity: str) -> Study:
    """LinearAnneal lowers sigma linearly, here to a tenth; adaptive Adam adapts the step
    size to the divergence of the policy."""
    fixed: dict[str, Any] = {"sigma_end": None}
    sigma = preset_value(fidelity, HUMANOID, "sigma")
    falls: dict[str, Any] = {"sigma": sigma, "sigma_end": sigma / 10}
    noise: dict[str, Any] = {"sigma": 1.0, "sigma_end": 0.1}
    return Study(
        name="annealing",
        title="LinearAnneal and adaptive Adam on Humanoid",
        arms=(
            arm("penfac", fidelity, **fixed),
            arm("penfac-anneal", fidelity, **falls),
            arm("ppo", fidelity, "ppo"),
            arm("ppo-anneal", fidelity, "ppo", **noise),
            arm("ppo-adaptive", fidelity, "ppo", kl_target=0.01),
            arm("ppo-both", fidelity, "ppo", kl_target=0.01, **noise),
        ),
        envs=(HUMANOID,),
        claims=(
            Claim(
                "We conjecture that this may be explained as follows: [...] neither "
                "LinearAnneal for the exploration, nor adaptive Adam step size is present "
                "in the OpenAI Baseline implementation",
                (
                    "ppo-anneal above ppo",
                    "ppo-adaptive above ppo",
                    "ppo-both above ppo",
                ),
                where="Sec. 6.1",
            ),
            Claim(
                "the comparison should still be fair since PeNFAC also does not use those "
                "two components",
                ("penfac above ppo", "penfac-anneal above ppo-anneal"),
                where="Sec. 6.1",
            ),
        ),
        question="Do annealed exploration and adaptive steps change how PPO and PeNFAC compare?",
        paper="Sec. 6.1",
        fidelity=fidelity,
        seeds=SEEDS,
        paper_steps=STEPS,
    )
