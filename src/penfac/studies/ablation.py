"""Figure 4: which components of PeNFAC contribute the most."""

from typing import Any

from penfac.settings import presets
from penfac.settings.declaration import known_fields
from penfac.settings.registry import SETTINGS
from penfac.studies.arms import CHEETAH, SEEDS, STEPS, arm, config_of
from penfac.studies.claims import Claim
from penfac.studies.spec import Arm, Study

WHERE = "Sec. 6.2, Figure 4"
NEEDED = ("no-lambda-returns", "no-fitted-iteration")
OTHERS = ("no-trust-region", "cac-update", "cacla-update", "no-batch-norm")


def ablation(fidelity: str) -> Study:
    settings = distinct(presets.arms("ablation"), fidelity)
    ablated = tuple(
        arm(name, fidelity, note=note(name, fidelity), **own)
        for name, own in settings.items()
    )
    return Study(
        name="fig4",
        title="Which components of PeNFAC contribute the most",
        arms=(*ablated, spg_per_step(fidelity)),
        envs=(CHEETAH,),
        claims=claims(set(settings)),
        question="Which components of PeNFAC contribute the most to its performance?",
        paper="Figure 4",
        fidelity=fidelity,
        seeds=SEEDS,
        paper_seeds=SEEDS,
        paper_steps=STEPS,
    )


def distinct(
    arms: dict[str, dict[str, Any]], fidelity: str
) -> dict[str, dict[str, Any]]:
    """Leave out an arm that has the config of an earlier one."""
    configs: dict[Any, str] = {}
    for name, own in arms.items():
        configs.setdefault(config_of(fidelity, CHEETAH, **own), name)
    return {name: arms[name] for name in configs.values()}


def claims(arms: set[str]) -> tuple[Claim, ...]:
    """The sentences of the paper, with comparisons of the arms that are there."""
    # PeNFAC itself has one of the two rules, and that arm is left out
    cac, cacla = (
        name if name in arms else "penfac" for name in ("cac-update", "cacla-update")
    )
    return (
        Claim(
            "It appears that lambda-returns and fitted value iteration are the most "
            "needed",
            most_needed(arms),
            where=WHERE,
        ),
        Claim(
            "the effect of batch normalization is small",
            ("no-batch-norm level with penfac",),
            where=WHERE,
        ),
        Claim(
            "and mostly helps in the beginning of the learning",
            ("penfac above no-batch-norm",),
            where=WHERE,
            measure="early",
        ),
        Claim(
            "We also tried updating the actor every timestep without taking into "
            "account the sign of the advantage function (i.e., using SPG instead of "
            "CAC), but the algorithm was not able to learn at all",
            ("spg-per-step learns nothing",),
            where=WHERE,
        ),
        Claim(
            "This also demonstrates that the CAC update is an essential component of "
            "PenFAC",
            (f"{cac} above spg-update",),
            where=WHERE,
        ),
        Claim(
            "when learning from a batch, or inside a trust region, the CAC update "
            "becomes better than CACLA's",
            (f"{cac} above {cacla}",),
            where="Sec. 5.2, Figure 4",
        ),
        Claim(
            "the trust region helps",
            ("penfac above no-trust-region",),
            where=WHERE,
            needs=("penfac: beta above beta_min",),
        ),
    )


def most_needed(arms: set[str]) -> tuple[str, ...]:
    """PeNFAC and every other arm are above the arms without a needed component."""
    others = [name for name in OTHERS if name in arms]
    penfac = [f"penfac above {needed}" for needed in NEEDED]
    rest = [f"{other} above {needed}" for needed in NEEDED for other in others]
    return (*penfac, *rest)


def note(name: str, fidelity: str) -> str:
    """What an arm leaves out, where its name does not say."""
    steps = config_of("tuned", CHEETAH).minibatches
    notes = {
        ("no-batch-norm", "tuned"): "without the running statistics that `tuned` uses "
        "in place of batch norm, in both networks",
        ("no-fitted-iteration", "tuned"): "one pass over the batch: "
        f"{steps} steps of Adam on the same targets",
        ("no-fitted-iteration", "authors"): "one step of Adam on the whole batch",
        ("no-trust-region", "tuned"): "keeps the limit on the ratio of each sample",
    }
    return notes.get((name, fidelity), "")


def spg_per_step(fidelity: str) -> Arm:
    """SPG in place of CAC, with the actor updated at every time step (D29).

    `authors` takes their settings wherever SPG has them.
    """
    known = known_fields(SETTINGS["spg"].config).keys() - {"actor_update"}
    theirs = (
        presets.preset("penfac", fidelity, CHEETAH) if fidelity == "authors" else {}
    )
    settings = {key: value for key, value in theirs.items() if key in known}
    note = "the actor and the critic are updated at every time step"
    return Arm("spg-per-step", "spg", "tuned", settings, note)
