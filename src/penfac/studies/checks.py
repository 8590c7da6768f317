"""Whether the runs in a study's folder are those of its plan, made by the same versions."""

from msgspec.structs import replace

from penfac.errors import ConfigError
from penfac.runs.config import differences, read_config
from penfac.runs.sealed import refuse_changed
from penfac.runs.versions import versions
from penfac.studies.plan import Plan, Unit

# a difference in these makes runs no longer comparable
VERSIONED = ("jax", "jaxlib", "mujoco", "gymnasium", "numpy")


def check_runs(found: list[Unit], mixed: bool) -> None:
    """Refuse runs that were made otherwise than the study says."""
    for unit in found:
        if not (unit.path / "config.json").exists():
            continue
        try:
            there = read_config(unit.path)
        except ConfigError as error:
            text = f"{unit.path}: is not a run of this study: {error}"
            raise ConfigError(text) from None
        planned = unit.run.config
        old = there.identity() | {"steps": there.steps}
        new = planned.identity() | {"steps": planned.steps}
        if changed := differences(old, new):
            raise ConfigError(f"{unit.path}: is not a run of this study: {changed[0]}")
        refuse_changed(unit.path, planned)
        changed = changed_versions(there.versions, planned.versions)
        if changed and not mixed:
            raise ConfigError(
                f"{unit.path}: was made with other versions ({'; '.join(changed)}); "
                "--mixed accepts it"
            )


def changed_versions(
    old: dict[str, str] | None, new: dict[str, str] | None
) -> list[str]:
    """`jax: 0.9 -> 0.10` for each version that makes runs no longer comparable."""
    pick = lambda found: {key: (found or {}).get(key) for key in VERSIONED}  # noqa: E731
    return differences(pick(old), pick(new))


def with_current_versions(todo: list[Unit], plan: Plan, mixed: bool) -> list[Unit]:
    """Runs to come name the versions that make them; other versions than those the study
    was begun with need `mixed`."""
    changed = changed_versions(plan.versions, versions())
    if not changed or not todo:
        return todo
    if not mixed:
        raise ConfigError(
            f"{plan.study.name}: was started with other versions "
            f"({'; '.join(changed)}); --mixed continues with these"
        )
    return [u._replace(config=replace(u.run.config, versions=versions())) for u in todo]
