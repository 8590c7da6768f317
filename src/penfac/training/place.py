"""Where a run runs, and the name of its folder."""

from collections.abc import Callable

from penfac import machine
from penfac.errors import ConfigError
from penfac.runs.config import RunConfig


def check_place(on: str, name: str | None) -> None:
    """Check where a run runs and what its folder is called."""
    if on not in ("auto", "cpu", "device"):
        raise ConfigError(f"--on {on}: must be auto, cpu or device")
    if name is not None and (not name.strip() or "/" in name or name.startswith(".")):
        raise ConfigError(f"--name {name}: must be a plain folder name")


def place_of(config: RunConfig) -> str:
    """Say what a run computes on."""
    name = machine.device_name()
    if config.engine == "device":
        return f"environments and learning on {name}"
    return f"environments on the CPU, learning on {name}"


def tell_place(config: RunConfig, on: str, tell: Callable[[str], None]) -> None:
    for text in place_notes(config, on):
        tell(text)


def place_notes(config: RunConfig, on: str) -> list[str]:
    """What a user may not expect of the place; `on` is what they asked for."""
    notes = []
    fast = machine.runs_on_accelerator()
    if machine.has_unused_gpu():
        notes.append(
            "there is a GPU that JAX does not use; to use it: pip install "
            '"penfac[cuda]" (docs/install-gpu.md)'
        )
    if on == "device" and not fast:
        notes.append(
            "--on device: JAX has no GPU here, so the program runs on the CPU; "
            "docs/install-gpu.md says how to install for one"
        )
    if fast and config.engine == "host" and could_run_there(config.env):
        notes.append(
            f"{config.env} could run on the GPU too, with many seeds or worlds: add "
            "--on device"
        )
    return notes


def could_run_there(env_id: str) -> bool:
    """Whether an environment is written in JAX."""
    from penfac.envs.builtin import is_jax_env  # with JAX; a terminal is told before

    return is_jax_env(env_id)
