"""Deterministic controllers learned from the sign of the advantage.

Everything heavy is imported when it is first used: `import penfac` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penfac.algos import ALGORITHMS as ALGORITHMS
    from penfac.policy import Policy as Policy

__version__ = "0.1.0"
_HOMES = {"ALGORITHMS": "algos", "Policy": "policy"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"penfac.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'penfac' has no attribute {name!r}")
