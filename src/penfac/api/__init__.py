"""A class for each algorithm, with the method names of Stable-Baselines3.

model = penfac.PeNFAC("Pendulum-v1", seed=0).learn(200_000)
action, _ = model.predict(obs)
model.save("pendulum")
model = penfac.load("pendulum")
"""

from pathlib import Path
from typing import Any

from penfac.api.keywords import in_python
from penfac.api.model import Model, Place
from penfac.runs.config import read_config


class PeNFAC(Model):
    """Penalized Neural Fitted Actor-Critic: batch updates in a trust region."""

    algo = "penfac"


class NFAC(Model):
    """Neural Fitted Actor-Critic: CACLA on whole batches."""

    algo = "nfac"


class OffPeNFAC(Model):
    """PeNFAC that learns from its last batches too, with a share of DPG."""

    algo = "offpenfac"


class CACLA(Model):
    """Continuous Actor-Critic Learning Automaton: mu moves toward better actions."""

    algo = "cacla"


class CAC(Model):
    """Continuous Actor-Critic: CACLA with steps proportional to the advantage."""

    algo = "cac"


class SPG(Model):
    """Stochastic policy gradient: toward better actions and away from worse ones."""

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


class SAC(Model):
    """Soft actor-critic with a learned temperature, evaluated by its mean."""

    algo = "sac"


class PPO(Model):
    """Proximal policy optimisation, evaluated by its mean."""

    algo = "ppo"


KINDS: dict[str, type[Model]] = {
    kind.algo: kind
    for kind in (PeNFAC, NFAC, OffPeNFAC, CACLA, CAC, SPG, DPG, DDPG, TD3, SAC, PPO)
}


def load(
    path: Place, env: Any = None, seed: int | None = None, trust: bool = False
) -> Model:
    """Load the model of a run folder, whatever its algorithm; see `Model.load`."""
    with in_python():
        kind = KINDS[read_config(Path(path)).algo]
    return kind.load(path, env, seed, trust)
