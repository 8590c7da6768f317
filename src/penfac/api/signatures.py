"""The signature of each class: the keywords of every model, then its settings.

Editors read it from `penfac/api/__init__.pyi`, which `make tables` writes from the same
declarations; `inspect.signature` and `help` get it here.
"""

import inspect
from collections.abc import Callable
from typing import Any

from penfac.settings.declaration import known_fields
from penfac.settings.registry import settings_of


def settings_parameters(algo: str) -> list[inspect.Parameter]:
    """A keyword for each setting of an algorithm, with its default in `tuned`."""
    algorithm = settings_of(algo)
    defaults = vars(algorithm.config()) | dict(algorithm.overrides)
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults[name],
            annotation=kind,
        )
        for name, kind in known_fields(algorithm.config).items()
    ]


def signature_of(algo: str, init: Callable[..., Any]) -> inspect.Signature:
    """The signature of a class, without `self`; `init` has the keywords of all classes."""
    kinds = inspect.Parameter
    shared = [
        parameter
        for parameter in inspect.signature(init).parameters.values()
        if parameter.name != "self"
        and parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    return inspect.Signature([*shared, *settings_parameters(algo)])
