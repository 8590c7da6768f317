"""The algorithms: each is a record of pure functions (see base.py)."""

from penfac.algos.base import Algorithm
from penfac.algos.ddpg import DDPG, TD3
from penfac.algos.online import CAC, CACLA, DPG, SPG
from penfac.algos.penfac import NFAC, OFFPENFAC, PENFAC
from penfac.algos.ppo import PPO
from penfac.algos.sac import SAC

ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (PENFAC, NFAC, OFFPENFAC, CACLA, CAC, SPG, DPG, DDPG, TD3, SAC, PPO)
}
