"""Environments: the Roboschool tasks, small ones as pure JAX functions, and anything
Gymnasium knows.

Importing this package registers our ids with Gymnasium.
"""

from penfac.envs.registration import register_envs
from penfac.envs.roboschool.registration import register_roboschool

register_envs()
register_roboschool()
