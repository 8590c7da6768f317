"""The processes that step the environments of a run."""

import contextlib

from penfac.engines.base import Job
from penfac.envs.gym import Watch
from penfac.envs.hiring import crew_for
from penfac.envs.processes import Crew
from penfac.runs.config import RunConfig
from penfac.training.limits import Limits


def crew_of(
    config: RunConfig, limits: Limits, job: Job, learners: int
) -> contextlib.AbstractContextManager[Crew | None]:
    """The processes that step the environments of a run on the host, if they pay."""
    if config.engine != "host":
        return contextlib.nullcontext()
    how = job.collecting
    worlds = learners * (how.episodes or how.worlds)
    asked, watch = limits.env_workers, job.watch or Watch()
    return crew_for(config.env, config.env_options, worlds, asked, watch, job.note)
