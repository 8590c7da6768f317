"""Which code a file may have us run: none, unless its user says so."""

import sys

from penfac.errors import ConfigError

# ids of Gymnasium whose arguments name what they import
LOADERS = ("GymV21Environment-v0", "GymV26Environment-v0")


def refuse_unasked(env_id: str, where: object, trust: bool) -> None:
    """Refuse an environment whose module only a file names; one that this process has
    imported already runs no code."""
    module, _, name = env_id.rpartition(":")
    if name in LOADERS:
        module = module or name
    if module and module not in sys.modules and not trust:
        raise ConfigError(
            f"{where}: importing {module} runs its code, and only this folder's files "
            "ask for it; if you trust them, add --trust"
        )


def check_module(env_id: str, module: str) -> None:
    """Refuse what is no name of a module, and what an import runs as a program."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts) or "__main__" in parts:
        raise ConfigError(f"{env_id}: {module} is not the name of a module")
