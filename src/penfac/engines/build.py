"""Build as few engines as the shapes of the programs allow, joined as one."""

from collections.abc import Sequence
from typing import Any

from penfac.engines.base import Engine, Job
from penfac.engines.kept import keep_programs
from penfac.engines.several import Several


def build_engine(
    job: Job,
    kind: str,
    seeds: Sequence[int],
    configs: Sequence[Any],
    at_once: int | None = None,
) -> Engine:
    """The engine of these learners. `kind` is host or device; `at_once` is the maximum
    number of learners in one program. Learners with equal configs on the host, or with
    programs of equal shapes on a device, share an engine."""
    shapes = configs
    if kind == "device":
        from penfac.engines.plans import program_shapes

        shapes = program_shapes(job, configs)
    parts = []
    for shape in dict.fromkeys(shapes):
        members = [i for i, other in enumerate(shapes) if other == shape]
        part = job._replace(cfg=configs[members[0]])
        its_seeds = [seeds[i] for i in members]
        its_configs = [configs[i] for i in members]
        parts.append((build_one(part, kind, its_seeds, its_configs, at_once), members))
    return parts[0][0] if len(parts) == 1 else Several(parts)


def build_one(
    job: Job, kind: str, seeds: list[int], configs: list[Any], at_once: int | None
) -> Engine:
    keep_programs()
    if kind == "device":
        from penfac.engines.device import DeviceEngine

        return DeviceEngine(job, seeds, configs, at_once)
    from penfac.engines.host import HostEngine

    return HostEngine(job, seeds)
