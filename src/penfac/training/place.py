"""Where a run runs, and the name of its folder."""

from penfac.errors import ConfigError


def check_place(on: str, name: str | None) -> None:
    """Check where a run runs and what its folder is called."""
    if on not in ("auto", "cpu", "device"):
        raise ConfigError(f"--on {on}: must be auto, cpu or device")
    if name is not None and (not name.strip() or "/" in name or name.startswith(".")):
        raise ConfigError(f"--name {name}: must be a plain folder name")
