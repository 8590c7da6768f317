"""What there is: algorithms, environments, settings, as tables of plain values."""

from typing import Any

from penfac import presets
from penfac.algos import ALGORITHMS
from penfac.configs import from_values, known_fields, to_values
from penfac.errors import ConfigError, PenfacError


def algorithms() -> list[dict[str, str]]:
    return [
        {"name": a.name, "section": a.section, "summary": a.summary}
        for a in ALGORITHMS.values()
    ]


def presets_table(algo: str, env_id: str) -> list[dict[str, Any]]:
    """One row a setting: the three presets, and the paper's kept and searched values."""
    if algo not in ALGORITHMS:
        raise ConfigError(
            f"{algo}: no such algorithm; there are {', '.join(ALGORITHMS)}"
        )
    algorithm = ALGORITHMS[algo]
    columns = {}
    for name in presets.NAMES:
        values = presets.preset(algo, name, env_id) | algorithm.overrides
        columns[name] = to_values(from_values(algorithm.config, values))
    paper = {
        row["setting"]: row
        for table in presets.tables().values()
        for row in table["rows"].values()
    }
    rows = []
    for setting in known_fields(algorithm.config):
        row: dict[str, Any] = {"setting": setting}
        row |= {name: column[setting] for name, column in columns.items()}
        printed = paper.get(setting, {})
        row |= {"kept": printed.get("kept"), "searched": printed.get("searched")}
        rows.append(row)
    return rows


def environments() -> list[dict[str, Any]]:
    """Built-in JAX environments and Gymnasium's own with continuous actions."""
    import gymnasium

    from penfac.envs.builtin import BUILT_IN
    from penfac.envs.gym import EnvOptions, open_world

    rows = [
        _row(
            e.spec.id,
            e.spec.obs_dim,
            e.spec.action_dim,
            e.spec.horizon,
            "JAX",
            e.summary,
        )
        for e in BUILT_IN.values()
    ]
    for name, kind in _continuous(gymnasium.registry):
        try:
            world = open_world(name, EnvOptions())
            spec = world.spec()
            world.close()
        except PenfacError as error:
            rows.append(_row(name, None, None, None, kind, f"cannot be made: {error}"))
        else:
            n, m = spec.obs_dim, spec.action_dim
            rows.append(_row(name, n, m, spec.horizon, kind, ""))
    return rows


def _continuous(registry: dict) -> list[tuple[str, str]]:
    """Newest version of each MuJoCo task, and the continuous classics."""
    found = [
        (name, "Gymnasium") for name in ("Pendulum-v1", "MountainCarContinuous-v0")
    ]
    newest: dict[str, Any] = {}
    for spec in registry.values():
        point = spec.entry_point
        if spec.namespace is None and isinstance(point, str) and "envs.mujoco" in point:
            known = newest.get(spec.name)
            if known is None or (spec.version or 0) > (known.version or 0):
                newest[spec.name] = spec
    return found + [(spec.id, "MuJoCo") for spec in newest.values()]


def _row(env_id, obs, actions, limit, engine, note) -> dict[str, Any]:
    return {
        "id": env_id,
        "observations": obs,
        "actions": actions,
        "time_limit": limit,
        "engine": engine,
        "note": note,
    }
