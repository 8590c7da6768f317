"""Where a function crosses 0."""

from collections.abc import Callable

from scipy import optimize


def zero(function: Callable[[float], float], low: float, high: float) -> float:
    """The place between low and high, where the signs differ; by Brent's method."""
    found = optimize.root_scalar(function, bracket=(low, high), xtol=1e-13)
    return float(found.root)
