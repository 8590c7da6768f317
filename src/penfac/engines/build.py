"""As few engines as the shapes of programs allow, as one."""

from collections.abc import Sequence
from typing import Any

from penfac.engines.base import Engine, Job
from penfac.engines.several import Several


def build_engine(
    job: Job,
    kind: str,
    seeds: Sequence[int],
    configs: Sequence[Any],
    at_once: int | None = None,
) -> Engine:
    """The engine of these learners; `kind` is host or device, `at_once` how many share a
    program at most."""
    keys = list(configs) if kind == "host" else shapes(job, configs)
    parts = []
    for key in dict.fromkeys(keys):
        own = [i for i, k in enumerate(keys) if k == key]
        part = job._replace(cfg=configs[own[0]])
        chosen = [seeds[i] for i in own], [configs[i] for i in own]
        parts.append((engine_of(part, kind, *chosen, at_once), own))
    if len(parts) == 1:
        return parts[0][0]
    if kind == "device":
        from penfac.engines import memory

        memory.check_all([engine for engine, _ in parts])
    return Several(parts)


def engine_of(
    job: Job, kind: str, seeds: list[int], configs: list[Any], at_once: int | None
) -> Engine:
    if kind == "device":
        from penfac.engines.device import DeviceEngine

        return DeviceEngine(job, seeds, configs, at_once)
    from penfac.engines.host import HostEngine

    return HostEngine(job, seeds)


def shapes(job: Job, configs: Sequence[Any]) -> list[Any]:
    """What shapes each one's program on a device; those with the same share it."""
    from penfac.engines.device import environment, joined

    spec, algo = environment(job).spec, job.algo
    plans = [algo.plan(cfg, spec) for cfg in configs]
    return [
        (joined(plan, plans), algo.collecting(cfg))
        for plan, cfg in zip(plans, configs, strict=True)
    ]
