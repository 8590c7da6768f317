"""How far ahead an algorithm looks if it is not told: gamma by the clock  (D28)."""

import math

HORIZON_SECONDS = 1.09
LEAST_GAMMA = 0.985


def usual_gamma(time_step: float | None) -> float:
    """exp(-dt / 1.09 s): a horizon of about a second; but never below 0.985, which it is
    for a step of 1/61 s, Roboschool's, and where the time step is unknown (D28)."""
    if time_step is None:
        return LEAST_GAMMA
    return max(LEAST_GAMMA, math.exp(-time_step / HORIZON_SECONDS))
