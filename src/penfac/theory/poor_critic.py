"""A critic that says A(s, mu(s)) < 0: DPG follows its slope, CAC stays  (Sec. 4.2).

One state, R(a) = -a^2 / 2, mu = 0.3. The critic's advantage e + g b + h b^2 / 2 slopes
the wrong way and is below 0 for every action.
"""

import numpy as np

from penfac.theory.finding import Finding, below
from penfac.theory.gaussian import linear_cac, quadratic_cac, true_offset
from penfac.theory.training import normal_grid, training_step

MU, SIGMA, STEP = 0.3, 0.2, 0.5
E, G, H = -0.1, 0.2, -0.5  # largest value e - g^2 / (2 h) = -0.06


def performance(mu):
    """J = R(mu), of one mu or many."""
    return -(mu**2) / 2


def judged(b: np.ndarray) -> np.ndarray:
    """What the critic says of mu + b."""
    return E + G * b + H * b**2 / 2


def dpg_lowers() -> Finding:
    """J after DPG's step < J after CAC's, which does not move."""
    moved = SIGMA * normal_grid(100_000)
    followed = float(training_step("cac", judged(moved[:, 0]), moved)[0]) / SIGMA**2
    closed = quadratic_cac(E, G, H, SIGMA)
    slope = (judged(np.array(1e-6)) - judged(np.array(-1e-6))) / 2e-6
    numbers = {
        "A that the critic gives mu(s)": judged(np.array(0.0)),
        "best A it gives any action": E - G**2 / (2 * H),
        "DPG's step by the critic": slope,
        "DPG's step by the true slope": -MU,
        "CAC's step in closed form": closed,
        "CAC's step by training": followed + 0.0,  # not -0
        "share of the step CAC takes if A is linear": share(E),
        "... and with the offset 0": share(0.0),
        "true A^pi(s, mu(s)) where R bends up by 1": true_offset(1.0, SIGMA),
    }
    after = performance(MU + STEP * float(slope))
    stays = closed == 0 and followed == 0
    return below(after, performance(MU + STEP * closed), numbers, also=stays)


def share(offset: float) -> float:
    """Phi(kappa): how much of DPG's step CAC takes if the critic is linear."""
    return float(linear_cac(offset, np.array([G]), SIGMA)[0] / G)
