"""The algorithms: each is a record of pure functions (see base.py)."""

from penfac.algos.base import Algorithm
from penfac.algos.ddpg import DDPG, TD3
from penfac.algos.offpenfac import OFFPENFAC
from penfac.algos.online import CAC, CACLA, DPG, SPG
from penfac.algos.penfac import NFAC, PENFAC
from penfac.algos.ppo import PPO
from penfac.algos.sac import SAC

ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (
        PENFAC, NFAC, CACLA, CAC, SPG, DPG, DDPG, TD3, SAC, OFFPENFAC, PPO,
    )  # fmt: skip
}
