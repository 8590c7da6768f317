"""A study that takes seconds: two arms of PeNFAC and one of PPO on built-in tasks."""

from penfac.studies.claims import Claim
from penfac.studies.runner import How, start
from penfac.studies.spec import Arm, Study
from penfac.training.limits import Limits

LQR = "penfac/LQR-v0"
SETTINGS = {
    "collect": "steps", "worlds": 2, "steps_per_world": 50, "actor_steps": 2,
    "actor_hidden": [4], "critic_hidden": [4], "min_steps_per_update": 1,
    "minibatches": 1,
}  # fmt: skip


def small(**changed) -> Study:
    given = {
        "name": "small",
        "title": "Wide or narrow",
        "arms": (
            Arm("wide", settings=SETTINGS | {"sigma": 0.4}),
            Arm("narrow", settings=SETTINGS | {"sigma": 0.1}),
        ),
        "envs": (LQR,),
        "claims": (Claim("Wide is better.", ("wide above narrow",)),),
        "steps": 300,
        "eval_every": 100,
        "eval_episodes": 2,
    }
    return Study(**given | changed)


def run_study(folder, study=None, seeds=(0, 1), on="local", tell=None, **how):
    said = [] if tell is None else tell
    limits = Limits(command="penfac study run small.toml")
    return start(study or small(), seeds, folder, How(on, **how), limits, said.append)
