"""The verbs that users of Stable-Baselines3 know, a class for each algorithm.

model = penfac.PeNFAC("Pendulum-v1", seed=0).learn(200_000)
action, _ = model.predict(obs)
model.save("pendulum")
model = penfac.load("pendulum")
"""

from pathlib import Path
from typing import Any

from penfac.api.keywords import in_python
from penfac.api.model import Model, Place
from penfac.runs.folder import read_config


class PeNFAC(Model):
    """Penalized Neural Fitted Actor-Critic: CAC on whole batches, in a trust region."""

    algo = "penfac"


class NFAC(Model):
    """Neural Fitted Actor-Critic: CACLA on whole batches."""

    algo = "nfac"


class CACLA(Model):
    """Continuous Actor-Critic Learning Automaton: toward actions that surprised well."""

    algo = "cacla"


class CAC(Model):
    """Continuous Actor-Critic: as CACLA, each step as long as the surprise is large."""

    algo = "cac"


class SPG(Model):
    """Stochastic policy gradient, toward good actions and away from bad ones."""

    algo = "spg"


class DPG(Model):
    """Deterministic policy gradient with a compatible critic."""

    algo = "dpg"


class DDPG(Model):
    """Deep deterministic policy gradient."""

    algo = "ddpg"


class TD3(Model):
    """DDPG with twin critics, smoothed targets and a delayed actor."""

    algo = "td3"


class PPO(Model):
    """Proximal policy optimisation, judged by its mean."""

    algo = "ppo"


KINDS: dict[str, type[Model]] = {
    kind.algo: kind for kind in (PeNFAC, NFAC, CACLA, CAC, SPG, DPG, DDPG, TD3, PPO)
}


def load(path: Place, env: Any = None, seed: int | None = None) -> Model:
    """The model of a run folder or of a saved one, whatever learned it; see `Model.load`."""
    with in_python():
        algo = str(read_config(Path(path)).get("algo"))
    # of an algorithm we do not know, any class says so
    return KINDS.get(algo, PeNFAC).load(path, env, seed)
