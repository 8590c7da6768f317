"""The algorithms: each is a record of pure functions (see base.py)."""

from penfac.algos.base import Algorithm
from penfac.algos.penfac import NFAC, PENFAC

ALGORITHMS: dict[str, Algorithm] = {a.name: a for a in (PENFAC, NFAC)}
