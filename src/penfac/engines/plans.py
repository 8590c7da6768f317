"""Which learners can share a compiled program."""

from collections.abc import Sequence
from typing import Any

from penfac.engines.base import Job
from penfac.envs.base import JaxEnv
from penfac.envs.builtin import jax_env


def environment(job: Job) -> JaxEnv:
    """The environment as JAX functions, with the user's time limit if there is one."""
    env = jax_env(job.env_id, job.options.kwargs)
    limit = job.options.max_episode_steps
    return env if limit is None else env._replace(spec=env.spec._replace(horizon=limit))


def program_shapes(job: Job, configs: Sequence[Any]) -> list[Any]:
    """Everything that shapes each config's program; configs with equal shapes share it."""
    spec, algo = environment(job).spec, job.algo
    plans = [algo.plan(cfg, spec) for cfg in configs]
    return [
        (shared_plan(plan, plans), algo.collecting(cfg))
        for plan, cfg in zip(plans, configs, strict=True)
    ]


def one_plan(plans: Sequence[Any]) -> Any:
    """The plan that serves all configs, or a ValueError."""
    found = {shared_plan(plan, plans) for plan in plans}
    if len(found) > 1:
        raise ValueError("these configs need programs of different shapes")
    return found.pop()


def shared_plan(plan: Any, plans: Sequence[Any]) -> Any:
    """The plan with batch norm if another plan differs in nothing else: the numbers of a
    config switch batch norm off."""
    if not hasattr(plan, "batch_norm") or plan.batch_norm:
        return plan
    with_norm = plan._replace(batch_norm=True)
    return with_norm if with_norm in plans else plan
