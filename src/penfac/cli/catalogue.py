"""What there is: algorithms, environments, settings, as tables of plain values."""

import importlib.util
from typing import Any, Literal, get_args, get_origin

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, PenfacError
from penfac.settings import presets
from penfac.settings.configs import from_values, to_values
from penfac.settings.declaration import Setting, declared, known_fields


def algorithms() -> list[dict[str, str]]:
    return [
        {"name": a.name, "section": a.section, "summary": a.summary}
        for a in ALGORITHMS.values()
    ]


def presets_table(algo: str, env_id: str) -> list[dict[str, Any]]:
    """One row a setting: its presets, the paper's kept and searched values, what it
    means, and the values that it takes."""
    if algo not in ALGORITHMS:
        raise ConfigError(
            f"{algo}: no such algorithm; there are {', '.join(ALGORITHMS)}"
        )
    algorithm = ALGORITHMS[algo]
    columns = {}
    for name in presets.names(algorithm.presets):
        values = presets.preset(algorithm.presets, name, env_id)
        cfg = from_values(algorithm.config, values | dict(algorithm.overrides))
        columns[name] = to_values(cfg)
    paper = presets.printed(algorithm.presets)
    rows = []
    told = declared(algorithm.config)
    for setting, kind in known_fields(algorithm.config).items():
        row: dict[str, Any] = {"setting": setting}
        row |= {name: column[setting] for name, column in columns.items()}
        for name, cells in paper.items():
            of = f" ({name})" if len(paper) > 1 else ""
            cell = cells.get(setting, {})
            row |= {f"{key}{of}": cell.get(key) for key in ("kept", "searched")}
        row |= {"means": told[setting].means, "takes": taken(kind, told[setting])}
        rows.append(row)
    return rows


def taken(kind: Any, setting: Setting) -> str:
    """The values of a setting in words: those of its range, or its list of words."""
    several, parts = get_origin(kind) is tuple, get_args(kind) or (kind,)
    if get_origin(kind) is Literal:
        return ", ".join(parts)
    name = {bool: "true or false", int: "whole number", float: "number"}[parts[0]]
    rule = setting.within.rule() if setting.within else ""
    none = " or none" if type(None) in parts else ""
    return " ".join(filter(None, [name + "s" * several, rule])) + none


def environments() -> list[dict[str, Any]]:
    """The Roboschool tasks, built-in JAX environments, Gymnasium's own with continuous
    actions, and PyBullet's ports: what each needs, and on what it runs."""
    import gymnasium

    from penfac.envs.builtin import BUILT_IN
    from penfac.envs.gym import EXTRAS
    from penfac.envs.roboschool.registration import HORIZON, IDS
    from penfac.envs.roboschool.task import WALKS, make_task

    mjx = importlib.util.find_spec("mujoco.mjx") is not None
    more = "" if mjx else 'on a device: pip install "penfac[device]"'
    rows = []
    for env_id, name in IDS.items():
        task = make_task(name)
        rows.append(
            _row(env_id, task.obs_dim, task.joints, HORIZON, "C threads, MJX", more)
        )
    for env in BUILT_IN.values():
        spec = env.spec
        size = (spec.obs_dim, spec.action_dim, spec.horizon)
        rows.append(_row(spec.id, *size, "JAX", env.summary))
    for name, kind in _continuous(gymnasium.registry):
        rows.append(_opened(name, kind))
    package, extra = EXTRAS["BulletEnv"]
    there = importlib.util.find_spec(package) is not None
    need = "" if there else f'pip install "penfac[{extra}]", Python 3.11'
    for name in WALKS:  # not imported here: PyBullet greets on standard output
        task = make_task(name)
        bullet = f"{name.replace('2d', '2D')}BulletEnv-v0"
        rows.append(_row(bullet, task.obs_dim, task.joints, HORIZON, "PyBullet", need))
    return rows


def _opened(name: str, kind: str) -> dict[str, Any]:
    """What an environment says of itself once it is made."""
    from penfac.envs.gym import open_world
    from penfac.envs.options import EnvOptions

    try:
        world = open_world(name, EnvOptions())
        spec = world.spec()
        world.close()
    except PenfacError as error:
        return _row(name, None, None, None, kind, f"cannot be made: {error}")
    return _row(name, spec.obs_dim, spec.action_dim, spec.horizon, kind, "")


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
