"""The built-in JAX environments by id."""

from penfac.envs.base import JaxEnv
from penfac.envs.classic import MOUNTAIN_CAR, PENDULUM
from penfac.envs.lqr import LQR_ENV
from penfac.envs.probes import PROBES

BUILT_IN: dict[str, JaxEnv] = {
    env.spec.id: env for env in (PENDULUM, MOUNTAIN_CAR, LQR_ENV, *PROBES)
}
