"""The environment that a run folder names."""

from penfac.envs.gym import check_id
from penfac.envs.trust import refuse_unasked
from penfac.runs.run import Run


def find_env(run: Run, trust: bool) -> None:
    """Look it up, after its config was compared with the checkpoints; a module is
    imported only if the user says so."""
    run.refuse_changed()
    refuse_unasked(run.config.env, run.path, trust)
    check_id(run.config.env)
